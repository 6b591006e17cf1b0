"""Requests that wait for the same thing are served together, which takes less time than one after the other."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from smoothap._core.memory import freed_memory_kept

_MOST = 8  # of a batch: with more, what the network computes no longer fits the processor's cache
_QUIET = 5.0  # seconds without a question, after which the memory of the last ones goes back to the system

Work = Callable[[list[Any]], Sequence[Any]]  # from questions to their answers, in order


class Batching:
    """A few lanes for many questions: a lane that is free takes its share of those that wait.

    Where there are several, each keeps to one core: small work takes no longer so, and of a team of threads all wait
    for the one whose core is taken. `count` is told the size of each batch. `lanes` may be set before the first
    question, when it is known where the work is done.
    """

    def __init__(self, count: Callable[[int], None] = lambda _: None, lanes: int = 1) -> None:
        self._count, self.lanes = count, lanes
        self._changed = threading.Condition()
        self._waiting: list[tuple[Work, Any, Future[Any]]] = []
        self._threads: list[threading.Thread] = []
        self._busy = 0

    def ask(self, work: Work, question: Any) -> Any:
        """The answer to a question; `work`, such as a method of a model's album, answers those that wait for it."""
        mine: Future[Any] = Future()
        with self._changed:
            self._waiting.append((work, question, mine))
            if len(self._threads) < self.lanes:
                self._threads.append(threading.Thread(target=self._work, name="smoothap-batches", daemon=True))
                self._threads[-1].start()
            self._changed.notify()
        return mine.result()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
            with self._threads_of_work(), freed_memory_kept():
                while self._answered_some():
                    pass

    def _answered_some(self) -> bool:
        """Answer a share of those that wait, or of those that come soon; whether there were any."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._waiting, _QUIET):
                return False
            work, batch = self._next()
            self._busy += 1
        try:
            self._answer(work, batch)
        finally:
            with self._changed:
                self._busy -= 1
        return True  # and the work and its batch, which hold a model, are let go of

    def _threads_of_work(self) -> AbstractContextManager[None]:
        if self.lanes == 1:
            return nullcontext()
        from smoothap._core.threads import one_thread  # and torch, which is there by now

        return one_thread()

    def _next(self) -> tuple[Work, list[tuple[Any, Future[Any]]]]:
        work = self._waiting[0][0]
        alike = [place for place, entry in enumerate(self._waiting) if entry[0] == work]
        share = -(-len(alike) // (self.lanes - self._busy))
        batch = [self._waiting.pop(place) for place in reversed(alike[: min(share, _MOST)])][::-1]
        return work, [(question, future) for _, question, future in batch]

    def _answer(self, work: Work, batch: list[tuple[Any, Future[Any]]]) -> None:
        try:
            answers = work([question for question, _ in batch])
            self._count(len(batch))
            for (_, future), answer in zip(batch, answers, strict=True):
                future.set_result(answer)
        except Exception as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
