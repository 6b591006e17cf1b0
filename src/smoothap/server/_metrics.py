"""Counts of what the server does, as Prometheus reads them; several processes count side by side, and one sums them."""

from collections.abc import Iterable, Sequence
from multiprocessing.sharedctypes import RawArray
from typing import Any

import numpy as np

ROUTES = ("search", "embed", "photos", "pictures", "page", "operating", "other")
STATUSES = (200, 201, 204, 303, 304, 307, 400, 401, 403, 404, 405, 408, 409, 413, 415, 421, 422, 499, 500, 503, 0)
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, np.inf)  # seconds
_OTHER = 0  # a status that is not listed
_SHAPE = (len(ROUTES), len(STATUSES) + len(BUCKETS) + 1)  # answers by status, by their seconds, and the sum of those
_QUEUES = ("others", "photos")
_GAUGES = 2 + 2 * len(_QUEUES)  # batches and photos in them; of each queue, those worked on and those that wait


class Metrics:
    """The counts of one process, in memory that all processes of the server share; each writes to its own row."""

    def __init__(self, memory: Any = None, row: int = 0) -> None:
        width = _SHAPE[0] * _SHAPE[1] + _GAUGES
        self.memory = RawArray("d", width) if memory is None else memory
        self._all = np.frombuffer(self.memory, np.float64).reshape(-1, width)
        self._mine, self._gauges = self._all[row, :-_GAUGES].reshape(_SHAPE), self._all[row, -_GAUGES:]
        self._gauges[2:] = 0  # whom the process before this one had in its queues, if it was killed

    @staticmethod
    def shared(processes: int) -> Any:
        """Memory for as many processes."""
        return RawArray("d", processes * (_SHAPE[0] * _SHAPE[1] + _GAUGES))

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count an answer."""
        place = ROUTES.index(route)
        self._mine[place, STATUSES.index(status if status in STATUSES else _OTHER)] += 1
        self._mine[place, len(STATUSES) + int(np.searchsorted(BUCKETS, seconds))] += 1
        self._mine[place, -1] += seconds

    def queued(self, queue: str, working: int, waiting: int) -> None:
        """Say how many requests of a queue are being worked on, and how many wait for that."""
        place = 2 + 2 * _QUEUES.index(queue)
        self._gauges[place : place + 2] = working, waiting

    def embedded(self, photos: int) -> None:
        """Count a batch of photos that went through the network together."""
        self._gauges[0] += 1
        self._gauges[1] += photos

    def text(self, albums: Sequence[tuple[str, int, str]]) -> str:
        """All of it in the format of Prometheus; albums: the name, the number of photos and the version of each."""
        counts = self._all[:, :-_GAUGES].reshape(-1, *_SHAPE).sum(0)
        batches, batched, *queues = self._all[:, -_GAUGES:].sum(0).tolist()
        asked = counts[[route != "operating" for route in ROUTES]]  # a server that is not ready refuses nobody
        refused = {status: asked[:, STATUSES.index(status)].sum() for status in (408, 413, 503)}
        return "".join(
            [
                *_metric("requests_total", "counter", "Answers by kind of address and status.", _requests(counts)),
                *_metric("request_seconds", "histogram", "From the head of a request to its answer.", _seconds(counts)),
                *_metric(
                    "refused_total", "counter", "Requests that were too slow (408), too large (413) or too many (503).",
                    (("", {"status": str(status)}, number) for status, number in refused.items()),
                ),
                *_metric(
                    "working", "gauge", "Requests being worked on.",
                    (("", {"queue": name}, number) for name, number in zip(_QUEUES, queues[::2], strict=True)),
                ),
                *_metric(
                    "queue", "gauge", "Requests that wait for that.",
                    (("", {"queue": name}, number) for name, number in zip(_QUEUES, queues[1::2], strict=True)),
                ),
                *_metric("embedded_photos_total", "counter", "Photos through the network.", [("", {}, batched)]),
                *_metric("embedded_batches_total", "counter", "Batches that those made.", [("", {}, batches)]),
                *_metric("processes", "gauge", "Processes that answer.", [("", {}, len(self._all))]),
                *_metric(
                    "album_photos", "gauge", "Photos of an album.",
                    (("", {"album": name}, photos) for name, photos, _ in albums),
                ),
                *_metric(
                    "album_version", "gauge", "1 for the version of an album that is served.",
                    (("", {"album": name, "version": version}, 1) for name, _, version in albums),
                ),
            ]
        )  # fmt: skip


Sample = tuple[str, dict[str, str], float]  # what is put behind the name, the labels and the value


def _metric(name: str, kind: str, help_text: str, samples: Iterable[Sample]) -> Iterable[str]:
    yield f"# HELP smoothap_{name} {help_text}\n# TYPE smoothap_{name} {kind}\n"
    for suffix, labels, value in samples:
        inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"smoothap_{name}{suffix}" + (f"{{{inside}}}" if inside else "") + f" {value:.12g}\n"


def _requests(counts: np.ndarray) -> Iterable[Sample]:
    for route, row in zip(ROUTES, counts, strict=True):
        for status, number in zip(STATUSES, row[: len(STATUSES)], strict=True):
            if number:
                yield "", {"route": route, "status": str(status or "other")}, number


def _seconds(counts: np.ndarray) -> Iterable[Sample]:
    for route, row in zip(ROUTES, counts, strict=True):
        numbers = row[len(STATUSES) : -1].cumsum()
        if numbers[-1]:
            for bound, number in zip(BUCKETS, numbers, strict=True):
                yield "_bucket", {"route": route, "le": "+Inf" if bound == np.inf else f"{bound:g}"}, number
            yield "_sum", {"route": route}, row[-1]
            yield "_count", {"route": route}, numbers[-1]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def route_of(path: str) -> str:
    """The kind of an address, for the counts."""
    if path in ("/health", "/ready", "/metrics"):
        return "operating"
    if not path.startswith("/api/"):
        return "page"
    last = path.rstrip("/").rpartition("/")[2]
    if last in ("search", "search.csv"):
        return "search"
    if last in ("embed", "part"):
        return "embed"
    if last in ("thumbnail", "image"):
        return "pictures"
    return "photos" if "/photos" in path else "other"
