"""The share of the operating region and AP_e, against the plain B x B x B way."""

import pytest
import torch
from sklearn.metrics import average_precision_score

from smoothap.functional.diagnostics import approximation_error, operating_share, operating_width


def batch(size, seed=0):
    torch.manual_seed(seed)
    return torch.nn.functional.normalize(torch.randn(size, 6, dtype=torch.float64), dim=1)


@pytest.mark.parametrize("tau", [0.001, 0.01, 0.1, 1.0])
def test_at_the_edge_of_the_region_the_slope_is_the_limit(tau):
    edge = torch.tensor(operating_width(tau), dtype=torch.float64, requires_grad=True)
    torch.sigmoid(edge / tau).backward()
    assert edge.grad.item() == pytest.approx(0.005, rel=1e-6)


def test_a_sigmoid_that_is_nowhere_so_steep_has_no_region():
    assert operating_width(1000.0) == 0.0
    assert operating_share(batch(8), 1000.0) == 0.0


@pytest.mark.parametrize("tau", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("size", [3, 8, 25])
def test_the_share_is_that_of_the_whole_difference_matrix(size, tau):
    embeddings = batch(size)
    scores = embeddings @ embeddings.T
    inside = pairs = 0
    for query in range(size):
        others = torch.cat([scores[query, :query], scores[query, query + 1 :]])
        difference = others[None, :] - others[:, None]  # D, Eq. 4
        smooth = torch.sigmoid(difference / tau)
        steep = smooth * (1 - smooth) / tau > 0.005
        inside += int(steep.sum() - steep.diagonal().sum())
        pairs += (size - 1) * (size - 2)
    assert operating_share(embeddings, tau) == pytest.approx(inside / pairs, abs=1e-12)


def test_equal_embeddings_are_all_in_the_region():
    assert operating_share(torch.ones(6, 4) / 2, 0.01) == 1.0


@pytest.mark.parametrize("size", [1, 2])
def test_fewer_than_two_others_have_no_difference(size):
    assert operating_share(batch(size), 0.01) == 0.0


@pytest.mark.parametrize("tau", [0.001, 0.01, 0.1])
def test_the_error_is_that_of_the_definition(tau):
    embeddings, labels = batch(20), torch.arange(20) % 6
    scores = embeddings @ embeddings.T
    errors = []
    for query in range(20):
        others = [item for item in range(20) if item != query]
        relevant = labels[others] == labels[query]
        row = scores[query, others]
        soft = torch.sigmoid((row[None, :] - row[:, None]) / tau)
        soft.fill_diagonal_(0)
        precision = (1 + soft[:, relevant].sum(1)) / (1 + soft.sum(1))
        exact = average_precision_score(relevant.numpy(), row.numpy())
        errors.append(abs(precision[relevant].mean().item() - exact))
    assert approximation_error(embeddings, labels, tau) == pytest.approx(sum(errors) / 20, abs=1e-9)


def test_a_query_without_a_positive_does_not_count():
    embeddings = batch(7)
    alone = approximation_error(embeddings, torch.tensor([0, 0, 0, 1, 1, 2, 3]), 0.05)
    assert 0 <= alone < 1
