"""An album brought up to date by several processes: the missing photos in parts, one after another in each process."""

import json
import math
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from smoothap._core.progress import Progress
from smoothap.album._part_work import PHOTOS_A_PART, PartWork, remove_listings, write_listings
from smoothap.album.album import Album
from smoothap.album.parts import settle_album
from smoothap.album.updating import UpdateReport, refuse_missing
from smoothap.album.walking import Walk


def plan(
    album: Album,
    photos: str,
    walk: Walk,
    *,
    labels: str | None,
    columns: str | None,
    remove_missing: bool,
    device: str | None = None,
) -> PartWork:
    """Divide an update into parts: list what falls to each, and see that not too much is missing."""
    assert album.folder is not None
    paths = album.photos.paths()
    if not remove_missing:
        refuse_missing(walk.missing(paths), len(paths), album.folder, photos)
    album.remember_places()
    of = max(1, math.ceil(max(len(walk.files), len(paths)) / PHOTOS_A_PART))
    write_listings(album.folder, walk, of)
    # On another machine, or from another folder, a relative path would be another place.
    places = photos if "://" in photos else str(Path(photos).absolute()), str(album.folder.absolute())
    labels = labels if labels in (None, "folders") else str(Path(labels).absolute())
    return PartWork(*places, of, labels, columns, device)


def compute_in_processes(work: PartWork, workers: int, *, progress: bool) -> UpdateReport:
    """Compute all parts by that many processes; stopped at any moment, the next run does what is missing."""
    if workers < 1:
        raise ValueError(f"--processes is how many processes embed photos, at least 1, not {workers}.")
    threads = max(1, (os.cpu_count() or 1) // workers)
    total = UpdateReport()
    with Progress("Indexing", work.of, "parts", shown=progress) as line:
        for report in _computed(work, range(1, work.of + 1), workers, threads):
            line.advance()
            add_up(total, report)
    finish(work)
    return total


def finish(work: PartWork) -> None:
    """Bring together what all parts counted in."""
    remove_listings(Path(work.out))
    settle_album(Path(work.out))


def add_up(total: UpdateReport, report: UpdateReport) -> None:
    """Add what became of a part's files to that of the others."""
    for name, value in vars(report).items():
        if isinstance(value, dict):
            getattr(total, name).update(value)
        else:
            setattr(total, name, getattr(total, name) + value)
    for paths in (total.added, total.changed, total.removed, total.relabelled):
        paths.sort()


def _computed(work: PartWork, numbers: Iterable[int], workers: int, threads: int) -> Iterator[UpdateReport]:
    """The report of each part as it is done; the first error ends all."""
    waiting, answers = iter(numbers), queue.Queue[tuple["subprocess.Popen[str]", dict[str, Any]]]()
    processes = [_started(work, threads, answers) for _ in range(workers)]
    try:
        busy = sum(_send_next(process, waiting) for process in processes)
        while busy:
            process, answer = answers.get()
            if "error" in answer:
                kind = {"ValueError": ValueError, "OSError": OSError}.get(answer["kind"], RuntimeError)
                raise kind(answer["error"])
            if "ended" in answer:
                raise RuntimeError(
                    f"A process that indexed photos ended ({answer['ended']}), perhaps for want of memory. What was "
                    "done is kept: run this again, with fewer --processes if it was memory."
                )
            yield UpdateReport(**answer["report"])
            busy -= not _send_next(process, waiting)
    finally:
        for process in processes:
            assert process.stdin is not None
            with suppress(OSError):
                process.stdin.close()
        for process in processes:
            process.wait()


def _started(
    work: PartWork, threads: int, answers: "queue.Queue[tuple[subprocess.Popen[str], dict[str, Any]]]"
) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-m", "smoothap.album._part_process"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip

    def listen() -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                answers.put((process, json.loads(line)))
        answers.put((process, {"ended": f"exit code {process.wait()}"}))

    threading.Thread(target=listen, daemon=True).start()
    _send(process, {**asdict(work), "readers": threads, "threads": threads})
    return process


def _send_next(process: "subprocess.Popen[str]", waiting: Iterator[int]) -> bool:
    """Give a process its next part; False if there are no more."""
    number = next(waiting, None)
    if number is not None:
        _send(process, {"number": number})
    return number is not None


def _send(process: "subprocess.Popen[str]", job: dict[str, Any]) -> None:
    assert process.stdin is not None
    with suppress(OSError):  # it has ended: the listener says so
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
