"""An image set as batches of tensors, for training and for evaluation, with any number of workers.

Images that cannot be read are left out, counted and listed with their reasons; too many of them are an error.

A random view depends on (seed, epoch, position in the epoch) alone, which the sampler hands to the data set together
with the row. So batches are the same with 0 and with 8 workers, and no worker has a state worth saving.
"""

import csv
import io
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from smoothap._core.files import write_atomically
from smoothap._core.workers import end_with_the_parent, without_signals
from smoothap.data.decoded import a_few_rows
from smoothap.data.image_set import ImageSet
from smoothap.data.reading import UnreadableImage
from smoothap.data.samplers import Batches, Draw
from smoothap.data.transforms import Transform

_LOST_WORKER = re.compile(r"DataLoader worker \(pid(?:\(s\))? ([\d, ]+)\) (?:is killed|exited unexpectedly)")

Bad = tuple[tuple[int, str], ...]  # (row, reason) of images that could not be read on the way


class Batch(NamedTuple):
    """images (n, 3, size, size) uint8, in memory channels last, labels (n,) or (n, classes), rows (n,).

    Of a set with stored features, they are those: (n, f, 1, 1) float32.
    """

    images: Tensor
    labels: Tensor
    rows: Tensor


class BadImages:
    """The unreadable images of one set of `total` images, each counted once.

    `report` is the CSV file (image, reason) that `write` leaves; a share above `limit` is an error that names it.
    """

    def __init__(self, set_name: str, total: int, report: Path | str, limit: float = 0.01) -> None:
        self.set_name, self.total, self.report, self.limit = set_name, total, Path(report), limit
        self.reasons: dict[str, str] = {}  # name -> reason, in the order of discovery
        self._written = 0

    def __len__(self) -> int:
        return len(self.reasons)

    @property
    def allowed(self) -> int:
        """How many images may be bad; never all of them."""
        return min(int(self.limit * self.total), self.total - 1)

    def add(self, name: str, reason: str) -> None:
        """Count one image as bad; an error when it is one too many, with the report written."""
        self.reasons.setdefault(str(name), reason)
        if len(self) > self.allowed:
            self.write()
            raise ValueError(
                f"{len(self):,} of the {self.total:,} images of {self.set_name} cannot be read, more than "
                f"{self.limit:.1%}; the first is {next(iter(self.reasons))} ({next(iter(self.reasons.values()))}). "
                f"{self.report} lists them: repair these files, or take them out of the set."
            )

    def write(self) -> None:
        """Write the report if there is anything new to say."""
        if len(self) == self._written:
            return
        table = io.StringIO()
        rows = csv.writer(table, lineterminator="\n")
        rows.writerow(("image", "reason"))
        rows.writerows(self.reasons.items())
        write_atomically(self.report, table.getvalue().encode(errors="backslashreplace"))
        self._written = len(self)


class ImageDataset(Dataset[tuple[Batch | None, Bad]]):
    """The images of a set through a transform: `dataset[draws]` are random views, `dataset[rows]` the test views.

    A random view of an unreadable image is one of the next readable image of its class, in the order of the set (of
    the next class, should all be unreadable), so that a batch keeps its shape; a test view is left out. `bad` counts
    them.
    """

    def __init__(self, images: ImageSet, transform: Transform, *, report: Path | str, bad_limit: float = 0.01) -> None:
        self.images, self.transform = images, transform
        self.bad = BadImages(images.name, len(images), report, bad_limit)
        self._unreadable: dict[int, str] = {}  # row -> reason

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: Sequence[Draw | int]) -> tuple[Batch | None, Bad]:
        """The batch of these draws or rows, None where none of them can be read, and what could not be read."""
        draws = [each if isinstance(each, Draw) else (int(each), None) for each in index]
        features = self.images.features
        if features is not None and not features.unreadable:
            rows, seeds = zip(*draws, strict=True)
            return self._batch(features.take(rows, seeds), rows), ()
        views: list[Tensor] = []
        rows, bad = list[int](), list[tuple[int, str]]()
        for row, seed in draws:
            bad_before = len(bad)
            for candidate in [row] if seed is None else self._stand_ins(row):
                try:
                    views.append(self._view(candidate, seed))
                except UnreadableImage as error:
                    bad.append((candidate, error.reason))
                    if len(bad) - bad_before > self.bad.allowed:  # then `bad.add` raises for this batch anyway
                        break
                else:
                    rows.append(candidate)
                    break
        if not views:
            return None, tuple(bad)
        # (n, height, width, 3) in memory: the order that convolutions on a CPU are fastest in
        pixels = torch.stack([view.permute(1, 2, 0) for view in views]).permute(0, 3, 1, 2)
        return self._batch(pixels, rows), tuple(bad)

    def _batch(self, images: Tensor, rows: Sequence[int]) -> Batch:
        chosen = np.array(rows)
        return Batch(images, torch.from_numpy(self.images.ranked_labels(chosen)), torch.from_numpy(chosen))

    def identity(self) -> dict[str, Any]:
        """What tells this set from others: a digest of its names and labels, and the mean colours of a few images.

        Colours rather than all bytes, because two decoders differ by a grey level here and there.
        """
        colours: list[list[float]] = []
        for row in a_few_rows(self.images):
            with suppress(UnreadableImage):
                image = self._read(row, self.transform.enough_pixels(True))
                colours.append(np.asarray(image).mean((0, 1)).round(2).tolist())
        return {"files": self.images.digest(), "colours": colours}

    def _stand_ins(self, row: int) -> Iterator[int]:
        """The row, the others of its class from there on and round again, then those of the next classes."""
        yield row  # nearly always enough: the others cost a look at all labels
        classes_further = (self.images.labels - self.images.labels[row]) % self.images.classes
        same_class = np.flatnonzero(classes_further == 0)
        yield from map(int, np.roll(same_class, -np.searchsorted(same_class, row))[1:])
        yield from map(int, np.argsort(classes_further, kind="stable")[len(same_class) :])

    def _view(self, row: int, seed: tuple[int, int, int] | None) -> Tensor:
        """The random view of a seed, or the test view; as stored features where the set has them."""
        if (features := self.images.features) is not None:
            if (reason := features.reason(row)) is not None:
                raise UnreadableImage(str(self.images.names[row]), reason)
            return features.take([row], [seed])[0]
        image = self._read(row, self.transform.enough_pixels(seed is not None, seed))
        return self.transform.test(image) if seed is None else self.transform.train(image, seed)

    def _read(self, row: int, shorter_side: int) -> Image.Image:
        if row in self._unreadable:
            raise UnreadableImage(str(self.images.names[row]), self._unreadable[row])
        try:
            return self.images.read(row, shorter_side)
        except UnreadableImage as error:
            self._unreadable[row] = error.reason
            raise


def training_batches(
    dataset: ImageDataset,
    batches: Batches,
    *,
    epochs: int,
    start: tuple[int, int] = (0, 0),
    workers: int = 0,
    pin_memory: bool = False,
) -> Iterator[Batch]:
    """Every batch from step `start` = (epoch, step) to the end of the last epoch; the workers live all that time."""
    draws = (batches.draws(epoch, start[1] if epoch == start[0] else 0) for epoch in range(start[0], epochs))
    return _load(dataset, chain.from_iterable(draws), workers, pin_memory)


def evaluation_batches(
    dataset: ImageDataset,
    batch_size: int,
    *,
    rows: np.ndarray | None = None,
    view: int = 0,
    rank: int = 0,
    ranks: int = 1,
    workers: int = 0,
    pin_memory: bool = False,
) -> Iterator[Batch]:
    """Test views of the whole set (or of `rows`) in its order, or of this rank's part; unreadable images are left out.

    The parts of all ranks, one after the other, are the set; `rows` says which image is which. A rank takes whole
    batches, the same for any number of ranks: an image's vector may depend on its batch in the last bit. Another `view`
    than 0 is a random one of each image, the same for the same number.
    """
    rows = np.arange(len(dataset)) if rows is None else rows
    starts = range(0, len(rows), batch_size)
    mine = starts[rank * len(starts) // ranks : (rank + 1) * len(starts) // ranks]
    parts = (rows[start : start + batch_size].tolist() for start in mine)
    if view:
        parts = ([Draw(row, (0, view, row)) for row in part] for part in parts)
    return _load(dataset, parts, workers, pin_memory)


def _load(
    dataset: ImageDataset, indices: Iterator[Sequence[Draw | int]], workers: int, pin_memory: bool
) -> Iterator[Batch]:
    """The batches of these indices, without those of which no image can be read."""
    loader = DataLoader(
        dataset,
        batch_size=None,  # an index of the data set is a whole batch
        sampler=indices,
        num_workers=workers,
        # A forked worker shares the images held in memory and needs no copy of the set.
        multiprocessing_context="fork" if workers and sys.platform == "linux" else None,
        pin_memory=pin_memory,
        worker_init_fn=end_with_the_parent,
    )
    try:
        for batch, bad in without_signals(loader):
            for row, reason in bad:
                dataset.bad.add(str(dataset.images.names[row]), reason)
            if isinstance(batch, Batch):
                yield batch
    except (RuntimeError, ConnectionError, EOFError, FileNotFoundError) as error:
        lost = _LOST_WORKER.search(str(error))
        if not workers or (isinstance(error, RuntimeError) and lost is None):
            raise
        which = f" (process {lost[1]})" if lost else ""  # none where it died while it handed a batch over
        raise ValueError(
            f"a process that reads images was killed{which}, perhaps because the memory ran out, or the shared memory "
            "(/dev/shm), of which a container has little: give it more (docker run --shm-size), or take fewer --workers"
        ) from error
    finally:
        dataset.bad.write()
