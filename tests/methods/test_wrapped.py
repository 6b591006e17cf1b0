"""Losses of pytorch-metric-learning, as we call them; `tests/losses` puts them through the checks of every loss."""

import pytest
import torch
from torch.nn.functional import normalize

from smoothap.methods import _wrapped as wrapped


@pytest.fixture
def batch():
    chance = torch.Generator().manual_seed(0)
    return normalize(torch.randn(24, 16, generator=chance), dim=1), torch.arange(24) // 4


def test_contrastive_is_the_mean_violation_of_pairs(batch):
    embeddings, labels = batch
    cosines = embeddings @ embeddings.T
    same = labels[:, None] == labels
    pulled = (1 - cosines)[same & ~torch.eye(24, dtype=torch.bool)]
    pushed = (cosines - 0.5).clamp(min=0)[~same]
    expected = pulled.mean() + pushed[pushed > 0].mean()
    assert wrapped.contrastive()(embeddings, labels).item() == pytest.approx(expected.item(), rel=1e-5)


def test_triplets_are_semi_hard(batch):
    embeddings, labels = batch
    distances = torch.cdist(embeddings, embeddings)
    losses = []
    for a in range(24):
        for p in range(24):
            for n in range(24):
                gap = distances[a, n] - distances[a, p]
                if labels[a] == labels[p] and a != p and labels[a] != labels[n] and 0 < gap < 0.2:
                    losses.append(0.2 - gap)
    expected = torch.stack(losses).mean()
    assert wrapped.triplet()(embeddings, labels).item() == pytest.approx(expected.item(), rel=1e-4)


def test_proxy_nca_is_that_of_vectors_of_length_three(batch):
    embeddings, labels = batch
    loss = wrapped.proxy_nca(6, 16)
    proxies = 3 * normalize(next(loss.parameters()).detach(), dim=1)
    distances = torch.cdist(3 * embeddings, proxies) ** 2
    expected = torch.nn.functional.cross_entropy(-distances, labels)
    assert loss(embeddings, labels).item() == pytest.approx(expected.item(), rel=1e-4)


def test_a_memory_that_is_the_batch_itself_changes_nothing(batch):
    embeddings, labels = batch
    loss = wrapped.contrastive()
    alone = loss(embeddings, labels)
    remembered = loss(embeddings, labels, embeddings.clone(), labels.clone(), torch.arange(24))
    assert remembered.item() == pytest.approx(alone.item(), rel=1e-6)


def test_labels_beyond_the_classes_are_told(batch):
    embeddings, labels = batch
    with pytest.raises(ValueError, match="labels run from 0 to 5, but this loss was built for classes 0 to 3"):
        wrapped.softmax(4, 16)(embeddings, labels)
