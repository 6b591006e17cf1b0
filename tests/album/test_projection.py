"""A projection gives each vector the same bits in any company and on any number of threads, and the right ones."""

import numpy as np
import pytest
import torch

from smoothap.album.projection import Projection


@pytest.fixture
def vectors():
    random = np.random.default_rng(0)
    rows = random.normal(size=(300, 96)).astype(np.float32)
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def projection():
    random = np.random.default_rng(1)
    return Projection(random.normal(size=(40, 96)).astype(np.float32), random.normal(size=40).astype(np.float32))


def test_it_is_the_product_plus_the_bias_at_length_one(vectors, projection):
    exact = vectors.astype(np.longdouble) @ projection.weight.T.astype(np.longdouble) + projection.bias
    exact /= np.sqrt((exact**2).sum(axis=1, keepdims=True))
    projected = projection(vectors)
    assert projected.dtype == np.float32
    assert np.abs(projected - exact).max() < 2e-7
    assert np.abs((projected.astype(float) ** 2).sum(axis=1) - 1).max() < 1e-6


def test_a_row_has_the_same_bits_alone_and_among_others(vectors, projection):
    together = projection(vectors)
    for row in range(0, 300, 7):
        assert (projection(vectors[row : row + 1]) == together[row]).all()
    shuffled = np.random.default_rng(2).permutation(300)
    assert (projection(vectors[shuffled]) == together[shuffled]).all()


def test_all_sums_are_exact_whole_numbers(vectors, projection):
    """Python's integers, which have no limit, add up to what the product of floats says."""
    weights = projection._whole_weights()
    whole = np.rint(np.column_stack([vectors, np.ones(300)]).astype(np.float64) * 2.0**26)
    product = whole[:5] @ weights
    for row in range(5):
        for column in range(40):
            terms = [int(a) * int(b) for a, b in zip(whole[row], weights[:, column], strict=True)]
            assert sum(terms) == int(product[row, column])
            assert sum(sorted(abs(term) for term in terms)) < 2**53 * 97**0.5
    lengths = [sum(int(a) ** 2 for a in line) for line in (*whole, *weights.T)]
    assert max(lengths[:300]) * max(lengths[300:]) < 2**106  # so that, by Cauchy and Schwarz, no sum passes 2^53


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_no_bit(vectors, projection, threads):
    once, before = projection(vectors), torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        assert (projection(vectors) == once).all()
    finally:
        torch.set_num_threads(before)


def test_scaled_weights_give_the_same_directions(vectors, projection):
    for factor in (2.0**-40, 2.0**30):
        scaled = Projection(projection.weight * np.float32(factor), projection.bias * np.float32(factor))
        assert (scaled(vectors) == projection(vectors)).all()


def test_what_is_no_projection_is_refused(projection):
    with pytest.raises(ValueError, match=r"weights \(k, d\) with a bias"):
        Projection(projection.weight, projection.bias[:-1])
    broken = projection.weight.copy()
    broken[3, 4] = np.nan
    with pytest.raises(ValueError, match="finite"):
        Projection(broken, projection.bias)
    with pytest.raises(ValueError, match="not all 0"):
        Projection(0 * projection.weight, projection.bias)
    with pytest.raises(ValueError, match="of length 1, and some are not"):
        projection(np.ones((2, 96), np.float32))
    with pytest.raises(ValueError, match="do not go with a projection of 96"):
        projection(np.ones((2, 5), np.float32))


def test_it_comes_back_from_its_array(vectors, projection):
    again = Projection.from_array(projection.to_array())
    assert (again.weight == projection.weight).all()
    assert (again.bias == projection.bias).all()
