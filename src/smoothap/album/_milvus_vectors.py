"""The vectors of an album that is in Milvus: rows are fetched when they are asked for, and candidates scored here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from smoothap._core.progress import Progress
from smoothap.album._milvus_layout import MOST_ROWS, piece_name
from smoothap.album.engines import Nearest, Ranking, VectorQuery, best_rows
from smoothap.album.photos import seconds_of
from smoothap.metrics.cosine import Cosines

if TYPE_CHECKING:
    from smoothap.album._milvus_layout import About
    from smoothap.album.filtering import Filter
    from smoothap.album.milvus_server import MilvusServer
    from smoothap.album.vectors import Vectors

FEW = 4_096  # photos: that many are compared one by one, exactly, sooner than anybody waits
SEEN = 2_000  # of a larger album's photos are ranked for the page
_BYTES_AT_ONCE = 4 << 20  # of vectors in an answer
_SPARE = 16  # more rows than wanted are asked for: some may have been replaced since
_LEAST_ASKED = 256  # photos, where those from a least score on are looked for
_SEVERAL_GRAPHS = 3 << 29  # bytes of vectors: a server keeps a graph for each half gigabyte, newer ones for a whole
_OFF = 1e-4  # by which the server's own scores may be below ours
_LIKE = re.compile(r"[\w /.+()\[\]&,-]*")  # what can be in a pattern as it is


class MilvusPiece:
    """The vectors (n, d) float32 of one collection, by their row, as an array gives them; ids (n,) are theirs."""

    def __init__(self, server: MilvusServer, collection: str, ids: np.ndarray, dimension: int) -> None:
        self._server, self._collection, self._ids = server, collection, ids
        self.shape = len(ids), dimension

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        """Some rows, by a slice or their numbers (k,); a few are fetched at a time."""
        ids, places = np.unique(self._ids[rows], return_inverse=True)
        fetched = np.empty((len(ids), self.shape[1]), np.float32)
        for block in blocks(np.arange(len(ids)), self.shape[1]):
            fetched[block] = self._fetch(ids[block])
        return fetched[places]

    def _fetch(self, ids: np.ndarray) -> np.ndarray:
        """The vectors (k, d) of rising ids (k,)."""
        where = f"id in {ids.tolist()}"
        if len(ids) == ids[-1] - ids[0] + 1:  # a shorter question, which is answered sooner
            where = f"id >= {ids[0]} and id <= {ids[-1]}"
        answers = self._server.ask(
            "query", self._collection, filter=where, output_fields=["id", "vector"], limit=len(ids),
            consistency_level="Bounded",
        )  # fmt: skip
        vectors = {answer["id"]: answer["vector"] for answer in answers}
        if lost := {*ids.tolist()} - {*vectors}:
            raise ValueError(
                f"{self._server.address} has no vector of photo {min(lost)} any more: load the album again."
            )
        return np.array([vectors[identity] for identity in ids.tolist()], np.float32)


def blocks(rows: np.ndarray, dimension: int) -> Iterator[np.ndarray]:
    """Some rows (k,), as many at a time as one answer holds."""
    step = max(1, min(MOST_ROWS, _BYTES_AT_ONCE // (4 * dimension)))
    return (rows[start : start + step] for start in range(0, len(rows), step))


class MilvusNeighbours:
    """The photos of an album in Milvus around a query: the server names candidates, and exact scores here decide."""

    name = "milvus"

    def __init__(self, server: MilvusServer, about: About, ids: np.ndarray, vectors: Vectors) -> None:
        """ids (n,) of all photos."""
        self._server, self._ids, self._vectors = server, ids, vectors
        self._numbers, self._index = about.pieces, about.index

    @property
    def engine(self) -> MilvusNeighbours:
        """Who names the candidates."""
        return self

    def nearest(self, query: VectorQuery, k: int) -> Nearest:
        """The k rows that score best."""
        if self._number(query) > FEW and (named := self.by_index(query, k)) is not None:
            return named
        return Nearest(*self.ranking(query).best(k), "")

    def by_index(self, query: VectorQuery, k: int) -> Nearest | None:
        """The same with candidates of the server, however few photos there are; None where it names too few."""
        candidates = self._candidates(query, k + len(query.left_out))
        if candidates is None:
            return None
        candidates = np.setdiff1d(candidates, query.left_out)
        scores = self._scores(query.vector, candidates)
        best = best_rows(scores, k)
        return Nearest(candidates[best], scores[best], "")

    def ranking(self, query: VectorQuery, minimum: float | None = None) -> Ranking:
        """All rows ranked, or with `minimum` those that the server finds at that score."""
        if minimum is not None and self._number(query) > FEW and (named := self._from(query, minimum)) is not None:
            note = f"Found by the index of Milvus ({self._index}), which may miss a few: --all compares every vector."
            return self._ranked(query, named, note)
        rows = np.arange(len(self._vectors)) if query.passing is None else np.flatnonzero(query.passing)
        return self._ranked(query, rows)

    def seen(self, query: VectorQuery, minimum: float | None = None) -> Ranking:
        """The best rows ranked, as far down as a visitor goes; a small album, or one with `minimum`, by `ranking`."""
        number = self._number(query)
        if number <= FEW or minimum is not None:
            return self.ranking(query, minimum)
        rows = self._candidates(query, SEEN + len(query.left_out))
        if rows is None:
            return self.ranking(query)
        note = f"The best {len(rows):,} of {number:,} photos by the index of Milvus ({self._index}) are ranked."
        return self._ranked(query, rows, note)

    def around(self, vector: np.ndarray, others: np.ndarray, number: int) -> np.ndarray:
        """Of some rows (m,), those nearest to a vector (d,), that many or fewer, in order."""
        if len(others) <= FEW:
            return others
        return np.intersect1d(self._named(vector, min(number, FEW) + _SPARE, None).rows, others)

    def _number(self, query: VectorQuery) -> int:
        """How many photos a query is about."""
        return len(self._vectors) if query.passing is None else int(query.passing.sum())

    def _ranked(self, query: VectorQuery, rows: np.ndarray, note: str = "") -> Ranking:
        """The ranking of some rows (k,), which is complete if there is nothing to say of how they were found."""
        scores = np.full(len(self._vectors), -np.inf)
        scores[rows] = self._scores(query.vector, rows)
        scores[query.left_out] = -np.inf
        return Ranking(scores, not note, note)

    def _scores(self, vector: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The exact scores of some rows (k,), whose vectors are fetched a few at a time."""
        scores = [np.empty(0)]
        with Progress("Fetching from Milvus", len(rows), "vectors") as line:
            for block in blocks(rows, self._vectors.shape[1]):
                scores.append(Cosines(self._vectors[block]).of(vector))
                line.advance(len(block))
        return np.concatenate(scores)

    def _candidates(self, query: VectorQuery, wanted: int) -> np.ndarray | None:
        """Rows among which the server expects the best; None where it cannot name enough of them."""
        limit, enough = wanted + _SPARE, min(wanted, self._number(query))
        while limit <= MOST_ROWS:
            rows = self._passing(query, self._named(query.vector, limit, query.where).rows)
            if len(rows) >= enough:
                return rows
            if limit == MOST_ROWS:
                return None
            limit = min(4 * limit, MOST_ROWS)
        return None

    def _passing(self, query: VectorQuery, rows: np.ndarray) -> np.ndarray:
        """Those of some rows (k,) that pass: the server's filter lets more pass than ours."""
        return rows if query.passing is None else rows[query.passing[rows]]

    def _from(self, query: VectorQuery, least: float) -> np.ndarray | None:
        """The rows from a least score on, in order; None: they are more than a server gives.

        A search by range goes from neighbour to neighbour, and does not come to a second group of photos behind a gap;
        so the nearest are asked for too, down to that score.
        """
        in_range = self._named(query.vector, MOST_ROWS, query.where, least=least)
        limit = max(_LEAST_ASKED, len(in_range.rows))
        while not in_range.is_full and limit <= MOST_ROWS:
            named = self._named(query.vector, limit, query.where)
            if not named.is_full or named.lowest < least - _OFF:
                return self._passing(query, np.union1d(in_range.rows, named.rows))
            limit = MOST_ROWS if limit < MOST_ROWS < 4 * limit else 4 * limit
        return None

    def _named(self, vector: np.ndarray, limit: int, where: Filter | None, least: float | None = None) -> _Named:
        """The rows, in order, that the pieces name for a vector (d,): the best, or all from a least score on."""
        found: list[np.ndarray] = []
        lowest, is_full = -np.inf, False
        asked = np.asarray(vector, np.float32).tolist()
        params: dict[str, float] = {"ef": breadth(limit, self._vectors.shape), "nprobe": 64}  # of HNSW and of IVF_PQ
        if least is not None:
            params |= {"radius": float(least) - _OFF, "range_filter": 2.0}
        elif self._index == "IVF_PQ":  # codes order roughly: what is scored here may well change places
            limit = min(4 * limit, MOST_ROWS)
        for number in self._numbers:
            answers = self._server.ask(
                "search", piece_name(self._server.address.name, number), [asked], limit=limit, output_fields=[],
                filter=expression(where), search_params={"params": params}, consistency_level="Bounded",
            )[0]  # fmt: skip
            if len(answers) >= limit:
                lowest, is_full = max(lowest, answers[-1]["distance"]), True
            ids = np.unique(np.array([answer["id"] for answer in answers], np.int64))
            rows = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
            # What another piece has replaced is named by an old vector, and scored by its new one all the same.
            found.append(rows[self._ids[rows] == ids])
        return _Named(np.unique(np.concatenate(found)), lowest, is_full)


def breadth(limit: int, shape: tuple[int, int]) -> int:
    """How many photos a search keeps in view to name the best `limit` among vectors of a shape (n, d).

    Many are in several graphs, each of which is searched so broadly: half is enough there.
    """
    number, dimension = shape
    spare = 1 if 4 * number * dimension > _SEVERAL_GRAPHS else 2
    return min(max(spare * limit, spare * 64), 32_768)


class _Named(NamedTuple):
    """What a server named: rows, and if it gave as many as were asked for, the lowest of their scores by its count."""

    rows: np.ndarray
    lowest: float
    is_full: bool


def expression(where: Filter | None) -> str:
    """A filter in Milvus's language, which may let more photos pass than the filter does, and never fewer."""
    if where is None:
        return ""
    terms: list[str] = []
    if where.folder is not None:
        parts = [part for part in where.folder.split("/") if part not in ("", ".")]
        if parts and _LIKE.fullmatch("/".join(parts)) and "/".join(parts).isascii():
            terms.append(f"path like {json.dumps('/'.join(parts) + '/%')}")
    if where.since is not None:
        terms.append(f"date >= {seconds_of(datetime.combine(where.since, time.min))}")
    if where.until is not None:
        terms.append(f"date <= {seconds_of(datetime.combine(where.until, time.max))}")
    for name, value in where.columns:
        if name.isascii() and value.isascii() and name.isprintable() and value.isprintable() and len(value) < 1_000:
            terms.append(f"columns[{json.dumps(name)}] == {json.dumps(value)}")
    return " and ".join(terms)
