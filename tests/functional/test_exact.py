import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from smoothap import average_precision, smooth_ap


@pytest.mark.guarantee(3)
@given(st.integers(1, 40), st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_exact_ap_is_that_of_scikit_learn_with_ties_and_negative_scores(items, seed, levels):
    random = np.random.default_rng(seed)
    scores = torch.from_numpy(random.integers(-levels, levels + 1, (5, items)) / 4)
    relevant = torch.from_numpy(random.random((5, items)) < random.random())
    ours = average_precision(scores, relevant)
    for row, mask, value in zip(scores, relevant, ours, strict=True):
        if mask.any():
            assert abs(average_precision_score(mask.numpy(), row.numpy()) - value.item()) <= 1e-12
        else:
            assert value.isnan()


def test_all_scores_equal_is_no_success():
    relevant = torch.tensor([True, False, False, False])
    assert average_precision(torch.zeros(4), relevant).item() == 0.25


def test_an_item_with_score_minus_infinity_is_not_in_the_retrieval_set():
    scores = torch.tensor([0.9, float("-inf"), 0.1])
    relevant = torch.tensor([False, False, True])
    assert average_precision(scores, relevant).item() == 0.5


@pytest.mark.parametrize(
    ("scores", "relevant", "message"),
    [
        (torch.tensor([1.0, float("nan")]), torch.tensor([True, False]), "query 0"),
        (torch.tensor([1.0, float("-inf")]), torch.tensor([True, True]), "query 0"),
        (torch.zeros(3), torch.ones(2, dtype=torch.bool), r"\(3,\) and \(2,\)"),
        (torch.zeros(3, dtype=torch.long), torch.ones(3, dtype=torch.bool), "floats"),
        (torch.zeros(3), torch.ones(3), "mask"),
    ],
)
def test_bad_scores_are_refused_with_a_sentence(scores, relevant, message):
    with pytest.raises(ValueError, match=message):
        average_precision(scores, relevant)


@pytest.mark.parametrize("call", [average_precision, smooth_ap])
@pytest.mark.parametrize("name", ["scores", "relevant"])
def test_arrays_are_refused_with_the_way_to_wrap_them(call, name):
    given = {"scores": torch.eye(3), "relevant": torch.eye(3) > 0}
    with pytest.raises(TypeError, match=f"{name} must be a tensor, not ndarray.*torch.as_tensor"):
        call(**given | {name: given[name].numpy()})
