import numpy as np
import pytest
import torch

from smoothap import evaluate
from smoothap.functional.indicators import Exponential, Linear
from smoothap.losses import BlackboxAP, CalibrationLoss, RecallAtK, Roadmap, SmoothAP, SupAP


def batch(rows=6, dimension=4, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(rows, dimension, generator=generator, dtype=dtype), torch.tensor([0, 0, 1, 1, 2, 2])[:rows]


@pytest.mark.guarantee(5)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("place", ["embeddings", "ref_emb"])
def test_nan_and_infinite_embeddings_are_refused_by_row(core_path, value, dtype, place):
    embeddings, labels = batch(dtype=dtype)
    broken = embeddings.clone()
    broken[4, 2] = value
    queries, reference = (broken, embeddings) if place == "embeddings" else (embeddings, broken)
    with pytest.raises(ValueError, match=rf"{place} has NaN or infinite values in row 4"):
        SmoothAP()(queries, labels, ref_emb=reference, ref_labels=labels)
    if place == "embeddings":
        with pytest.raises(ValueError, match="row 4"):
            SmoothAP()(broken, labels)


@pytest.mark.guarantee(5)
def test_all_broken_rows_are_counted(core_path):
    embeddings, labels = batch()
    embeddings[[1, 3, 5]] = float("nan")
    with pytest.raises(ValueError, match=r"row 1 \(and 2 more\)"):
        SmoothAP()(embeddings, labels)


@pytest.mark.guarantee(5)
def test_a_zero_row_is_refused_by_row(core_path):
    embeddings, labels = batch()
    embeddings[3] = 0
    with pytest.raises(ValueError, match=r"all zeros in row 3.*dead last layer"):
        SmoothAP()(embeddings, labels)


def test_huge_and_tiny_rows_are_no_zeros_and_no_infinities(core_path):
    embeddings, labels = batch()
    scaled = embeddings * torch.tensor([1e30, 1e-30, 1.0, 1e30, 1e-36, 1.0])[:, None]
    assert torch.allclose(SmoothAP(0.1)(scaled, labels), SmoothAP(0.1)(embeddings, labels), atol=1e-5)


def call(**changes):
    embeddings, labels = batch()
    arguments = {"embeddings": embeddings, "labels": labels} | changes
    return SmoothAP(include_query=arguments.pop("include_query", False))(**arguments)


def test_a_masked_array_is_refused_before_its_mask_is_lost():
    embeddings, labels = batch()
    masked = {"embeddings": np.ma.array(embeddings.numpy()), "labels": np.ma.array(labels.numpy())}
    for name, value in masked.items():
        with pytest.raises(TypeError, match=f"{name} is a masked array, whose mask would be lost"):
            call(**{name: value})


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("tau", SmoothAP),
        ("tau", SupAP),
        ("rho", SupAP),
        ("tau1", RecallAtK),
        ("tau2", RecallAtK),
        ("lambda_", BlackboxAP),
        ("margin", BlackboxAP),
        ("positive_margin", CalibrationLoss),
        ("balance", Roadmap),
        ("width", Linear),
        ("scale", Exponential),
    ],
)
def test_a_setting_that_would_not_be_learnt_is_refused(name, loss):
    for value in (torch.nn.Parameter(torch.tensor(0.5)), torch.tensor(0.5)):
        with pytest.raises(TypeError, match=f"{name} must be a plain number"):
            loss(**{name: value})


INDICES = torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": torch.arange(5)}, r"labels has shape \(5,\), but embeddings has 6 rows"),
        ({"labels": torch.zeros(6, 1, dtype=torch.long)}, r"\(6, 1\)"),
        ({"labels": torch.zeros(6)}, "whole numbers.*float32.*long"),
        ({"labels": None}, "labels are missing"),
        ({"embeddings": torch.randn(6)}, r"\(rows, dimension\).*\(6,\)"),
        ({"embeddings": torch.zeros(6, 4, dtype=torch.long)}, "floats.*int64"),
        ({"embeddings": torch.empty(0, 4), "labels": torch.empty(0, dtype=torch.long)}, r"empty, \(0, 4\)"),
        ({"ref_labels": torch.arange(6)}, "ref_labels goes with ref_emb"),
        ({"self_index": torch.arange(6)}, "self_index goes with ref_emb"),
        ({"ref_emb": torch.randn(3, 4)}, "ref_labels are missing"),
        ({"ref_emb": torch.randn(3, 4), "ref_labels": torch.arange(4)}, "ref_labels has shape"),
        ({"ref_emb": torch.randn(3, 5), "ref_labels": torch.arange(3)}, "4 dimensions and ref_emb 5"),
        ({"ref_emb": torch.randn(3, 4), "ref_labels": torch.arange(3), "include_query": True}, "include_query"),
        (
            {"ref_emb": torch.randn(3, 4), "ref_labels": torch.arange(3), "self_index": torch.arange(6)},
            "self_index names a column.*row 3",
        ),
        ({"ref_emb": torch.randn(3, 4), "ref_labels": torch.arange(3), "self_index": torch.full((6,), -2)}, "row 0"),
        ({"indices_tuple": (INDICES, INDICES)}, "not 2 tensors"),
        ({"indices_tuple": (INDICES, INDICES + 0.5, INDICES)}, r"indices_tuple\[1\] must be whole numbers"),
        ({"indices_tuple": (INDICES, INDICES, INDICES[:1])}, r"indices_tuple\[2\] has shape \(1,\), but .* 2 rows"),
        ({"indices_tuple": (INDICES[None], INDICES[None], INDICES[None])}, r"indices_tuple\[0\] has shape \(1, 2\)"),
        (
            {"indices_tuple": (INDICES, INDICES, INDICES[:1], INDICES)},
            r"indices_tuple\[3\] has shape \(2,\), but .* 1 ",
        ),
        ({"indices_tuple": (INDICES, INDICES + 5, INDICES)}, r"indices_tuple\[1\] goes up to 6, but there are 6"),
        ({"indices_tuple": (INDICES, INDICES, INDICES), "include_query": True}, "indices_tuple already says"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_with_a_sentence(core_path, changes, message):
    with pytest.raises(ValueError, match=message):
        call(**changes)


@pytest.mark.parametrize(
    ("name", "value"), [("embeddings", [[1.0]]), ("labels", [0, 0, 1, 1, 2, 2]), ("indices_tuple", ([0], [1], [2]))]
)
def test_lists_are_refused_with_the_way_to_wrap_them(name, value):
    with pytest.raises(TypeError, match=rf"{name}.* must be a tensor.*torch.as_tensor"):
        call(**{name: value})


@pytest.mark.guarantee(4)
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (SmoothAP, "tau"),
        (Linear, "width"),
        (SupAP, "tau"),
        (BlackboxAP, "lambda_"),
        (lambda value: RecallAtK(tau1=value), "tau1"),
        (lambda value: RecallAtK(tau2=value), "tau2"),
    ],
    ids=["smooth-ap", "linear", "sup-ap", "blackbox-ap", "recall-at-k-1", "recall-at-k-2"],
)
def test_a_temperature_is_refused_or_leaves_everything_finite(make, name):
    for value in (0, -0.01, float("nan"), float("inf"), 5e-324, 1e-40):
        with pytest.raises(ValueError, match=f"{name} must be a positive number"):
            make(value)
    least = make(1e-20)
    loss = least if isinstance(least, torch.nn.Module) else SmoothAP(indicator=least)
    embeddings, labels = batch()
    embeddings.requires_grad_()
    value = loss(embeddings, labels)
    value.backward()
    assert value.isfinite()
    assert embeddings.grad.isfinite().all()


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -2])
@pytest.mark.parametrize("setting", ["rho", "delta", "offset", "step"])
def test_settings_that_are_no_numbers_are_refused(setting, wrong):
    with pytest.raises(ValueError, match=f"{setting} must be a number from 0"):
        SupAP(**{setting: wrong})
    with pytest.raises(ValueError, match="negative_margin must be a number from -1 to 1"):
        CalibrationLoss(negative_margin=wrong)


@pytest.mark.guarantee(4)
@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("place", ["embeddings", "ref_emb"])
@pytest.mark.parametrize(("dtype", "length", "tau"), [(torch.float16, 1e-6, 0.01), (torch.float32, 2e-38, 1e-4)])
def test_rows_too_short_for_a_finite_gradient_are_refused_by_row(core_path, reduction, place, dtype, length, tau):
    angles = torch.tensor([-0.5, 1.0, 0.0, 0.5, 2.0, 2.5])  # row 2 is a tie for its neighbours, and sees a tie
    rows, labels = torch.stack([angles.cos(), angles.sin()], 1), batch()[1]
    short = torch.where(torch.arange(6)[:, None] == 2, rows * length, rows)
    given = [side.to(dtype) for side in ((short, rows) if place == "embeddings" else (rows, short))]
    loss = SmoothAP(tau, reduction=reduction)
    assert loss(given[0], labels, None, given[1], labels).isfinite().all()  # the value needs no gradient
    leaves = [side.requires_grad_() for side in given]
    with pytest.raises(ValueError, match=rf"{place} is so short in row 2, with a length of .* beyond {dtype}"):
        loss(leaves[0], labels, None, leaves[1], labels).sum().backward()


@pytest.mark.guarantee(4)
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_loss_scaler_saves_small_gradients_of_float16_and_sees_large_ones(core_path, reduction):
    """The scale comes with the upstream gradient: the gradient is rounded to float16 after it, and may be infinite."""
    embeddings, labels = batch(dtype=torch.float16)
    scaled = (embeddings * 1e4).requires_grad_()
    exact = scaled.detach().float().requires_grad_()
    SmoothAP(reduction=reduction)(exact, labels).sum().backward()
    (SmoothAP(reduction=reduction)(scaled, labels).sum() * 2**16).backward()
    assert torch.allclose(scaled.grad.float() / 2**16, exact.grad, rtol=5e-3, atol=1e-9)
    (SmoothAP(reduction=reduction)(embeddings.requires_grad_(), labels).sum() * 2**24).backward()
    assert embeddings.grad.isinf().any()


@pytest.mark.parametrize("factor", [1e-300, 1e-155, 1e155, 1e300])
def test_rows_of_float64_beyond_the_square_root_of_its_range(factor):
    embeddings, labels = batch(dtype=torch.float64)
    expected = SmoothAP(0.1)(embeddings, labels)
    scaled = (embeddings * factor).requires_grad_()
    loss = SmoothAP(0.1)(scaled, labels)
    loss.backward()
    assert torch.allclose(loss, expected, atol=1e-12)
    assert scaled.grad.isfinite().all()


def test_an_unknown_reduction_is_refused():
    with pytest.raises(ValueError, match='"mean" or "none"'):
        SmoothAP(reduction="sum")


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8, torch.bool])
def test_any_whole_number_type_of_labels_is_taken(core_path, dtype):
    embeddings, labels = batch()
    labels = labels % 2
    assert torch.equal(SmoothAP()(embeddings, labels.to(dtype)), SmoothAP()(embeddings, labels))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (torch.eye(4).to_sparse(), "to_dense"),
        (torch.eye(4).to(torch.float8_e4m3fn), r"float\(\)"),
        (torch.eye(4, device="meta"), "embeddings is on the device meta, which holds no values"),
    ],
)
def test_sparse_and_one_byte_rows_and_those_without_values_are_refused_with_the_way_to_turn_them(rows, message):
    for call in (lambda: SmoothAP()(rows, torch.arange(4)), lambda: evaluate(rows, torch.arange(4))):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize("name", ["labels", "positives"])
def test_sparse_labels_and_masks_are_refused_with_the_way_to_turn_them(name):
    given = {"labels": torch.eye(4, dtype=torch.long), "positives": torch.eye(4) > 0}[name].to_sparse()
    with pytest.raises(ValueError, match=f"{name} is sparse.*to_dense"):
        SmoothAP()(torch.eye(4), **{name: given})
