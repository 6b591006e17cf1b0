"""An album on disk: files that are written once and never changed, and one description that says which of them count.

    album.json                 the description (see description.py), replaced atomically
    vectors-000001.npy         (rows, d) float32, each row of length 1
    photos-000001.parquet      the photos of those rows
    thumbnails-000001.pack     their thumbnails, one JPEG after the other
    projection-000002.npy      (k, d + 1) float32, what the album learnt from its collections, if it did
    learnt-000002.npy          (rows, k) float32, the projected vectors, which are searched in the place of the others
    collections/               what users keep (see _collection_file.py), with a lock of its own

A crash between any two writes leaves the old description with all its files; what no description names is swept away
by the next writer. After a run all rows stand in one segment, which is mapped into memory, not read.
"""

import io
import os
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from smoothap.files import DiskFullError, is_full, locked, write_atomically
from smoothap.search._checksums import check, checksum
from smoothap.search.description import (
    NAME,
    Description,
    Learnt,
    Segment,
    read_description,
    refuse_inside_album,
    write_description,
)
from smoothap.search.photos import OLDER_SCHEMA, OUTSIDE, SCHEMA, Photos, table_of, whole_numbers
from smoothap.search.projection import Projection

_SUFFIXES = {  # by the kind of file
    "vectors": "npy", "photos": "parquet", "thumbnails": "pack", "projection": "npy", "learnt": "npy",
}  # fmt: skip
_SEGMENT_KINDS = "vectors", "photos", "learnt"
_COPIED = 1 << 14  # rows at a time
_LARGEST_THUMBNAIL = 1 << 22  # bytes: the length stands in a file that a stranger may have made


class Storage:
    """The files of one album."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._loaded: tuple[int, ...] | None = None  # the description that was loaded, as `_stamp` knows it
        self.projection: Projection | None = None  # what the album had learnt when it was loaded

    def _stamp(self) -> tuple[int, ...] | None:
        """What changes whenever the description is replaced; None while there is none."""
        try:
            status = (self.folder / NAME).stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def is_current(self) -> bool:
        """Whether the description is still the one that was last loaded."""
        return self._stamp() == self._loaded

    def _file(self, kind: str, number: int) -> Path:
        """The vectors, photos or thumbnails of a segment."""
        return self.folder / f"{kind}-{number:06d}.{_SUFFIXES[kind]}"

    @contextmanager
    def writing(self) -> Generator[None]:
        """Alone with the album: a second writer gets an error at once, and so does one without room on the disk."""
        try:
            with locked(self.folder, f"Another process is writing to {self.folder}: wait until it is done."):
                yield
        except OSError as error:
            if not is_full(error):
                raise
            raise DiskFullError(
                error.errno,
                f"The disk of the album {self.folder} is full. The album opens as it was last written, with all photos "
                "that were taken in until then: make room, and run this again.",
            ) from error

    @contextmanager
    def creating(self) -> Generator[None]:
        """Alone with a folder that holds no album yet, and lies in none."""
        refuse_inside_album(self.folder)
        with self.writing():
            if (self.folder / NAME).exists():
                raise ValueError(f"There is an album in {self.folder} already: open it, or choose another folder.")
            yield

    def load(self, *, always: bool = False, original: bool = False) -> tuple[Description, Photos, np.ndarray]:
        """The album as its description says, every file checked; `always` also sums large files known to be whole.

        The vectors are those to search in: what the album made of its model's vectors, if it has learnt, or with
        `original` the model's own.
        """
        self._loaded = self._stamp()  # taken first: what is written while this reads is newer
        description = read_description(self.folder)
        while True:
            try:
                tables = [self._photos(segment, always) for segment in description.segments]
                vectors = self._all_vectors(description, always, original)
                self.projection = self._projection_of(description, always)
                break
            except FileNotFoundError:  # a writer may have swept it away since: then there is a new description
                known, description = description, read_description(self.folder)
                if description == known:
                    raise
        photos, array = _together(tables, *vectors)
        if len(photos) and int(photos.ids[-1]) >= description.next_id:
            raise ValueError(f"{self.folder / NAME} counts {description.next_id} photos, and there are more: damaged.")
        return description, photos, array

    def _all_vectors(self, description: Description, always: bool, original: bool) -> tuple[list[np.ndarray], int]:
        """The vectors of each segment, and how many numbers each has; what is not asked for is checked too."""
        dimension, learnt = description.dimension, description.learnt
        vectors = [
            self._array("vectors", segment.number, segment.vectors, (segment.rows, dimension), always)
            for segment in description.segments
        ]
        if learnt is None:
            return vectors, dimension
        projected = [
            self._array("learnt", segment.number, str(segment.learnt), (segment.rows, learnt.dimension), always)
            for segment in description.segments
        ]
        return (vectors, dimension) if original else (projected, learnt.dimension)

    def _projection_of(self, description: Description, always: bool = False) -> Projection | None:
        if (learnt := description.learnt) is None:
            return None
        shape = learnt.dimension, description.dimension + 1
        return Projection.from_array(self._array("projection", learnt.number, learnt.projection, shape, always))

    def _array(self, kind: str, number: int, wanted: str, shape: tuple[int, int], always: bool) -> np.ndarray:
        """A file of plain float32 numbers, mapped into memory, if its checksum is the wanted one."""
        file = self._file(kind, number)
        check(file, wanted, always=always)
        try:
            array = np.lib.format.open_memmap(file, mode="r")  # takes arrays alone: no archives and no pickles
        except (ValueError, EOFError) as error:
            raise ValueError(f"{file} holds no plain numbers and is not opened: {error}") from error
        if array.shape != shape or array.dtype != np.float32 or not array.flags.c_contiguous:
            raise ValueError(f"{file} should hold float32 {shape}, not {array.dtype} {array.shape}.")
        return array

    def _photos(self, segment: Segment, always: bool) -> pa.Table:
        file = self._file("photos", segment.number)
        check(file, segment.photos, always=always)
        try:
            with pq.ParquetFile(file) as stored:  # not read_table, which loads pandas first
                table = _as_schema(stored)
        except FileNotFoundError:
            raise  # swept away since it was checked: there is a new description
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{file} is no table of photos: {error}") from error
        if table.num_rows != segment.rows or any(
            table.column(name).null_count for name in ("id", "path", "bytes", "modified")
        ):
            raise ValueError(f"{file} should hold {segment.rows} photos, not {table.num_rows}: it is damaged.")
        outside = pc.call_function("match_substring_regex", [table["path"]], pc.MatchSubstringOptions(OUTSIDE))
        if pc.call_function("any", [outside]).as_py():
            raise ValueError(f"{file} names a file outside of the photo folder: the album is not to be trusted.")
        return table

    def append(
        self,
        description: Description,
        records: Sequence[Mapping[str, Any]],
        vectors: np.ndarray,
        thumbnails: Sequence[bytes | None],
    ) -> Description:
        """Write records with ids, their model's vectors (n, d) and thumbnails as a new segment, and count it in."""
        number = description.next_segment
        pack = io.BytesIO()
        placed: list[dict[str, Any]] = []
        for record, picture in zip(records, thumbnails, strict=True):
            placed.append(dict(record))
            if picture is not None:
                placed[-1] |= {
                    "pack": number,
                    "offset": pack.tell(),
                    "length": len(picture),
                    "crc": zlib.crc32(picture),
                }
                pack.write(picture)
        if pack.tell():
            write_atomically(self._file("thumbnails", number), pack.getvalue())
        segment = self._write(number, table_of(placed), [vectors], description)
        next_id = max(description.next_id, 1 + max((record["id"] for record in records), default=-1))
        segments = (*description.segments, segment)  # whose rows replace earlier ones of the same ids
        description = replace(description, segments=segments, next_id=next_id, next_segment=number + 1)
        write_description(self.folder, description)
        return description

    def rewrite(self, description: Description, table: pa.Table, vectors: np.ndarray, keep: np.ndarray) -> None:
        """Bring the kept rows of the photos' table and of their model's vectors (n, d) into one segment."""
        table = table.take(pa.array(keep))
        parts = _Parts(vectors, keep)
        segment = self._write(description.next_segment, table, parts, description)
        description = replace(description, segments=(segment,), next_segment=segment.number + 1)
        write_description(self.folder, description)
        self.sweep(description, table)

    def calibrate(self, calibration: dict[str, Any]) -> None:
        """Keep what scores mean."""
        with self.writing():
            write_description(self.folder, replace(read_description(self.folder), calibration=calibration))

    def learn(self, projection: Projection, learnt: Learnt, calibration: dict[str, Any] | None) -> None:
        """Project all vectors of the model, old and new ones alike, and search in what results from now on."""
        with self.writing():
            description, photos, vectors = self.load(original=True)
            self.sweep(description, photos.table)
            number = description.next_segment
            file = write_atomically(self._file("projection", number), partial(_save, projection.to_array()))
            before = description.calibration if description.learnt is None else description.learnt.calibration
            learnt = replace(learnt, number=number, projection=checksum(file), calibration=before)
            description = replace(description, learnt=learnt, calibration=calibration)
            self.rewrite(description, photos.table, vectors, np.arange(len(photos)))

    def unlearn(self) -> None:
        """Search in the vectors of the model again, as if the album had never learnt."""
        with self.writing():
            description, photos, _ = self.load()
            if description.learnt is None:
                raise ValueError(f"{self.folder} has learnt nothing that could be undone: it has its model's vectors.")
            segments = tuple(replace(segment, learnt=None) for segment in description.segments)
            calibration = description.learnt.calibration
            description = replace(description, segments=segments, calibration=calibration, learnt=None)
            write_description(self.folder, description)
            self.sweep(description, photos.table)

    def _write(self, number: int, table: pa.Table, parts: Iterable[np.ndarray], description: Description) -> Segment:
        def write_vectors(path: Path, *, parts: Iterable[np.ndarray], dimension: int) -> None:
            shape = (table.num_rows, dimension)
            with path.open("wb") as stream:
                header = {"descr": "<f4", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(stream, header)
                for part in parts:
                    stream.write(np.ascontiguousarray(part, "<f4").data)

        def write_photos(path: Path) -> None:
            pq.write_table(table.cast(SCHEMA), path, compression="zstd")

        write = partial(write_vectors, parts=parts, dimension=description.dimension)
        vectors = write_atomically(self._file("vectors", number), write)
        photos = write_atomically(self._file("photos", number), write_photos)
        learnt = None
        if (projection := self._projection_of(description)) is not None:
            write = partial(write_vectors, parts=map(projection, parts), dimension=projection.dimension)
            learnt = checksum(write_atomically(self._file("learnt", number), write))
        return Segment(number, table.num_rows, checksum(vectors), checksum(photos), learnt)

    def sweep(self, description: Description, table: pa.Table) -> None:
        """Remove files of ours that the album no longer needs: those of an interrupted run, and replaced ones."""
        kept = {self._file(kind, segment.number) for kind in _SEGMENT_KINDS for segment in description.segments}
        if description.learnt is not None:
            kept.add(self._file("projection", description.learnt.number))
        else:
            kept -= {self._file("learnt", segment.number) for segment in description.segments}
        kept |= {self._file("thumbnails", pack) for pack in pc.call_function("unique", [table["pack"]]).to_pylist()}
        for pattern in (*(f"{kind}-*.{suffix}" for kind, suffix in _SUFFIXES.items()), ".*.partial"):
            for file in set(self.folder.glob(pattern)) - kept:
                file.unlink(missing_ok=True)

    def verify(self) -> None:
        """Check every file to the last byte; what is damaged is named in an error."""
        _, photos, _ = self.load(always=True)
        for row in range(len(photos)):
            record = photos.record(row)
            if record["pack"] >= 0 and self.thumbnail(record) is None:
                raise ValueError(f"The thumbnail of {photos[row].path!r} is damaged: copy the album again.")

    def thumbnail(self, record: Mapping[str, Any]) -> bytes | None:
        """The stored thumbnail of a record, or None where there is none or it is damaged."""
        if record["pack"] < 0:
            return None
        try:
            with self._file("thumbnails", record["pack"]).open("rb") as pack:
                pack.seek(record["offset"])
                picture = pack.read(min(record["length"], _LARGEST_THUMBNAIL))
        except OSError:
            return None
        return picture if zlib.crc32(picture) == record["crc"] else None


@dataclass(frozen=True, eq=False)
class _Parts:
    """Some rows of an array, a few at a time, for whoever goes through them more than once."""

    array: np.ndarray
    rows: np.ndarray

    def __iter__(self) -> Iterator[np.ndarray]:
        for start in range(0, len(self.rows), _COPIED):
            yield self.array[self.rows[start : start + _COPIED]]


def _save(array: np.ndarray, path: Path) -> None:
    with path.open("wb") as stream:  # np.save gives a name without .npy another one
        np.save(stream, array, allow_pickle=False)


def _as_schema(stored: pq.ParquetFile) -> pa.Table:
    """The table of a file, with columns of nulls where an older version wrote it; an empty one where it is not ours."""
    if stored.schema_arrow.equals(SCHEMA):
        return stored.read()
    if not stored.schema_arrow.equals(OLDER_SCHEMA):
        return SCHEMA.empty_table()
    table = stored.read()
    for name in SCHEMA.names[len(OLDER_SCHEMA) :]:
        field = SCHEMA.field(name)
        table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table


def relative(path: Path, folder: Path) -> str:
    """A path as seen from a folder: an album carries no address of the machine it was made on."""
    return os.path.relpath(path.resolve(), folder.resolve())


def _together(tables: list[pa.Table], vectors: list[np.ndarray], dimension: int) -> tuple[Photos, np.ndarray]:
    """Segments as one, in the order of ids; the last row of an id counts."""
    if not tables:
        return Photos(SCHEMA.empty_table()), np.zeros((0, dimension), np.float32)
    table = pa.concat_tables(tables)
    ids = whole_numbers(table["id"])
    if len(tables) == 1 and (np.diff(ids) > 0).all():
        return Photos(table), vectors[0]
    _, last = np.unique(ids[::-1], return_index=True)
    rows = len(ids) - 1 - last
    return Photos(table.take(pa.array(rows))), np.concatenate(vectors)[rows]
