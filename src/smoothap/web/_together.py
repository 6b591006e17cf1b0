"""Requests that wait for the same thing are served together, which takes less time than one after the other."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

_MOST = 16  # of a batch; more gain little, and the first of them would wait longer

Work = Callable[[list[Any]], Sequence[Any]]  # from questions to their answers, in order


class Together:
    """One resource for many threads: whoever finds it free takes along all questions that wait for it by then.

    `count` is told the size of each batch.
    """

    def __init__(self, count: Callable[[int], None] = lambda _: None) -> None:
        self._busy, self._guard, self._count = threading.Lock(), threading.Lock(), count
        # One thread does the work for all: each that computes would start a team of threads of its own.
        self._thread = ThreadPoolExecutor(1, "smoothap-together")
        self._waiting: list[tuple[object, Work, Any, Future[Any]]] = []

    def alone(self, work: Callable[[], Any]) -> Any:
        """What `work` gives, while nothing else uses the resource."""
        with self._busy:
            return work()

    def ask(self, key: object, work: Work, question: Any) -> Any:
        """The answer to a question; `work` answers those of one `key`, such as a model, together."""
        mine: Future[Any] = Future()
        with self._guard:
            self._waiting.append((key, work, question, mine))
        while not mine.done():
            with self._busy:
                if not mine.done():
                    self._run_next()
        return mine.result()

    def _run_next(self) -> None:
        with self._guard:
            key, work, _, _ = self._waiting[0]
            places = [place for place, entry in enumerate(self._waiting) if entry[0] is key][:_MOST]
            batch = [self._waiting.pop(place) for place in reversed(places)][::-1]
        futures = [future for _, _, _, future in batch]
        try:
            answers = self._thread.submit(work, [question for _, _, question, _ in batch]).result()
            self._count(len(batch))
            for future, answer in zip(futures, answers, strict=True):
                future.set_result(answer)
        except Exception as error:
            for future in futures:
                if not future.done():
                    future.set_exception(error)
