import pytest
import torch

from smoothap import SmoothAP


def batch(rows=6, dimension=4, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(rows, dimension, generator=generator, dtype=dtype), torch.tensor([0, 0, 1, 1, 2, 2])[:rows]


@pytest.mark.promise(5)
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


@pytest.mark.promise(5)
def test_all_broken_rows_are_counted(core_path):
    embeddings, labels = batch()
    embeddings[[1, 3, 5]] = float("nan")
    with pytest.raises(ValueError, match=r"row 1 \(and 2 more\)"):
        SmoothAP()(embeddings, labels)


@pytest.mark.promise(5)
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
        ({"own": torch.arange(6)}, "own goes with ref_emb"),
        ({"ref_emb": torch.randn(3, 4)}, "ref_labels are missing"),
        ({"ref_emb": torch.randn(3, 4), "ref_labels": torch.arange(4)}, "ref_labels has shape"),
        ({"ref_emb": torch.randn(3, 5), "ref_labels": torch.arange(3)}, "4 dimensions and ref_emb 5"),
        ({"ref_emb": torch.randn(3, 4), "ref_labels": torch.arange(3), "include_query": True}, "include_query"),
        (
            {"ref_emb": torch.randn(3, 4), "ref_labels": torch.arange(3), "own": torch.arange(6)},
            "own names a column.*row 3",
        ),
        ({"ref_emb": torch.randn(3, 4), "ref_labels": torch.arange(3), "own": torch.full((6,), -2)}, "row 0"),
        ({"indices_tuple": (INDICES, INDICES)}, "not 2 tensors"),
        ({"indices_tuple": (INDICES, INDICES + 5, INDICES)}, r"indices_tuple\[1\] goes up to 6, but there are 6"),
        ({"indices_tuple": (INDICES, INDICES, INDICES), "include_query": True}, "indices_tuple already says"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_with_a_sentence(core_path, changes, message):
    with pytest.raises(ValueError, match=message):
        call(**changes)


@pytest.mark.parametrize(("name", "value"), [("embeddings", [[1.0]]), ("labels", [0, 0, 1, 1, 2, 2])])
def test_lists_are_refused_with_the_way_to_wrap_them(name, value):
    with pytest.raises(TypeError, match=rf"{name} must be a tensor.*torch.as_tensor"):
        call(**{name: value})


@pytest.mark.parametrize("tau", [0, -0.01, float("nan"), float("inf")])
def test_a_temperature_that_is_not_positive_is_refused(tau):
    with pytest.raises(ValueError, match="tau must be a positive number"):
        SmoothAP(tau)


def test_an_unknown_reduction_is_refused():
    with pytest.raises(ValueError, match='"mean" or "none"'):
        SmoothAP(reduction="sum")


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8, torch.bool])
def test_any_whole_number_type_of_labels_is_taken(core_path, dtype):
    embeddings, labels = batch()
    labels = labels % 2
    assert torch.equal(SmoothAP()(embeddings, labels.to(dtype)), SmoothAP()(embeddings, labels))
