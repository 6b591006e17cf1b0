"""Faces for photos that an album has already: those that were taken in before people were asked for, or elsewhere."""

from __future__ import annotations

import hashlib
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from smoothap._core.memory import freed_memory_kept
from smoothap._core.progress import Progress
from smoothap.album.face_marks import FaceMarks
from smoothap.album.faces import FaceRecord, FaceStore
from smoothap.album.prepare import BATCH, Read, face_records
from smoothap.album.store import Store
from smoothap.album.walk import PhotoFile
from smoothap.data.reading import read_image
from smoothap.models.faces.detection import missing

if TYPE_CHECKING:
    from smoothap.models.faces.people import FoundFaces, PeopleFinder

_COMMIT_SECONDS = 20.0
_AHEAD = 128  # photos
Seen = TypeVar("Seen")


def find_missing(
    store: Store,
    faces: FaceStore,
    people: PeopleFinder,
    read: Read,
    files: Iterable[PhotoFile],
    *,
    progress: bool = True,
) -> int:
    """Find the faces of all photos in these files that were not looked at yet; how many there are.

    A photo whose file is gone or changed since it was taken in is left for the next time.
    """
    seen, places = faces.seen(), {os.fsencode(file.path): file for file in files}
    drawn = FaceMarks(faces).drawn()

    def is_done(record: Mapping[str, Any]) -> bool:
        boxes = drawn.get(record["sha256"], ())
        return seen.get(record["id"]) == record["sha256"] and not (boxes and missing(boxes, faces.boxes(record["id"])))

    wanted = [
        (record, places[record["path"]])
        for record in store.records()
        if record["path"] in places and not is_done(record)
    ]
    if not wanted:
        return 0

    def look(content: bytes, record: Mapping[str, Any]) -> FoundFaces:
        picture = read_image(content, shorter_side=people.enough_pixels)
        boxes = drawn.get(record["sha256"], ())
        return people.find(picture, size=(record["width"], record["height"]), drawn=boxes)

    number, pending, since = 0, dict[int, tuple[bytes, list[FaceRecord]]](), time.monotonic()
    with freed_memory_kept(), Progress("Finding people", len(wanted), "photos", shown=progress) as line:
        for batch in read_again(read, wanted, look):
            records = face_records(people, [found for _, found in batch if found is not None])
            for record, found in batch:
                if found is not None:
                    pending[record["id"]] = record["sha256"], next(records)
            line.advance(len(batch))
            if time.monotonic() - since > _COMMIT_SECONDS:
                number += _commit(faces, pending)
                since = time.monotonic()
    return number + _commit(faces, pending)


def _commit(faces: FaceStore, pending: dict[int, tuple[bytes, list[FaceRecord]]]) -> int:
    number = sum(len(found) for _, found in pending.values())
    if pending:
        faces.put(pending)
    pending.clear()
    return number


def read_again(
    read: Read, wanted: Sequence[tuple[Mapping[str, Any], PhotoFile]], look: Callable[[bytes, Mapping[str, Any]], Seen]
) -> Iterator[list[tuple[Mapping[str, Any], Seen | None]]]:
    """Photos of an album with what `look` sees in their files, None if they are not as they were; some at a time."""

    def seen(file: PhotoFile, record: Mapping[str, Any]) -> Seen | None:
        try:
            content = read(file)
            return look(content, record) if hashlib.sha256(content).digest() == record["sha256"] else None
        except (ValueError, OSError, MemoryError):
            return None

    waiting: deque[tuple[Mapping[str, Any], Future[Seen | None]]] = deque()
    batch: list[tuple[Mapping[str, Any], Seen | None]] = []
    with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="reader") as pool:
        try:
            for place, (record, file) in enumerate(wanted, start=1):
                waiting.append((record, pool.submit(seen, file, record)))
                while len(waiting) > (_AHEAD if place < len(wanted) else 0):
                    one, future = waiting.popleft()
                    batch.append((one, future.result()))
                    if len(batch) == BATCH:
                        yield batch
                        batch = []
            if batch:
                yield batch
        finally:
            for _, future in waiting:
                future.cancel()
