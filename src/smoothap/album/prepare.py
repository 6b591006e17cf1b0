"""From files to what the album keeps of them: hash, size, vector, thumbnail; read several at once."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageOps

from smoothap._core.progress import Progress
from smoothap.album.faces import FaceRecord
from smoothap.album.photos import new_record, seconds_of, spelled
from smoothap.album.refusals import Refusal
from smoothap.album.walk import PhotoFile, reason_of
from smoothap.data.reading import ImageHead, UnreadableImage, image_head, read_image

if TYPE_CHECKING:
    from torch import Tensor

    from smoothap.album.region_codes import RegionCoder
    from smoothap.data.transforms import Transform
    from smoothap.models import Embedder
    from smoothap.models.faces.people import FoundFaces, PeopleFinder
    from smoothap.models.regions import View

BATCH = 64
Read = Callable[[PhotoFile], bytes]  # the content of a photo's file, wherever it lies
THUMBNAIL = 256  # the longer side
FILE_LIMIT = 1 << 29  # bytes of an image file
_LARGE_PIXELS = 20_000_000  # 48 megapixels of HEIC take 350 MB while they are decoded
_large_photos = threading.Semaphore(4)


@dataclass(frozen=True, eq=False)
class PreparedPhoto:
    """A photo on its way into the album; all but its hash is None where its content is known already."""

    file: PhotoFile
    sha256: bytes
    head: ImageHead | None
    view: Tensor | None
    thumbnail: bytes | None
    found: FoundFaces | None = None  # where people are looked for
    region_view: View | None = None  # where parts of photos are described


@dataclass(frozen=True)
class RefusedPhoto:
    """A photo that cannot be read, and why; a reason that may pass is one of the machine, not of the file."""

    file: PhotoFile
    reason: str
    may_pass: bool


def prepare(
    read: Read,
    file: PhotoFile,
    known: bytes | None,
    transform: Transform,
    people: PeopleFinder | None = None,
    regions: RegionCoder | None = None,
) -> PreparedPhoto | RefusedPhoto:
    """Read one file; where its hash is the `known` one nothing is decoded.

    With `people`, find the faces in it; with `regions`, cut the view in which its parts are described.
    """
    try:
        content = read(file)
        digest = hashlib.sha256(content).digest()
        if digest == known:
            return PreparedPhoto(file, digest, None, None, None)
        enough, head = max(transform.enough_pixels(train=False), THUMBNAIL), image_head(content)
        with _room_for(head, content):
            others = [other.enough_pixels for other in (people, regions) if other is not None]
            picture = read_image(content, shorter_side=max(enough, *others, 0))
        size = head.width, head.height
        found = None if people is None else people.find(picture, size=size)
        view = None if regions is None else regions.view(picture, size)
        if others and (factor := min(picture.size) // enough) > 1:  # as small as it is decoded without them
            picture = picture.reduce(factor)
        return PreparedPhoto(file, digest, head, transform.test(picture), thumbnail_of(picture), found, view)
    except UnreadableImage as error:
        return RefusedPhoto(file, error.reason, may_pass=isinstance(error.__cause__, (MemoryError, ImportError)))
    except Exception as error:  # one bad file is one line of the report, whatever is bad about it
        return RefusedPhoto(file, reason_of(error), may_pass=isinstance(error, (OSError, MemoryError)))


def _room_for(head: ImageHead, content: bytes) -> AbstractContextManager[object]:
    """A place among the few photos of many pixels that are decoded at once; a JPEG, made smaller, needs none."""
    is_jpeg = content[:2] == b"\xff\xd8"
    return nullcontext() if is_jpeg or head.width * head.height <= _LARGE_PIXELS else _large_photos


def thumbnail_of(picture: Image.Image) -> bytes:
    """The picture as a small JPEG."""
    if max(picture.size) > THUMBNAIL:
        picture = ImageOps.contain(picture, (THUMBNAIL, THUMBNAIL), Image.Resampling.BILINEAR)
    return plain_jpeg(picture, quality=80)


def plain_jpeg(picture: Image.Image, quality: int) -> bytes:
    """The pixels as a JPEG: a copy that has no EXIF, no place, no comment and no profile."""
    clean = Image.frombytes("RGB", picture.size, picture.convert("RGB").tobytes())
    stream = io.BytesIO()
    clean.save(stream, "JPEG", quality=quality)
    return stream.getvalue()


def prepared_in_order(
    read: Read,
    wanted: Iterable[tuple[PhotoFile, bytes | None]],
    transform: Transform,
    workers: int | None = None,
    people: PeopleFinder | None = None,
    regions: RegionCoder | None = None,
) -> Iterator[PreparedPhoto | RefusedPhoto]:
    """Each file's outcome in the order given; a bounded number is read ahead, so memory is bounded too.

    `workers` threads read them, by default one for each core: decoding holds no lock of the interpreter.
    """
    waiting: deque[Future[PreparedPhoto | RefusedPhoto]] = deque()
    with ThreadPoolExecutor(workers or os.cpu_count() or 1, thread_name_prefix="reader") as pool:
        try:
            for file, known in wanted:
                waiting.append(pool.submit(prepare, read, file, known, transform, people, regions))
                if len(waiting) > 128:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def files_below(root: Path) -> Read:
    """What reads the photos of a folder."""
    return lambda file: _content(root / file.path)


def _content(file: Path) -> bytes:
    descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableImage(str(file), "not a regular file")
        if status.st_size > FILE_LIMIT:
            raise UnreadableImage(str(file), f"{status.st_size:,} bytes, more than the limit of {FILE_LIMIT:,}")
        return stream.read(FILE_LIMIT)


@dataclass
class Embedded:
    """Some photos on their way into an album, each with what is known of it, a vector and a thumbnail.

    `refusals` are files that are not read, `same` those whose content the album has. `faces` are those of each photo,
    None where they were not looked for, and `regions` the codes of its parts, likewise.
    """

    records: list[dict[str, Any]] = field(default_factory=list)
    vectors: list[np.ndarray] = field(default_factory=list)
    thumbnails: list[bytes | None] = field(default_factory=list)
    refusals: dict[str, Refusal] = field(default_factory=dict)
    same: list[PhotoFile] = field(default_factory=list)
    faces: list[list[FaceRecord] | None] = field(default_factory=list)
    regions: list[np.ndarray | None] = field(default_factory=list)


def embed_files(
    model: Embedder,
    read: Read,
    wanted: Sequence[tuple[PhotoFile, bytes | None]],
    workers: int | None,
    line: Progress,
    people: PeopleFinder | None = None,
    regions: RegionCoder | None = None,
) -> Iterator[Embedded]:
    """Embed files, `BATCH` at a time, in their order; each comes with the hash of the content that the album has.

    With `people`, the faces of a batch go through their own network together; with `regions`, so do their parts.
    """

    def batches() -> Iterator[tuple[Tensor, tuple[Embedded, list[FoundFaces], list[View]]]]:
        import torch

        batch = Embedded()
        views: list[Tensor] = []
        found: list[FoundFaces] = []
        wholes: list[View] = []  # in their own shape, for their parts
        for number, outcome in enumerate(outcomes, start=1):
            line.advance()
            if isinstance(outcome, RefusedPhoto):
                when = () if outcome.may_pass else (outcome.file.bytes, outcome.file.modified)
                batch.refusals[outcome.file.path] = Refusal(outcome.reason, *when)
            elif outcome.view is None:
                batch.same.append(outcome.file)
            else:
                batch.records.append(_record(outcome))
                batch.thumbnails.append(outcome.thumbnail)
                views.append(outcome.view)
                if outcome.found is not None:
                    found.append(outcome.found)
                if outcome.region_view is not None:
                    wholes.append(outcome.region_view)
            if len(views) == BATCH or (number == len(wanted) and views):
                yield torch.stack(views), (batch, found, wholes)
                batch, views = Embedded(), []
                found = []
                wholes = []
        if batch.refusals or batch.same:
            left.append(batch)

    left: list[Embedded] = []
    outcomes = prepared_in_order(read, wanted, model.transform, workers, people, regions)
    for vectors, (batch, found, wholes) in model.embed_batches(batches()):
        batch.vectors = list(vectors)
        batch.faces = [None] * len(vectors) if people is None else [*face_records(people, found)]
        batch.regions = [None] * len(vectors) if regions is None else [*regions.codes(wholes)]
        _refuse_without_vector(batch)
        yield batch
    yield from left


def _record(photo: PreparedPhoto) -> dict[str, Any]:
    assert photo.head is not None
    taken, camera = photo.head.taken, photo.head.camera
    return new_record(
        photo.file.path, bytes=photo.file.bytes, modified=photo.file.modified, sha256=photo.sha256,
        width=photo.head.width, height=photo.head.height, taken=None if taken is None else seconds_of(taken),
        camera=spelled(camera),
    )  # fmt: skip


def face_records(people: PeopleFinder, found: Sequence[FoundFaces]) -> Iterator[list[FaceRecord]]:
    """The faces of photos with their vectors; those for which the network gives nothing are left out."""
    for one, vectors in zip(found, people.vectors(found), strict=True):
        rows = zip(one.boxes, one.faces, vectors, strict=True)
        yield [FaceRecord(box, face.score, vector) for box, face, vector in rows if vector.any()]


def _refuse_without_vector(batch: Embedded) -> None:
    """Take out photos for which the model gives nothing that could be compared."""
    for place in reversed(range(len(batch.vectors))):
        vector, record = batch.vectors[place], batch.records[place]
        if not np.isfinite(vector).all() or abs(float(vector @ vector) - 1) > 1e-3:
            refusal = Refusal("the model gives no vector for it", record["bytes"], record["modified"])
            batch.refusals[os.fsdecode(record["path"])] = refusal
            for some in (batch.records, batch.vectors, batch.thumbnails, batch.faces, batch.regions):
                del some[place]
