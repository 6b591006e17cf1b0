"""torch.compile and the losses: one graph where a loss is an operator, and none of the others."""

import pytest
import torch
from torch import _dynamo as dynamo

from smoothap import smooth_ap
from smoothap.functional.indicators import Linear
from smoothap.losses import BlackboxAP, BlackboxRecall, CalibrationLoss, RecallAtK, Roadmap, SmoothAP, SupAP

LABELS = torch.arange(6).repeat_interleave(4)


@pytest.fixture(autouse=True)
def compiler_that_does_not_give_up():
    """After eight graphs of one piece of code the compiler leaves it alone, with a warning; here that is an error."""
    dynamo.reset()
    assert dynamo.config.recompile_limit == 8
    with dynamo.config.patch(fail_on_recompile_limit_hit=True):
        yield


def batch(seed=0):
    return torch.randn(24, 16, generator=torch.Generator().manual_seed(seed))


REFERENCE = {"ref_emb": batch(1), "ref_labels": LABELS}
FORMS = {
    "batch": {},
    "reference": REFERENCE,
    "self_index": REFERENCE | {"self_index": torch.arange(24)},
}


def value_and_gradient(loss, form):
    embeddings = batch().requires_grad_()
    value = loss(embeddings, LABELS, **FORMS[form])
    value.sum().backward()
    return value.detach(), embeddings.grad


def test_smooth_ap_is_one_graph_in_every_call_form_by_labels():
    variants = [(SmoothAP(0.1, reduction=reduction), form) for reduction in ("mean", "none") for form in FORMS]
    assert len(variants) <= dynamo.config.recompile_limit
    for loss, form in variants:
        compiled = value_and_gradient(torch.compile(loss, backend="aot_eager", fullgraph=True), form)
        for ours, expected in zip(compiled, value_and_gradient(loss, form), strict=True):
            assert torch.allclose(ours, expected)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_gradient_penalty_is_refused_in_a_graph_too(reduction, backend):
    embeddings = batch().requires_grad_()
    value = torch.compile(SmoothAP(0.1, reduction=reduction), backend=backend)(embeddings, LABELS).sum()
    (gradient,) = torch.autograd.grad(value, embeddings, create_graph=True)
    with pytest.raises(RuntimeError, match=r"cannot be differentiated again|not currently support double backward"):
        (value + 1000 * gradient.pow(2).sum()).backward()


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # the compiler looks at what it resumes with
@pytest.mark.parametrize("form", FORMS)
def test_the_losses_without_an_operator_are_left_alone(form):
    indicated = SmoothAP(indicator=Linear())
    for loss in (BlackboxAP(), BlackboxRecall(), CalibrationLoss(), RecallAtK(), Roadmap(), SupAP(), indicated):
        compiled = value_and_gradient(torch.compile(loss, backend="eager"), form)
        for ours, expected in zip(compiled, value_and_gradient(loss, form), strict=True):
            assert torch.equal(ours, expected)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own forward mode
@pytest.mark.parametrize("form", ["loss", "compiled loss", "other loss", "scores"])
def test_forward_mode_derivatives_are_refused_not_silently_zero(form):
    rows, labels = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 0, 1, 1, 2, 2])
    function = {
        "loss": lambda x: SmoothAP()(x, labels),
        "compiled loss": lambda x: torch.compile(SmoothAP(), backend="eager")(x, labels),
        "other loss": lambda x: SupAP()(x, labels),
        "scores": lambda x: smooth_ap(x, torch.eye(6, 4) + torch.eye(6, 4).flip(0) > 0),
    }[form]
    with pytest.raises(RuntimeError, match="forward-mode"):
        torch.func.jvp(function, (rows,), (torch.ones_like(rows),))
    with torch.autograd.forward_ad.dual_level(), pytest.raises(RuntimeError, match="forward-mode"):
        function(torch.autograd.forward_ad.make_dual(rows, torch.ones_like(rows)))
    with torch.autograd.forward_ad.dual_level():  # other tensors may have tangents
        assert torch.isfinite(function(rows)).all()
