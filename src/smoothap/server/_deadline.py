"""A time by which something has to be done, for what is done so often that a timer for each would cost too much."""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager


class Deadline:
    """Calls `late` if what runs inside `within` is not done in time; one thread watches, and sleeps while all is well.

    One thing at a time: whoever shares it sees to that.
    """

    def __init__(self, late: Callable[[], None]) -> None:
        self._late, self._changed = late, threading.Condition()
        self._end: float | None = None  # of what runs now
        self._wakes_at: float | None = None  # the thread; None: when it is told to
        self._thread: threading.Thread | None = None
        self._closed = False

    @contextmanager
    def within(self, seconds: float) -> Generator[None]:
        """Give what runs in here that many seconds."""
        with self._changed:
            self._end = time.monotonic() + seconds
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="smoothap-deadline", daemon=True)
                self._thread.start()
            elif self._wakes_at is None or self._wakes_at > self._end:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._end = None

    def close(self) -> None:
        """Let the thread end."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _watch(self) -> None:
        with self._changed:
            while not self._closed:
                now = time.monotonic()
                if self._end is not None and self._end <= now:
                    self._end = None
                    self._late()
                self._wakes_at = self._end
                self._changed.wait(None if self._end is None else self._end - now)
