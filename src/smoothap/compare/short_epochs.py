"""The same stream of batches in shorter epochs, so that a short training is validated more than once."""

from collections.abc import Iterator
from itertools import chain, count, islice

from smoothap.data.samplers import Batches, Draw


class ShortEpochs:
    """The batches of a sampler, one after the other, in epochs of `steps`."""

    def __init__(self, batches: Batches, steps: int) -> None:
        if steps < 1:
            raise ValueError(f"an epoch has at least 1 step, not {steps}")
        self._batches, self._steps = batches, steps

    def __len__(self) -> int:
        return self._steps

    def draws(self, epoch: int, first_step: int = 0) -> Iterator[list[Draw]]:
        """This rank's share of every batch of the epoch from `first_step` on."""
        whole, within = divmod(epoch * self._steps + first_step, len(self._batches))
        rest = chain.from_iterable(self._batches.draws(each, within if each == whole else 0) for each in count(whole))
        return islice(rest, self._steps - first_step)
