"""An album on disk: files that are written once and never changed, and one description that says which of them count.

    album.json                 the description (see description.py), replaced atomically
    parts/000064/000003.json   of part 3 of 64, which rows it has (see _seals.py)
    vectors-000001.npy         (rows, d) float32 or float16, each row of length 1
    photos-000001.parquet      the photos of those rows
    thumbnails-000001.pack     their thumbnails, one JPEG after the other
    projection-000002.npy      (k, d + 1) float32, what the album learnt from its collections, if it did
    learnt-000002.npy          (rows, k), the projected vectors, which are searched instead of the others
    collections/               what users keep (see _collection_file.py), with a lock of its own

A crash between any two writes leaves the old description with all its files; what no description names is swept away
by the next writer. After a run small segments are brought together; large ones, and those of other parts, stay as they
are. Vectors are mapped into memory, not read, however many segments there are.
"""

import io
import os
import zlib
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from smoothap._core.files import DiskFullError, is_full, link, locked, write_atomically
from smoothap.album._checksums import check, checksum
from smoothap.album._collection_file import KeptFolder
from smoothap.album._mapped_table import MANY, keep_mapped, read_mapped
from smoothap.album._settling import settle
from smoothap.album._tables import read_table, together_by_id, write_table
from smoothap.album.description import (
    COLLECTIONS,
    NAME,
    Description,
    Learnt,
    Part,
    Segment,
    read_description,
    read_head,
    refuse_inside_album,
    write_description,
)
from smoothap.album.photos import Photos, table_of
from smoothap.album.projection import Projection
from smoothap.album.vectors import DTYPES, FLOAT32, MappedVectors, Vectors

_SUFFIXES = {  # by the kind of file
    "vectors": "npy", "photos": "parquet", "thumbnails": "pack", "projection": "npy", "learnt": "npy",
}  # fmt: skip
_SEGMENT_KINDS = "vectors", "photos", "learnt"
PATIENCE = 600.0  # seconds that a finished part waits for others that are being counted in
_MANY_FILES = 1 << 60  # bytes, for `check`: files of a large album are not summed again, however small each is
_LARGEST_THUMBNAIL = 1 << 22  # bytes: the length is in a file that a stranger may have made


class Storage:
    """The files of one album."""

    def __init__(self, folder: Path) -> None:
        self.folder = self.place = self.address = folder
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

    def reopened(self) -> "Storage":
        """The same folder, to be loaded again."""
        return Storage(self.folder)

    def kept(self) -> KeptFolder:
        """Where the collections of users are kept."""
        return KeptFolder(self.folder / COLLECTIONS)

    def file(self, kind: str, number: int) -> Path:
        """The vectors, photos or thumbnails of a segment."""
        return self.folder / f"{kind}-{number:06d}.{_SUFFIXES[kind]}"

    @contextmanager
    def writing(self, patience: float = 0.0) -> Generator[None]:
        """Alone with the album: a second writer gets an error, and so does one without room on the disk.

        `patience` is how many seconds this waits for another writer.
        """
        refusal = f"Another process is writing to {self.folder}: wait until it is done."
        try:
            with locked(self.folder, refusal, patience):
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
        """Alone with a folder that holds no album yet, and is in none."""
        refuse_inside_album(self.folder)
        with self.writing():
            if (self.folder / NAME).exists():
                raise ValueError(f"There is an album in {self.folder} already: open it, or choose another folder.")
            yield

    def load(
        self, *, always: bool = False, original: bool = False, only: Part | None = None
    ) -> tuple[Description, Photos, Vectors]:
        """The album as its description says, every file checked; `always` also sums large files known to be whole.

        The vectors are those to search in: what the album made of its model's vectors, if it has learnt, or with
        `original` the model's own. With `only`, what is known to be of other parts than this one is left out.
        """
        self._loaded = self._stamp()  # taken first: what is written while this reads is newer
        description = read_description(self.folder, only)
        while True:
            try:
                table, places = self._all_photos(description.segments, always)
                vectors, dimension = self._all_vectors(description, always, original)
                self.projection = self._projection_of(description, always)
                break
            except FileNotFoundError:  # a writer may have swept it away since: then there is a new description
                known, description = description, read_description(self.folder, only)
                if description == known:
                    raise
        photos = Photos(table)
        if len(photos) and int(photos.ids[-1]) >= description.next_id:
            raise ValueError(f"{self.folder / NAME} counts {description.next_id} photos, and there are more: damaged.")
        alone = len(vectors) == 1 and places is None and vectors[0].dtype == np.float32
        return description, photos, vectors[0] if alone else MappedVectors(vectors, dimension, places)

    def _all_photos(self, segments: Sequence[Segment], always: bool) -> tuple[pa.Table, np.ndarray | None]:
        """The photos of all segments in the order of ids, and where each stands, (n,); None: in that order."""
        many = sum(segment.rows for segment in segments) >= MANY
        if many and not always:
            for segment in segments:
                check(self.file("photos", segment.number), segment.photos, size=_MANY_FILES)
            if (kept := read_mapped(segments)) is not None:
                return kept
        together = together_by_id([self._photos(segment, always) for segment in segments])
        if many and not always:
            keep_mapped(segments, *together)
            return read_mapped(segments) or together
        return together

    def _all_vectors(self, description: Description, always: bool, original: bool) -> tuple[list[np.ndarray], int]:
        """The vectors of each segment, and how many numbers each has; what is not asked for is checked too."""
        vectors = self.arrays("vectors", description, always)
        if description.learnt is None:
            return vectors, description.dimension
        projected = self.arrays("learnt", description, always)
        return (vectors, description.dimension) if original else (projected, description.learnt.dimension)

    def arrays(self, kind: str, description: Description, always: bool) -> list[np.ndarray]:
        learnt, dtype = description.learnt, description.dtype
        dimension = learnt.dimension if kind == "learnt" and learnt is not None else description.dimension
        size = sum(segment.rows for segment in description.segments) * dimension * np.dtype(dtype).itemsize
        return [
            self._array(
                kind, segment.number, str(getattr(segment, kind)), (segment.rows, dimension), always, dtype, size
            )
            for segment in description.segments
        ]

    def _projection_of(self, description: Description, always: bool = False) -> Projection | None:
        if (learnt := description.learnt) is None:
            return None
        shape = learnt.dimension, description.dimension + 1
        return Projection.from_array(self._array("projection", learnt.number, learnt.projection, shape, always))

    def _array(
        self,
        kind: str,
        number: int,
        wanted: str,
        shape: tuple[int, int],
        always: bool,
        dtype: str = FLOAT32,
        size: int = 0,
    ) -> np.ndarray:
        """A file of plain numbers, mapped into memory, if its checksum is the wanted one; of `size` bytes in all."""
        file = self.file(kind, number)
        check(file, wanted, always=always, size=size)
        try:
            array = np.lib.format.open_memmap(file, mode="r")  # takes arrays alone: no archives and no pickles
        except (ValueError, EOFError) as error:
            raise ValueError(f"{file} holds no plain numbers and is not opened: {error}") from error
        if array.shape != shape or array.dtype != np.dtype(DTYPES[dtype]) or not array.flags.c_contiguous:
            raise ValueError(f"{file} should hold {dtype} {shape}, not {array.dtype} {array.shape}.")
        return array

    def _photos(self, segment: Segment, always: bool) -> pa.Table:
        file = self.file("photos", segment.number)
        check(file, segment.photos, always=always)
        return read_table(file, segment.rows)

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
            write_atomically(self.file("thumbnails", number), pack.getvalue())
        segment = self.write_segment(number, table_of(placed), [vectors], description)
        next_id = max(description.next_id, 1 + max((record["id"] for record in records), default=-1))
        segments = (*description.segments, segment)  # whose rows replace earlier ones of the same ids
        description = replace(description, segments=segments, next_id=next_id, next_segment=number + 1)
        write_description(self.folder, description)
        return description

    def remember_places(self, root: Path | None, source: str) -> None:
        """Write down where photos and model lie now, if that has changed."""
        place = None if root is None else relative(root, self.folder)
        if (known := read_head(self.folder)) != replace(known, root=place, source=source):
            with self.writing(PATIENCE):
                write_description(self.folder, replace(read_head(self.folder), root=place, source=source))

    def calibrate(self, calibration: dict[str, Any]) -> None:
        """Keep what scores mean."""
        with self.writing():
            write_description(self.folder, replace(read_head(self.folder), calibration=calibration))

    def learn(self, projection: Projection, learnt: Learnt, calibration: dict[str, Any] | None) -> None:
        """Project all vectors of the model, old and new ones alike, and search in what results from now on."""
        with self.writing():
            description, photos, _ = self.load(original=True)
            self.sweep(description, photos.table)
            number = description.next_segment
            file = write_atomically(self.file("projection", number), partial(_save, projection.to_array()))
            before = description.calibration if description.learnt is None else description.learnt.calibration
            learnt = replace(learnt, number=number, projection=checksum(file), calibration=before)
            description = replace(description, learnt=learnt, calibration=calibration, next_segment=number + 1)
            settle(self, description, photos.table, renewed=True)

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

    def write_segment(
        self,
        number: int,
        table: pa.Table,
        parts: Iterable[np.ndarray],
        description: Description,
        files: Mapping[str, tuple[Path, str]] = MappingProxyType({}),
    ) -> Segment:
        """Write photos and their model's vectors, in parts, as a segment.

        `files` holds just these vectors already, by their kind and with their checksums: they get a second name.
        """

        def write_vectors(path: Path, *, parts: Iterable[np.ndarray], dimension: int) -> None:
            shape, form = (table.num_rows, dimension), DTYPES[description.dtype]
            with path.open("wb") as stream:
                header = {"descr": form, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(stream, header)
                for part in parts:
                    stream.write(np.ascontiguousarray(part, form).data)

        sums = {"photos": checksum(write_atomically(self.file("photos", number), partial(write_table, table)))}
        for kind, (file, known) in files.items():
            link(file, self.file(kind, number))
            sums[kind] = known
        if "vectors" not in sums:
            write = partial(write_vectors, parts=parts, dimension=description.dimension)
            sums["vectors"] = checksum(write_atomically(self.file("vectors", number), write))
        if "learnt" not in sums and (projection := self._projection_of(description)) is not None:
            # What is projected is what the album keeps, so that it does not matter when it is.
            kept = (np.asarray(part, DTYPES[description.dtype]).astype(np.float32) for part in parts)
            write = partial(write_vectors, parts=map(projection, kept), dimension=projection.dimension)
            sums["learnt"] = checksum(write_atomically(self.file("learnt", number), write))
        return Segment(number, table.num_rows, **sums)

    def tables(self, description: Description) -> list[pa.Table]:
        """What each segment says of its photos."""
        return [self._photos(segment, always=False) for segment in description.segments]

    def sweep(self, description: Description, table: pa.Table, among: Iterable[Path] | None = None) -> None:
        """Remove files of ours that the album no longer needs: those of an interrupted run, and replaced ones.

        `among` some files only, where the description does not speak of all.
        """
        patterns = (*(f"{kind}-*.{suffix}" for kind, suffix in _SUFFIXES.items()), ".*.partial")
        there = {file for pattern in patterns for file in self.folder.glob(pattern)} if among is None else set(among)
        for file in there - self.files(description, table):
            file.unlink(missing_ok=True)

    def files(self, description: Description, table: pa.Table) -> set[Path]:
        """All files that segments consist of, and the photos of this table."""
        kinds = [kind for kind in _SEGMENT_KINDS if kind != "learnt" or description.learnt is not None]
        needed = {self.file(kind, segment.number) for kind in kinds for segment in description.segments}
        if description.learnt is not None:
            needed.add(self.file("projection", description.learnt.number))
        packs = pc.call_function("unique", [table["pack"]]).to_pylist()
        return needed | {self.file("thumbnails", pack) for pack in packs}

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
            with self.file("thumbnails", record["pack"]).open("rb") as pack:
                pack.seek(record["offset"])
                picture = pack.read(min(record["length"], _LARGEST_THUMBNAIL))
        except OSError:
            return None
        return picture if zlib.crc32(picture) == record["crc"] else None


def _save(array: np.ndarray, path: Path) -> None:
    with path.open("wb") as stream:  # np.save gives a name without .npy another one
        np.save(stream, array, allow_pickle=False)


def relative(path: Path, folder: Path) -> str:
    """A path as seen from a folder: an album carries no address of the machine it was made on."""
    return os.path.relpath(path.resolve(), folder.resolve())
