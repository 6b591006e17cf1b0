import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import queries_of

from smoothap import SmoothAP
from smoothap.functional.indicators import Exponential, Linear, Sigmoid, Step
from smoothap.losses.sup_ap import SupIndicator

SMOOTH = [Sigmoid(0.1), Sigmoid(1.0), Linear(0.3), Exponential(0.3), SupIndicator(tau=0.1, rho=7.0, delta=0.4)]


def plain(indicator, x):
    """The formula with the standard library's numbers."""
    match indicator:
        case Sigmoid(tau):
            return 1 / (1 + math.exp(-x / tau))
        case Linear(width):
            return max(0.0, 1 + x / width)
        case Exponential(scale):
            return math.exp(x / scale)
        case Step(at_zero):
            return 1.0 if x > 0 else at_zero if x == 0 else 0.0
    raise AssertionError(indicator)


@pytest.mark.parametrize("indicator", [*SMOOTH[:4], Step(), Step(1.0)], ids=str)
def test_the_value_is_the_formula(indicator):
    for x in (-1.7, -0.31, -0.29, -0.01, 0.0, 0.02, 0.4, 1.9):
        assert indicator(torch.tensor(x, dtype=torch.float64)).item() == pytest.approx(plain(indicator, x), abs=1e-12)


@pytest.mark.parametrize("indicator", SMOOTH, ids=str)
def test_the_slope_is_that_of_the_value(indicator):
    x = torch.tensor([-1.3, -0.5, -0.31, -0.2, -0.001, 0.001, 0.1, 0.39, 0.41, 1.7], dtype=torch.float64)
    value, slope = indicator.with_slope(x.clone())
    assert torch.equal(value, indicator(x))
    difference = (indicator(x + 1e-7) - indicator(x - 1e-7)) / 2e-7
    assert torch.allclose(slope, difference, atol=1e-6)


@pytest.mark.parametrize("indicator", [*SMOOTH, Step(), Step(1.0)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_outside_the_retrieval_set_counts_nothing(indicator, dtype):
    value, slope = indicator.with_slope(torch.tensor([float("-inf")], dtype=dtype))
    assert value.item() == 0
    assert slope.item() == 0
    assert value.dtype == slope.dtype == dtype


@pytest.mark.parametrize("indicator", [Linear(0.3), Exponential(0.3), SupIndicator(), SupIndicator(offset=None)])
def test_linear_exponential_and_sup_count_every_item_above_at_least_once(indicator):
    x = torch.linspace(1e-6, 2, 1000, dtype=torch.float64)
    assert (indicator(x) >= 1 - 1e-4).all()
    assert (indicator(-x) >= 0).all()


def indicator_losses(embeddings, labels, indicator):
    """1 - AP of each query by a loop with the plain formulas, differentiable; queries without a positive left out."""

    def count(x):
        match indicator:
            case Linear(width):
                return torch.relu(1 + x / width)
            case Exponential(scale):
                return torch.exp(x / scale)
            case Sigmoid(tau):
                return 1 / (1 + torch.exp(-x / tau))
        raise AssertionError(indicator)

    losses = []
    for scores, positives, negatives in queries_of(embeddings, labels):
        precisions = []
        for i in positives:
            among = scores.new_ones(()) + sum(count(scores[j] - scores[i]) for j in positives if j != i)
            above = sum(count(scores[j] - scores[i]) for j in negatives)
            precisions.append(among / (among + above))
        losses.append(1 - sum(precisions) / len(positives))
    return torch.stack(losses) if losses else embeddings.new_zeros(1)


@given(
    seed=st.integers(0, 2**31),
    rows=st.integers(2, 9),
    indicator=st.sampled_from([Sigmoid(0.05), Linear(0.2), Linear(1.5), Exponential(0.1), Exponential(1.0)]),
)
def test_the_loss_takes_any_indicator_in_value_and_gradient(seed, rows, indicator):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 3, (rows,), generator=generator)
    embeddings = torch.randn(rows, 4, generator=generator, dtype=torch.float64).requires_grad_()
    ours = SmoothAP(indicator=indicator)(embeddings, labels)
    expected = indicator_losses(embeddings, labels, indicator).mean()
    assert abs(ours - expected).item() <= 1e-10
    if not expected.requires_grad:
        return
    gradients = [torch.autograd.grad(loss, embeddings)[0] for loss in (ours, expected)]
    assert (gradients[0] - gradients[1]).abs().max() <= 1e-9 * max(1, gradients[1].abs().max())


def test_the_step_gives_exact_ap_and_no_gradient():
    generator = torch.Generator().manual_seed(4)
    embeddings = torch.randn(15, 3, generator=generator, dtype=torch.float64).requires_grad_()
    labels = torch.randint(0, 4, (15,), generator=generator)
    loss = SmoothAP(indicator=Step())(embeddings, labels)
    assert loss.item() == pytest.approx(SmoothAP(1e-9)(embeddings, labels).item(), abs=1e-9)
    loss.backward()
    assert (embeddings.grad == 0).all()


def test_many_positives_in_small_pieces_are_the_same(monkeypatch):
    generator = torch.Generator().manual_seed(5)
    embeddings = torch.randn(30, 6, generator=generator, dtype=torch.float64).requires_grad_()
    labels = torch.randint(0, 2, (30,), generator=generator)
    results = []
    for terms in (1 << 21, 30 * 4, 1):
        monkeypatch.setattr("smoothap.functional.block._TERMS_AT_ONCE", terms)
        loss = SmoothAP(indicator=Exponential(0.5))(embeddings, labels)
        results.append((loss, *torch.autograd.grad(loss, embeddings)))
    for result in results[1:]:
        assert torch.allclose(result[0], results[0][0], atol=1e-12)
        assert torch.allclose(result[1], results[0][1], atol=1e-12)


def test_far_apart_scores_stay_finite_in_float32():
    embeddings = torch.tensor([[1.0, 0.0], [-1.0, 1e-3], [1.0, 1e-3], [-1.0, 0.0]]).repeat(50, 1).requires_grad_()
    loss = SmoothAP(indicator=Exponential(0.05))(embeddings, torch.tensor([0, 0, 1, 1]).repeat(50))
    loss.backward()
    assert embeddings.grad.isfinite().all()


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Sigmoid(0), "tau"),
        (lambda: Linear(-1), "width"),
        (lambda: Exponential(0.01), "scale"),
        (lambda: Exponential(float("nan")), "scale"),
        (lambda: SupIndicator(tau=0), "tau"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make, name):
    with pytest.raises(ValueError, match=f"{name} must be"):
        make()
