import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import queries_of
from pytorch_metric_learning.distances import CosineSimilarity
from pytorch_metric_learning.losses import ContrastiveLoss

from smoothap import CalibrationLoss, Roadmap, SupAP, average_precision


def batch(seed, rows=10, classes=3, dimension=4):
    generator = torch.Generator().manual_seed(seed)
    embeddings = torch.randn(rows, dimension, generator=generator, dtype=torch.float64).requires_grad_()
    return embeddings, torch.randint(0, classes, (rows,), generator=generator)


def sup_ap_losses(embeddings, labels, tau=0.01, rho=100.0, delta=0.05, offset=1.44, step=0.5):
    """1 - SupAP of each query with a positive, term by term: true ranks among positives, H^- for negatives."""
    losses = []
    for scores, positives, negatives in queries_of(embeddings, labels):
        precisions = []
        for i in positives:
            among = 1 + sum(int(scores[j] >= scores[i]) for j in positives if j != i)
            above = scores[i] * 0
            for j in negatives:
                x = scores[j] - scores[i]
                if x <= 0:
                    above = above + torch.sigmoid(x / tau)
                elif x <= delta:
                    above = above + torch.sigmoid(x / tau) + step
                else:
                    above = above + rho * x + offset
            precisions.append(among / (among + above))
        losses.append(1 - torch.stack(precisions).mean())
    return torch.stack(losses) if losses else embeddings.sum(1) * 0


@given(
    seed=st.integers(0, 2**31),
    rows=st.integers(2, 9),
    settings=st.sampled_from([{}, {"offset": 1.0, "step": 0.0}, {"tau": 0.2, "rho": 3.0, "delta": 0.5}]),
)
def test_sup_ap_is_the_definition_term_by_term(seed, rows, settings):
    embeddings, labels = batch(seed, rows)
    ours, expected = SupAP(**settings)(embeddings, labels), sup_ap_losses(embeddings, labels, **settings).mean()
    assert abs(ours - expected).item() <= 1e-10
    gradients = [torch.autograd.grad(loss, embeddings)[0] for loss in (ours, expected)]
    assert (gradients[0] - gradients[1]).abs().max() <= 1e-8 * max(1, gradients[1].abs().max())


@given(seed=st.integers(0, 2**31), rows=st.integers(4, 12), offset=st.sampled_from([1.44, None]))
def test_sup_ap_is_never_below_one_minus_the_true_ap(seed, rows, offset):
    embeddings, labels = batch(seed, rows)
    units = (embeddings / embeddings.norm(dim=1, keepdim=True)).detach()
    others = ~torch.eye(rows, dtype=torch.bool)
    scores = (units @ units.T).masked_fill(~others, float("-inf"))
    true = 1 - average_precision(scores, (labels[:, None] == labels) & others).nanmean().nan_to_num(1.0)
    assert SupAP(offset=offset)(embeddings, labels).item() >= true - 1e-9


def test_a_negative_far_above_still_pushes_where_smooth_ap_has_gone_flat():
    query = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    items = torch.tensor([[0.0, 1.0], [1.0, 0.01]], dtype=torch.float64, requires_grad=True)  # the negative is 1 above
    given = {"ref_emb": items, "ref_labels": torch.tensor([0, 1])}
    SupAP()(query, torch.tensor([0]), **given).backward()
    assert items.grad[0].abs().max() > 1e-3


@given(seed=st.integers(0, 2**31), margins=st.sampled_from([(0.9, 0.6), (0.3, 0.1), (-1.0, 1.0)]))
def test_calibration_is_the_librarys_contrastive_loss(seed, margins):
    embeddings, _ = batch(seed, rows=12)
    labels = torch.randperm(12, generator=torch.Generator().manual_seed(seed)) % 4  # three of each: nobody is alone
    library = ContrastiveLoss(pos_margin=margins[0], neg_margin=margins[1], distance=CosineSimilarity())
    ours, theirs = CalibrationLoss(*margins)(embeddings, labels), library(embeddings, labels)
    assert abs(ours - theirs).item() <= 1e-10
    gradients = [torch.autograd.grad(loss, embeddings)[0] for loss in (ours, theirs)]
    assert (gradients[0] - gradients[1]).abs().max() <= 1e-10


def test_calibration_against_a_retrieval_set_counts_each_broken_pair_once():
    queries = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64, requires_grad=True)
    items = torch.tensor([[1.0, 1.0], [1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64, requires_grad=True)
    labels, item_labels = torch.tensor([0, 5]), torch.tensor([0, 1, 0])
    loss = CalibrationLoss(0.9, 0.6)
    ours = loss(queries, labels, ref_emb=items, ref_labels=item_labels)
    diagonal = 0.5**0.5
    # positives of query 0: cosines 0.707 and -1; its negative: 1; query 1 has negatives alone, of which one is too near
    too_high = ((1 - 0.6) + (diagonal - 0.6)) / 2
    assert ours.item() == pytest.approx(((0.9 - diagonal) + (0.9 + 1)) / 2 + too_high)
    pair = (queries.detach() + 0.1, items.detach() + 0.05)
    pair = tuple(leaf.requires_grad_() for leaf in pair)
    assert torch.autograd.gradcheck(lambda q, r: loss(q, labels, None, r, item_labels), pair)


def test_one_broken_pair_counts_whole():
    one, item = torch.tensor([[1.0, 0.0]], dtype=torch.float64), torch.tensor([[0.8, 0.6]], dtype=torch.float64)
    for label, wanted in ((0, 0.9 - 0.8), (1, 0.8 - 0.6)):
        ours = CalibrationLoss(0.9, 0.6)(one, torch.tensor([0]), ref_emb=item, ref_labels=torch.tensor([label]))
        assert ours.item() == pytest.approx(wanted)


def test_roadmap_is_the_balance_of_its_parts():
    embeddings, labels = batch(3)
    parts = SupAP()(embeddings, labels), CalibrationLoss()(embeddings, labels)
    assert torch.allclose(Roadmap()(embeddings, labels), (parts[0] + parts[1]) / 2)
    assert torch.allclose(Roadmap(0.25)(embeddings, labels), 0.75 * parts[0] + 0.25 * parts[1])
    custom = Roadmap(0.5, SupAP(tau=0.1), CalibrationLoss(0.5, 0.1))(embeddings, labels)
    expected = SupAP(tau=0.1)(embeddings, labels) + CalibrationLoss(0.5, 0.1)(embeddings, labels)
    assert torch.allclose(custom, expected / 2)


@pytest.mark.parametrize("settings", [{"balance": -0.1}, {"balance": 1.1}])
def test_a_balance_outside_its_range_is_refused(settings):
    with pytest.raises(ValueError, match="balance"):
        Roadmap(**settings)


@given(seed=st.integers(0, 2**31), singles=st.integers(0, 6), pairs=st.integers(0, 3))
def test_negatives_of_a_query_without_a_positive_are_calibrated_too(seed, singles, pairs):
    embeddings, _ = batch(seed, max(2, singles + 2 * pairs))
    labels = torch.tensor([place // 2 if place < 2 * pairs else place for place in range(len(embeddings))])
    expected = ContrastiveLoss(0.9, 0.6, distance=CosineSimilarity())(embeddings, labels)
    assert CalibrationLoss()(embeddings, labels).item() == pytest.approx(expected.item(), abs=1e-6)


@pytest.mark.parametrize("loss", [CalibrationLoss(), Roadmap()])
def test_a_query_whose_class_is_not_in_the_set_keeps_all_its_negatives(loss):
    random = torch.Generator().manual_seed(0)
    embeddings, items = (torch.randn(8, 6, generator=random, dtype=torch.float64) for _ in range(2))
    labels, item_labels = torch.arange(8) % 4, torch.arange(8) % 3
    mask = labels[:, None] == item_labels
    by_mask = loss(embeddings, ref_emb=items, positives=mask)
    torch.testing.assert_close(loss(embeddings, labels, ref_emb=items, ref_labels=item_labels), by_mask)
