"""A progress line for anything that takes more than a few seconds; quiet for what is quick."""

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

_WIDTH = 24
_DELAY = 2.0  # seconds before anything is shown
_ENOUGH_SECONDS, _ENOUGH_SHARE = 10.0, 0.03  # done, one or the other, before what is left is estimated
_EVERY_ON_A_TERMINAL = 0.1
_EVERY_IN_A_LOG = 30.0
_follower: "ContextVar[Callable[[Progress], None] | None]" = ContextVar("follower", default=None)


@contextmanager
def followed(told: "Callable[[Progress], None]") -> Generator[None]:
    """While this lasts, `told` is called as any progress that begins in this thread goes on; it may end the work."""
    before = _follower.set(told)
    try:
        yield
    finally:
        _follower.reset(before)


class Progress:
    """A line on standard error: what is being done, how far, how fast, and how long it will still take.

    >>> with Progress("Reading", total=3, unit="images") as progress:
    ...     for _ in range(3):
    ...         progress.advance()

    On a terminal the line redraws itself; in a log file it is written again every half minute.
    """

    def __init__(self, description: str, total: int, unit: str = "", shown: bool = True) -> None:
        self.description, self.total, self.unit, self.shown = description, total, unit, shown
        self.done, self._told = 0, _follower.get()
        self._start = self._last = time.monotonic()
        self._drawn = False

    def __enter__(self) -> "Progress":
        if self._told is not None:
            self._told(self)
        return self

    def __exit__(self, *error: object) -> None:
        if self._drawn and sys.stderr.isatty():
            self._draw(time.monotonic())
            sys.stderr.write("\n")

    def advance(self, amount: int = 1) -> None:
        """Count `amount` more as done and redraw the line if it is time to."""
        self.done += amount
        if self._told is not None:
            self._told(self)
        now = time.monotonic()
        every = _EVERY_ON_A_TERMINAL if sys.stderr.isatty() else _EVERY_IN_A_LOG
        if self.shown and now - self._start > _DELAY and now - self._last > every:
            self._last = now
            self._draw(now)

    def _draw(self, now: float) -> None:
        elapsed = max(now - self._start, 1e-9)
        share = self.done / self.total if self.total else 1.0
        filled = round(_WIDTH * min(share, 1.0))
        bar = "━" * filled + "─" * (_WIDTH - filled)
        line = (
            f"{self.description} {bar} {share:4.0%}  {self.done:,}/{self.total:,} {self.unit}  "
            f"{self.done / elapsed:,.0f}/s"
        )
        if self.done and (share >= _ENOUGH_SHARE or elapsed >= _ENOUGH_SECONDS):
            minutes, seconds = divmod(round((self.total - self.done) * elapsed / self.done), 60)
            line += f"  {minutes}:{seconds:02d} left"
        sys.stderr.write(f"\r\033[K{line}" if sys.stderr.isatty() else f"{line}\n")
        sys.stderr.flush()
        self._drawn = True
