"""Positives that are given as a mask, and images that have several labels."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import smooth_ap_of_sets

from smoothap import BlackboxAP, CalibrationLoss, RecallAtK, Roadmap, SmoothAP, SupAP

LOSSES = [
    SmoothAP(),
    SmoothAP(0.2, include_query=True),
    SupAP(),
    Roadmap(),
    BlackboxAP(),
    RecallAtK(),
    CalibrationLoss(),
]
LOSSES_BY_NAME = {f"{type(loss).__name__} {place}": loss for place, loss in enumerate(LOSSES)}


def batch(seed, rows=9, items=None, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    embeddings = torch.randn(rows, 4, generator=generator, dtype=dtype)
    mask = torch.rand(rows, items or rows, generator=generator) > 0.6
    return embeddings, mask, torch.randn(items or rows, 4, generator=generator, dtype=dtype)


def by_definition(queries, items, mask, tau, left_out=None):
    """1 - AP of each query with a positive among the marked items, by the loop over terms; 0 without one."""
    queries, items = (rows / rows.norm(dim=1, keepdim=True) for rows in (queries, items))
    losses = []
    for q in range(len(queries)):
        members = [j for j in range(len(items)) if left_out is None or j != left_out[q]]
        positives, negatives = ([j for j in members if bool(mask[q, j]) is side] for side in (True, False))
        loss = 1 - smooth_ap_of_sets(items @ queries[q], positives, negatives, tau) if positives else queries.sum() * 0
        losses.append(loss)
    return torch.stack(losses)


@given(seed=st.integers(0, 2**31), rows=st.integers(2, 9), tau=st.sampled_from([0.3, 0.01]))
def test_a_mask_says_who_is_a_positive_of_whom(seed, rows, tau):
    embeddings, mask, _ = batch(seed, rows)
    ours = SmoothAP(tau, reduction="none")(embeddings, positives=mask)
    assert (ours - by_definition(embeddings, embeddings, mask, tau, range(rows))).abs().max() <= 1e-10


@given(seed=st.integers(0, 2**31), rows=st.integers(1, 8), items=st.integers(1, 12))
def test_a_mask_of_a_retrieval_set(seed, rows, items):
    embeddings, mask, reference = batch(seed, rows, items)
    ours = SmoothAP(0.1, reduction="none")(embeddings, ref_emb=reference, positives=mask)
    assert (ours - by_definition(embeddings, reference, mask, 0.1)).abs().max() <= 1e-10


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", LOSSES_BY_NAME)
def test_a_mask_of_equal_labels_gives_the_numbers_of_labels_bit_for_bit(core_path, name, dtype):
    embeddings, _, _ = batch(3, 40, dtype=dtype)
    labels = torch.randint(0, 9, (40,), generator=torch.Generator().manual_seed(4))
    mask, columns = labels[:, None] == labels, torch.nn.functional.one_hot(labels)
    answers = []
    for form in ({"labels": labels}, {"positives": mask}, {"labels": columns}, {"labels": columns.bool()}):
        rows = embeddings.clone().requires_grad_()
        value = LOSSES_BY_NAME[name](rows, **form).sum()
        answers.append((value, *torch.autograd.grad(value, rows)))
    for value, gradient in answers[1:]:
        assert torch.equal(value, answers[0][0])
        assert torch.equal(gradient, answers[0][1])


@pytest.mark.parametrize("name", LOSSES_BY_NAME)
def test_images_that_share_a_label_are_positives_of_each_other(core_path, name):
    embeddings, _, _ = batch(5, 30, dtype=torch.float32)
    labels = torch.rand(30, 5, generator=torch.Generator().manual_seed(6)) > 0.7
    sharing = (labels.float() @ labels.float().T) > 0
    loss = LOSSES_BY_NAME[name]
    assert torch.equal(loss(embeddings, labels), loss(embeddings, positives=sharing))
    assert torch.equal(loss(embeddings, labels.long()), loss(embeddings, positives=sharing))


def test_the_gradient_of_a_mask_is_that_of_the_value(core_path):
    embeddings, mask, reference = batch(7, 6, 8)
    leaves = embeddings.requires_grad_(), reference.requires_grad_()
    assert torch.autograd.gradcheck(lambda x, y: SmoothAP(0.2)(x, ref_emb=y, positives=mask), leaves)
    assert torch.autograd.gradcheck(lambda x: SmoothAP(0.2)(x, positives=mask[:, :6]), leaves[:1])


def test_a_mask_in_blocks_is_the_mask_at_once(core_path):
    """More queries than a block takes, with as many positives each as they like."""
    embeddings, mask, _ = batch(8, 1100, dtype=torch.float32)
    ours = SmoothAP(reduction="none")(embeddings, positives=mask)
    some = torch.arange(0, 1100, 275)
    expected = by_definition(embeddings[some].double(), embeddings.double(), mask[some], 0.01, some.tolist())
    assert (ours[some] - expected).abs().max() <= 1e-4


def test_a_set_that_is_the_batch_itself_leaves_each_query_out(core_path):
    embeddings, mask, _ = batch(9)
    labels = torch.randint(0, 3, (9,), generator=torch.Generator().manual_seed(2))
    for form, again in (
        ({"labels": labels}, {"labels": labels, "ref_labels": labels}),
        ({"positives": mask}, {"positives": mask}),
    ):
        alone = SmoothAP(reduction="none")(embeddings, **form)
        assert torch.equal(SmoothAP(reduction="none")(embeddings, ref_emb=embeddings, **again), alone)
        copied = SmoothAP(reduction="none")(embeddings, ref_emb=embeddings.clone(), **again)
        assert not torch.equal(copied, alone)  # rows that only look alike may be other images


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"positives": torch.ones(4, 3, dtype=torch.bool)}, r"shape \(4, 4\)"),
        ({"positives": torch.ones(4, 4)}, "mask of True and False"),
        ({"positives": torch.eye(4) > 0, "labels": torch.arange(4)}, "and so does labels"),
        ({"labels": torch.full((4, 2), 2)}, "0 and 1"),
        ({"labels": torch.ones(4, 2, 2, dtype=torch.long)}, "one label per row, or a row"),
        ({"labels": torch.ones(4, 2, dtype=torch.long), "ref_labels": torch.arange(4)}, "same columns"),
        ({}, "labels are missing"),
    ],
)
def test_masks_and_columns_that_do_not_fit_are_refused(form, message):
    reference = {"ref_emb": torch.randn(4, 3)} if "ref_labels" in form else {}
    with pytest.raises(ValueError, match=message):
        SmoothAP()(torch.randn(4, 3), **form, **reference)


@pytest.mark.parametrize("name", LOSSES_BY_NAME)
def test_pairs_alone_are_enough(name):
    """As the losses of pytorch-metric-learning are called where a miner has said all."""
    if LOSSES_BY_NAME[name].include_query:
        pytest.skip("pairs say who is in the retrieval set")
    embeddings, _, _ = batch(10)
    pairs = tuple(torch.tensor(side) for side in ([0, 1], [1, 0], [0, 1], [2, 3]))
    assert torch.isfinite(LOSSES_BY_NAME[name](embeddings, indices_tuple=pairs))
