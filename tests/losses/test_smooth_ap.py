import pytest
import torch
from guarantees import short_or_long
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import authors_loss, smooth_ap_losses

from smoothap import SmoothAP


def random_batch(seed, rows=10, classes=4, dimension=5, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    embeddings = torch.randn(rows, dimension, generator=generator, dtype=dtype)
    return embeddings, torch.randint(0, classes, (rows,), generator=generator)


@pytest.mark.guarantee(2)
@settings(max_examples=short_or_long(1_000, 50_000))
@given(
    seed=st.integers(0, 2**31),
    rows=st.integers(1, 12),
    classes=st.integers(1, 6),
    tau=st.sampled_from([1.0, 0.1, 0.01]),
    include_query=st.booleans(),
    tied=st.booleans(),
)
def test_the_loss_is_the_equation_term_by_term(seed, rows, classes, tau, include_query, tied):
    embeddings, labels = random_batch(seed, rows, classes, 3)
    if tied:
        embeddings = embeddings.sign() + (embeddings == 0)
    ours = SmoothAP(tau, include_query, "none")(embeddings, labels)
    assert (ours - smooth_ap_losses(embeddings, labels, tau, include_query)).abs().max() <= 1e-10


@given(
    seed=st.integers(0, 2**31),
    rows=st.integers(2, 14),
    classes=st.integers(1, 5),
    tau=st.sampled_from([0.1, 0.01]),
    include_query=st.booleans(),
)
def test_the_compiled_path_agrees_with_float64_in_value_and_gradient(seed, rows, classes, tau, include_query):
    embeddings, labels = random_batch(seed, rows, classes, 4)
    exact = embeddings.requires_grad_()
    rounded = embeddings.detach().float().requires_grad_()
    loss = SmoothAP(tau, include_query)
    for leaf in (exact, rounded):
        loss(leaf, labels).backward()
    assert abs(loss(rounded, labels).item() - loss(exact, labels).item()) <= 3e-5
    assert (rounded.grad - exact.grad).abs().max() <= 2e-4 * max(1, exact.grad.abs().max())


@pytest.mark.parametrize("include_query", [False, True])
@pytest.mark.parametrize(
    "sizes", [(4,) * 150, (1, 2, 3, 50, 7, 1) * 12, (400, 1, 4), (190, 2, 3, 2), (300, 3, 200, 1) * 2]
)
def test_batches_of_many_tiles_and_uneven_classes_agree_with_the_plain_path(sizes, include_query, monkeypatch):
    generator = torch.Generator().manual_seed(1)
    labels = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    labels = labels[torch.randperm(len(labels), generator=generator)]
    centres = torch.randn(len(sizes), 16, generator=generator)
    embeddings = centres[labels] + torch.randn(len(labels), 16, generator=generator)
    monkeypatch.setattr("smoothap.losses.symmetric._TILE_ROWS", 128)
    monkeypatch.setattr("smoothap.losses.symmetric._TILE_COLUMNS", 256)
    exact = embeddings.double().requires_grad_()
    rounded = embeddings.requires_grad_()
    for tau in (0.1, 0.01):
        values = []
        for leaf in (exact, rounded):
            leaf.grad = None
            values.append(SmoothAP(tau, include_query)(leaf, labels))
            values[-1].backward()
        assert abs(values[0].item() - values[1].item()) <= 1e-5
        assert (exact.grad - rounded.grad).abs().max() <= 1e-4 * exact.grad.abs().max()


@pytest.mark.parametrize("tau", [0.1, 0.01])
def test_with_the_query_included_it_is_the_authors_released_code(tau):
    embeddings, _ = random_batch(2, rows=24, dimension=8)
    embeddings.requires_grad_()
    labels = torch.arange(6).repeat_interleave(4)
    ours, theirs = SmoothAP(tau, include_query=True)(embeddings, labels), authors_loss(embeddings, 4, tau)
    assert abs(ours - theirs).item() <= 1e-10
    gradients = [torch.autograd.grad(loss, embeddings)[0] for loss in (ours, theirs)]
    assert (gradients[0] - gradients[1]).abs().max() <= 1e-10


def test_none_gives_one_value_per_query_in_the_order_given(core_path):
    embeddings, labels = random_batch(6, rows=30, classes=12, dtype=torch.float32)
    values = SmoothAP(0.05, reduction="none")(embeddings, labels)
    expected = smooth_ap_losses(embeddings.double(), labels, 0.05)
    assert torch.allclose(values.double(), expected, atol=1e-4)
    has_positive = torch.tensor([(labels == label).sum() > 1 for label in labels])
    assert torch.allclose(SmoothAP(0.05)(embeddings, labels), values[has_positive].mean(), atol=1e-6)


@pytest.mark.guarantee(1)
def test_the_gradient_of_one_value_per_query_takes_any_weights(core_path):
    embeddings, labels = random_batch(8, rows=20, classes=5, dtype=torch.float32)
    weights = torch.rand(20, generator=torch.Generator().manual_seed(0))
    exact = embeddings.double().requires_grad_()
    rounded = embeddings.requires_grad_()
    (smooth_ap_losses(exact, labels, 0.1) * weights).sum().backward()
    (SmoothAP(0.1, reduction="none")(rounded, labels) * weights).sum().backward()
    assert torch.allclose(rounded.grad.double(), exact.grad, atol=1e-5)


@pytest.mark.guarantee(2)
def test_singletons_ask_nothing_but_are_negatives(core_path):
    embeddings, labels = random_batch(7, rows=12, classes=3, dtype=torch.float32)
    labels[-1] = 77
    values = SmoothAP(0.1, reduction="none")(embeddings, labels)
    assert values[-1] == 0
    without = SmoothAP(0.1, reduction="none")(embeddings[:-1], labels[:-1])
    assert (values[:-1] >= without - 1e-6).all()
    assert (values[:-1] > without + 1e-6).any()


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_batch_without_positives_is_a_zero_that_backpropagates(core_path, reduction):
    embeddings = torch.randn(5, 4, requires_grad=True)
    loss = SmoothAP(reduction=reduction)(embeddings, torch.arange(5))
    assert (loss == 0).all()
    loss.sum().backward()
    assert (embeddings.grad == 0).all()


@pytest.mark.guarantee(2)
def test_one_class_only_is_perfect(core_path):
    embeddings = torch.randn(6, 4, requires_grad=True)
    loss = SmoothAP()(embeddings, torch.zeros(6, dtype=torch.long))
    loss.backward()
    assert abs(loss.item()) < 1e-6
    assert embeddings.grad.abs().max() < 1e-6


def test_perfectly_separated_classes_have_loss_zero(core_path):
    embeddings = torch.eye(56).repeat_interleave(4, 0)
    assert SmoothAP()(embeddings, torch.arange(56).repeat_interleave(4)).item() == pytest.approx(0, abs=1e-6)


@pytest.mark.guarantee(2)
def test_equal_embeddings_count_every_tie_one_half(core_path):
    loss = SmoothAP()(torch.ones(4, 3), torch.tensor([0, 0, 1, 1]))
    assert loss.item() == pytest.approx(1 - 1 / (1 + 2 * 0.5))


def test_inside_no_grad_there_is_a_value_and_no_graph(core_path):
    embeddings, labels = random_batch(10, dtype=torch.float32)
    embeddings.requires_grad_()
    with torch.no_grad():
        loss = SmoothAP()(embeddings, labels)
    assert not loss.requires_grad
    assert torch.equal(loss, SmoothAP()(embeddings, labels).detach())


def test_nothing_is_kept_of_a_call_in_inference_mode(core_path):
    embeddings, labels = random_batch(10, dtype=torch.float32)
    embeddings.requires_grad_()
    loss_function = SmoothAP()
    with torch.inference_mode():
        value = loss_function(embeddings, labels)
        rows = embeddings * 2
    loss = loss_function(embeddings, labels)
    loss.backward()  # which torch refuses where a tensor of the first call takes part
    assert torch.equal(loss.detach(), value)
    assert not embeddings.grad.is_inference()
    assert not loss_function(rows, labels).is_inference()  # rows that were made there are rows like others


def test_backward_twice_through_a_kept_graph_doubles_the_gradient():
    embeddings, labels = random_batch(12)
    embeddings.requires_grad_()
    loss = SmoothAP(0.1)(embeddings, labels)
    loss.backward(retain_graph=True)
    once = embeddings.grad.clone()
    loss.backward()
    assert torch.allclose(embeddings.grad, 2 * once)


def test_the_input_is_left_as_it_was(core_path):
    embeddings, labels = random_batch(13, dtype=torch.float32)
    before = embeddings.clone()
    embeddings.requires_grad_()
    SmoothAP()(embeddings, labels).backward()
    assert torch.equal(embeddings.detach(), before)


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_gradient_may_have_a_graph_that_nobody_differentiates(core_path, reduction):
    embeddings, labels = random_batch(14, dtype=torch.float32)
    embeddings.requires_grad_()
    loss = SmoothAP(0.1, reduction=reduction)(embeddings, labels).sum()
    plain = torch.autograd.grad(loss, embeddings, retain_graph=True)[0]
    with_graph = torch.autograd.grad(loss, embeddings, create_graph=True)[0]
    assert torch.equal(with_graph.detach(), plain)


@pytest.mark.parametrize("include_query", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_few_positives_that_are_far_apart_leave_the_others_as_they_are(core_path, reduction, include_query):
    """Opposite rows of one class: at this temperature their scores are 400 tau apart, beyond the shared exponential."""
    generator = torch.Generator().manual_seed(5)
    centres = torch.randn(16, 6, generator=generator, dtype=torch.float64).repeat_interleave(4, 0)
    rows = centres + 0.3 * torch.randn(64, 6, generator=generator, dtype=torch.float64)
    rows[[0, 21]] = -rows[[1, 22]]
    order = torch.randperm(64, generator=generator)
    rows, labels = rows[order], torch.arange(16).repeat_interleave(4)[order]
    loss, answers = SmoothAP(0.005, include_query, reduction), []
    for dtype in (torch.float32, torch.float64):
        leaf = rows.to(dtype, copy=True).requires_grad_()
        value = loss(leaf, labels)
        answers.append((value, *torch.autograd.grad((value * torch.linspace(1, 2, value.numel())).sum(), leaf)))
    (value, gradient), (expected, expected_gradient) = answers
    assert (value - expected).abs().max() < 1e-5
    assert (gradient - expected_gradient).abs().max() < 1e-3 * expected_gradient.abs().max()
