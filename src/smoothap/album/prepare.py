"""From files to what the album keeps of them: hash, size, vector, thumbnail; read several at once."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from PIL import Image, ImageOps

from smoothap._core.progress import Progress
from smoothap.album.photos import new_record, seconds_of, spelled
from smoothap.album.walk import PhotoFile, Refusal, reason_of
from smoothap.data.reading import ImageHead, UnreadableImage, image_head, read_image

if TYPE_CHECKING:
    from torch import Tensor

    from smoothap.data.transforms import Transform
    from smoothap.models import Embedder

BATCH = 64
_FIRST_BATCH = 8  # photos; each batch is twice the one before, so that the first are there soon
Read = Callable[[PhotoFile], bytes]  # the content of a photo's file, wherever it lies
Wanted = tuple[PhotoFile, "bytes | None"]  # a file, and the hash of what the album has at its path
Waiting = tuple["Embedded", list[list[Any]]]  # photos without vectors, and what describers took of each
Item = TypeVar("Item")
Result = TypeVar("Result")
THUMBNAIL = 256  # the longer side
_AHEAD = 128  # photos that are read ahead
FILE_LIMIT = 1 << 29  # bytes of an image file
_LARGE_PIXELS = 20_000_000  # 48 megapixels of HEIC take 350 MB while they are decoded
_large_photos = threading.Semaphore(4)


class Describer(Protocol):
    """What an album keeps of a photo beside its vector, such as its faces: found while a photo is read, or later."""

    title: str  # of the progress, where it is found later
    enough_pixels: int  # on the shorter side of the pictures that it looks at
    takes_maps: bool  # whether it can use the maps of the pass that gives the vectors of whole photos

    def look(self, picture: Image.Image, size: tuple[int, int], sha256: bytes) -> Any:
        """What it takes of an upright picture, of a photo of that size and content; on one of several threads."""
        ...

    def described(self, seen: Sequence[Any], maps: Tensor | None = None) -> Sequence[Any]:
        """What is kept of each photo, of what was taken of several: they go through a network together.

        `maps` are the last ones of the album's network for the same photos, where they are known.
        """
        ...

    def lacking(self, contents: Mapping[int, bytes]) -> set[int]:
        """The ids of those photos of which nothing is kept, or something of another content."""
        ...

    def put(self, found: Mapping[int, tuple[bytes, Any]]) -> int:
        """Keep what is found of photos, by their ids, each with its content; how many faces that are."""
        ...


@dataclass(frozen=True, eq=False)
class PreparedPhoto:
    """A photo on its way into the album; all but its hash is None where its content is known already."""

    file: PhotoFile
    sha256: bytes
    head: ImageHead | None
    view: Tensor | None
    thumbnail: bytes | None
    seen: list[Any] = field(default_factory=list)  # what each describer takes of it


def prepare(
    read: Read, file: PhotoFile, known: bytes | None, transform: Transform, describers: Sequence[Describer] = ()
) -> PreparedPhoto | tuple[PhotoFile, Refusal]:
    """Read one file; where its hash is the `known` one nothing is decoded. Or why it cannot be read."""
    try:
        content = read(file)
        digest = hashlib.sha256(content).digest()
        if digest == known:
            return PreparedPhoto(file, digest, None, None, None)
        enough, head = max(transform.enough_pixels(train=False), THUMBNAIL), image_head(content)
        with _room_for(head, content):
            picture = read_image(content, shorter_side=max(enough, *(one.enough_pixels for one in describers), 0))
        seen = [one.look(picture, (head.width, head.height), digest) for one in describers]
        if seen and (factor := min(picture.size) // enough) > 1:  # as small as it is decoded without them
            picture = picture.reduce(factor)
        return PreparedPhoto(file, digest, head, transform.test(picture), thumbnail_of(picture), seen)
    except Exception as error:  # one bad file is one line of the report, whatever is bad about it
        if isinstance(error, UnreadableImage):
            reason, may_pass = error.reason, isinstance(error.__cause__, (MemoryError, ImportError))
        else:
            reason, may_pass = reason_of(error), isinstance(error, (OSError, MemoryError))
        # A reason that may pass is one of the machine, not of the file.
        return file, Refusal(reason) if may_pass else Refusal(reason, file.bytes, file.modified)


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


def in_order(work: Callable[[Item], Result], items: Iterable[Item], workers: int | None = None) -> Iterator[Result]:
    """What work makes of each item, in their order; a bounded number is done ahead, so memory is bounded too.

    `workers` threads do it, by default one for each core: decoding holds no lock of the interpreter.
    """
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(workers or os.cpu_count() or 1, thread_name_prefix="reader") as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > _AHEAD:
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

    `refusals` are files that are not read, `same` those whose content the album has. `described` is what each describer
    found of each photo; of a photo that was not looked at, nothing.
    """

    records: list[dict[str, Any]] = field(default_factory=list)
    vectors: list[np.ndarray] = field(default_factory=list)
    thumbnails: list[bytes | None] = field(default_factory=list)
    refusals: dict[str, Refusal] = field(default_factory=dict)
    same: list[PhotoFile] = field(default_factory=list)
    described: list[list[Any]] = field(default_factory=list)


def embed_files(
    model: Embedder,
    read: Read,
    wanted: Sequence[Wanted],
    workers: int | None,
    line: Progress,
    describers: Sequence[Describer] = (),
) -> Iterator[Embedded]:
    """Embed files in their order, up to `BATCH` at once; each comes with the hash of the content that the album has."""

    def batches() -> Iterator[tuple[Tensor, Waiting]]:
        import torch

        batch, views, seen = Embedded(), list[torch.Tensor](), list[list[Any]]()
        size = min(_FIRST_BATCH, BATCH)
        for number, outcome in enumerate(outcomes, start=1):
            line.advance()
            if not isinstance(outcome, PreparedPhoto):
                file, refusal = outcome
                batch.refusals[file.path] = refusal
            elif outcome.view is None:
                batch.same.append(outcome.file)
            else:
                batch.records.append(_record(outcome))
                batch.thumbnails.append(outcome.thumbnail)
                views.append(outcome.view)
                seen.append(outcome.seen)
            if len(views) == size or (number == len(wanted) and views):
                yield torch.stack(views), (batch, seen)
                batch, views, seen = Embedded(), [], []
                size = min(2 * size, BATCH)
        if batch.refusals or batch.same:
            left.append(batch)

    left: list[Embedded] = []
    outcomes = in_order(lambda one: prepare(read, *one, model.transform, describers), wanted, workers)
    if any(one.takes_maps for one in describers):
        from smoothap.models.regions import embed_with_maps

        embedded: Iterable[tuple[np.ndarray, Tensor | None, Waiting]] = embed_with_maps(model, batches())
    else:
        embedded = ((vectors, None, rest) for vectors, rest in model.embed_batches(batches()))
    for vectors, maps, (batch, seen) in embedded:
        batch.vectors = list(vectors)
        found = [one.described([parts[place] for parts in seen], maps) for place, one in enumerate(describers)]
        batch.described = [[parts[row] for parts in found] for row in range(len(vectors))]
        _refuse_without_vector(batch)
        yield batch
    yield from left


def look_again(
    read: Read, wanted: Sequence[tuple[PhotoFile, bytes]], describer: Describer, workers: int | None, line: Progress
) -> Iterator[tuple[PhotoFile, bytes, Any]]:
    """What is found of photos that an album has, by their files and the hashes of their contents.

    A file that is gone or has another content by now is left out.
    """

    def look(one: tuple[PhotoFile, bytes]) -> Any:
        file, sha256 = one
        try:
            content = read(file)
            if hashlib.sha256(content).digest() != sha256:
                return None
            head = image_head(content)
            with _room_for(head, content):
                picture = read_image(content, shorter_side=describer.enough_pixels)
            return describer.look(picture, (head.width, head.height), sha256)
        except (ValueError, OSError, MemoryError):
            return None

    outcomes = zip(wanted, in_order(look, wanted, workers), strict=True)
    while some := list(islice(outcomes, BATCH)):
        looked = [(one, seen) for one, seen in some if seen is not None]
        found = describer.described([seen for _, seen in looked]) if looked else ()
        for (one, _), described in zip(looked, found, strict=True):
            yield *one, described
        line.advance(len(some))


def _record(photo: PreparedPhoto) -> dict[str, Any]:
    assert photo.head is not None
    taken, camera = photo.head.taken, photo.head.camera
    return new_record(
        photo.file.path, bytes=photo.file.bytes, modified=photo.file.modified, sha256=photo.sha256,
        width=photo.head.width, height=photo.head.height, taken=None if taken is None else seconds_of(taken),
        camera=spelled(camera),
    )  # fmt: skip


def _refuse_without_vector(batch: Embedded) -> None:
    """Take out photos for which the model gives nothing that could be compared."""
    for place in reversed(range(len(batch.vectors))):
        vector, record = batch.vectors[place], batch.records[place]
        if not np.isfinite(vector).all() or abs(float(vector @ vector) - 1) > 1e-3:
            refusal = Refusal("the model gives no vector for it", record["bytes"], record["modified"])
            batch.refusals[os.fsdecode(record["path"])] = refusal
            for some in (batch.records, batch.vectors, batch.thumbnails, batch.described):
                del some[place]
