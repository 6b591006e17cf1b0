"""What the methods share: the weights they start from, the batches, the validation classes; and what stays theirs."""

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import torch

from smoothap.benchmark.methods import METHODS, open_methods
from smoothap.benchmark.run import ShortEpochs, TrainingRun, prepare
from smoothap.data.samplers import BalancedBatches
from smoothap.training.loss import build_loss


def test_all_methods_share_weights_batches_and_validation_classes(plan, tmp_path):
    drawn, weights, validated = [], [], set()
    for method in open_methods("all,two-stages"):
        if method.name == "divide-and-conquer":
            continue  # its batches come from its clusters
        run = TrainingRun(tmp_path / method.name, method, {"learning_rate": 1e-3}, split=0, seed=5)
        _, validation, setup = prepare(run, plan)
        batches = build_loss(run.loss(), setup).batches or setup.batches
        drawn.append(list(chain.from_iterable(batches.draws(epoch) for epoch in range(2))))
        weights.append(torch.cat([value.flatten().double() for value in setup.model.state_dict().values()]))
        validated.add(tuple(validation.class_names))
        assert setup.config.learning_rate == 1e-3
    assert len(drawn) == 22
    assert all(batches == drawn[0] for batches in drawn)
    assert all(torch.equal(vector, weights[0]) for vector in weights)
    assert len(validated) == 1
    assert len(validated.pop()) == 3


def test_seeds_splits_and_folds_have_classes_of_their_own(plan, tmp_path):
    plan = replace(plan, folds=3)

    def classes(split, seed, fold=None):
        run = TrainingRun(tmp_path / "run", METHODS["smooth-ap"], {"learning_rate": 1e-3}, split, seed, fold)
        benchmark, validation, setup = prepare(run, plan)
        return [frozenset(images.class_names) for images in (setup.images, validation, benchmark.tests["test"])]

    for sides in (first := classes(0, 0), other := classes(1, 0), fold := classes(0, 0, 0)):
        assert len(frozenset.union(*sides)) == sum(map(len, sides)) == 24
    assert classes(0, 0) == first
    assert classes(0, 1)[1] != first[1]
    assert other[2] != first[2]
    assert fold[2] == first[2]
    folds = [classes(0, 900 + number, number)[1] for number in range(3)]
    assert len(frozenset.union(*folds)) == sum(map(len, folds)) == 12


def test_fewer_classes_to_train_on_are_among_more_and_the_others_stay(plan, tmp_path):
    def classes(number, seed=0):
        run = TrainingRun(tmp_path / "run", METHODS["smooth-ap"], {"learning_rate": 1e-3}, 0, seed)
        benchmark, validation, setup = prepare(run, replace(plan, classes=number))
        return [frozenset(images.class_names) for images in (setup.images, validation, benchmark.tests["test"])]

    everything, six, four = classes(None), classes(6), classes(4)
    assert [len(sides[0]) for sides in (everything, six, four)] == [9, 6, 4]
    assert four[0] < six[0] < everything[0]
    assert everything[1:] == six[1:] == four[1:]
    assert classes(4) == four
    assert len({classes(4, seed)[0] for seed in range(4)}) > 1
    with pytest.raises(ValueError, match="classes must be from 2 to 9, which there are, not 10"):
        classes(10)
    assert replace(plan, classes=3).fitted().batch_size == 12


def test_a_number_that_was_found_reaches_the_loss(plan, tmp_path):
    for method, values in [("smooth-ap", {"tau": 0.03}), ("blackbox-ap", {"lambda": 3.0}), ("roadmap", {"tau": 0.03})]:
        run = TrainingRun(tmp_path / "run", METHODS[method], {"learning_rate": 1e-3, **values}, 0, 0)
        _, _, setup = prepare(run, plan)
        parts = build_loss(run.loss(), setup)
        assert setup.config.learning_rate == 1e-3
        found = {
            "smooth-ap": lambda loss: loss.tau,
            "blackbox-ap": lambda loss: loss.block.lambda_,
            "roadmap": lambda loss: loss.ranking.block.above.tau,
        }[method](parts.loss)
        assert found == next(iter(values.values()))


def test_short_epochs_are_the_same_stream_of_batches_from_any_step():
    batches = BalancedBatches(np.repeat(np.arange(12), 5), 16, 4, seed=3)
    stream = list(chain.from_iterable(batches.draws(epoch) for epoch in range(8)))
    short = ShortEpochs(batches, 2)
    assert list(chain.from_iterable(short.draws(epoch) for epoch in range(6))) == stream[:12]
    assert list(short.draws(3, 1)) == stream[7:8]
    assert len(short) == 2
