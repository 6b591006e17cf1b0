"""Photos that wait for the network go through it together, which takes less time than one after the other."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

import numpy as np
from PIL import Image

_TOGETHER = 16  # photos at most; more in a batch gain little, and the first of them would wait longer


class Model(Protocol):
    """What makes vectors (n, d) of images."""

    def embed(self, images: list[Image.Image], *, progress: bool) -> object: ...


class TogetherEmbedding:
    """One network for many threads: whoever finds it free takes along all photos that wait by then.

    `count` is told the size of each batch.
    """

    def __init__(self, count: Callable[[int], None] = lambda _: None) -> None:
        self._busy, self._guard, self._count = threading.Lock(), threading.Lock(), count
        self._waiting: list[tuple[Model, Image.Image, Future[np.ndarray]]] = []

    def load(self, load: Callable[[], Model]) -> Model:
        """The model, loaded by one thread at a time."""
        with self._busy:
            return load()

    def embed(self, model: Model, image: Image.Image) -> np.ndarray:
        """The vector (d,) of an image by the model."""
        mine: Future[np.ndarray] = Future()
        with self._guard:
            self._waiting.append((model, image, mine))
        while not mine.done():
            with self._busy:
                if not mine.done():
                    self._run_next()
        return mine.result()

    def _run_next(self) -> None:
        with self._guard:
            model = self._waiting[0][0]
            places = [place for place, entry in enumerate(self._waiting) if entry[0] is model][:_TOGETHER]
            batch = [self._waiting.pop(place) for place in reversed(places)][::-1]
        try:
            vectors = np.asarray(model.embed([image for _, image, _ in batch], progress=False))
            for vector, (_, _, future) in zip(vectors, batch, strict=True):
                future.set_result(vector)
            self._count(len(batch))
        except Exception as error:
            for _, _, future in batch:
                if not future.done():
                    future.set_exception(error)
