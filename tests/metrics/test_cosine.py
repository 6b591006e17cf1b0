"""The definition of a score, to the bit; and the bound on what a product may be off."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from core_paths import core_path_is
from guarantees import short_or_long
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import defined_score

from smoothap.metrics.cosine import Cosines, error_bound, given_rows, pair_scores, row_norms, unit_rows


@pytest.fixture(scope="module", params=["fused", "plain"])
def both_paths(request):
    """As core_path, for a whole run of hypothesis."""
    with pytest.MonkeyPatch.context() as patch, core_path_is(request.param, patch):
        yield


UNIT_ROUNDOFF = {np.float32: 2.0**-24, np.float64: 2.0**-53}


def scores_of(left, right):
    sides = [given_rows(rows) for rows in (left, right)]
    places = np.arange(len(left))
    return pair_scores(sides[0], row_norms(sides[0]), sides[1], row_norms(sides[1]), places, places)


@pytest.mark.guarantee(21)
@settings(max_examples=short_or_long(60, 2_000))
@given(
    seed=st.integers(0, 2**31),
    dimension=st.integers(1, 70),
    dtype=st.sampled_from([np.float16, np.float32, np.float64, np.int8]),
    power=st.integers(-70, 60),
)
def test_a_score_is_that_of_a_loop_over_plain_numbers_bit_for_bit(both_paths, seed, dimension, dtype, power):
    random = np.random.default_rng(seed)
    left, right = random.standard_normal((2, 6, dimension))
    if dtype in (np.float32, np.float64):
        left, right = left * 10.0 ** (power / 2), right * 10.0 ** (-power / 3)
    if dtype == np.int8:
        left, right = (np.clip(9 * rows + 30, 1, 120) for rows in (left, right))  # no row may be zero
    left, right = left.astype(dtype), right.astype(dtype)
    expected = [defined_score(x, y) for x, y in zip(left, right, strict=True)]
    assert scores_of(left, right).tolist() == expected


@pytest.mark.guarantee(21)
@pytest.mark.parametrize("dimension", [1, 3, 8, 9, 64, 77, 300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_of_whole_tiles_are_those_of_the_definition(dimension, dtype):
    pytest.importorskip("numba")
    from smoothap.metrics.cosine_kernels import score_tile, turned

    left, right = (given_rows(rows) for rows in np.random.default_rng(0).standard_normal((2, 40, dimension), dtype))
    norms, tile = [row_norms(rows) for rows in (left, right)], np.empty((40, 40))
    for part in range(2):
        score_tile(part, 2, left.numpy(), norms[0], turned(right), norms[1], tile)
    assert tile.tolist() == [[defined_score(x, y) for y in right.numpy()] for x in left.numpy()]


@pytest.mark.guarantee(21)
def test_a_score_on_which_nothing_rounds_is_the_fraction(core_path):
    """Rows of whole numbers whose lengths are whole numbers too: (3, 4), (1, 2, 2), (2, 3, 6), times anything."""
    rows = [(3, 4, 0), (4, 3, 0), (-3, 0, 4), (1, 2, 2), (2, -1, 2), (2, 3, 6), (6, 2, -3), (0, 0, 5)]
    lengths = [5, 5, 5, 3, 3, 7, 7, 5]
    for i, x in enumerate(rows):
        for j, y in enumerate(rows):
            product = sum(a * b for a, b in zip(x, y, strict=True))
            expected = float(Fraction(product, lengths[i] * lengths[j]))
            for scale in (1.0, 2.0**-20, 1024.0):
                left, right = np.array([x], np.float32) * np.float32(scale), np.array([y], np.float32)
                assert scores_of(left, right)[0] == expected


@pytest.mark.guarantee(21)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_rows_and_rows_times_a_power_of_two_have_equal_scores(core_path, dtype):
    random = np.random.default_rng(0)
    query, row = random.standard_normal((2, 1, 77)).astype(dtype)
    expected = scores_of(query, row)
    for power in (-60, -7, 1, 60):
        assert scores_of(query, row * dtype(2.0**power)) == expected
        assert scores_of(query * dtype(2.0**power), row) == expected
    if dtype == np.float64:  # squares of these are beyond float64
        assert scores_of(query * 2.0**600, row * 2.0**-700) == expected


def proposals(left, right, dtype):
    """What a product of unit rows may give: one term after the other, backwards, and by torch."""
    sides = [given_rows(rows) for rows in (left, right)]
    units = [unit_rows(rows, row_norms(rows), getattr(torch, dtype.__name__)).numpy() for rows in sides]
    for step in (1, -1):
        total = np.zeros(len(left), dtype)
        for i in range(left.shape[1])[::step]:
            total = total + units[0][:, i] * units[1][:, i]
        yield total
    yield torch.mm(*(torch.from_numpy(rows) for rows in (units[0][:64], units[1][:64].T))).diagonal().numpy()


@pytest.mark.guarantee(21)
@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 8, 33, 512])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_product_is_further_from_the_definition_than_the_bound(dimension, dtype, measured):
    """Rows that are hard to sum: all of one sign and nearly parallel, so that every rounding counts and none cancel."""
    random = np.random.default_rng(dimension)
    bound, worst = error_bound(dimension, getattr(torch, dtype.__name__)), 0.0
    for _ in range(short_or_long(12, 400)):
        left = np.abs(random.standard_normal((5000 // dimension + 64, dimension))).astype(dtype)
        right = (left * random.uniform(0.9, 1.1, left.shape)).astype(dtype)
        expected = scores_of(left, right)
        for proposed in proposals(left, right, dtype):
            worst = max(worst, np.abs(proposed.astype(np.float64) - expected[: len(proposed)]).max())
    assert worst <= bound
    measured(f"at most {worst / bound:.0%} of the bound with {dimension} numbers of {dtype.__name__}")


@pytest.mark.guarantee(21)
def test_half_the_bound_is_not_enough():
    """With two numbers in a row the error is more than half of the bound, and more than 2 u."""
    random = np.random.default_rng(0)
    left = np.abs(random.standard_normal((400_000, 2))).astype(np.float32)
    right = (left * random.uniform(0.9, 1.1, left.shape)).astype(np.float32)
    expected = scores_of(left, right)
    worst = max(
        np.abs(scores.astype(np.float64) - expected[: len(scores)]).max()
        for scores in proposals(left, right, np.float32)
    )
    assert worst > error_bound(2, torch.float32) / 2
    assert worst > 2 * UNIT_ROUNDOFF[np.float32]


@pytest.mark.guarantee(21)
def test_the_bound_holds_in_fractions():
    """The same with nothing rounded on the side of the truth: the definition's own error is part of the bound."""
    random = np.random.default_rng(1)
    for dimension in (1, 2, 5, 16):
        left = np.abs(random.standard_normal((40, dimension))).astype(np.float32)
        right = (left * random.uniform(0.9, 1.1, left.shape)).astype(np.float32)
        defined = scores_of(left, right)
        for x, y, score, *proposed in zip(left, right, defined, *proposals(left, right, np.float32), strict=False):
            product = sum((Fraction(float(a)) * Fraction(float(b)) for a, b in zip(x, y, strict=True)), Fraction(0))
            squares = [sum((Fraction(float(a)) ** 2 for a in row), Fraction(0)) for row in (x, y)]
            bounds = [error_bound(dimension, torch.float64)] + [error_bound(dimension, torch.float32)] * len(proposed)
            for value, bound in zip((score, *proposed), bounds, strict=True):
                # |value - product / sqrt(a b)| <= bound, without a root: both ends of the interval, squared
                low, high = Fraction(float(value)) - Fraction(bound), Fraction(float(value)) + Fraction(bound)
                assert low <= 0 or low**2 * squares[0] * squares[1] <= product**2
                assert product**2 <= high**2 * squares[0] * squares[1]


def test_scores_of_an_album_are_those_of_the_definition(core_path):
    random = np.random.default_rng(3)
    vectors = random.standard_normal((300, 21)).astype(np.float32)
    vectors[200:] = vectors[100:200]
    cosines, query = Cosines(vectors), random.standard_normal(21).astype(np.float32)
    expected = [defined_score(query, row) for row in vectors]
    assert cosines.of(query).tolist() == expected
    assert cosines.of(query, np.array([7, 250])).tolist() == [expected[7], expected[250]]
    assert cosines.between(np.array([1, 2]), np.array([5, 2]))[0] == defined_score(vectors[1], vectors[5])


def test_rows_too_long_for_a_product_to_say_anything_are_refused():
    with pytest.raises(ValueError, match="too long"):
        error_bound(10_000_000, torch.float32)
