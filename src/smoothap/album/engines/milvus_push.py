"""An album into Milvus (`smoothap album push ALBUM milvus://HOST:PORT/NAME`): what is not there is sent, and checked.

Each row in Milvus has a checksum, so that a push knows what was added, has changed or was left unsent when the last one
was stopped. The first push fills a collection that nobody reads before an alias says so. The next one changes the same
collection in place, unless all vectors are others, such as those of an album that has learnt: these go into a new
collection, and the alias is switched. While it lasts, the album cannot be opened at this address; who has it open goes
on with what was there.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothap._core.progress import Progress
from smoothap.album.dates import dated
from smoothap.album.engines import milvus
from smoothap.album.engines.milvus import (
    LONGEST_TEXT,
    OWN,
    UNDATED,
    MilvusSearch,
    State,
    current_collection,
    is_ours,
    read_state,
    space_alias,
)
from smoothap.album.engines.milvus_server import MOST_ROWS, PATIENCE, MilvusAddress, MilvusServer
from smoothap.album.faces import FACE, FaceStore
from smoothap.album.photos import Photos, spelled, unpacked_columns
from smoothap.album.region_search import part_ids
from smoothap.album.regions import REGION
from smoothap.album.search import VectorQuery
from smoothap.album.store import PHOTO
from smoothap.album.vectors import Vectors
from smoothap.models.regions import PARTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from smoothap.album.album import Album

INDEXES = "auto", "hnsw", "ivf_pq"
GRAPH_UP_TO = 2_000_000  # vectors; above, a graph takes gigabytes of memory, and codes take a thirtieth
_LINKS, _BUILD_BREADTH = 32, 80  # of a graph
_LEAST_FOR_CODES = 40_000  # rows, from which codes can be learnt
_SEGMENT = 128 << 20  # bytes of vectors, about what Milvus puts into a segment, which gets cells of its own
_BYTES_AT_ONCE = 8 << 20  # in one message
_DELETED_AT_ONCE = 1_000  # rows
_SAMPLE, _NEAREST = 50, 10  # photos that are searched with, and the answers that are compared
_SETTLE = 3_600.0  # seconds that the server may take to write and to index
_LINGER = 10.0  # seconds that those who search in the old version have, before what it alone needs is deleted
_TEXT = 60_000  # bytes of a text field


@dataclass(frozen=True)
class Pushed:
    """What a push did: photos that there are, were sent and removed, and the share of a sample's answers found."""

    photos: int
    sent: int
    removed: int
    index: str
    recall: float | None  # None: the collection was there before
    people: Pushed | None = None  # the same of faces, where they were to be sent and there are any
    regions: Pushed | None = None  # and of parts of photos


def push(
    album: Album,
    address: str,
    *,
    index: str = "auto",
    connections: int = 4,
    min_recall: float = 0.8,
    replace_all: bool = False,
    timeout: float = PATIENCE,
    people: bool = False,
    regions: bool = False,
) -> Pushed:
    """Bring what is at an address of Milvus up to date with an album: only what was added, changed and removed.

    A new collection is checked before it is shown to anybody: the number of photos, the bits of some vectors, and that
    the nearest photos of a sample are found to a share of `min_recall`. `index` is auto, hnsw or ivf_pq; `connections`
    messages are on their way at once. A name that holds another album is refused unless `replace_all` is given.
    `timeout` is how many seconds a server that is away is waited for. With `people`, faces are sent to a collection of
    their own, with `regions` parts of photos; without it, those that an earlier push sent are removed. Nobody else
    changes the album meanwhile.
    """
    if index not in INDEXES:
        raise ValueError(f"An index is one of {', '.join(INDEXES)}, not {index!r}.")
    server = MilvusServer(MilvusAddress.parse(address), patience=timeout)
    with album.store.writing():
        now = album.reopened()
        faces = _faces(now, server) if people else None  # an album without people is told before anything is sent
        parts = _parts(now, server) if regions else None

        def send(items: _Items | None) -> Pushed | None:
            return None if items is None else _Push(server, items, index, connections).run(min_recall, replace_all)

        done = _Push(server, _photos(now, server), index, connections).run(min_recall, replace_all)
        for space, items in ((FACE, faces), (REGION, parts)):
            if items is None:
                remove_space(server, space)
        _remember(now, address, faces is not None)  # before anything is sent
        return replace(done, people=send(faces), regions=send(parts))


def _remember(album: Album, address: str, is_there: bool) -> None:
    if FaceStore.is_in(album.store.folder):
        store = FaceStore(album.store.folder)
        store.remember_push(address, is_there)
        store.database.close()


def remove_space(server: MilvusServer, space: str) -> None:
    """Remove the faces, or the parts, that pushes brought to a server, and nothing else."""
    alias = space_alias(server, space)
    if current_collection(server, alias) is not None:
        server.ask("drop_alias", alias)
    for name in _collections(server, f"{alias}_"):
        if is_ours(server, name):
            server.ask("drop_collection", name)


def forget_faces(address: str) -> str:
    """Remove the faces at an address; gives what is left there in a sentence, "" for nothing."""
    place = MilvusAddress.parse(address)
    try:
        remove_space(MilvusServer(place, patience=milvus.PATIENCE), FACE)
    except ValueError as error:
        return (
            f"Faces with their vectors are still at {address}, in the collections {place.name}_smoothap_{FACE}_*: "
            f"{error} When it can be reached, smoothap album push ALBUM {address} without --people removes them."
        )
    return ""


@dataclass(frozen=True, eq=False)
class _Items:
    """What is sent: vectors (n, d) by rising ids (n,), and what else the rows of Milvus have, for some of them."""

    space: str
    alias: str
    uid: str
    version: int
    learnt: int | None  # the number of what the vectors were made by, beside the model
    ids: np.ndarray
    next_id: int
    vectors: Vectors
    fields: Callable[[np.ndarray], list[dict[str, Any]]]
    photos: Photos | None


def _photos(album: Album, server: MilvusServer) -> _Items:
    settings = album.store.settings()
    if not len(album.photos.ids):
        raise ValueError("The album holds no photos: there is nothing to push.")
    return _Items(
        PHOTO, server.address.name, settings.uid, settings.version,
        None if settings.learnt is None else settings.learnt["number"], album.photos.ids, settings.next_id,
        album.vectors, lambda rows: [_fields(record) for record in album.photos.records(rows)], album.photos,
    )  # fmt: skip


def _parts(album: Album, server: MilvusServer) -> _Items | None:
    space = album.region_space()
    regions, settings = space.regions(album), space.settings()
    ids, texts = part_ids(album.photos.ids, regions), dict.fromkeys(("folder", "label", "camera"), "")

    def fields(rows: np.ndarray) -> list[dict[str, Any]]:
        parts = (divmod(one, PARTS) for one in ids[rows].tolist())
        return [{**texts, "day": UNDATED, "columns": {"photo": photo, "part": part}} for photo, part in parts]

    return None if not len(ids) else _Items(
        REGION, space_alias(server, REGION), settings.uid, regions.content, settings.file, ids, int(ids.max()) + 1,
        regions.as_vectors(), fields, None,
    )  # fmt: skip


def _faces(album: Album, server: MilvusServer) -> _Items | None:
    faces = album.face_space().faces(album)

    def fields(rows: np.ndarray) -> list[dict[str, Any]]:
        texts = dict.fromkeys(("folder", "label", "camera"), "")
        return [{**texts, "day": UNDATED, "columns": {"photo": photo}} for photo in faces.photos[rows].tolist()]

    return None if not len(faces.ids) else _Items(
        FACE, space_alias(server, FACE), faces.uid, faces.content, None, faces.ids, int(faces.ids.max()) + 1,
        faces.vectors, fields, None,
    )  # fmt: skip


def _collections(server: MilvusServer, prefix: str) -> list[str]:
    ours = re.compile(re.escape(prefix) + "[0-9a-f]{12}")
    return [name for name in server.ask("list_collections") if ours.fullmatch(name)]


class _Push:
    def __init__(self, server: MilvusServer, items: _Items, index: str, connections: int) -> None:
        self.server, self.items, self.connections = server, items, connections
        self.ids, self.vectors = items.ids, items.vectors
        chosen = ("HNSW" if len(self.ids) <= GRAPH_UP_TO else "IVF_PQ") if index == "auto" else index.upper()
        token = secrets.token_hex(8)
        self.state = State(items.uid, items.version, items.space, self.vectors.shape[1], chosen, token)
        # The same vectors go to the same collection, so that a push which was stopped is found again.
        kind = repr((items.uid, items.space, self.state.dimension, items.learnt, chosen)).encode()
        self.prefix = f"{server.address.name}_smoothap_{items.space}_"
        self.collection = self.prefix + hashlib.sha256(kind).hexdigest()[:12]

    def run(self, min_recall: float, replace_all: bool) -> Pushed:
        server, state = self.server, self.state
        current = current_collection(server, self.items.alias)
        known = None if current is None else read_state(server, current)
        if known is not None and known.uid != state.uid and not replace_all:
            raise ValueError(f"{server.address} holds another album: choose another name, or give --replace.")
        if self._is_up_to_date(current, known):
            return Pushed(len(self.ids), 0, 0, state.index, None)
        is_there, is_new = server.has(self.collection), current != self.collection
        if is_there:
            self._refuse_others(self.collection)
            self._hold_ready(flush=is_new)
        else:
            self._create()
        replace(state, version=None).write(server, self.collection)
        sent, gone = self._send(compare=is_there)
        self._hold_ready(flush=is_new)
        self._verify(len(gone))
        recall = self._checked_recall(min_recall) if is_new else None
        self._finish()
        if is_new:
            server.ask("create_alias" if current is None else "alter_alias", self.collection, self.items.alias)
        self._clean_up(gone)
        return Pushed(len(self.ids), sent, len(gone), state.index, recall)

    def _is_up_to_date(self, current: str | None, known: State | None) -> bool:
        if current != self.collection or known is None or known.version != self.state.version:
            return False
        return self.server.count(current) == len(self.ids) + 1 and len(_collections(self.server, self.prefix)) == 1

    def _refuse_others(self, collection: str) -> None:
        if not is_ours(self.server, collection):
            raise ValueError(f"{collection} is somebody else's collection and not touched: choose another name.")

    def _create(self) -> None:
        """Make the collection; it has no index yet, which would slow the filling down."""
        from pymilvus import DataType, MilvusClient

        schema = MilvusClient.create_schema(
            auto_id=False, enable_dynamic_field=False, description="an album of smoothap"
        )
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field(OWN, DataType.INT64)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=self.state.dimension)
        for text in ("folder", "label", "camera"):
            schema.add_field(text, DataType.VARCHAR, max_length=_TEXT)
        schema.add_field("day", DataType.INT64)
        schema.add_field("columns", DataType.JSON)
        self.server.ask("create_collection", self.collection, schema=schema, consistency_level="Bounded")

    def _hold_ready(self, *, flush: bool) -> None:
        """Have the server index and load what it got; `flush`: at once, and not when it has enough for a segment."""
        from pymilvus import MilvusClient

        timeout, self.server.timeout = self.server.timeout, _SETTLE
        try:
            if flush:
                self.server.ask("flush", self.collection)
            if not self.server.ask("list_indexes", self.collection):
                kind, params = index_of(self.state.index, len(self.ids), self.state.dimension)
                made = MilvusClient.prepare_index_params()
                made.add_index("vector", index_type=kind, metric_type="IP", params=params)
                self.server.ask("create_index", self.collection, made)
            self.server.ask("load_collection", self.collection)
        finally:
            self.server.timeout = timeout

    def _send(self, *, compare: bool) -> tuple[int, list[int]]:
        """Send what the collection lacks or has otherwise; how many photos, and ids that the album has no more."""
        step = max(1, min(_BYTES_AT_ONCE // (4 * self.state.dimension + 500), 4_000))
        parts = [np.arange(start, min(start + step, len(self.ids))) for start in range(0, len(self.ids), step)]
        edges = [0, *(int(self.ids[rows[0]]) for rows in parts[1:]), self.items.next_id]

        def send(rows: np.ndarray, first: int, end: int) -> tuple[int, list[int]]:
            there = self._marks(first, end) if compare else {}
            changed = [row for row in self._made(rows) if there.pop(row["id"], None) != row[OWN]]
            if changed:
                self.server.ask("upsert", self.collection, changed)
            return len(changed), list(there)

        sent, gone = 0, list[int]()
        progress = Progress("Sending to Milvus", len(self.ids), f"{self.items.space}s")
        with progress as line, ThreadPoolExecutor(max(1, self.connections)) as threads:
            for rows, (number, others) in zip(parts, threads.map(send, parts, edges, edges[1:]), strict=True):
                sent, gone = sent + number, gone + others
                line.advance(len(rows))
        # Of an album that was put back to an earlier state, later photos may be there.
        later = self.server.rows(self.collection, f"id >= {edges[-1]}", "id") if compare else []
        return sent, gone + [row["id"] for row in later]

    def _marks(self, first: int, end: int) -> dict[int, int]:
        """The checksums of the rows with ids from `first` on and before `end`, by their ids."""
        marks: dict[int, int] = {}
        for start in range(first, end, MOST_ROWS):
            where = f"id >= {start} and id < {min(start + MOST_ROWS, end)}"
            rows = self.server.rows(self.collection, where, "id", OWN)
            marks |= {row["id"]: row[OWN] for row in rows}
        return marks

    def _made(self, rows: np.ndarray) -> list[dict[str, Any]]:
        """The rows of Milvus for rows (k,) of the album."""
        vectors = self.vectors[rows]
        made = []
        for identity, fields, vector in zip(self.ids[rows].tolist(), self.items.fields(rows), vectors, strict=True):
            digest = hashlib.blake2b(vector.tobytes() + repr(fields).encode(), digest_size=8).digest()
            mark = int.from_bytes(digest, "big", signed=True)
            made.append({"id": identity, OWN: mark, "vector": vector, **fields})
        return made

    def _verify(self, gone: int) -> None:
        """See that all photos are there, and some vectors to the bit."""
        if (there := self.server.count(self.collection)) != len(self.ids) + gone + 1:
            raise ValueError(
                f"Milvus has {there - gone - 1:,} of {len(self.ids):,} {self.items.space}s in {self.collection}: run "
                "this again to send what is missing."
            )
        sample = self._sample()
        if not np.array_equal(self._search().vectors[sample], self.vectors[sample]):
            raise ValueError(f"{self.server.address} gives other vectors than it was sent: run this again.")

    def _sample(self) -> np.ndarray:
        number = len(self.ids)
        return np.random.default_rng(0).choice(number, min(_SAMPLE, number), replace=False)

    def _search(self) -> MilvusSearch:
        return MilvusSearch(self.server, self.collection, self.state, self.ids, self.items.photos)

    def _checked_recall(self, least: float) -> float:
        """The share of the nearest photos of a sample that the index finds; too low a one is an error."""
        queries, search = self.vectors[self._sample()], self._search()
        k = min(_NEAREST, len(self.ids))
        best = np.full((len(queries), k), -np.inf, np.float32)
        for start in range(0, len(self.ids), 1 << 15):  # one pass, however many vectors there are
            products = queries @ self.vectors[start : start + (1 << 15)].T
            best = np.sort(np.concatenate([best, products], axis=1), axis=1)[:, -k:]
        found = 0
        for query, lowest in zip(queries, best[:, 0], strict=True):
            answer = search.by_index(VectorQuery(query, np.empty(0, np.int64)), k)
            found += 0 if answer is None else int((answer.scores >= lowest - 1e-5).sum())
        if (recall := found / best.size) < least:
            raise ValueError(
                f"The index of Milvus finds {recall:.0%} of the nearest {self.items.space}s of a sample, less than "
                f"{least:.0%}: nothing was switched. Give another --index, or a lower --min-recall."
            )
        return recall

    def _finish(self) -> None:
        """Say that the collection holds this version, unless another push wrote to it meanwhile."""
        found = read_state(self.server, self.collection)
        if found is None or found.push != self.state.push:
            replace(self.state, version=None).write(self.server, self.collection)
            raise ValueError(
                f"Another push to {self.server.address} came in between: run this again when it has ended."
            )
        self.state.write(self.server, self.collection)

    def _clean_up(self, gone: list[int]) -> None:
        """Delete photos that the album has no more, and collections of ours that nobody needs now."""
        others = [
            name
            for name in _collections(self.server, self.prefix)
            if name != self.collection and is_ours(self.server, name)
        ]
        if gone or others:
            time.sleep(_LINGER)
        for start in range(0, len(gone), _DELETED_AT_ONCE):
            self.server.ask("delete", self.collection, ids=gone[start : start + _DELETED_AT_ONCE])
        for name in others:
            self.server.ask("drop_collection", name)


def index_of(kind: str, rows: int, dimension: int) -> tuple[str, dict[str, int]]:
    """The index for that many vectors, and its parameters; too few for codes get a graph."""
    if kind == "IVF_PQ" and rows >= _LEAST_FOR_CODES:
        codes = next(m for m in range(max(1, dimension // 8), 0, -1) if dimension % m == 0)
        cells = int(4 * min(rows, _SEGMENT // (4 * dimension)) ** 0.5)
        return "IVF_PQ", {"nlist": cells, "m": codes, "nbits": 8}
    return "HNSW", {"M": _LINKS, "efConstruction": _BUILD_BREADTH}


def _fields(record: Mapping[str, Any]) -> dict[str, Any]:
    """What filters ask for, of a photo as the table has it."""
    folder = record["path"].rpartition(b"/")[0].decode(errors="backslashreplace")
    columns = unpacked_columns(record["columns"])
    when = dated(record["taken"], record["path"], record["modified"]).seconds
    return {
        "folder": folder[:LONGEST_TEXT],
        "label": (record["label"] or "")[:LONGEST_TEXT],
        "camera": (record["camera"] or "")[:LONGEST_TEXT],
        "day": UNDATED if when is None else when // 86_400,
        "columns": {spelled(name): spelled(value)[:LONGEST_TEXT] for name, value in columns.items()},
    }
