"""Taking up photos as they come: the folder is looked through every few seconds, and what changed is indexed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smoothap._core.progress import Progress, followed
from smoothap.album.walk import Walk, walk

if TYPE_CHECKING:
    from smoothap.album.album import Album
    from smoothap.album.update import UpdateReport

_PAUSE = 2.0  # seconds between two looks, at least
_SHARE = 20  # a look that takes a second is followed by a pause of that many


@dataclass(frozen=True)
class Indexing:
    """What is being done to an album, such as reading photos, and how far it is."""

    step: str
    done: int
    total: int


class Stopped(Exception):  # noqa: N818
    """The watcher was told to stop in the middle of its work; what was done by then is in the album."""


class Watcher:
    """Brings an album up to date with its photo folder: at first, and whenever that has changed and come to rest.

    A file that is still being copied changes from one look to the next: it is taken in once two looks agree. No
    service of the system is needed for it, so that it works on network disks too. `work` is what is being done now, and
    `problem` why nothing can be done, in a sentence. With `once` it ends when the album is up to date. With `regions`,
    parts of photos are described too. The first report goes to `report` where it is given; all that is said later, to
    `tell`.
    """

    def __init__(
        self,
        album: Album,
        tell: Callable[[str], None],
        *,
        once: bool = False,
        regions: bool = False,
        report: Callable[[Album, UpdateReport], None] | None = None,
    ) -> None:
        self.work: Indexing | None = None
        self.problem: str | None = None
        self._album, self._tell, self._once, self._regions, self._report = album, tell, once, regions, report
        self._last: Walk | None = None  # what the last look saw
        self._done: Walk | None = None  # what the album is up to date with
        self._pause = _PAUSE

    def look(self) -> UpdateReport | None:
        """Look once; the report, if the album was brought up to date."""
        assert self._album.root is not None
        start, before = time.monotonic(), self._last
        self._last = seen = walk(self._album.root, self._album.folder)
        self._pause = max(_PAUSE, _SHARE * (time.monotonic() - start)) if self._done else _PAUSE
        if seen == self._done or (self._done is not None and seen != before):
            return None
        first = self._done is None
        report = self._album.update(progress=first)
        if self._regions and not self._album.has_regions:
            self._album.describe_regions(progress=first)
        self._done = seen
        return report

    def run(self, stop: threading.Event) -> None:
        """Look until told to stop; what cannot be done now is told once and tried again."""

        def follow(line: Progress) -> None:
            self.work = Indexing(line.description.lower(), line.done, line.total)
            if stop.is_set():
                raise Stopped

        while not stop.is_set():
            try:
                with followed(follow):
                    report = self.look()
            except Stopped:
                return
            except (OSError, ValueError) as error:  # not mounted, or another process is writing to the album
                self._say(f"The photo folder is not watched for now: {error}")
            else:
                self.problem = None
                if report is not None:
                    self._say_what_changed(report)
                    if self._once:
                        return
            finally:
                self.work = None
            stop.wait(self._pause)

    def _say(self, sentence: str) -> None:
        if sentence != self.problem:
            self._tell(sentence)
        self.problem = sentence

    def _say_what_changed(self, report: UpdateReport) -> None:
        if self._report is not None:
            self._report(self._album, report)
            self._report = None
        elif said := summary(report):
            self._tell(said)


def summary(report: UpdateReport) -> str:
    """What changed, in one line; nothing where nothing did."""
    counts = {"added": report.added, "changed": report.changed, "removed": report.removed}
    return ", ".join(f"{len(paths):,} {word}" for word, paths in counts.items() if paths)
