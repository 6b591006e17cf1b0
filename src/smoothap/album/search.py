"""The photos nearest to a vector: something fast proposes, exact scores decide, and equal ones go by their ids."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import torch

from smoothap.album.engines.codes import Bounded, CodedVectors, is_worth_coding, least_of_best
from smoothap.album.vectors import StoredVectors, Vectors
from smoothap.metrics.cosine import Cosines, error_bound

if TYPE_CHECKING:
    from smoothap.album.engines.faiss import ProductCodes
    from smoothap.album.filters import Filter
    from smoothap.album.neighbourhood import Reranked

EXACT_UP_TO = 100_000  # vectors; above, product codes propose unless exact search is asked for
ENGINES = ("auto", "exact", "pq")
_FEW = 1 << 14  # rows that are scored one by one
_SPARE = 4  # times as many candidates as should be needed are asked for where a filter takes some of them away
_ROWS_AT_ONCE = 128  # that are scored
_ROUNDING = 2.0**-22  # of a query's length


class VectorQuery(NamedTuple):
    """What is looked for: the rows nearest to a vector (d,), but for those left out; of `passing` (n,) bool, if given.

    `where` is the filter that these rows pass, for vectors that are elsewhere. `row` is the photo of the album that
    is the query, if it is one; `wrong` are rows that were marked so, and lead to no others.
    """

    vector: np.ndarray
    left_out: np.ndarray
    passing: np.ndarray | None = None
    where: Filter | None = None
    row: int | None = None
    wrong: np.ndarray = np.empty(0, np.int64)


class Nearest(NamedTuple):
    """The best rows, their scores, what there is to say about how they were found, and the row each came in through."""

    rows: np.ndarray
    scores: np.ndarray
    note: str = ""
    through: np.ndarray | None = None  # -1 for a photo that the query itself led to


@dataclass(frozen=True, eq=False)
class Ranking:
    """An album by its scores with one query, which are sorted as far as they are asked for.

    scores (n,) float64: that of each row, -inf where a photo is left out, or was not seen: then it is not `complete`.
    """

    scores: np.ndarray
    complete: bool = True
    note: str = ""  # what there is to say about how they were found
    through: np.ndarray | None = None  # (n,) the row that each came in through, -1 for the query itself

    def at_least(self, min_score: float | None = None) -> np.ndarray:
        """Which rows have this score or a higher one; without a score, all that are not left out. (n,) bool"""
        return self.scores >= (-2.0 if min_score is None else min_score)

    def best(self, k: int | None = None, min_score: float | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The best k rows at or above a score, or all of them, and their scores; equal ones in the order of ids."""
        enough = int(self.at_least(min_score).sum())
        rows = best_rows(self.scores, enough if k is None else min(k, enough))
        return rows, self.scores[rows]


class Search(Protocol):
    """What answers queries on the vectors (n, d) of one version of an album: those here, or those in Milvus."""

    @property
    def name(self) -> str:
        """What proposes."""
        ...

    @property
    def vectors(self) -> Vectors:
        """The vectors (n, d), in the order of photos."""
        ...

    def nearest(self, query: VectorQuery, k: int, bounded: Bounded | None = None) -> Nearest:
        """The k rows that score best."""
        ...

    def above(self, query: VectorQuery, min_score: float) -> Nearest:
        """All rows at or above a score, best first."""
        ...

    def ranking(self, query: VectorQuery) -> Ranking:
        """All rows with their scores, as far as a visitor may look at them."""
        ...

    def around(self, vector: np.ndarray, rows: np.ndarray, number: int) -> np.ndarray:
        """Of some rows (m,), the `number` nearest to a vector (d,), in order; all, if there are fewer."""
        ...

    def bounded(self, vectors: np.ndarray) -> list[Bounded | None]:
        """What `nearest` begins with for each of some vectors (m, d), found for all of them at once."""
        ...

    def warm_up(self) -> None:
        """Do what the first search would wait for."""
        ...


class LocalSearch:
    """Search in vectors (n, d) that are here.

    A float32 product with all of them proposes; whatever its error bound allows to be among the best is scored by the
    definition. From the second query on, codes of one byte a number propose in an album of up to 100,000, and product
    codes from FAISS in a larger one. `spread` is how far the length of a vector may be from 1, `key` names the vectors
    in the cache.
    """

    def __init__(self, vectors: StoredVectors, spread: float, engine: str = "auto", key: str = "") -> None:
        self.vectors, self._key, self._engine = vectors, key, checked_engine(engine)
        self._cosines = Cosines(vectors if vectors.slots is not None else vectors[:])
        bound = error_bound(vectors.shape[1], torch.float32)
        # A query may be a photo of the album, whose vector is as far from length 1 as those that it is compared with.
        self._bound = bound * (1 + spread) ** 2 + spread * (2 + spread) + _ROUNDING
        self._asked, self._lock = 0, threading.Lock()

    @property
    def name(self) -> str:
        """What proposes: exact or pq."""
        if self._engine == "auto":
            return "exact" if len(self.vectors) <= EXACT_UP_TO else "pq"
        return self._engine

    @cached_property
    def _coded(self) -> CodedVectors | None:
        return CodedVectors(self.vectors) if is_worth_coding(self.vectors, EXACT_UP_TO) else None

    @cached_property
    def _product_codes(self) -> ProductCodes | None:
        from smoothap.album.engines.faiss import LEAST, open_codes

        return open_codes(self.vectors, self._key) if len(self.vectors) >= LEAST else None

    def warm_up(self) -> None:
        """Do what the first search would wait for."""
        self._asked += 1
        if len(self.vectors):
            self.nearest(VectorQuery(np.array(self.vectors[0]), np.empty(0, np.int64)), 1)

    def bounded(self, vectors: np.ndarray) -> list[Bounded | None]:
        """What `nearest` begins with for each of some vectors (m, d), found for all of them at once."""
        coded = self._codes_if_worth_it()
        return [None] * len(vectors) if coded is None else list(coded.bounded(vectors))

    def nearest(self, query: VectorQuery, k: int, bounded: Bounded | None = None) -> Nearest:
        """The k rows that score best."""
        if self.name == "pq" and (found := self._by_product_codes(query, k)) is not None:
            return found
        rows = self._few_passing(query)
        if rows is None and (coded := self._codes_if_worth_it()) is not None:
            rows = coded.candidates(query.vector, k, query.left_out, query.passing, bounded)
        elif rows is None:
            products = self._products(query)
            # The k-th best product may be too high by the bound, and what is compared with it too low.
            least = least_of_best(products, k) - 2 * self._bound
            rows = np.flatnonzero((products >= least) & (products > -np.inf))
        scores = self._scores(query, rows)
        best = best_rows(scores, k)
        return Nearest(rows[best], scores[best], self._exact_note(query))

    def above(self, query: VectorQuery, min_score: float) -> Nearest:
        """All rows at or above a score, best first."""
        rows = self._few_passing(query)
        if rows is None:
            rows = np.flatnonzero(self._products(query) >= min_score - self._bound)
        scores = self._scores(query, rows)
        rows, scores = rows[scores >= min_score], scores[scores >= min_score]
        best = best_rows(scores, len(rows))
        return Nearest(rows[best], scores[best])

    def ranking(self, query: VectorQuery) -> Ranking:
        """All rows with their scores, exactly."""
        if query.passing is None:
            scores = self._cosines.of(query.vector)
        else:
            scores, rows = np.full(len(query.passing), -np.inf), np.flatnonzero(query.passing)
            scores[rows] = self._cosines.of(query.vector, rows)
        scores[query.left_out] = -np.inf
        return Ranking(scores)

    def around(self, vector: np.ndarray, rows: np.ndarray, number: int) -> np.ndarray:
        """Of some rows (m,), the `number` nearest to a vector (d,), in order; all, if there are fewer."""
        if len(rows) <= number:
            return rows
        scores = (self.vectors @ vector)[rows]
        return np.sort(rows[np.argpartition(-scores, number)[:number]])

    def _scores(self, query: VectorQuery, rows: np.ndarray) -> np.ndarray:
        """The scores of some rows by the definition; few at a time, so that a server holds on to little memory."""
        parts = (rows[start : start + _ROWS_AT_ONCE] for start in range(0, len(rows), _ROWS_AT_ONCE))
        return np.concatenate([np.empty(0), *(self._cosines.of(query.vector, part) for part in parts)])

    def _codes_if_worth_it(self) -> CodedVectors | None:
        """The codes, once it is more than a single query that is asked."""
        with self._lock:
            self._asked += 1
            return self._coded if self._asked > 1 else None

    def _products(self, query: VectorQuery) -> np.ndarray:
        """The products of all rows, -inf for those that are not looked for. (n,) float32"""
        products = self.vectors @ query.vector
        products[query.left_out] = -np.inf
        if query.passing is not None:
            products[~query.passing] = -np.inf
        return products

    def _few_passing(self, query: VectorQuery) -> np.ndarray | None:
        """The rows that pass a filter, if they are so few that each is scored."""
        if query.passing is None or int(query.passing.sum()) > _FEW:
            return None
        return np.setdiff1d(np.flatnonzero(query.passing), query.left_out)

    def _by_product_codes(self, query: VectorQuery, k: int) -> Nearest | None:
        """The best of what product codes propose; None where all have to be compared."""
        number, passing, codes = len(self.vectors), query.passing, self._product_codes
        if codes is None:
            return None
        wanted = enough = min(k + len(query.left_out), number)
        if passing is not None:
            those = int(passing.sum())
            if those <= EXACT_UP_TO:  # as few as are compared one by one in an album of their own
                return None
            wanted = min(_SPARE * math.ceil(enough * number / those), codes.limit)
        if wanted > codes.limit:
            return None
        rows = codes.nearest(query.vector, wanted)
        rows = rows if passing is None else rows[passing[rows]]
        if len(rows) < enough:
            return None
        rows = np.setdiff1d(rows, query.left_out)
        scores = self._scores(query, rows)
        best = best_rows(scores, k)
        return Nearest(rows[best], scores[best])

    def _exact_note(self, query: VectorQuery) -> str:
        """What is said where a filter took the work from product codes."""
        if self.name == "exact" or query.passing is None:
            return ""
        return f"{query.passing.sum():,} photos pass the filter: all of them were compared, exactly."


def answers(search: Search | Reranked, query: VectorQuery, k: int | None, min_score: float | None) -> Nearest:
    """Rows, best first: all with a score, if one is given, or else the best k, or all."""
    if min_score is not None:
        return search.above(query, min_score)
    if k is not None:
        return search.nearest(query, k)
    ranking = search.ranking(query)
    rows, scores = ranking.best()
    return Nearest(rows, scores, ranking.note, None if ranking.through is None else ranking.through[rows])


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


def checked_engine(name: str) -> str:
    """The name, if there is such an engine."""
    if name not in ENGINES:
        raise ValueError(
            f"There is no engine {name!r}: choose auto, exact, pq, or milvus://HOST:PORT/NAME, where `smoothap album "
            "push` brought the album."
        )
    return name
