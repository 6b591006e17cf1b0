"""Requests that wait for the same thing are served together, which takes less time than one after the other."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from typing import Any

_MOST = 8  # of a batch: with more, what the network computes no longer fits the processor's cache

Work = Callable[[list[Any]], Sequence[Any]]  # from questions to their answers, in order


class Together:
    """A few lanes for many questions: a lane that is free takes its share of those that wait.

    Where there are several, each keeps to one core: small work takes no longer so, and of a team of threads all wait
    for the one whose core is taken. `count` is told the size of each batch.
    """

    def __init__(self, count: Callable[[int], None] = lambda _: None, lanes: int = 1) -> None:
        self._count, self._lanes = count, lanes
        self._changed = threading.Condition()
        self._waiting: list[tuple[object, Work, Any, Future[Any]]] = []
        self._threads: list[threading.Thread] = []
        self._busy = 0

    def ask(self, key: object, work: Work, question: Any) -> Any:
        """The answer to a question; `work` answers those of one `key`, such as a model, together."""
        mine: Future[Any] = Future()
        with self._changed:
            self._waiting.append((key, work, question, mine))
            if len(self._threads) < self._lanes:
                self._threads.append(threading.Thread(target=self._work, name="smoothap-together", daemon=True))
                self._threads[-1].start()
            self._changed.notify()
        return mine.result()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    self._changed.wait()
                work, batch = self._next()
                self._busy += 1
            try:
                with self._threads_of_work():
                    self._answer(work, batch)
            finally:
                del work, batch  # which hold a model
                with self._changed:
                    self._busy -= 1

    def _threads_of_work(self) -> AbstractContextManager[None]:
        if self._lanes == 1:
            return nullcontext()
        from smoothap.numerics.threads import one_thread  # and torch, which is there by now

        return one_thread()

    def _next(self) -> tuple[Work, list[tuple[Any, Future[Any]]]]:
        key, work, _, _ = self._waiting[0]
        alike = [place for place, entry in enumerate(self._waiting) if entry[0] is key]
        share = -(-len(alike) // (self._lanes - self._busy))
        batch = [self._waiting.pop(place) for place in reversed(alike[: min(share, _MOST)])][::-1]
        return work, [(question, future) for _, _, question, future in batch]

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
