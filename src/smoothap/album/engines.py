"""Who names the nearest vectors: an engine proposes rows, and a ranking of exact scores decides."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from smoothap.album.vectors import Vectors, checksum_of_rows
from smoothap.metrics.cosine import Cosines

if TYPE_CHECKING:
    from smoothap.album.filtering import Filter

EXACT_UP_TO = 100_000  # vectors; above, a graph answers sooner than the product of all
GRAPH_UP_TO = 2_000_000  # vectors; above, a graph takes gigabytes of memory, and codes take a thirtieth
_SPARE = 4  # times as many candidates as should be needed are asked for where a filter takes some of them away


class Engine(Protocol):
    """Something that knows the vectors (n, d) of an album and names rows that lie near a query."""

    name: str
    limit: int  # the most rows it can name at once; for more, all scores are computed

    def nearest(self, query: np.ndarray, k: int) -> np.ndarray:
        """About the k rows with the highest scores for the query (d,), in any order."""
        ...


class Exact:
    """The engine that names no candidates, so that the album computes the score of every vector."""

    name, limit = "exact", 0

    def nearest(self, query: np.ndarray, k: int) -> np.ndarray:
        """No rows: an album asks an engine for at most as many as its `limit`."""
        return np.empty(0, np.int64)


def open_engine(name: str, vectors: Vectors, checksum: str) -> Engine:
    """The engine by a name that `checked_name` knows; `checksum` is that of the vectors."""
    if name == "auto":
        name = automatic(len(vectors))
    if name == "exact" or not len(vectors):
        return Exact()
    if name == "hnsw":
        from smoothap.album._hnsw import open_hnsw

        return open_hnsw(vectors, checksum)
    from smoothap.album._pq import LEAST, open_codes

    return open_codes(vectors, checksum) if len(vectors) >= LEAST else Exact()


def automatic(rows: int) -> str:
    """The engine for that many vectors."""
    if rows <= EXACT_UP_TO:
        return "exact"
    return "hnsw" if rows <= GRAPH_UP_TO else "pq"


def checked_name(name: str) -> str:
    """The name, if there is such an engine."""
    if name not in ("auto", "exact", "hnsw", "pq"):
        raise ValueError(
            f"There is no engine {name!r}: choose auto, exact, hnsw or pq. To search in Milvus, load the album there "
            "(smoothap album push ALBUM milvus://HOST:PORT/NAME) and open that address."
        )
    return name


@dataclass(frozen=True, eq=False)
class Ranking:
    """An album by its scores with one query, which are sorted as far as they are asked for.

    scores (n,) float64: that of each row, -inf where a photo is left out, or was not seen: then it is not `complete`.
    """

    scores: np.ndarray
    complete: bool = True
    note: str = ""  # what there is to say about how they were found

    def at_least(self, minimum: float | None = None) -> np.ndarray:
        """Which rows have this score or a higher one; without a score, all that are not left out. (n,) bool"""
        return self.scores >= (-2.0 if minimum is None else minimum)

    def best(self, k: int | None = None, minimum: float | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The best k rows at or above a score, or all of them, and their scores; equal ones in the order of ids."""
        enough = int(self.at_least(minimum).sum())
        rows = best_rows(self.scores, enough if k is None else min(k, enough))
        return rows, self.scores[rows]


class Nearest(NamedTuple):
    """The best rows, their scores, and what there is to say about how they were found."""

    rows: np.ndarray
    scores: np.ndarray
    note: str


def best_rows(scores: np.ndarray, k: int) -> np.ndarray:
    """The rows of the k highest of scores (n,), highest first, the earlier row first among equals."""
    k = min(k, len(scores))
    if k == 0:
        return np.empty(0, np.int64)
    if k < len(scores):
        least = np.partition(scores, len(scores) - k)[len(scores) - k]
        rows = np.flatnonzero(scores >= least)  # with all that tie for the last place, so that the order is the same
    else:
        rows = np.arange(len(scores))
    return rows[np.lexsort((rows, -scores[rows]))][:k]


class VectorQuery(NamedTuple):
    """What is looked for: the rows nearest to a vector (d,), but for those left out; of `passing` (n,) bool, if given.

    `where` is the filter that these rows pass, for those whose vectors lie elsewhere.
    """

    vector: np.ndarray
    left_out: np.ndarray
    passing: np.ndarray | None = None
    where: Filter | None = None


class Neighbours:
    """The vectors (n, d) of an album around a query: an engine names candidates, and their exact scores decide."""

    def __init__(self, vectors: Vectors, engine: str, checksum: str | None = None) -> None:
        self._vectors, self._cosines, self._engine, self._checksum = vectors, Cosines(vectors), engine, checksum

    @cached_property
    def engine(self) -> Engine:
        """Who names the candidates; built, or read from the user's cache, when it is first needed."""
        checksum = self._checksum or checksum_of_rows(self._vectors)
        return open_engine(self._engine, self._vectors, checksum)

    def ranking(self, query: VectorQuery, minimum: float | None = None) -> Ranking:
        """All rows ranked, exactly, whatever the engine; the least score is for those whose vectors lie elsewhere."""
        if query.passing is None:
            scores = self._cosines.of(query.vector)
        else:
            scores, rows = np.full(len(query.passing), -np.inf), np.flatnonzero(query.passing)
            scores[rows] = self._cosines.of(query.vector, rows)
        scores[query.left_out] = -np.inf
        return Ranking(scores)

    seen = ranking  # as far as a visitor goes: here, all the way

    def around(self, vector: np.ndarray, others: np.ndarray, number: int) -> np.ndarray:
        """Of some rows (m,), the `number` nearest to a vector (d,), in order; all, if there are fewer."""
        if len(others) <= number:
            return others
        scores = (self._vectors @ vector)[others]
        return np.sort(others[np.argpartition(-scores, number)[:number]])

    def nearest(self, query: VectorQuery, k: int) -> Nearest:
        """The k rows that score best."""
        candidates = self._candidates(query, k)
        if candidates is None:
            rows, scores = self.ranking(query).best(k)
            return Nearest(rows, scores, "" if query.passing is None else self._fallen_back(int(query.passing.sum())))
        scores = self._cosines.of(query.vector, candidates)
        best = best_rows(scores, k)
        return Nearest(candidates[best], scores[best], "")

    def _candidates(self, query: VectorQuery, k: int) -> np.ndarray | None:
        """Rows among which the engine expects the best k; None where all have to be compared."""
        number, passing = len(self._cosines.vectors), query.passing
        if passing is None:
            wanted = enough = min(k + len(query.left_out), number)
        else:
            those, enough = int(passing.sum()), k + len(query.left_out)
            if those <= EXACT_UP_TO:  # as few as are compared one by one in an album of their own
                return None
            wanted = min(_SPARE * math.ceil(enough * number / those), self.engine.limit)
        named = self.engine.nearest(query.vector, wanted) if wanted <= self.engine.limit else np.empty(0, np.int64)
        candidates = named if passing is None else named[passing[named]]
        # Too many for the engine, or it gave fewer than were wanted, or too few of them pass.
        return None if len(candidates) < enough else np.setdiff1d(candidates, query.left_out)

    def _fallen_back(self, those: int) -> str:
        """What is said where a filter took the work from an engine that names candidates."""
        if self._engine == "exact" or (self._engine == "auto" and len(self._cosines.vectors) <= EXACT_UP_TO):
            return ""
        name = automatic(len(self._cosines.vectors)) if self._engine == "auto" else self._engine
        return f"{those:,} photos pass the filter: all of them were compared, exactly, and {name} was not needed."
