import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import smooth_ap_of_sets

from smoothap import average_precision, smooth_ap


def random_scores(seed, queries=4, items=12, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(queries, items, generator=generator, dtype=dtype) * 2 - 1
    return scores, torch.rand(queries, items, generator=generator) < 0.4


@given(st.integers(0, 2**31), st.sampled_from([0.5, 0.1, 0.01]))
def test_smoothed_ap_is_the_equation_term_by_term(seed, tau):
    scores, relevant = random_scores(seed)
    ours = smooth_ap(scores, relevant, tau)
    for q in range(len(scores)):
        positives, negatives = relevant[q].nonzero()[:, 0].tolist(), (~relevant[q]).nonzero()[:, 0].tolist()
        if positives:
            assert abs(ours[q] - smooth_ap_of_sets(scores[q], positives, negatives, tau)) <= 1e-12
        else:
            assert ours[q].isnan()


@pytest.mark.guarantee(1)
@pytest.mark.parametrize("tau", [0.1, 0.01])
def test_the_gradient_with_respect_to_scores_is_right(tau):
    scores, relevant = random_scores(3)
    relevant[0] = False
    scores = (scores * tau * 5).requires_grad_()
    assert torch.autograd.gradcheck(lambda s: smooth_ap(s, relevant, tau)[1:], (scores,), eps=1e-7 * tau, atol=1e-5)


def test_the_gradient_is_the_formula_of_the_maths():
    """What docs/maths.md says, by hand, in its symbols."""
    tau, scores = 0.05, torch.rand(9, dtype=torch.float64, requires_grad=True)
    positive = torch.tensor([1, 0, 1, 0, 0, 1, 0, 0, 0], dtype=torch.bool)
    smooth_ap(scores, positive, tau).backward()

    s, right, wrong = scores.detach(), positive.nonzero()[:, 0], (~positive).nonzero()[:, 0]  # P, N
    sigmoid = torch.sigmoid((s[None, :] - s[:, None]) / tau).fill_diagonal_(0)  # G(D_ij), row i, column j
    slope = sigmoid * (1 - sigmoid) / tau  # g_ij
    among, above = sigmoid[right][:, right].sum(1), sigmoid[right][:, wrong].sum(1)
    a, r = 1 + among, 1 + among + above
    pull, push = above / (len(right) * r**2), -a / (len(right) * r**2)

    gradient = torch.zeros_like(s)
    gradient[wrong] = push @ slope[right][:, wrong]
    gradient[right] = pull @ slope[right][:, right]
    gradient[right] -= push * slope[right][:, wrong].sum(1) + pull * slope[right][:, right].sum(1)
    assert torch.allclose(smooth_ap(s, positive, tau), (a / r).mean())
    assert torch.allclose(scores.grad, gradient)


def test_both_paths_give_the_same_ap_and_gradient_in_float32(core_path):
    scores, relevant = random_scores(5, queries=30, items=200, dtype=torch.float32)
    relevant[3] = False
    exact, value = (scores.clone().to(dtype).requires_grad_() for dtype in (torch.float64, torch.float32))
    for leaf in (exact, value):
        result = smooth_ap(leaf, relevant, 0.02)
        result[~result.isnan()].sum().backward()
    assert torch.allclose(
        smooth_ap(value, relevant, 0.02).double(), smooth_ap(exact, relevant, 0.02), atol=1e-5, equal_nan=True
    )
    assert torch.allclose(value.grad.double(), exact.grad, atol=1e-4 * exact.grad.abs().max())


@pytest.mark.parametrize("spread", [0.0, 0.001, 1.0, 8.0, 25.0, 100.0])  # in units of tau, between the positives
@pytest.mark.parametrize("positives", [130, 500, 1_000])
def test_many_positives_have_the_ap_and_gradient_of_float64(positives, spread):
    generator = torch.Generator().manual_seed(0)
    relevant = torch.zeros(3, 1_001, dtype=torch.bool)
    for row in relevant:
        row[torch.randperm(1_001, generator=generator)[:positives]] = True
    scores = 5 * torch.randn(3, 1_001, generator=generator)
    scores[relevant] = (spread * torch.rand(3, positives, generator=generator)).flatten()
    exact, rounded = scores.double().requires_grad_(), scores.requires_grad_()
    values = [smooth_ap(leaf, relevant, 1.0) for leaf in (exact, rounded)]
    for value in values:
        value.sum().backward()
    assert torch.allclose(values[1].double(), values[0], rtol=0, atol=1e-6)
    assert torch.allclose(rounded.grad.double(), exact.grad, rtol=0, atol=1e-5 * float(exact.grad.abs().max()))


def test_positives_far_apart_are_right_too(core_path):
    scores = torch.tensor([[1.0, -1.0, 0.99, -0.99, 0.0]], requires_grad=True)
    relevant = torch.tensor([[True, True, False, False, False]])
    exact = scores.detach().double().requires_grad_()
    for leaf in (scores, exact):
        smooth_ap(leaf, relevant, 0.01).sum().backward()
    assert torch.allclose(scores.grad.double(), exact.grad, rtol=1e-4, atol=1e-6)


def test_a_small_temperature_gives_the_exact_ap_without_ties():
    scores, relevant = random_scores(11, queries=20)
    relevant[:, 0] = True
    assert torch.allclose(smooth_ap(scores, relevant, 1e-6), average_precision(scores, relevant), atol=1e-9)


def test_with_ties_the_limit_counts_each_half():
    scores, relevant = torch.zeros(1, 2, dtype=torch.float64), torch.tensor([[True, False]])
    assert smooth_ap(scores, relevant, 1e-6).item() == pytest.approx(1 / 1.5)
    assert average_precision(scores, relevant).item() == 0.5


def test_a_query_without_a_positive_sends_no_gradient():
    scores, relevant = random_scores(1)
    relevant[0] = False
    scores.requires_grad_()
    smooth_ap(scores, relevant, 0.1).nanmean().backward()
    assert scores.grad[0].abs().sum() == 0
    assert scores.grad[1].abs().sum() > 0


@pytest.mark.parametrize("tau", [0.0, -1.0, float("nan"), float("inf"), 5e-324])
def test_a_temperature_that_is_not_positive_is_refused(tau):
    with pytest.raises(ValueError, match="tau"):
        smooth_ap(torch.rand(2, 3), torch.ones(2, 3, dtype=torch.bool), tau)


def test_torch_compile_takes_it_as_one_graph():
    scores, relevant = random_scores(2)
    relevant[:, 0] = True
    compiled = torch.compile(lambda s: smooth_ap(s, relevant, 0.1).sum(), backend="aot_eager", fullgraph=True)
    gradients = []
    for function in (compiled, lambda s: smooth_ap(s, relevant, 0.1).sum()):
        leaf = scores.clone().requires_grad_()
        function(leaf).backward()
        gradients.append(leaf.grad)
    assert torch.allclose(*gradients)


@pytest.mark.parametrize("squared", [False, True])
def test_a_gradient_penalty_is_refused_not_silently_nothing(squared):
    """Squared, the upstream gradient has a history of its own, by which torch sees a second derivative coming."""
    scores, relevant = random_scores(2)
    scores.requires_grad_()
    values = smooth_ap(scores, relevant, 0.1)
    value = (values.square() if squared else values).nansum()
    (gradient,) = torch.autograd.grad(value, scores, create_graph=True)
    with pytest.raises(RuntimeError, match="cannot be differentiated again"):
        (value + gradient.pow(2).sum()).backward()


@pytest.mark.parametrize(
    ("scores", "relevant"), [((2, 3, 4), (3, 2, 4)), ((2, 3, 4), (2, 3, 4)), ((), ()), ((4,), (1, 4))]
)
def test_shapes_that_do_not_fit_are_refused(scores, relevant):
    with pytest.raises(ValueError, match=r"must both be \(queries, items\)"):
        smooth_ap(torch.zeros(scores), torch.ones(relevant, dtype=torch.bool))


def test_scores_that_a_temperature_makes_infinite_are_refused():
    with pytest.raises(ValueError, match=r"3e\+37 divided by tau=0.01 are beyond torch.float32"):
        smooth_ap(torch.tensor([3e37, 2e37]), torch.tensor([True, False]), 0.01)


def test_under_autocast_value_and_gradient_are_those_without(core_path):
    random = torch.Generator().manual_seed(0)
    scores, relevant = torch.rand(6, 40, generator=random), torch.rand(6, 40, generator=random) < 0.2
    relevant[:, 0] = True
    found = []
    for enabled in (False, True):
        given = scores.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            value = smooth_ap(given, relevant)
        value.sum().backward()
        found.append((value, given.grad))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])
