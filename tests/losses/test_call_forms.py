import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import smooth_ap_losses, smooth_ap_of_sets
from pytorch_metric_learning.losses import CrossBatchMemory

from smoothap import SmoothAP


def two_sets(seed=0, rows=6, items=15, classes=4, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    embeddings = torch.randn(rows, 5, generator=generator, dtype=dtype)
    reference = torch.randn(items, 5, generator=generator, dtype=dtype)
    labels = torch.randint(0, classes, (rows,), generator=generator)
    return embeddings, labels, reference, torch.randint(0, classes, (items,), generator=generator)


@pytest.mark.guarantee(2)
@given(seed=st.integers(0, 2**31), rows=st.integers(1, 8), items=st.integers(1, 12), tau=st.sampled_from([0.3, 0.01]))
def test_a_reference_set_takes_the_place_of_the_batch(seed, rows, items, tau):
    embeddings, labels, reference, reference_labels = two_sets(seed, rows, items)
    ours = SmoothAP(tau, reduction="none")(embeddings, labels, ref_emb=reference, ref_labels=reference_labels)
    expected = smooth_ap_losses(embeddings, labels, tau, ref_emb=reference, ref_labels=reference_labels)
    assert (ours - expected).abs().max() <= 1e-10


@pytest.mark.guarantee(1)
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_gradients_flow_to_queries_and_reference(core_path, reduction):
    embeddings, labels, reference, reference_labels = two_sets(1)
    self_index = torch.tensor([3, -1, -1, 0, 14, -1])
    loss = SmoothAP(0.2, reduction=reduction)

    def value(queries, items):
        return loss(queries, labels, ref_emb=items, ref_labels=reference_labels, self_index=self_index)

    pair = (embeddings.requires_grad_(), reference.requires_grad_())
    assert torch.autograd.gradcheck(value, pair)
    exact = torch.autograd.grad(value(*pair).sum(), pair)
    rounded = tuple(leaf.detach().float().requires_grad_() for leaf in pair)
    for mine, theirs in zip(torch.autograd.grad(value(*rounded).sum(), rounded), exact, strict=True):
        assert torch.allclose(mine.double(), theirs, atol=1e-4)


def test_only_what_asks_for_a_gradient_gets_one(core_path):
    embeddings, labels, reference, reference_labels = two_sets(2, dtype=torch.float32)
    reference.requires_grad_()
    SmoothAP(0.2)(embeddings, labels, ref_emb=reference, ref_labels=reference_labels).backward()
    assert embeddings.grad is None
    assert reference.grad.abs().sum() > 0


def test_the_own_column_is_left_out_whatever_its_label(core_path):
    embeddings, labels, reference, reference_labels = two_sets(3)
    self_index = torch.tensor([0, 1, 2, 3, -1, 4])
    ours = SmoothAP(0.1, reduction="none")(embeddings, labels, None, reference, reference_labels, self_index)
    expected = smooth_ap_losses(embeddings, labels, 0.1, False, reference, reference_labels, self_index)
    assert (ours - expected).abs().max() <= 1e-10


def listed_losses(embeddings, positives, negatives, tau):
    units = embeddings / embeddings.norm(dim=1, keepdim=True)
    values = []
    for q in range(len(units)):
        mine = sorted(positives.get(q, set()))
        others = sorted(negatives.get(q, set()))
        scores = units @ units[q]
        values.append(1 - smooth_ap_of_sets(scores, mine, others, tau) if mine else units.new_zeros(()))
    return torch.stack(values)


def test_listed_pairs_are_the_positives_and_negatives_and_nothing_else_is(core_path):
    embeddings, *_ = two_sets(6, rows=8)
    pairs = (
        torch.tensor([0, 0, 1, 1, 1, 5]),
        torch.tensor([1, 2, 0, 7, 7, 6]),
        torch.tensor([0, 0, 1, 2, 5]),
        torch.tensor([3, 4, 4, 6, 0]),
    )
    expected = listed_losses(embeddings, {0: {1, 2}, 1: {0, 7}, 5: {6}}, {0: {3, 4}, 1: {4}, 2: {6}, 5: {0}}, 0.1)
    ours = SmoothAP(0.1, reduction="none")(embeddings, None, pairs)
    assert (ours - expected).abs().max() <= 1e-10
    embeddings.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: SmoothAP(0.1)(x, None, pairs), (embeddings,))


def test_listed_triplets_are_the_same_as_their_pairs(core_path):
    embeddings, *_ = two_sets(7, rows=6, dtype=torch.float32)
    anchor, positive, negative = torch.tensor([0, 0, 0, 3]), torch.tensor([1, 1, 2, 4]), torch.tensor([3, 4, 3, 5])
    expected = listed_losses(embeddings.double(), {0: {1, 2}, 3: {4}}, {0: {3, 4}, 3: {5}}, 0.1)
    ours = SmoothAP(0.1, reduction="none")(embeddings, None, (anchor, positive, negative))
    assert torch.allclose(ours.double(), expected, atol=1e-5)


def test_no_listed_pairs_ask_nothing():
    nothing = torch.empty(0, dtype=torch.long)
    embeddings = torch.randn(4, 3, requires_grad=True)
    loss = SmoothAP()(embeddings, None, (nothing, nothing, nothing, nothing))
    loss.backward()
    assert loss == 0
    assert (embeddings.grad == 0).all()


def test_the_librarys_cross_batch_memory_works_with_it():
    class Memory(CrossBatchMemory):
        @staticmethod
        def check_loss_support(loss_name):
            """The library lets only losses that it lists by name through; ours takes the same arguments."""

    generator = torch.Generator().manual_seed(0)
    memory = Memory(SmoothAP(0.1), embedding_size=5, memory_size=12)
    batches = [torch.randn(6, 5, generator=generator) for _ in range(3)]
    labels = torch.tensor([0, 0, 1, 1, 2, 2])
    for seen, batch in enumerate(batches):
        embeddings = batch.clone().requires_grad_()
        loss = memory(embeddings, labels)
        loss.backward()
        # the memory already holds this batch, whose own columns the library's pairs leave out
        reference = torch.cat(batches[max(0, seen - 1) : seen + 1])
        reference_labels = labels.repeat(len(reference) // 6)
        self_index = torch.arange(6) + len(reference) - 6
        expected = smooth_ap_losses(batch, labels, 0.1, False, reference, reference_labels, self_index).mean()
        assert abs(loss.item() - expected.item()) < 1e-5
        assert embeddings.grad.abs().sum() > 0
