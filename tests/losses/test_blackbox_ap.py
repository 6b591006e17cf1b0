"""Blackbox AP and recall against their definition by brute force: the ranking is the permutation that costs least."""

from itertools import permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from smoothap import BlackboxAP, BlackboxRecall


def ranking(scores):
    """The ranks 1 ... n that minimise scores . ranks, by trying every order. (n,) -> (n,)"""
    orders = torch.tensor(list(permutations(range(1, len(scores) + 1))), dtype=scores.dtype)
    return orders[(orders @ scores).argmin()]


def rank_loss(ranks, relevant):
    """1 - AP from ranks divided by their number; the rank among positives is a constant."""
    among = [(ranks.detach()[relevant] <= rank).sum() for rank in ranks.detach()[relevant] + 1e-9]
    return 1 - (torch.stack(among).double() / len(ranks) / ranks[relevant]).mean()


def recall_loss(ranks, relevant):
    """Log(1 + log(1 + r)) of how many negatives, r, rank above each positive."""
    among = [(ranks.detach()[relevant] <= rank).sum() for rank in ranks.detach()[relevant] + 1e-9]
    above = (ranks[relevant] * len(ranks) - torch.stack(among)).clamp(min=-1e-9)
    return (1 + (1 + above).log()).log().mean()


def interpolated(scores, relevant, slope, lambda_):
    """f_lambda of the blackbox paper, with the loss linear in the ranks: slope . ranks. A scalar, affine in pieces."""
    size = len(scores)
    solution = ranking(scores) / size
    moved = ranking(scores + lambda_ * slope) / size
    return slope @ moved - (scores @ solution - scores @ moved) / lambda_


@given(
    seed=st.integers(0, 2**31),
    relevance=st.lists(st.booleans(), min_size=2, max_size=6).filter(any),
    lambda_=st.sampled_from([0.5, 4.0, 20.0]),
    margin=st.sampled_from([0.0, 0.02, 0.5]),
    kind=st.sampled_from([(BlackboxAP, rank_loss), (BlackboxRecall, recall_loss)]),
)
def test_value_and_gradient_are_those_of_its_own_definition(seed, relevance, lambda_, margin, kind):
    build, definition = kind
    generator = torch.Generator().manual_seed(seed)
    relevant = torch.tensor(relevance)
    size = len(relevance)
    query, items = (torch.randn(n, 3, generator=generator, dtype=torch.float64) for n in (1, size))
    items.requires_grad_()
    loss = build(lambda_, margin)(query, torch.tensor([1]), ref_emb=items, ref_labels=relevant.long())
    (ours,) = torch.autograd.grad(loss, items)

    units = items / items.norm(dim=1, keepdim=True)
    cosines = units @ (query / query.norm())[0]
    shifted = (cosines - margin * (relevant.double() - 0.5)).detach()
    ranks = (ranking(shifted) / size).requires_grad_()
    value = definition(ranks, relevant)
    assert loss.item() == pytest.approx(value.item(), abs=1e-12)
    if build is BlackboxAP:
        assert loss.item() == pytest.approx(1 - average_precision_score(relevant, shifted), abs=1e-12)

    (slope,) = torch.autograd.grad(value, ranks)
    step = 1e-7
    differences = []
    for j in range(size):
        moved = torch.zeros(size, dtype=torch.float64)
        moved[j] = step
        up, down = (interpolated(shifted + sign * moved, relevant, slope, lambda_) for sign in (1, -1))
        differences.append((up - down) / (2 * step))
    (expected,) = torch.autograd.grad(cosines @ torch.stack(differences).detach(), items)
    assert (ours - expected).abs().max() <= 1e-6


def test_the_mean_over_queries_is_what_lambda_acts_on():
    """Two queries: each moves its scores by half of what it would alone, and a weight given later only scales."""
    generator = torch.Generator().manual_seed(2)
    queries = torch.randn(2, 4, generator=generator, dtype=torch.float64)
    items = torch.randn(9, 4, generator=generator, dtype=torch.float64).requires_grad_()
    labels, item_labels = torch.tensor([0, 1]), torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2])
    both = BlackboxAP(8.0)(queries, labels, ref_emb=items, ref_labels=item_labels)
    (gradient,) = torch.autograd.grad(both, items, retain_graph=True)
    (scaled,) = torch.autograd.grad(both, items, torch.tensor(64.0, dtype=torch.float64))
    assert torch.allclose(scaled, 64 * gradient)
    alone = [
        torch.autograd.grad(BlackboxAP(4.0)(queries[[q]], labels[[q]], ref_emb=items, ref_labels=item_labels), items)
        for q in (0, 1)
    ]
    # half the slope, twice the lambda: the same new ranks, divided by twice the lambda
    assert torch.allclose(gradient, sum(pair[0] for pair in alone) / 2, atol=1e-12)
    assert gradient.abs().max() > 0


def test_the_margin_counts_a_negative_that_is_just_below():
    query, labels = torch.tensor([[1.0, 0.0]]), torch.tensor([0])
    items = torch.tensor([[1.0, 0.10], [1.0, 0.12]])  # the negative is 0.002 below
    given = {"ref_emb": items, "ref_labels": torch.tensor([0, 1])}
    assert BlackboxAP(margin=0.0)(query, labels, **given).item() == 0
    assert BlackboxAP(margin=0.02)(query, labels, **given).item() == 0.5


def test_equal_scores_count_against_a_positive_in_any_order():
    labels = torch.tensor([0, 0, 1, 1, 1])
    embeddings = torch.ones(5, 3, requires_grad=True)
    loss = BlackboxAP(margin=0.0)(embeddings, labels)
    expected = [average_precision_score(labels[torch.arange(5) != q] == labels[q], [1.0] * 4) for q in range(5)]
    assert loss.item() == pytest.approx(1 - sum(expected) / 5, abs=1e-6)


@pytest.mark.parametrize(
    "settings", [{"lambda_": 0}, {"lambda_": float("inf")}, {"margin": -0.1}, {"margin": float("nan")}]
)
def test_settings_that_make_no_sense_are_refused(settings):
    for build in (BlackboxAP, BlackboxRecall):
        with pytest.raises(ValueError, match=next(iter(settings))):
            build(**settings)
