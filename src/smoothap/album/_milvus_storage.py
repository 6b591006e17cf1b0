"""An album in Milvus as `Album` reads one: the photos in one table, the vectors where they are."""

from __future__ import annotations

import base64
import threading
import weakref
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from smoothap.album._milvus_layout import (
    OWN,
    About,
    current_number,
    pictures_name,
    piece_name,
    read_about,
)
from smoothap.album._milvus_vectors import MilvusNeighbours, MilvusPiece
from smoothap.album._segments import last_places
from smoothap.album.description import Description, Learnt, Segment
from smoothap.album.milvus_server import MilvusAddress, MilvusServer, MilvusUnavailable
from smoothap.album.photos import OUTSIDE, SCHEMA, Photos, whole_numbers
from smoothap.album.projection import Projection
from smoothap.album.vectors import MappedVectors, Vectors

if TYPE_CHECKING:
    from smoothap.album._milvus_kept import MilvusKept

_EVERY = 2.0  # seconds after which a server is asked whether there is a new version
_PATIENCE = 15.0  # seconds for which a search waits for a server that is away


class MilvusStorage:
    """What `Storage` is for a folder, for milvus://HOST:PORT/NAME; nothing of an album can be changed here."""

    folder = None

    def __init__(self, address: str | MilvusAddress, server: MilvusServer | None = None) -> None:
        self._address = MilvusAddress.of_album(address) if isinstance(address, str) else address
        self.address = str(self._address)
        self.server = server or MilvusServer(self._address, patience=_PATIENCE)
        self._name = self._address.name
        self.place = Path(self._name)  # for messages: what the album says of other places is absolute
        self.projection: Projection | None = None
        self._about: About | None = None
        self._pieces = np.empty(0, np.int64)
        self.ids = self.checksums = np.empty(0, np.int64)
        self._watched: _Watch | None = None

    @property
    def about(self) -> About:
        """What the album was when it was loaded."""
        assert self._about is not None, "nothing was loaded yet"
        return self._about

    def load(self, *, always: bool = False, original: bool = False) -> tuple[Description, Photos, Vectors]:
        """The album as the alias has it now: its description and photos, and its vectors where they are."""
        if original:
            self.refuse_to_change()
        number = current_number(self.server, self._name)
        if number is None:
            raise FileNotFoundError(f"There is no album at {self.address}: smoothap album push ALBUM {self.address}")
        return self.load_piece(number)

    def load_piece(self, number: int) -> tuple[Description, Photos, Vectors]:
        """The album as of one of its pieces."""
        found = read_about(self.server, self._name, number)
        if found is None:
            raise ValueError(f"{self.address} was not loaded to its end: smoothap album push ALBUM {self.address}")
        about, last, weights = found
        tables: list[pa.Table] = []
        for earlier in about.pieces[:-1]:
            before = read_about(self.server, self._name, earlier)
            if before is None:
                raise ValueError(f"A piece of {self.address} is gone: load the album again with --replace.")
            tables.append(before[1])
        tables.append(last)
        table, places = _together(tables, about)
        photos = Photos(_checked(table.select(SCHEMA.names), self.address))
        self._about, self.ids, self.checksums = about, photos.ids, whole_numbers(table[OWN])
        self._pieces = np.repeat(about.pieces, [each.num_rows for each in tables])[places]
        self.projection = None if weights is None else Projection.from_array(weights)
        dimension = about.dimension if about.learnt is None else about.learnt["dimension"]
        stored = [
            MilvusPiece(self.server, piece_name(self._name, number), whole_numbers(each["id"]), dimension)
            for number, each in zip(about.pieces, tables, strict=True)
        ]
        return _description(about, len(photos)), photos, MappedVectors(stored, dimension, places)

    def neighbours(self, vectors: Vectors) -> MilvusNeighbours:
        """Who answers searches."""
        return MilvusNeighbours(self.server, self.about, self.ids, vectors)

    def reopened(self) -> MilvusStorage:
        """The same place, to be loaded again."""
        return MilvusStorage(self._address, self.server)

    def is_current(self) -> bool:
        """Whether the alias still stands for what was loaded, as far as was known a moment ago."""
        if self._watched is None:
            self._watched = _Watch(self.server, self._name, self.about.number)
            weakref.finalize(self, self._watched.stop.set)
        return self._watched.newest == self.about.number

    def thumbnail(self, record: Mapping[str, Any]) -> bytes | None:
        """The thumbnail of a record, or None where there is none or it is damaged."""
        if not self.about.pictures or record["pack"] < 0:
            return None
        piece = int(self._pieces[np.searchsorted(self.ids, record["id"])])
        rows = self.server.ask(
            "query", pictures_name(self._name, piece), filter=f"id == {record['id']}", output_fields=["text"],
            limit=1, consistency_level="Bounded",
        )  # fmt: skip
        picture = base64.b64decode(rows[0]["text"]) if rows else b""
        return picture if picture and zlib.crc32(picture) == record["crc"] else None

    def kept(self) -> MilvusKept:
        """Where the collections of users are kept."""
        from smoothap.album._milvus_kept import MilvusKept

        return MilvusKept(self.server, self._name)

    def alike(self) -> list[tuple[int, int]]:
        """Pairs of ids that looked the same when the album was loaded."""
        return [(first, second) for first, second in self.about.alike]

    def refuse_to_change(self) -> NoReturn:
        """Say how an album in Milvus is changed: by loading it again."""
        raise ValueError(
            f"{self.address} is for searching: change the album that it was loaded from, and load it again (smoothap "
            f"load ALBUM {self.address})."
        )


class _Watch:
    """Asks now and then which piece an alias stands for, so that no visitor waits for that."""

    def __init__(self, server: MilvusServer, name: str, number: int) -> None:
        self.newest, self.stop = number, threading.Event()
        self._server, self._name = server, name
        threading.Thread(target=self._run, name="smoothap-milvus", daemon=True).start()

    def _run(self) -> None:
        while not self.stop.wait(_EVERY):
            try:
                self.newest = current_number(self._server, self._name) or self.newest
            except (MilvusUnavailable, ValueError):  # it is away, or gone: what was loaded is what there is
                continue


def _together(tables: list[pa.Table], about: About) -> tuple[pa.Table, np.ndarray]:
    """The tables of all pieces as one, in the order of ids, and where each photo stands among their rows, (n,)."""
    table = pa.concat_tables(tables).combine_chunks()
    ids = np.setdiff1d(whole_numbers(table["id"]), np.array(about.removed, np.int64))
    places = last_places(tables, ids)
    return table.take(pa.array(places)), places


def _checked(table: pa.Table, address: str) -> pa.Table:
    outside = pc.call_function("match_substring_regex", [table["path"]], pc.MatchSubstringOptions(OUTSIDE))
    if pc.call_function("any", [outside]).as_py():
        raise ValueError(f"{address} names a file outside of the photo folder: it is not to be trusted.")
    return table


def _description(about: About, photos: int) -> Description:
    learnt = None if about.learnt is None else Learnt(**about.learnt)
    described = Description(
        about.dimension, about.model, about.source, about.root, calibration=about.calibration, learnt=learnt,
        dtype=about.dtype,
    )  # fmt: skip
    segment = Segment(about.number, photos, about.fingerprint, about.fingerprint)
    return replace(described, segments=(segment,))
