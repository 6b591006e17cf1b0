"""Divide and Conquer: a slice learns from its cluster alone, and clusters keep their slice."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits
from torch.nn.functional import normalize

from smoothap.benchmark.methods import METHODS
from smoothap.benchmark.methods.divide_and_conquer import (
    ClusterBatches,
    SlicedMargin,
    _matched,
    k_means,
)
from smoothap.data.image_set import ImageSet
from smoothap.data.samplers import BalancedBatches
from smoothap.training.config import TrainingConfig
from smoothap.training.loss import TrainingSetup

LABELS = np.repeat(np.arange(16), 6)


@pytest.fixture
def loss():
    loss = SlicedMargin(dimension=32, clusters=4, images=96, divided_steps=6, sliced_steps=4)
    loss.cluster_of_row.copy_(torch.from_numpy(LABELS % 4))
    return loss


@pytest.fixture
def batches(loss):
    shared = BalancedBatches(LABELS, 16, 4, seed=1, rounds=1)  # epochs of 4 steps
    return ClusterBatches(loss, LABELS, shared, 16, 4, seed=1)


def test_only_the_slice_of_the_cluster_has_a_gradient(loss):
    for cluster in range(4):
        rows = torch.from_numpy(np.flatnonzero(cluster == LABELS % 4))
        chance = torch.Generator().manual_seed(cluster)
        embeddings = normalize(torch.randn(len(rows), 32, generator=chance), dim=1).requires_grad_()
        loss.before_step(rows)
        loss(embeddings, torch.from_numpy(LABELS)[rows]).backward()
        moved = embeddings.grad.abs().sum(0) > 0
        assert moved.nonzero()[:, 0].tolist() == list(range(8 * cluster, 8 * cluster + 8))


def test_its_negatives_are_the_nearest_from_a_distance_on_as_in_the_released_code(loss):
    embeddings = normalize(torch.randn(96, 32, generator=torch.Generator().manual_seed(0)), dim=1)
    anchors, _, negatives = loss.margin.miner(embeddings, torch.from_numpy(LABELS))
    assert len(anchors) == 96 * 5  # all positives, and as many negatives
    nearest = torch.cdist(embeddings, embeddings)
    nearest[torch.from_numpy(LABELS[:, None] == LABELS) | (nearest < 0.5)] = torch.inf
    assert negatives.reshape(96, 5).equal(nearest.argsort(1)[:, :5])


def test_slices_learn_together_before_the_batches_are_of_all_images(loss):
    for _ in range(4):
        loss.before_step(torch.tensor([0]))
    loss.before_step(torch.tensor([0]))
    embeddings = normalize(torch.randn(96, 32, generator=torch.Generator().manual_seed(0)), dim=1).requires_grad_()
    loss(embeddings, torch.from_numpy(LABELS)).backward()
    assert bool((embeddings.grad.abs().sum(0) > 0).all())


def test_a_batch_comes_from_one_cluster_until_all_learn_together(loss, batches):
    drawn = [[draw.row for draw in batch] for epoch in range(2) for batch in batches.draws(epoch)]
    clusters = [set((LABELS % 4)[rows]) for rows in drawn]
    assert all(len(of_batch) == 1 for of_batch in clusters[:6])
    assert set.union(*clusters[:4]) == {0, 1, 2, 3}  # each once in four steps
    assert all(len(of_batch) > 1 for of_batch in clusters[6:])
    for rows in drawn:
        assert len(rows) == 16
        assert np.bincount(LABELS[rows]).max() == 4


def test_new_clusters_take_the_numbers_of_the_old_ones():
    old = np.array([0, 0, 0, 1, 1, 2, 2, 2])
    new = np.array([2, 2, 2, 0, 0, 1, 1, 2])
    assert _matched(new, old, 3).tolist() == [0, 0, 0, 1, 1, 2, 2, 0]


def test_k_means_finds_what_lies_apart():
    random = np.random.default_rng(0)
    centres = np.array([[0, 0], [10, 0], [0, 10]])
    truth = np.repeat(np.arange(3), 30)
    clusters = k_means(centres[truth] + random.normal(0, 0.5, (90, 2)), 3, (0, 0))
    assert len(set(zip(truth.tolist(), clusters.tolist(), strict=True))) == 3
    assert set(clusters) == {0, 1, 2}


def test_k_means_depends_on_the_seed_and_not_on_threads():
    # No clusters to find, and many vectors between two centres: the order of a sum decides where some of them go.
    vectors = np.random.default_rng(0).random((100_000, 2), np.float32)
    clusters = {}
    for threads in (1, 2):
        with threadpool_limits(threads):
            clusters[threads] = [k_means(vectors, 30, (seed, 1)) for seed in range(3)]
    assert np.array_equal(clusters[1], clusters[2])
    assert not np.array_equal(clusters[1][0], clusters[1][1])


def test_the_released_stages_are_80_110_and_10_of_200_epochs():
    images = ImageSet("sop train", [], LABELS, list(range(16)), read=None)
    shared = BalancedBatches(LABELS, 16, 4, rounds=1)
    setup = TrainingSetup(images, SimpleNamespace(dimension=32), TrainingConfig(batch_size=16, epochs=200), shared)
    parts = METHODS["divide-and-conquer"](setup)
    assert (parts.loss.sliced_steps, parts.loss.divided_steps) == (80 * len(shared), 190 * len(shared))
    assert not list(parts.loss.parameters())  # beta stays at 1.2, as there
    few = METHODS["divide-and-conquer"].with_options(clusters="4", sliced=0.5, divided=0.5)(setup)
    assert (few.loss.clusters, few.loss.sliced_steps, few.loss.divided_steps) == (
        4,
        100 * len(shared),
        100 * len(shared),
    )
