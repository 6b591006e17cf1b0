"""Which images form each batch of training: balanced over the classes, or hard negatives out of pairs of groups.

Every batch is a pure function of (seed, epoch, step): to go on in the middle of an epoch, start there. With several
ranks, each computes the same global batch and takes its own share of it.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple, Protocol

import numpy as np

from smoothap.data._class_stream import ClassStream

_PAIRS = 3  # last part of a seed; `class_stream` uses 1 and 2, random views none


class Draw(NamedTuple):
    """One place of a batch: which image, and the seed of its random view."""

    row: int
    seed: tuple[int, int, int]  # (seed, epoch, position in the epoch)


class Batches(Protocol):
    """What the loop of training asks of a sampler."""

    def __len__(self) -> int:
        """Steps in an epoch."""
        ...

    def draws(self, epoch: int, first_step: int = 0) -> Iterator[list[Draw]]:
        """This rank's share of every batch of the epoch from `first_step` on."""
        ...


def _classes_of(labels: np.ndarray) -> np.ndarray:
    """The class of each image as a number (n,), in the order of the labels; numbers, or strings, may name them."""
    values = np.asarray(labels)
    if values.ndim != 1:
        raise ValueError(f"labels has shape {values.shape}: give one label for each image")
    missing = np.ma.getmaskarray(labels) if isinstance(labels, np.ma.MaskedArray) else np.zeros(len(values), bool)
    if values.dtype.kind == "f":
        missing = missing | np.isnan(values)
    elif values.dtype.kind == "O":  # None, and what tables have in the place of a value
        missing = np.array([not isinstance(label, (str, bytes, int)) for label in values], bool)
    elif values.dtype.kind in "US" and not hasattr(labels, "dtype"):
        values = np.array([label[:] for label in labels])  # plain strings: numpy cuts the names of an Enum short
    if missing.any():
        raise ValueError(f"labels has none in row {missing.argmax()}: give one to each image, or leave the image out")
    return np.unique(values, return_inverse=True)[1]


class BalancedBatches:
    """`samples_per_class` images of each of batch_size / samples_per_class classes, mixed as `ClassStream` says.

    An epoch is a whole number of rounds over the classes, by default about as many images as the set has. Every class
    comes up equally often in it, or once more where the classes do not divide into batches. With `by_size` a class
    comes up once for every `samples_per_class` images it has, and classes with fewer are left out, as in the released
    code; with `fill` they come up once and repeat their images, as in the code of cross-batch memory. labels (n,); or
    (n, classes) of 0 and 1, where an image comes up for each label that it has.
    """

    def __init__(
        self,
        labels: np.ndarray,
        batch_size: int,
        samples_per_class: int = 4,
        *,
        seed: int = 0,
        rounds: int | None = None,
        by_size: bool = False,
        fill: bool = False,
        rank: int = 0,
        ranks: int = 1,
    ) -> None:
        several = np.ndim(labels) == 2
        rows, labels = np.nonzero(labels) if several else (np.arange(len(labels)), _classes_of(labels))
        _, class_of, sizes = np.unique(labels, return_inverse=True, return_counts=True)
        if by_size and not fill:
            rows, labels = (side[sizes[class_of] >= samples_per_class] for side in (rows, labels))
        self._share = _Share(batch_size, samples_per_class, seed, rank, ranks)
        classes, wanted = len(np.unique(labels)), batch_size // samples_per_class
        if classes < wanted:
            raise ValueError(
                f"a batch of {batch_size} with {samples_per_class} images of each class needs {wanted} classes, and "
                f"the set has {classes}{' with that many' if by_size else ''}: take a batch size of at most "
                f"{classes * samples_per_class}"
            )
        self._stream = ClassStream(rows, labels, wanted, samples_per_class, seed=(seed, 0), by_size=by_size)
        in_a_round = self._stream.batches_per_round
        self._steps = in_a_round * (rounds or max(1, round(len(rows) / (in_a_round * batch_size))))

    def __len__(self) -> int:
        return self._steps

    def rows(self, epoch: int) -> np.ndarray:
        """The global batches of an epoch, (steps, batch_size) rows of the set."""
        return self._stream.batches(epoch * self._steps, (epoch + 1) * self._steps)

    def draws(self, epoch: int, first_step: int = 0) -> Iterator[list[Draw]]:
        """This rank's share of every batch of the epoch from `first_step` on."""
        return self._share.draws(self.rows(epoch), epoch, first_step)


class PairBatches:
    """Hard negatives: half of a batch from each of two groups, as FastAP and Blackbox AP do for the 12 of SOP.

    An epoch is `batches_per_pair` batches of every pair of groups, in random order. Within a group the images of a
    class are cut into handfuls of `samples_per_class`, which come up in random order, all before one repeats. Groups
    with too few classes for half a batch are put together, the smallest first. A class belongs to the group of its
    first image.
    """

    def __init__(
        self,
        labels: np.ndarray,
        groups: np.ndarray | None,
        batch_size: int,
        samples_per_class: int = 4,
        *,
        batches_per_pair: int = 10,
        seed: int = 0,
        rank: int = 0,
        ranks: int = 1,
    ) -> None:
        if groups is None:
            raise ValueError("this set has no groups to pair: give it a group column, or take balanced batches")
        labels, groups = _classes_of(labels), np.asarray(groups)
        self._share = _Share(batch_size, 2 * samples_per_class, seed, rank, ranks)
        half = batch_size // samples_per_class // 2
        _, first_image, class_of = np.unique(labels, return_index=True, return_inverse=True)
        group_of_class = _put_together(groups[first_image], half)
        names = np.unique(group_of_class)
        if len(names) < 2:
            raise ValueError(
                f"half of a batch of {batch_size} with {samples_per_class} images of each class needs two groups of "
                f"at least {half} classes, and the set has {len(first_image)} classes in {len(np.unique(groups))} "
                "groups: take smaller batches, or balanced ones"
            )
        self._streams = [
            ClassStream(rows, labels[rows], half, samples_per_class, seed=(seed, group), by_size=True)
            for group, rows in enumerate(np.flatnonzero(group_of_class[class_of] == name) for name in names)
        ]
        self._pairs = np.repeat(list(combinations(range(len(names)), 2)), batches_per_pair, axis=0)
        self._halves_per_group = (len(names) - 1) * batches_per_pair

    def __len__(self) -> int:
        return len(self._pairs)

    def rows(self, epoch: int) -> np.ndarray:
        """The global batches of an epoch, (steps, batch_size) rows of the set."""
        pairs = np.random.default_rng((self._share.seed, epoch, 0, _PAIRS)).permutation(self._pairs)
        halves = np.empty((*pairs.shape, self._share.batch_size // 2), dtype=np.int64)
        first = epoch * self._halves_per_group
        for group, stream in enumerate(self._streams):
            halves[pairs == group] = stream.batches(first, first + self._halves_per_group)
        return halves.reshape(len(pairs), -1)

    def draws(self, epoch: int, first_step: int = 0) -> Iterator[list[Draw]]:
        """This rank's share of every batch of the epoch from `first_step` on."""
        return self._share.draws(self.rows(epoch), epoch, first_step)


class WholeClassPairs:
    """Half of a batch from each of two groups, with no fixed number of images a class: FastAP's own batches for SOP.

    In an epoch the classes of a group follow each other in a random order, each with all its images, and every half of
    a batch takes the images that come next, from the first again behind the last (train_hard.m of the authors' code).
    """

    def __init__(
        self,
        labels: np.ndarray,
        groups: np.ndarray | None,
        batch_size: int,
        *,
        batches_per_pair: int = 5,
        seed: int = 0,
        rank: int = 0,
        ranks: int = 1,
    ) -> None:
        if groups is None or len(np.unique(groups)) < 2:
            raise ValueError("this set has no groups to pair: give it a group column, or take balanced batches")
        self._share = _Share(batch_size, 2, seed, rank, ranks)
        self._batches_per_pair, groups = batches_per_pair, np.asarray(groups)
        labels = _classes_of(labels)
        rows = np.argsort(labels, kind="stable")
        classes = np.split(rows, np.flatnonzero(np.diff(labels[rows])) + 1)
        self._classes = [[each for each in classes if groups[each[0]] == name] for name in np.unique(groups)]
        self._pairs = np.array(list(combinations(range(len(self._classes)), 2)))

    def __len__(self) -> int:
        return len(self._pairs) * self._batches_per_pair

    def rows(self, epoch: int) -> np.ndarray:
        """The global batches of an epoch, (steps, batch_size) rows of the set."""
        random = np.random.default_rng((self._share.seed, epoch, 0, _PAIRS))
        pairs = np.repeat(random.permutation(self._pairs), self._batches_per_pair, axis=0)
        halves = np.empty((*pairs.shape, self._share.batch_size // 2), dtype=np.int64)
        for group, classes in enumerate(self._classes):
            order = np.concatenate([classes[place] for place in random.permutation(len(classes))])
            wanted = pairs == group
            halves[wanted] = np.resize(order, halves[wanted].shape)
        return halves.reshape(len(pairs), -1)

    def draws(self, epoch: int, first_step: int = 0) -> Iterator[list[Draw]]:
        """This rank's share of every batch of the epoch from `first_step` on."""
        return self._share.draws(self.rows(epoch), epoch, first_step)


class _Share:
    """The part of each global batch that one of `ranks` processes takes."""

    def __init__(self, batch_size: int, unit: int, seed: int, rank: int, ranks: int) -> None:
        if unit < 1 or batch_size < unit or batch_size % unit:
            raise ValueError(
                f"a batch of {batch_size} does not divide into parts of {unit} images (samples_per_class, twice that "
                f"for pairs of groups): take {max(batch_size // max(unit, 1), 1) * max(unit, 1)}"
            )
        if not 0 <= rank < ranks or batch_size % ranks:
            raise ValueError(
                f"a batch of {batch_size} does not divide over {ranks} processes (this is number {rank}): take a "
                f"multiple of {ranks}"
            )
        self.batch_size, self.seed = batch_size, seed
        self._places = range(rank * batch_size // ranks, (rank + 1) * batch_size // ranks)

    def draws(self, rows: np.ndarray, epoch: int, first_step: int) -> Iterator[list[Draw]]:
        for step in range(first_step, len(rows)):
            batch = rows[step].tolist()
            start = step * self.batch_size
            yield [Draw(batch[place], (self.seed, epoch, start + place)) for place in self._places]


def _put_together(group_of_class: np.ndarray, least: int) -> np.ndarray:
    """The group of each class once every group with fewer than `least` classes has joined the next smallest."""
    group_of_class = group_of_class.copy()
    while True:
        names, counts = np.unique(group_of_class, return_counts=True)
        if len(names) < 2 or counts.min() >= least:
            return group_of_class
        smallest, next_smallest = names[np.argsort(counts, kind="stable")[:2]]
        group_of_class[group_of_class == smallest] = next_smallest
