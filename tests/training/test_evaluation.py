"""Each set is evaluated by its own protocol."""

import multiprocessing
import time
from dataclasses import replace

import numpy as np
import pytest
from torch.utils.data import DataLoader

from smoothap.data.benchmark import Benchmark
from smoothap.data.dataset import ImageDataset, evaluation_batches
from smoothap.data.datasets.published import one_in_the_gallery
from smoothap.data.reading import UnreadableImage
from smoothap.metrics import evaluate
from smoothap.training.evaluation import Embedded, embed_set, evaluate_benchmark, evaluate_embedded, evaluate_set


@pytest.fixture
def unreadable(tmp_path):
    return tmp_path / "unreadable.csv"


def test_a_plain_set_is_leave_one_out(pattern_set, small_model, unreadable):
    images, model = pattern_set(), small_model()
    report = evaluate_set(model, images, unreadable=unreadable)
    expected = evaluate(model.embed(images, progress=False), images.labels, recall_at=(1, 2))
    assert report.to_json() == expected.to_json()


def test_queries_and_gallery_are_respected(pattern_set, small_model, unreadable):
    images, model = one_in_the_gallery(pattern_set(), seed=0), small_model()
    vectors = model.embed(images, progress=False).numpy()
    query, gallery = images.is_query, images.is_gallery
    expected = evaluate(vectors[query], images.labels[query], vectors[gallery], images.labels[gallery], (1, 2))
    assert evaluate_set(model, images, unreadable=unreadable).to_json() == expected.to_json()
    assert expected.queries == 48


def test_a_query_that_is_in_the_gallery_does_not_find_itself(pattern_set, small_model, unreadable):
    images, model = pattern_set(), small_model()
    everything = np.ones(len(images), bool)
    both = replace(images, is_query=everything, is_gallery=everything)
    report, plain = (evaluate_set(model, protocol, unreadable=unreadable) for protocol in (both, images))
    np.testing.assert_allclose(report.average_precision, plain.average_precision)


def test_images_with_the_same_pixels_are_counted_as_copies(pattern_set, small_model, unreadable):
    images, model = pattern_set(), small_model()
    number = len(images)
    twice = images.rows(np.tile(np.arange(number), 2))
    assert evaluate_set(model, images, unreadable=unreadable).copies == 0
    assert evaluate_set(model, twice, unreadable=unreadable).copies == 2 * number
    halves = np.arange(2 * number) < number
    split = replace(twice, is_query=halves, is_gallery=~halves)
    assert evaluate_set(model, split, unreadable=unreadable).copies == number
    everything = np.ones(number, bool)  # every query is in the gallery itself, which is no copy
    both = replace(images, is_query=everything, is_gallery=everything)
    assert evaluate_set(model, both, unreadable=unreadable).copies == 0


def test_instances_are_the_mean_of_their_vectors(pattern_set):
    images = pattern_set(classes=2, samples_per_class=4, instances=np.array([3, 3, 1, 1, 0, 0, 0, 2]))
    vectors = np.random.default_rng(0).normal(size=(8, 5)).astype(np.float32)
    means = np.stack([vectors[4:7].mean(0), vectors[2:4].mean(0), vectors[7], vectors[:2].mean(0)])
    expected = evaluate(means, [1, 0, 1, 0], recall_at=(1, 2))
    report = evaluate_embedded(Embedded(vectors, np.arange(8)), images)
    np.testing.assert_allclose(report.average_precision, expected.average_precision)
    assert report.queries == 4


def test_draws_are_averaged_and_their_images_embedded_once(pattern_set, small_model, unreadable, monkeypatch):
    images, model = pattern_set(), small_model()
    draws = {f"draw {seed}": one_in_the_gallery(images, seed) for seed in range(3)}
    benchmark = Benchmark("toy", None, {"all": images, **draws}, averages={"gallery": tuple(draws)})
    seen = []
    forward = type(model).forward
    monkeypatch.setattr(type(model), "forward", lambda self, batch: seen.append(len(batch)) or forward(self, batch))
    reports = evaluate_benchmark(model, benchmark, unreadable=unreadable)
    assert sum(seen) == len(images)
    assert list(reports) == ["all", "gallery"]
    of_draws = [evaluate_set(model, draw, unreadable=unreadable) for draw in draws.values()]
    mean = np.mean([report.mean_average_precision for report in of_draws])
    assert reports["gallery"].mean_average_precision == pytest.approx(mean, abs=1e-12)
    assert reports["gallery"].recall[1] == pytest.approx(np.mean([report.recall[1] for report in of_draws]), abs=1e-12)
    assert reports["gallery"].queries == 3 * of_draws[0].queries


def test_an_unreadable_image_is_left_out_and_listed(pattern_set, small_model, unreadable):
    images = pattern_set(40, 5)
    read = images.read

    def broken(row, shorter_side):
        if row == 7:
            raise UnreadableImage("7.png", "it is cut off")
        return read(row, shorter_side)

    report = evaluate_set(small_model(), replace(images, read=broken), unreadable=unreadable)
    assert report.queries == 199
    assert "7.png,it is cut off" in unreadable.read_text()


def test_the_death_of_a_data_worker_is_no_signal_that_raises_wherever_the_process_is(
    pattern_set, small_model, unreadable
):
    dataset = ImageDataset(pattern_set(), small_model().transform, report=unreadable)
    batches = evaluation_batches(dataset, 8, workers=2)
    next(batches)
    for worker in multiprocessing.active_children():
        worker.kill()
    until = time.monotonic() + 0.5
    while time.monotonic() < until:  # where torch's handler would raise
        sum(range(1000))
    with pytest.raises(ValueError, match="a process that reads images was killed"):
        list(batches)


def test_a_data_worker_killed_while_it_hands_a_batch_over_is_told_in_a_sentence(
    monkeypatch, pattern_set, small_model, unreadable
):
    def handed_over(*_):
        raise ConnectionResetError(104, "Connection reset by peer")

    monkeypatch.setattr(DataLoader, "__iter__", handed_over)
    dataset = ImageDataset(pattern_set(), small_model().transform, report=unreadable)
    with pytest.raises(ValueError, match=r"a process that reads images was killed.*--workers"):
        embed_set(small_model(), dataset, workers=2)
