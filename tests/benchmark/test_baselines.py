"""Losses of pytorch-metric-learning, as we call them; `tests/losses` puts them through the checks of every loss."""

import pytest
import torch
from torch.nn.functional import normalize
from wrapped_losses import built

from smoothap.benchmark.methods.baselines import (
    ContrastiveWithMemory,
    DistanceWeightedMiner,
    Items,
    NearestMiner,
    SemiHardMiner,
    SoftHardMiner,
)


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


def with_two_far_apart(batch):
    """The batch and a class of two opposite vectors, with all others between them."""
    embeddings, labels = batch
    embeddings = torch.cat([embeddings, embeddings[:1] + 1e-3, -embeddings[:1]])
    return embeddings, torch.cat([labels, torch.tensor([9, 9])])


def drawn_by(miner, embeddings, labels, times=300):
    """The pairs (positive, negative) that are drawn for each anchor."""
    seen = [set() for _ in labels]
    for _ in range(times):
        for a, p, n in zip(*miner(embeddings, labels), strict=True):
            seen[a].add((int(p), int(n)))
    return seen


def test_soft_hard_triplets_are_those_of_the_re_implementation_before_march_2020(batch):
    """For each anchor a positive beyond the nearest negative and a negative within the farthest positive, if any."""
    embeddings, labels = with_two_far_apart(batch)
    distances = torch.cdist(embeddings, embeddings)
    for a, seen in enumerate(drawn_by(SoftHardMiner(), embeddings, labels)):
        positives = [i for i in range(26) if labels[i] == labels[a] and i != a]
        negatives = [i for i in range(26) if labels[i] != labels[a]]
        nearest = min(float(distances[a, n]) for n in negatives)
        farthest = max(float(distances[a, p]) for p in positives)
        hard = [p for p in positives if distances[a, p] > nearest] or positives
        soft_hard = [n for n in negatives if distances[a, n] < farthest] or negatives
        assert seen <= {(p, n) for p in hard for n in soft_hard}
        assert {p for p, _ in seen} == set(hard)
        assert {n for _, n in seen} == set(soft_hard)


def test_a_semi_hard_negative_is_beyond_the_positive_by_less_than_the_margin(batch):
    embeddings, labels = with_two_far_apart(batch)
    distances = torch.cdist(normalize(embeddings, dim=1), normalize(embeddings, dim=1))
    expected = [set() for _ in labels]
    for a in range(26):
        for p in (i for i in range(26) if labels[i] == labels[a] and i != a):
            negatives = [i for i in range(26) if labels[i] != labels[a]]
            semi_hard = [n for n in negatives if distances[a, p] < distances[a, n] < distances[a, p] + 0.1]
            expected[a] |= {(p, n) for n in semi_hard or negatives}
    assert drawn_by(SemiHardMiner(0.1), embeddings, labels, 1000) == expected


@pytest.mark.parametrize(("name", "miner"), [("triplet", SemiHardMiner), ("triplet-softhard", SoftHardMiner)])
def test_the_triplet_loss_is_on_squared_distances_and_a_mean_over_all_anchors(batch, name, miner):
    embeddings, labels = batch
    torch.manual_seed(0)
    anchors, positives, negatives = miner()(embeddings, labels)
    assert anchors.tolist() == list(range(24))
    gaps = (embeddings - embeddings[positives]).square().sum(1) - (embeddings - embeddings[negatives]).square().sum(1)
    expected = (gaps + 0.2).clamp(min=0).mean()
    torch.manual_seed(0)
    assert built(name)(embeddings, labels).item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("miner", [SemiHardMiner, SoftHardMiner, DistanceWeightedMiner, NearestMiner])
def test_an_anchor_is_no_positive_of_itself_in_a_memory(batch, miner):
    embeddings, labels = batch
    embeddings = normalize(embeddings[labels] + 0.01 * embeddings, dim=1)  # no positive is farther than a negative
    self_index = torch.arange(24)
    for _ in range(20):
        anchors, positives, _ = miner()(embeddings, labels, Items(embeddings.clone(), labels, self_index))
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


def test_by_distance_each_anchor_has_one_triplet_and_far_negatives_stay_in(batch):
    """The chances of the re-implementation, number by number: 1 / q(d) of each row, without a cut at 1.4."""
    embeddings, labels = with_two_far_apart(batch)
    embeddings = normalize(embeddings, dim=1)
    expected = torch.zeros(26, 26)
    for a in range(26):
        for n in range(26):
            d = min(max(float((embeddings[a] - embeddings[n]).norm()), 0.5), 1.999)
            if labels[a] != labels[n]:
                expected[a, n] = d ** (2 - 16) * (1 - d**2 / 4) ** (-(16 - 3) / 2)
    expected /= expected.sum(1, keepdim=True)
    drawn = torch.zeros(26, 26)
    torch.manual_seed(0)
    for _ in range(2000):
        anchors, positives, negatives = DistanceWeightedMiner()(embeddings, labels)
        assert anchors.tolist() == list(range(26))
        assert bool((labels[positives] == labels).all())
        assert not bool((positives == anchors).any())
        drawn[anchors, negatives] += 1
    assert (drawn / 2000 - expected).abs().max() < 0.06  # more than five deviations
    assert drawn[25, 0] > 200  # nearly opposite, far beyond 1.4


def test_the_nearest_negatives_from_a_distance_on_are_as_many_as_the_positives(batch):
    embeddings, labels = with_two_far_apart(batch)
    embeddings = normalize(embeddings, dim=1)
    distances = torch.cdist(embeddings, embeddings)
    anchors, positives, negatives = NearestMiner(1.2)(embeddings, labels)
    assert (distances[labels[:, None] != labels] < 1.2).any()
    for a in range(26):
        own = [i for i in range(26) if labels[i] == labels[a] and i != a]
        far = sorted(
            (n for n in range(26) if labels[n] != labels[a] and distances[a, n] >= 1.2), key=distances[a].__getitem__
        )
        assert positives[anchors == a].tolist() == own
        assert negatives[anchors == a].tolist() == far[: len(own)]


def test_proxies_start_an_eighth_as_long_as_normal_numbers():
    proxies = next(built("proxy-nca", 500, 64).parameters())
    assert float(proxies.detach().std()) == pytest.approx(1 / 8, rel=0.05)


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


@pytest.mark.parametrize("name", ["xbm", "triplet", "proxy-nca", "arcface"])
def test_several_labels_for_an_image_are_refused(name):
    with pytest.raises(ValueError, match=r"one label for each image, not labels of shape \(8, 8\)"):
        built(name)(torch.eye(8), torch.eye(8).long())
