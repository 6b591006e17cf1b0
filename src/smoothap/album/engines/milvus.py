"""Milvus as the engine of an album: it keeps ids, vectors and what filters ask for. It proposes; exact scores decide.

    NAME                       an alias for the collection that is searched
    NAME_smoothap_photo_KEY    a row for each photo by its id: vector, folder, label, camera, day, the user's columns,
                               and a checksum of all that, by which a push knows what it has to send again
    NAME_smoothap_face         an alias for the faces, only where a push was asked to send people
    NAME_smoothap_face_KEY     a row for each face by its id: vector, and its photo among the columns
    NAME_smoothap_region       the same for parts of photos, only where a push was asked to send regions
    NAME_smoothap_region_KEY   a row for each part: its photo and its number are among the columns

The row -1 of a collection says of which version of which album it is. All else about photos is in the album's folder.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import date
from typing import TYPE_CHECKING, cast

import numpy as np

from smoothap._core.progress import Progress
from smoothap.album.engines.codes import Bounded
from smoothap.album.engines.milvus_server import MOST_ROWS, MilvusAddress, MilvusServer, MilvusUnavailable
from smoothap.album.filters import Filter, cameras_of
from smoothap.album.search import Nearest, Ranking, VectorQuery, best_rows
from smoothap.album.vectors import StoredVectors
from smoothap.metrics.cosine import Cosines

if TYPE_CHECKING:
    from smoothap.album.photos import Photos
    from smoothap.album.store import Snapshot

__all__ = ["MilvusSearch", "MilvusUnavailable", "open_search", "open_space"]

OWN = "smoothap_mark"  # a field that only our collections have: the checksum of a row
STATE = -1  # the id of the row that says what a collection holds
UNDATED = -(1 << 31)  # the day of a photo without one; others are days since 1970
LONGEST_TEXT = 4_000  # characters of a value that filters ask for
FEW = 4_096  # photos: that many are compared one by one, exactly, sooner than anybody waits
SEEN = 2_000  # of a larger album's photos are ranked for the page
PATIENCE = 15.0  # seconds for which a search waits for a server that is away
_BYTES_AT_ONCE = 4 << 20  # of vectors in an answer
_IDS_AT_ONCE, _MOST_IDS = 1 << 15, 1 << 20  # in an expression, and in all that belong to a search
_SPARE = 16  # more rows than wanted are asked for: some may have been removed since
_LEAST_ASKED = 256  # photos, where those from a least score on are looked for; a power of 4 times this is the most
_SEVERAL_GRAPHS = 3 << 29  # bytes of vectors: a server keeps a graph for each half gigabyte, newer ones for a whole
_OFF = 1e-4  # by which the server's own scores may be below ours
_PLAIN = re.compile(r"[A-Za-z0-9_ /.+()\[\]&,:;=@#*!?<>|~-]*")  # text that means itself in an expression
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class State:
    """What a collection holds: a version of an album, or None while a push is under way; `push` names the last one."""

    uid: str
    version: int | None
    space: str
    dimension: int
    index: str
    push: str

    def write(self, server: MilvusServer, collection: str) -> None:
        """Put it into the row that is for it."""
        texts = dict.fromkeys(("folder", "label", "camera"), "")
        row = {"id": STATE, OWN: 0, "vector": [0.0] * self.dimension, "day": UNDATED, "columns": asdict(self), **texts}
        server.ask("upsert", collection, [row])


def read_state(server: MilvusServer, collection: str) -> State | None:
    """What a collection of ours holds; None if a push was stopped before it said so."""
    rows = server.rows(collection, f"id == {STATE}", "columns")
    try:
        return State(**rows[0]["columns"]) if rows else None
    except TypeError:
        raise ValueError(
            f"{server.address} was pushed by another version of smoothap: push it again (smoothap album push)."
        ) from None


def space_alias(server: MilvusServer, space: str) -> str:
    """The alias for the faces or the parts of an album, beside that for its photos."""
    return f"{server.address.name}_smoothap_{space}"


def current_collection(server: MilvusServer, alias: str | None = None) -> str | None:
    """The collection that the alias is for, None if there is no such alias; somebody else's is refused."""
    name = alias or server.address.name
    behind = server.behind(name)
    if behind is None and not server.has(name):
        return None
    if behind is None or not is_ours(server, behind):
        raise ValueError(f"{server.address} is somebody else's collection and not touched: choose another name.")
    return behind


def is_ours(server: MilvusServer, collection: str) -> bool:
    """Whether a collection has the fields of one that we made."""
    return any(field["name"] == OWN for field in server.ask("describe_collection", collection)["fields"])


def open_search(address: str, snapshot: Snapshot, photos: Photos) -> MilvusSearch:
    """Search in what a push brought to an address, which has to be this version of the album."""
    server = MilvusServer(MilvusAddress.parse(address), patience=PATIENCE)
    again = f"smoothap album push ALBUM {address}"
    collection, settings = current_collection(server), snapshot.settings
    if collection is None:
        raise FileNotFoundError(f"There is no album at {address} yet: {again}")
    state = read_state(server, collection)
    if state is None or state.version is None:
        raise ValueError(f"A push to {address} is under way, or was stopped: wait for it, or run it again: {again}")
    if state.uid != settings.uid:
        raise ValueError(f"{address} holds another album: give its own address, or push this one to another name.")
    dimension = snapshot.space.dimension if snapshot.projection is None else snapshot.projection.dimension
    if (state.version, state.dimension) != (settings.version, dimension):
        raise ValueError(
            f"{address} holds version {state.version:,} of the album ({state.dimension} dimensions), and its folder "
            f"version {settings.version:,} ({dimension} dimensions): push it again: {again}"
        )
    return MilvusSearch(server, collection, state, photos.ids, photos)


def open_space(address: str, space: str, content: tuple[str, int], ids: np.ndarray, vectors: StoredVectors
               ) -> MilvusSearch | None:  # fmt: skip
    """Search among the faces or parts that a push brought to an address; None where it brought none, or others.

    `content` names the album and the version of what is here: vectors (n, d) by rising ids (n,).
    """
    server = MilvusServer(MilvusAddress.parse(address), patience=PATIENCE)
    collection = current_collection(server, space_alias(server, space))
    state = None if collection is None else read_state(server, collection)
    if collection is None or state is None or (state.uid, state.version) != content:
        return None
    return MilvusSearch(server, collection, state, ids, vectors=vectors)


class _RemoteRows:
    """The vectors (n, d) float32 of photos with ids (n,), as an array gives them; fetched when they are asked for."""

    ndim, dtype = 2, np.dtype(np.float32)

    def __init__(self, server: MilvusServer, collection: str, ids: np.ndarray, dimension: int) -> None:
        self._server, self._collection, self._ids = server, collection, ids
        self.shape = len(ids), dimension

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        """Some rows, by a slice or their numbers (k,)."""
        ids, places = np.unique(self._ids[rows], return_inverse=True)
        fetched = np.empty((len(ids), self.shape[1]), np.float32)
        for block in _blocks(np.arange(len(ids)), self.shape[1]):
            fetched[block] = self._fetch(ids[block])
        return fetched[places]

    def _fetch(self, ids: np.ndarray) -> np.ndarray:
        """The vectors (k, d) of rising ids (k,)."""
        where = f"id in {ids.tolist()}"
        if len(ids) == ids[-1] - ids[0] + 1:  # a shorter question, which is answered sooner
            where = f"id >= {ids[0]} and id <= {ids[-1]}"
        answers = self._server.rows(self._collection, where, "id", "vector", consistency="Bounded")
        vectors = {answer["id"]: answer["vector"] for answer in answers}
        if lost := {*ids.tolist()} - {*vectors}:
            raise ValueError(
                f"{self._server.address} has no vector of photo {min(lost)} any more: open the album again, or push it "
                "again if that does not help."
            )
        return np.array([vectors[identity] for identity in ids.tolist()], np.float32)


def _blocks(rows: np.ndarray, dimension: int) -> Iterator[np.ndarray]:
    """Some rows (k,), as many at a time as one answer holds."""
    step = max(1, min(MOST_ROWS, _BYTES_AT_ONCE // (4 * dimension)))
    return (rows[start : start + step] for start in range(0, len(rows), step))


class MilvusSearch:
    """Search in a collection of Milvus: the server names candidates, and exact scores here decide.

    Without `photos` there are no filters for the server. `vectors` are those that are here as well.
    """

    name = "milvus"

    def __init__(
        self,
        server: MilvusServer,
        collection: str,
        state: State,
        ids: np.ndarray,
        photos: Photos | None = None,
        vectors: StoredVectors | None = None,
    ) -> None:
        self._server, self._collection, self._index = server, collection, state.index
        self._ids, self._photos = ids, photos
        # What asks for rows of an array gets them from the server.
        rows = cast("np.ndarray", _RemoteRows(server, collection, ids, state.dimension))
        self.vectors = StoredVectors(rows) if vectors is None else vectors

    def warm_up(self) -> None:
        """Nothing is read here before the first search."""

    def bounded(self, vectors: np.ndarray) -> list[Bounded | None]:
        """Nothing is known before the server is asked."""
        return [None] * len(vectors)

    def nearest(self, query: VectorQuery, k: int, bounded: Bounded | None = None) -> Nearest:
        """The k rows that score best."""
        if self._number(query) > FEW and (found := self.by_index(query, k)) is not None:
            return found
        return self._best(query, self._rows(query), k)

    def by_index(self, query: VectorQuery, k: int) -> Nearest | None:
        """The same with candidates of the server, however few photos there are; None where it names too few."""
        rows = self.candidates(query, k)
        return None if rows is None else self._best(query, rows, k)

    def above(self, query: VectorQuery, min_score: float) -> Nearest:
        """All rows at or above a score that the server finds, best first; of a few photos, all that there are."""
        rows = self._down_to(query, min_score) if self._number(query) > FEW else None
        note = "" if rows is None else f"Found by the index of Milvus ({self._index}), which may miss a few."
        rows = self._rows(query) if rows is None else rows
        scores = self._scores(query.vector, rows)
        rows, scores = rows[scores >= min_score], scores[scores >= min_score]
        best = best_rows(scores, len(rows))
        return Nearest(rows[best], scores[best], note)

    def ranking(self, query: VectorQuery) -> Ranking:
        """The best rows ranked, as far down as a visitor goes; all of them, if they are few."""
        number = self._number(query)
        best = self.by_index(query, SEEN) if number > FEW else None
        note = "" if best is None else f"The best {len(best.rows):,} of {number:,} photos are ranked, by {self._index}."
        best = best or self._best(query, self._rows(query), number)
        scores = np.full(len(self.vectors), -np.inf)
        scores[best.rows] = best.scores
        return Ranking(scores, not note, note)

    def around(self, vector: np.ndarray, rows: np.ndarray, number: int) -> np.ndarray:
        """Of some rows (m,), those nearest to a vector (d,), at most that many and not more than are few, in order."""
        if len(rows) <= min(number, FEW):
            return rows
        return np.intersect1d(self._named(vector, min(number, FEW) + _SPARE, "")[0], rows)

    def _number(self, query: VectorQuery) -> int:
        """How many photos a query is about."""
        left_out, passing = np.unique(query.left_out), query.passing
        return len(self._ids) - len(left_out) if passing is None else int(passing.sum() - passing[left_out].sum())

    def _rows(self, query: VectorQuery) -> np.ndarray:
        """All rows that a query is about, in order."""
        rows = np.arange(len(self._ids)) if query.passing is None else np.flatnonzero(query.passing)
        return np.setdiff1d(rows, query.left_out)

    def _best(self, query: VectorQuery, rows: np.ndarray, k: int) -> Nearest:
        scores = self._scores(query.vector, rows)
        best = best_rows(scores, k)
        return Nearest(rows[best], scores[best])

    def _scores(self, vector: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The exact scores of some rows (k,), whose vectors are fetched a few at a time."""
        scores = [np.empty(0)]
        with Progress("Fetching from Milvus", len(rows), "vectors") as line:
            for block in _blocks(rows, self.vectors.shape[1]):
                scores.append(Cosines(self.vectors[block]).of(vector))
                line.advance(len(block))
        return np.concatenate(scores)

    def candidates(self, query: VectorQuery, k: int) -> np.ndarray | None:
        """Rows among which the server expects the best k; None where it cannot name as many."""
        number = self._number(query)
        enough = min(k, number)
        expression, is_whole = expressed(query.where, self._photos)
        # Of what the expression lets pass too much is named, and some of it is left out.
        share = 1.0 if is_whole or query.passing is None else number / len(self._ids) / 4
        limit = math.ceil((enough + min(enough, len(query.left_out))) / share) + _SPARE
        while limit <= MOST_ROWS:
            rows = self._wanted(query, self._named(query.vector, limit, expression)[0])
            if len(rows) >= enough:
                return rows
            limit = MOST_ROWS if limit < MOST_ROWS < 4 * limit else 4 * limit
        if enough + _SPARE > MOST_ROWS or (query.passing is None and not len(query.left_out)):
            return None
        named = [self._named(query.vector, enough + _SPARE, those)[0] for those in self._by_ids(query)]
        rows = self._wanted(query, np.unique(np.concatenate(named)))
        return rows if len(rows) >= enough else None

    def _by_ids(self, query: VectorQuery) -> Iterator[str]:
        """Expressions that together let exactly the photos pass that a query is about.

        A graph leads badly to what is far from the query. Where an expression lets a twentieth pass, a server compares
        these one by one; so ids are spread over several.
        """
        ids = self._ids[self._rows(query)]
        if query.passing is None and len(ids) > _MOST_IDS:
            yield f"id not in {self._ids[query.left_out].tolist()}"
            return
        parts = math.ceil(len(ids) / max(1, min(_IDS_AT_ONCE, len(self._ids) // 20)))
        yield from (f"id in {ids[part::parts].tolist()}" for part in range(parts))

    def _wanted(self, query: VectorQuery, rows: np.ndarray) -> np.ndarray:
        """Those of some rows (k,) that a query is about: the server's filter may let more pass than ours."""
        passing = rows if query.passing is None else rows[query.passing[rows]]
        return np.setdiff1d(passing, query.left_out)

    def _down_to(self, query: VectorQuery, least: float) -> np.ndarray | None:
        """The rows from a least score on, in order; None: they are more than a server gives."""
        expression, _ = expressed(query.where, self._photos)
        limit = _LEAST_ASKED
        while limit <= MOST_ROWS:
            rows, lowest = self._named(query.vector, limit, expression)
            if lowest < least - _OFF:
                return self._wanted(query, rows)
            limit *= 4
        return None

    def _named(self, vector: np.ndarray, limit: int, expression: str) -> tuple[np.ndarray, float]:
        """The rows, in order, that the server names for a vector (d,), and the lowest of their scores by its count.

        That is -inf where there are no more of them.
        """
        if self._index == "IVF_PQ":  # codes order roughly: what is scored here may well change places
            limit = min(4 * limit, MOST_ROWS)
        ef = breadth(4 * limit if expression else limit, self.vectors.shape)
        answers = self._server.ask(
            "search", self._collection, [np.asarray(vector, np.float32).tolist()], limit=limit, output_fields=[],
            filter=expression, search_params={"params": {"ef": ef, "nprobe": 64}},  # of HNSW and of IVF_PQ
            consistency_level="Bounded",
        )[0]  # fmt: skip
        ids = np.unique(np.array([answer["id"] for answer in answers], np.int64))
        rows = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        lowest = answers[-1]["distance"] if len(answers) >= limit else -np.inf
        return rows[self._ids[rows] == ids], lowest


def breadth(limit: int, shape: tuple[int, int]) -> int:
    """How many photos a search keeps in view to name the best `limit` among vectors of a shape (n, d).

    Many are in several graphs, each of which is searched so broadly: half is enough there.
    """
    number, dimension = shape
    spare = 1 if 4 * number * dimension > _SEVERAL_GRAPHS else 2
    return min(max(spare * limit, spare * 64), 2 * MOST_ROWS)


def expressed(where: Filter | None, photos: Photos | None) -> tuple[str, bool]:
    """A filter in Milvus's language, which never lets fewer photos pass, and whether it lets none pass beyond them."""
    if where is None or photos is None:
        return "", False
    terms: list[str] = []
    is_whole = where.collection is None and not where.in_no_collection and where.text is None
    if where.folder is not None and (parts := [part for part in where.folder.split("/") if part not in ("", ".")]):
        folder = "/".join(parts)
        is_whole &= _is_plain(folder)
        if _is_plain(folder):
            terms.append(f"(folder == {json.dumps(folder)} or folder like {json.dumps(folder + '/%')})")
    if where.since is not None:
        terms.append(f"day >= {(where.since - _EPOCH).days}")
    if where.until is not None:
        terms.append(f"day > {UNDATED} and day <= {(where.until - _EPOCH).days}")
    if where.camera is not None:
        names, word = list(cameras_of(photos)), where.camera.strip().lower()
        chosen = [name for name in names if name.lower() == word] or [name for name in names if word in name.lower()]
        is_whole &= all(_is_plain(name) for name in chosen)
        if all(_is_plain(name) for name in chosen):
            terms.append(f"camera in {json.dumps(chosen)}")
    for name, value in where.columns:
        known = bool(value) and _is_plain(name) and _is_plain(value)
        is_whole &= known
        if known:
            field = "label" if name == "label" else f"columns[{json.dumps(name)}]"
            terms.append(f"{field} == {json.dumps(value)}")
    return " and ".join(terms), is_whole


def _is_plain(text: str) -> bool:
    return len(text) < LONGEST_TEXT and _PLAIN.fullmatch(text) is not None
