"""Losses of pytorch-metric-learning, as we call them; `tests/losses` puts them through the checks of every loss."""

import pytest
import torch
from pytorch_metric_learning.miners import DistanceWeightedMiner as LibraryMiner
from torch.nn.functional import normalize
from wrapped_losses import built

from smoothap.benchmark.methods.baselines import ContrastiveWithMemory, DistanceWeightedMiner, Items, SemiHardMiner


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
    assert built("contrastive")(embeddings, labels).item() == pytest.approx(expected.item(), rel=1e-5)


def test_triplets_are_drawn_as_in_the_re_implementation(batch):
    """For each anchor a positive beyond the nearest negative and a negative within the farthest positive, if any."""
    embeddings, labels = batch
    embeddings = torch.cat([embeddings, embeddings[:1] + 1e-3, -embeddings[:1]])
    labels = torch.cat([labels, torch.tensor([9, 9])])  # the last two are far apart, with all others between them
    distances = torch.cdist(embeddings, embeddings)
    seen = [set() for _ in labels]
    for _ in range(300):
        for a, p, n in zip(*SemiHardMiner()(embeddings, labels), strict=True):
            seen[a].add((int(p), int(n)))
    for a, label in enumerate(labels):
        positives = [i for i in range(26) if labels[i] == label and i != a]
        negatives = [i for i in range(26) if labels[i] != label]
        nearest = min(float(distances[a, n]) for n in negatives)
        farthest = max(float(distances[a, p]) for p in positives)
        hard = [p for p in positives if distances[a, p] > nearest] or positives
        semi_hard = [n for n in negatives if distances[a, n] < farthest] or negatives
        assert seen[a] <= {(p, n) for p in hard for n in semi_hard}
        assert {p for p, _ in seen[a]} == set(hard)
        assert {n for _, n in seen[a]} == set(semi_hard)


def test_the_triplet_loss_is_on_squared_distances_and_a_mean_over_all_anchors(batch):
    embeddings, labels = batch
    torch.manual_seed(0)
    anchors, positives, negatives = SemiHardMiner()(embeddings, labels)
    assert anchors.tolist() == list(range(24))
    gaps = (embeddings - embeddings[positives]).square().sum(1) - (embeddings - embeddings[negatives]).square().sum(1)
    expected = (gaps + 0.2).clamp(min=0).mean()
    torch.manual_seed(0)
    assert built("triplet")(embeddings, labels).item() == pytest.approx(expected.item(), rel=1e-5)


def test_an_anchor_is_no_positive_of_itself_in_a_memory(batch):
    embeddings, labels = batch
    embeddings = normalize(embeddings[labels] + 0.01 * embeddings, dim=1)  # no positive is farther than a negative
    self_index = torch.arange(24)
    for _ in range(20):
        anchors, positives, _ = SemiHardMiner()(embeddings, labels, Items(embeddings.clone(), labels, self_index))
        assert not (positives == self_index[anchors]).any()


def test_margin_is_that_of_its_paper(batch):
    """[d(a, p) - beta + 0.2]+ and [beta - d(a, n) + 0.2]+ of the drawn triplets, over how many of them are not 0."""
    embeddings, labels = batch
    loss = built("margin")
    with torch.no_grad():
        loss.loss.beta.copy_(torch.linspace(1.0, 1.4, 6))
    torch.manual_seed(0)
    a, p, n = loss.miner(embeddings, labels)
    beta = loss.loss.beta.detach()[labels[a]]
    pulled = ((embeddings[a] - embeddings[p]).norm(dim=1) - beta + 0.2).clamp(min=0)
    pushed = (beta - (embeddings[a] - embeddings[n]).norm(dim=1) + 0.2).clamp(min=0)
    expected = (pulled.sum() + pushed.sum()) / ((pulled > 0).sum() + (pushed > 0).sum())
    torch.manual_seed(0)
    assert loss(embeddings, labels).item() == pytest.approx(expected.item(), rel=1e-4)


def test_negatives_are_drawn_as_often_as_by_the_library(batch):
    """Of unequal classes, one with a single image: as many triplets of each anchor, with the same chances."""
    embeddings, labels = batch
    embeddings = torch.cat([embeddings, embeddings[:5] + 0.3 * embeddings[5:10]])
    labels = torch.cat([labels, torch.tensor([0, 0, 7, 8, 8])])
    counts = []
    for miner in (DistanceWeightedMiner(), LibraryMiner(cutoff=0.5, nonzero_loss_cutoff=1.4)):
        torch.manual_seed(0)
        drawn = torch.zeros(3, 29, 29)  # triplets of an anchor, and how often each positive and negative was drawn
        for _ in range(250):
            anchors, positives, negatives = miner(embeddings, labels)
            for place, others in enumerate((anchors, positives, negatives)):
                drawn[place].index_put_((anchors, others), torch.ones(len(anchors)), accumulate=True)
        counts.append(drawn / 250)
    assert counts[0][0].equal(counts[1][0])
    assert not counts[0][0][26].any()
    for ours, theirs in zip(counts[0][1:], counts[1][1:], strict=True):
        assert (ours - theirs).abs().max() < 0.42  # of up to 6; five deviations of a difference of two such counts
        assert ours.max() > 0.5


def test_proxy_nca_leaves_the_positive_proxy_out_of_the_denominator(batch):
    embeddings, labels = batch
    loss = built("proxy-nca", 6, 16)
    proxies = 3 * normalize(next(loss.parameters()).detach(), dim=1)
    losses = []
    for embedding, label in zip(3 * embeddings, labels, strict=True):
        near = torch.exp(-((embedding - proxies) ** 2).sum(1))
        others = torch.cat([near[:label], near[label + 1 :]])
        losses.append(-torch.log(near[label] / others.sum()))
    expected = torch.stack(losses).mean()
    assert loss(embeddings, labels).item() == pytest.approx(expected.item(), rel=1e-4)


def test_fast_ap_is_the_ap_of_a_soft_histogram(batch):
    """FastAP's Eq. 9: of each bin, its positives times the precision up to it, by hand."""
    embeddings, labels = batch
    values = []
    for query in range(24):
        others = [item for item in range(24) if item != query]
        distances = torch.stack([(embeddings[query] - embeddings[item]).square().sum() for item in others])
        weights = (1 - (distances[:, None] - torch.linspace(0, 4, 11)).abs() / 0.4).clamp(min=0)  # 10 bins of 0.4
        positive = weights[labels[others] == labels[query]].sum(0)
        up_to, all_up_to = positive.cumsum(0), weights.sum(0).cumsum(0)
        values.append(sum(positive[j] * up_to[j] / all_up_to[j] for j in range(11) if positive[j] > 0) / 3)
    expected = 1 - torch.stack(values).mean()
    assert built("fast-ap")(embeddings, labels).item() == pytest.approx(expected.item(), rel=1e-4)


def test_the_memory_s_term_is_added_to_that_of_the_batch(batch):
    """The sums over pairs of the paper's Eq. 3, divided by the number of queries; the memory has no gradient."""
    embeddings, labels = batch
    past = normalize(embeddings.roll(5, 0) + 0.3 * embeddings, dim=1)
    items, item_labels = torch.cat([embeddings, past]), torch.cat([labels, labels])

    def summed(others, other_labels):
        total = 0.0
        for i in range(24):
            for j, cosine in enumerate((embeddings[i] @ others.T).tolist()):
                if labels[i] == other_labels[j]:
                    total += (1 - cosine) if j != i else 0
                else:
                    total += max(0, cosine - 0.3)
        return total / 24

    loss = ContrastiveWithMemory(margin=0.3, weight=0.5)
    expected = summed(embeddings, labels) + 0.5 * summed(items, item_labels)
    memory = items.clone().requires_grad_()
    queries = embeddings.clone().requires_grad_()
    value = loss(queries, labels, memory, item_labels, torch.arange(24))
    value.backward()
    assert value.item() == pytest.approx(expected, rel=1e-4)
    assert loss(embeddings, labels).item() == pytest.approx(summed(embeddings, labels), rel=1e-4)
    assert memory.grad is None
    assert queries.grad.abs().max() > 0
