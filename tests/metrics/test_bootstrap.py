"""Intervals over classes: what they hold, how often they hold the truth, and differences between two reports."""

import numpy as np
import pytest
import torch

from smoothap import evaluate
from smoothap.metrics import Report
from smoothap.metrics.bootstrap import class_intervals


def drawn_set(classes, seed):
    """A set drawn from a population of classes of their own spread and size: vectors (n, 16), labels (n,)."""
    random = np.random.default_rng((classes, seed))
    spread, sizes = random.lognormal(0, 0.6, classes), random.integers(3, 12, classes)
    labels = np.repeat(np.arange(classes), sizes)
    centres = random.normal(size=(classes, 16))
    vectors = centres[labels] + 0.8 * spread[labels, None] * random.normal(size=(len(labels), 16))
    return vectors.astype(np.float32), labels


def report_of(classes=30, seed=0, noise=0.0):
    vectors, labels = drawn_set(classes, seed)
    vectors += noise * np.random.default_rng(9).normal(size=vectors.shape).astype(np.float32)
    return evaluate(vectors, labels, recall_at=(1, 4), progress=False)


def test_every_metric_has_an_interval_around_the_reported_value():
    report = report_of()
    values = {
        "mean_average_precision": report.mean_average_precision,
        "recall_at_1": report.recall[1],
        "recall_at_4": report.recall[4],
        "precision_at_1": report.precision[1],
        "precision_at_4": report.precision[4],
        "map_at_r": report.map_at_r,
        "r_precision": report.r_precision,
        "class_mean_average_precision": report.class_mean_average_precision,
    }
    assert report.metrics() == list(values)
    found = report.intervals(list(values))
    for metric, value in values.items():
        assert found[metric].value == pytest.approx(value, abs=1e-12)
        assert found[metric].low < value < found[metric].high
    assert report.interval("recall_at_1") == pytest.approx(found["recall_at_1"])  # one by one or all at once
    assert report.interval().margin > report.interval(level=0.5).margin


def test_the_interval_is_the_same_each_time_and_another_with_another_seed():
    report = report_of()
    assert report.interval() == report.interval()
    assert report.interval(seed=1) != report.interval()
    assert report.interval(seed=1).low == pytest.approx(report.interval().low, abs=0.01)


@pytest.mark.parametrize("classes", [0, 1, 2])
@pytest.mark.filterwarnings("error")
def test_fewer_than_three_classes_have_no_interval_and_show_nothing_clearly(classes):
    vectors = np.random.default_rng(0).normal(size=(12, 5))
    labels = np.arange(12) % classes if classes else np.arange(12)
    report, better = evaluate(vectors, labels), evaluate(np.eye(12)[np.arange(12) % max(classes, 1)], labels)
    assert np.isnan(report.interval().margin)
    assert not better.compare(report).is_clear
    assert "nan" in report.with_intervals()


@pytest.mark.parametrize("level", [0, 1, 2, float("nan")])
def test_a_level_that_is_no_share_is_refused(level):
    with pytest.raises(ValueError, match="level must be a share"):
        report_of().interval(level=level)


def test_classes_are_drawn_and_not_queries():
    """Ten copies of every query tell nothing new: the interval must stay as wide."""
    random = np.random.default_rng(0)
    values, sizes = random.random(40), np.ones(40)
    (once,) = class_intervals([(values, sizes)])
    (ten_times,) = class_intervals([(10 * values, 10 * sizes)])
    assert once.margin == pytest.approx(ten_times.margin)
    # and as wide as the spread of the class means says, for means of equal weight
    assert 2 * once.margin == pytest.approx(2 * 2.02 * values.std(ddof=1) / 40**0.5, rel=0.1)


def test_large_and_small_numbers_of_classes_agree_where_they_meet():
    random = np.random.default_rng(1)
    sums = [(random.random(400) * 5, np.full(400, 5.0))]
    (percentiles,) = class_intervals(sums)
    (studentised,) = class_intervals(sums, few_classes=10_000)
    np.testing.assert_allclose(percentiles, studentised, atol=0.002)


# The truth is the expected value over draws of as many classes: `docs/maths.md` has more of these.
@pytest.mark.parametrize(("classes", "draws"), [(20, 250), pytest.param(100, 120, marks=pytest.mark.slow)])
def test_at_least_93_of_100_intervals_hold_the_truth(classes, draws):
    reports = [report_of(classes, seed) for seed in range(draws)]
    truth = np.mean([report.mean_average_precision for report in reports])
    bounds = [class_intervals([report._by_class("mean_average_precision")], resamples=1000)[0] for report in reports]
    held = np.mean([interval.low <= truth <= interval.high for interval in bounds])
    assert 0.93 <= held < 1


def test_a_difference_is_taken_in_pairs():
    better, worse = report_of(60), report_of(60, noise=0.25)
    difference = better.compare(worse)
    assert difference.value == pytest.approx(better.mean_average_precision - worse.mean_average_precision, abs=1e-12)
    assert difference.low < difference.value < difference.high
    assert difference.margin < 0.6 * better.interval().margin  # the classes' own spread has gone
    gain = better.average_precision - worse.average_precision
    assert (difference.won, difference.lost) == (np.mean(gain > 0), np.mean(gain < 0))
    assert difference.is_clear
    mirrored = worse.compare(better)
    assert mirrored[:3] == pytest.approx((-difference.value, -difference.high, -difference.low), abs=0.01)
    for metric in better.metrics():
        assert np.isfinite(better.compare(worse, metric).margin)


def test_other_queries_are_not_compared():
    with pytest.raises(ValueError, match="not about the same queries"):
        report_of(30).compare(report_of(31))


def test_queries_without_a_positive_are_left_out():
    vectors, labels = drawn_set(20, 0)
    lonely = np.concatenate([vectors, np.eye(16, dtype=np.float32)[:2]]), np.concatenate([labels, [50, 51]])
    report = evaluate(*lonely, recall_at=(1,), progress=False)
    assert report.skipped == 2
    assert report.interval().value == pytest.approx(report.mean_average_precision)
    assert np.isfinite(report.compare(report).low)


def test_one_class_has_no_interval():
    report = evaluate(torch.eye(3), [0, 0, 0], recall_at=(1,), progress=False)
    assert np.isnan(report.interval().low)


def test_an_unknown_metric_is_told():
    with pytest.raises(ValueError, match="no metric 'recall_at_7' in this report; it has mean_average"):
        report_of().interval("recall_at_7")


def test_intervals_survive_the_disk(tmp_path):
    report = report_of()
    report.save(tmp_path / "report.json")
    assert Report.load(tmp_path / "report.json").interval("precision_at_4") == report.interval("precision_at_4")
