"""Numbers of options classes that would do something else without a word."""

import math

import pytest

from smoothap._core.numbers import check_numbers
from smoothap.benchmark.plan import WHOLE, Plan
from smoothap.training import RunOptions, TrainingConfig

WRONG = {
    "head_lr_multiplier": -3,
    "memory_size": -1,
    "memory_after": -1,
    "milestones": (3, -1),
    "warm_up": -5,
    "weight_decay": -1,
    "gamma": 0,
    "loss_factor": math.inf,
    "seed": 10**23,
    "tau": math.nan,
    "samples_per_class": 1,
    "epochs": True,
    "steps": 0,
    "batch_size": 8.5,
    "clip": -1.0,
    "learning_rate": "1e-5",
    "validation_fraction": 1,
}


@pytest.mark.parametrize("name", WRONG)
def test_a_number_outside_its_range_is_refused_by_name(name):
    with pytest.raises(ValueError, match=rf"^{name} .*"):
        TrainingConfig(**{name: WRONG[name]})


@pytest.mark.parametrize("name", ["learning_rate", "gamma", "weight_decay", "head_lr_multiplier", "loss_factor"])
def test_a_number_that_no_float32_holds_is_refused_before_the_first_step(name):
    with pytest.raises(ValueError, match=f"^{name} must be a number .*1,000,000, not 1e\\+300"):
        TrainingConfig(**{name: 1e300})


@pytest.mark.parametrize("minutes", [math.nan, -1, math.inf])
def test_minutes_are_a_number_that_is_not_negative(minutes):
    with pytest.raises(ValueError, match="minutes must be a number from 0 on"):
        RunOptions(minutes=minutes)


@pytest.mark.parametrize(
    ("name", "value"), [("seed", -1), ("trials", -1), ("seeds", 901), ("test_fraction", 1.5), ("jobs", 0)]
)
def test_the_numbers_of_a_comparison_are_checked_too(name, value):
    if name == "seed":
        with pytest.raises(ValueError, match="seed must be"):
            TrainingConfig(seed=value)
        return
    with pytest.raises(ValueError, match=f"{name} must be"):
        Plan(data="emoji", device="cpu", **WHOLE | {name: value})


def test_what_may_be_left_out_may_be_left_out():
    check_numbers(TrainingConfig(steps=None, clip=None))
    check_numbers(RunOptions())


def test_a_query_among_its_own_positives_does_not_go_with_past_batches():
    with pytest.raises(ValueError, match="include_query"):
        TrainingConfig(include_query=True, memory_size=64)
