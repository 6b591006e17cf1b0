"""Ctrl-C, and the SIGTERM of a cluster, between two steps instead of in the middle of one."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interruption:
    """While it is open, a first signal only sets `asked`; a second one interrupts at once."""

    def __init__(self) -> None:
        self.asked = False
        self._former: dict[int, Any] = {}

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():  # Python delivers signals there alone
            self._former = {each: signal.signal(each, self._take) for each in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each, former in self._former.items():
            signal.signal(each, former)
        self._former = {}

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
