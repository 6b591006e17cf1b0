"""Ranks are those of the definition of a score, however close scores lie and whatever proposes them."""

import functools
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from guarantees import short_or_long
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import ranking_by_definition

from smoothap import evaluate
from smoothap.metrics.confusions import class_losses
from smoothap.metrics.known_answer import KNOWN, answer_here


def assert_defined(embeddings, labels, defined=None, block_sizes=(None,)):
    precisions, first_hits = defined or ranking_by_definition(embeddings, labels)
    for block_size in block_sizes:
        report = evaluate(embeddings, labels, progress=False, block_size=block_size)
        assert np.array_equal(report.first_hit_rank, first_hits)
        assert np.allclose(report.average_precision, precisions, atol=1e-14, rtol=0, equal_nan=True)


def close_rows(seed, rows, dimension, dtype):
    """Rows whose scores lie closer together than a product in float32 can tell: few directions, times whole numbers,
    some of them moved by the last bit."""
    random = np.random.default_rng(seed)
    directions = np.round(random.standard_normal((max(2, rows // 6), dimension)) * 1000)
    vectors = directions[random.integers(0, len(directions), rows)] * random.integers(1, 8, (rows, 1))
    vectors = vectors.astype(dtype)
    vectors[~vectors.any(1), 0] = 1
    moved = random.random(rows) < 0.3
    vectors[moved] = np.nextafter(vectors[moved], dtype(np.inf))
    return vectors, random.integers(0, max(2, rows // 5), rows)


@pytest.mark.guarantee(21)
@settings(max_examples=short_or_long(25, 1_000))
@given(
    seed=st.integers(0, 2**31),
    rows=st.integers(2, 45),
    dimension=st.integers(1, 12),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_scores_that_a_product_cannot_tell_apart_are_ranked_by_the_definition(seed, rows, dimension, dtype):
    assert_defined(*close_rows(seed, rows, dimension, dtype))


@functools.cache
def in_many_tiles(samples_per_class, dtype):
    """Close rows in two tiles of 64, their labels, and their ranks by the definition, which takes a while."""
    vectors, _ = close_rows(samples_per_class, 100, 8, dtype)
    labels = np.random.default_rng(0).permutation(np.arange(100) // samples_per_class)
    return vectors, labels, ranking_by_definition(vectors, labels)


@pytest.mark.guarantee(21)
@pytest.mark.parametrize("samples_per_class", [3, 60])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_and_many_positives_in_many_tiles(core_path, samples_per_class, dtype, monkeypatch):
    monkeypatch.setattr("smoothap.metrics.counting._LARGEST_TILE", 64)
    assert_defined(*in_many_tiles(samples_per_class, dtype), block_sizes=(None, 64))


@pytest.mark.guarantee(21)
def test_a_collapsed_model_is_ranked_by_its_last_bits(core_path, monkeypatch):
    """All scores are within 1e-7: every proposal in float32 is undecided, and tiles in float64 take over."""
    monkeypatch.setattr("smoothap.metrics.counting._LARGEST_TILE", 64)
    random = np.random.default_rng(0)
    vectors = (1 + 1e-4 * random.standard_normal((100, 16))).astype(np.float32)
    assert_defined(vectors, random.integers(0, 30, 100))


@pytest.mark.guarantee(21)
@pytest.mark.parametrize("samples_per_class", [3, 60])
def test_codes_of_plus_and_minus_one_tie_in_bulk(core_path, samples_per_class, monkeypatch):
    """A few scores for all pairs, and from 17 positives on many equal thresholds in a bin of their table."""
    monkeypatch.setattr("smoothap.metrics.counting._LARGEST_TILE", 64)
    random = np.random.default_rng(0)
    labels = np.arange(180) // samples_per_class
    codes = np.sign(random.standard_normal((180, 12)) + random.standard_normal((60, 12))[labels])
    assert_defined(codes.astype(np.float32), random.permutation(labels))


@pytest.mark.guarantee(21)
@pytest.mark.parametrize("factor", [1e-23, 1e-40, 1e20, 3e38 / 4])
def test_rows_of_any_length_have_the_same_ranks(core_path, factor):
    random = np.random.default_rng(1)
    labels = np.arange(120) % 30
    vectors = np.round(2000 * (random.standard_normal((30, 16))[labels] + random.standard_normal((120, 16)))) / 2**13
    expected = evaluate(vectors, labels, progress=False)
    scaled = evaluate((vectors * 2.0 ** np.floor(np.log2(factor))).astype(np.float32), labels, progress=False)
    if factor > 1e-38:  # below, float32 has no room for all the digits
        assert scaled.to_json() == expected.to_json()
    assert scaled.mean_average_precision == pytest.approx(expected.mean_average_precision, abs=0.01)


def test_rows_of_float64_beyond_the_square_root_of_its_range(core_path):
    random = np.random.default_rng(1)
    vectors, labels = random.standard_normal((60, 9)), np.arange(60) % 12
    expected = evaluate(vectors, labels, progress=False).to_json()
    for power in (-1000, -510, 515, 1015):
        assert evaluate(np.ldexp(vectors, power), labels, progress=False).to_json() == expected


@contextmanager
def reduced_products(kind):
    products = torch.backends.mkldnn.matmul
    before = torch.get_float32_matmul_precision()
    try:
        if kind == "newer setting":
            products.fp32_precision = "bf16"
        elif kind == "for everything":
            torch.backends.fp32_precision = "tf32"
        else:
            torch.set_float32_matmul_precision("medium")
        yield
    finally:
        if kind == "for everything":
            torch.backends.fp32_precision = "none"
        torch.set_float32_matmul_precision(before)


@pytest.mark.guarantee(21)
@pytest.mark.parametrize("kind", ["older setting", "newer setting", "for everything"])
def test_products_that_the_user_made_less_precise_change_nothing(kind):
    """Whichever way they were switched on, they are off inside, and on again afterwards."""
    if kind != "older setting" and not hasattr(getattr(torch.backends.mkldnn, "matmul", None), "fp32_precision"):
        pytest.skip("this torch has the older setting alone")
    vectors, labels = close_rows(3, 200, 16, np.float32)
    expected = evaluate(vectors, labels, progress=False).to_json()
    with reduced_products(kind):
        inside = torch.backends.mkldnn.matmul.fp32_precision if kind != "older setting" else None
        assert evaluate(vectors, labels, progress=False).to_json() == expected
        if kind == "older setting":
            assert torch.get_float32_matmul_precision() == "medium"
        else:
            assert torch.backends.mkldnn.matmul.fp32_precision == inside


@pytest.mark.guarantee(21)
def test_what_classes_take_is_counted_by_the_definition_too(core_path):
    """The AP that all classes take from one is the AP that the evaluation says it lost."""
    vectors, labels = close_rows(4, 120, 7, np.float32)
    lost = 1 - evaluate(vectors, labels, progress=False).average_precision
    for row in class_losses(vectors, labels, progress=False):
        assert row.taken.sum() == pytest.approx(np.nansum(lost[labels == row.losing]), abs=1e-12)


@pytest.mark.guarantee(21)
def test_the_one_constant_for_the_world(core_path):
    """Not a bit may differ on any processor: see smoothap/metrics/known_answer.py."""
    assert answer_here() == KNOWN
