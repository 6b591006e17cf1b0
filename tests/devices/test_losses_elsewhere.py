"""Every loss and call form with its tensors on another device: same values and gradients as on the CPU."""

import pytest
import torch
from wrapped_losses import DIMENSION, LABELS, WRAPPED

from smoothap.functional import average_precision, smooth_ap
from smoothap.functional.indicators import Exponential, Linear
from smoothap.losses import BlackboxAP, BlackboxRecall, CalibrationLoss, RecallAtK, Roadmap, SmoothAP, SupAP

REFERENCE_LABELS = torch.tensor([0, 1, 2, 3, 4, 5] * 5)
OURS = {
    "smooth-ap": SmoothAP,
    "smooth-ap-include-query": lambda: SmoothAP(include_query=True),
    "smooth-ap-each": lambda: SmoothAP(reduction="none"),
    "smooth-ap-linear": lambda: SmoothAP(indicator=Linear(0.3)),
    "smooth-ap-exponential": lambda: SmoothAP(indicator=Exponential(0.3)),
    "blackbox-ap": BlackboxAP,
    "blackbox-recall": BlackboxRecall,
    "sup-ap": SupAP,
    "calibration": CalibrationLoss,
    "roadmap": Roadmap,
    "recall-at-k": RecallAtK,
}
FORMS = {
    "batch": {},
    "reference": {"ref_emb": 30, "ref_labels": REFERENCE_LABELS},
    "self_index": {"ref_emb": 30, "ref_labels": REFERENCE_LABELS, "self_index": torch.arange(20).where(LABELS > 0, -1)},
    "pairs": {"indices_tuple": tuple(torch.tensor([[1, 3, 3, 0], [3, 7, 1, 14], [1, 3, 0, 14], [0, 2, 4, 5]]))},
    "triplets": {"indices_tuple": tuple(torch.tensor([[1, 3, 3], [3, 7, 1], [0, 2, 4]]))},
}


def rows(number, seed=0):
    return torch.randn(number, DIMENSION, generator=torch.Generator().manual_seed(seed))


def value_and_gradients(loss, form, place):
    """What the loss gives for a batch whose tensors are all in one place, and its gradients, on the CPU."""
    torch.manual_seed(0)
    inputs = {"embeddings": rows(len(LABELS)).to(place).requires_grad_()}
    named = {name: _moved(value, place) for name, value in form.items()}
    if "ref_emb" in form:
        inputs["ref_emb"] = named["ref_emb"] = rows(form["ref_emb"], 1).to(place).requires_grad_()
    value = loss(inputs["embeddings"], LABELS.to(place), **named)
    assert value.device.type == torch.device(place).type
    learned = [*inputs.values(), *loss.parameters()]
    gradients = torch.autograd.grad(value.sum(), learned, allow_unused=True)
    return [value.detach().cpu(), *(gradient.cpu() for gradient in gradients if gradient is not None)]


def _moved(value, place):
    if isinstance(value, tuple):
        return tuple(part.to(place) for part in value)
    return value.to(place) if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize(
    ("name", "form"),
    [(name, form) for name in OURS for form in FORMS if name != "smooth-ap-include-query" or form == "batch"],
)
def test_every_loss_of_ours_is_the_same_elsewhere(any_second, name, form):
    here = value_and_gradients(OURS[name](), FORMS[form], "cpu")
    there = value_and_gradients(OURS[name]().to(any_second.place), FORMS[form], any_second.place)
    assert len(here) == len(there) > 1
    for ours, theirs in zip(here, there, strict=True):
        assert torch.allclose(ours, theirs, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("name", [name for name in WRAPPED if name not in ("margin",)])
def test_a_wrapped_loss_is_the_same_elsewhere(second, name):
    torch.manual_seed(0)
    loss = WRAPPED[name]()
    here = value_and_gradients(loss, {}, "cpu")
    there = value_and_gradients(loss.to(second.place), {}, second.place)
    for ours, theirs in zip(here, there, strict=True):
        assert torch.allclose(ours, theirs, atol=2e-5, rtol=1e-4)


def test_scores_of_any_similarity_are_ranked_elsewhere(any_second):
    scores, relevant = rows(8, 3), rows(8, 4) > 0
    moved = scores.to(any_second.place), relevant.to(any_second.place)
    assert torch.allclose(smooth_ap(*moved, tau=0.1).cpu(), smooth_ap(scores, relevant, tau=0.1), atol=1e-6)
    if not any_second.without_float64:
        assert torch.equal(average_precision(*moved).cpu(), average_precision(scores, relevant))


def test_labels_may_stay_on_the_cpu(second):
    embeddings = rows(20).to(second.place)
    assert torch.equal(SmoothAP()(embeddings, LABELS).cpu(), SmoothAP()(embeddings, LABELS.to(second.place)).cpu())


@pytest.mark.parametrize("form", ["batch", "reference"])
def test_one_forward_and_backward_waits_for_the_device_at_most_twice(second, form):
    arguments = {name: _moved(value, second.place) for name, value in FORMS[form].items()}
    if "ref_emb" in arguments:
        arguments["ref_emb"] = rows(30, 1).to(second.place)
    embeddings, labels = rows(20).to(second.place).requires_grad_(), LABELS.to(second.place)
    second.begin()
    SmoothAP()(embeddings, labels, **arguments).backward()
    assert second.waits.total() <= 2, dict(second.waits)
