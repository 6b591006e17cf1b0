"""Shorter epochs are the same batches in the same order."""

from itertools import chain

import numpy as np

from smoothap.compare.short_epochs import ShortEpochs
from smoothap.data.samplers import BalancedBatches


def test_the_stream_is_the_same_from_any_step():
    batches = BalancedBatches(np.repeat(np.arange(12), 5), 16, 4, seed=3)
    stream = list(chain.from_iterable(batches.draws(epoch) for epoch in range(8)))
    short = ShortEpochs(batches, 2)
    assert list(chain.from_iterable(short.draws(epoch) for epoch in range(6))) == stream[:12]
    assert list(short.draws(3, 1)) == stream[7:8]
    assert len(short) == 2
