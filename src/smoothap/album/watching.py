"""Taking up photos as they come: the folder is looked through every few seconds, and what changed is indexed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from smoothap.album.walk import Walk, walk

if TYPE_CHECKING:
    from smoothap.album.album import Album
    from smoothap.album.update import UpdateReport

_PAUSE = 2.0  # seconds between two looks, at least
_SHARE = 20  # a look that takes a second is followed by a pause of that many


class Watcher:
    """Brings an album up to date with its photo folder whenever that has changed and come to rest.

    A file that is still being copied changes from one look to the next: it is taken in once two looks agree. No
    service of the system is needed for it, so that it works on network disks too.
    """

    def __init__(self, album: Album, tell: Callable[[str], None]) -> None:
        self._album, self._tell = album, tell
        self._last: Walk | None = None  # what the last look saw
        self._done: Walk | None = None  # what the album is up to date with
        self._told = ""

    def look(self) -> UpdateReport | None:
        """Look once; the report, if the album was brought up to date."""
        assert self._album.root is not None
        seen, before = walk(self._album.root, self._album.folder), self._last
        self._last = seen
        if seen == self._done or (self._done is not None and seen != before):
            return None
        report = self._album.update(progress=False)
        self._done = seen
        return report

    def run(self, stop: threading.Event) -> None:
        """Look until told to stop; what cannot be done now is told once and tried again."""
        while not stop.is_set():
            start = time.monotonic()
            try:
                report = self.look()
            except (OSError, ValueError) as error:  # not mounted, or another process is writing to the album
                self._say(f"The photo folder is not watched for now: {error}")
            else:
                self._told = ""
                if report is not None and (said := summary(report)):
                    self._tell(said)
            stop.wait(max(_PAUSE, _SHARE * (time.monotonic() - start)) if self._done else _PAUSE)

    def _say(self, sentence: str) -> None:
        if sentence != self._told:
            self._tell(sentence)
        self._told = sentence


def summary(report: UpdateReport) -> str:
    """What changed, in one line; nothing where nothing did."""
    counts = {"added": report.added, "changed": report.changed, "removed": report.removed}
    return ", ".join(f"{len(paths):,} {word}" for word, paths in counts.items() if paths)
