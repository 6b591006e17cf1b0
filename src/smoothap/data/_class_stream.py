"""An endless, evenly mixed stream of classes and of their images; any part of it is computed on its own.

Two rules make it even. A *round* deals every class out once (or as often as its `turns` say) over whole batches, no
class twice in one; where the classes do not fill the last batch, a few come up once more, all of them in turn over the
rounds. Each class hands out its images in *cycles*: shuffled, `samples_per_class` at a time, every image before one
repeats; where they do not divide, the last handful is filled from the cycle's first, and a class shorter than
`samples_per_class` repeats its own images as evenly as it can.
"""

from typing import NamedTuple

import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # the step of SplitMix64
_KEY_BITS = 40  # of a sort key are random, the others say which class and cycle
_ROUNDS, _WAITING = 1, 2  # last part of a seed, so that no two uses of chance share their numbers


class _Turns(NamedTuple):
    """How often each class comes up in a round, and how many batches that makes."""

    batches: int
    regular: np.ndarray  # (classes,) turns of each class in every round
    spare: int  # places of a round that are left over: `spare` of the waiting classes have one more turn
    waiting: np.ndarray  # (some classes,) in the order in which they get it over the rounds


class ClassStream:
    """Batches of `classes_per_batch` x `samples_per_class` rows out of `rows`, numbered 0, 1, 2 ... without end.

    labels (n,) of the rows (n,). With `by_size` a class comes up once for every `samples_per_class` images it has (as
    far as batches of different classes allow), otherwise all classes come up equally often.
    """

    def __init__(
        self,
        rows: np.ndarray,
        labels: np.ndarray,
        classes_per_batch: int,
        samples_per_class: int,
        *,
        seed: tuple[int, int],
        by_size: bool,
    ) -> None:
        order = np.argsort(labels, kind="stable")
        _, self._start, self._images = np.unique(labels[order], return_index=True, return_counts=True)
        self._rows = rows[order]
        self._classes_per_batch, self._per_class, self._seed = classes_per_batch, samples_per_class, seed
        self._handfuls = -(-self._images // samples_per_class)  # per cycle
        self._turns = _spread(self._handfuls if by_size else np.ones_like(self._handfuls), classes_per_batch, seed)

    @property
    def batches_per_round(self) -> int:
        return self._turns.batches

    def batches(self, first: int, last: int) -> np.ndarray:
        """Batches first ... last - 1: rows (last - first, classes_per_batch * samples_per_class), class by class."""
        first_round, last_round = first // self.batches_per_round, -(-last // self.batches_per_round)
        classes = np.concatenate([self._round(number) for number in range(first_round, last_round)])
        turn = self._turns_before(first_round)[classes] + _occurrence(classes.ravel()).reshape(classes.shape)
        part = slice(first - first_round * self.batches_per_round, last - first_round * self.batches_per_round)
        return self._handful(classes[part].ravel(), turn[part].ravel()).reshape(last - first, -1)

    def _round(self, number: int) -> np.ndarray:
        """(batches_per_round, classes_per_batch) classes, each row without repeats."""
        batches, turns, spare, waiting = self._turns
        random = np.random.default_rng((*self._seed, number, _ROUNDS))
        if spare:
            turns = turns.copy()
            turns[waiting[np.arange(number * spare, (number + 1) * spare) % len(waiting)]] += 1
        order = random.permutation(len(turns))
        # Neighbours in this list come into different batches, so that no batch has two turns of one class.
        dealt = np.repeat(order, turns[order]).reshape(self._classes_per_batch, batches).T
        return dealt[random.permutation(batches)]

    def _turns_before(self, number: int) -> np.ndarray:
        """(classes,): how often each class came up before this round."""
        _, turns, spare, waiting = self._turns
        before = number * turns
        if spare:
            whole, part = divmod(number * spare, len(waiting))
            before[waiting] += whole
            before[waiting[:part]] += 1
        return before

    def _handful(self, classes: np.ndarray, turn: np.ndarray) -> np.ndarray:
        """The rows (m, samples_per_class) that class classes[i] hands out when it comes up for the turn[i]-th time."""
        cycle, handful = np.divmod(turn, self._handfuls[classes])
        # Shuffle the images of every class and cycle that occurs, all in one sort.
        deck_key, deck_of = np.unique(classes * (cycle.max() + 1) + cycle, return_inverse=True)
        deck_class, deck_cycle = np.divmod(deck_key, cycle.max() + 1)
        sizes = self._images[deck_class]
        ends = np.cumsum(sizes)
        deck = np.repeat(np.arange(len(sizes)), sizes)
        card = np.arange(ends[-1]) - np.repeat(ends - sizes, sizes) + self._start[deck_class][deck]
        key = _scramble(card, self._seed, deck_cycle[deck])
        shuffled = card[np.argsort(deck.astype(np.uint64) << np.uint64(_KEY_BITS) | key, kind="stable")]
        place = (handful[:, None] * self._per_class + np.arange(self._per_class)) % sizes[deck_of][:, None]
        return self._rows[shuffled[(ends - sizes)[deck_of][:, None] + place]]


def _spread(wanted: np.ndarray, classes_per_batch: int, seed: tuple[int, int]) -> _Turns:
    """Turns as near to `wanted` as fill whole batches in which no class comes twice."""
    turns, batches = wanted, -(-int(wanted.sum()) // classes_per_batch)
    while turns.max() > batches:  # a class can come up in every batch, not more often
        turns = np.minimum(turns, batches)
        batches = -(-int(turns.sum()) // classes_per_batch)
    spare = batches * classes_per_batch - int(turns.sum())
    waiting = np.flatnonzero(turns < batches)
    while spare and spare >= len(waiting):
        turns = turns + (turns < batches)
        spare -= len(waiting)
        waiting = np.flatnonzero(turns < batches)
    return _Turns(batches, turns, spare, np.random.default_rng((*seed, 0, _WAITING)).permutation(waiting))


def _occurrence(values: np.ndarray) -> np.ndarray:
    """How many equal values are before each value."""
    order = np.argsort(values, kind="stable")
    _, start, counts = np.unique(values[order], return_index=True, return_counts=True)
    occurrence = np.empty_like(order)
    occurrence[order] = np.arange(len(values)) - np.repeat(start, counts)
    return occurrence


def _scramble(card: np.ndarray, seed: tuple[int, int], cycle: np.ndarray) -> np.ndarray:
    """A random-looking number of 40 bits for each card in each cycle."""
    value = np.random.SeedSequence(seed).generate_state(1, np.uint64) + card.astype(np.uint64)
    for salt in (cycle.astype(np.uint64), np.uint64(0)):
        value = mix(value * GOLDEN + salt)
    return value >> np.uint64(64 - _KEY_BITS)


def mix(value: np.ndarray) -> np.ndarray:
    """The mixing function of SplitMix64, of each number (n,) uint64."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
