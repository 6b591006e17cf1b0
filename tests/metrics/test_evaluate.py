from enum import Enum

import numpy as np
import pytest
import torch
from guarantees import short_or_long
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import average_precision_of, brute_force

from smoothap import evaluate


def signs(seed, rows, dimension):
    """Vectors of +1 and -1: their products are exact, and many are equal."""
    return np.random.default_rng(seed).choice([-1.0, 1.0], (rows, dimension))


def assert_equal(report, expected):
    assert np.allclose(report.average_precision, expected["average_precision"], atol=1e-12, rtol=0, equal_nan=True)
    assert np.array_equal(report.first_hit_rank, expected["first_hit_rank"])
    has_positive = expected["first_hit_rank"] > 0
    assert report.queries == has_positive.sum()
    assert report.skipped == (~has_positive).sum()
    if has_positive.any():
        for ours, name in (
            (report.mean_average_precision, "average_precision"),
            (report.map_at_r, "map_at_r"),
            (report.r_precision, "r_precision"),
            (report.precision[5], "precision_5"),
        ):
            assert abs(ours - expected[name][has_positive].mean()) <= 1e-12
        for k, value in report.recall.items():
            assert abs(value - (expected["first_hit_rank"][has_positive] <= k).mean()) <= 1e-12


@pytest.mark.guarantee(3)
@settings(max_examples=short_or_long(60, 10_000))
@given(
    seed=st.integers(0, 2**31),
    rows=st.integers(1, 90),
    classes=st.integers(1, 12),
    dimension=st.integers(1, 8),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_every_metric_is_that_of_the_brute_force_ranking_with_ties(seed, rows, classes, dimension, dtype):
    embeddings = signs(seed, rows, dimension).astype(dtype)
    labels = np.random.default_rng(seed + 1).integers(0, classes, rows)
    assert_equal(evaluate(embeddings, labels, recall_at=(1, 5)), brute_force(embeddings, labels))


@pytest.mark.guarantee(3)
@given(seed=st.integers(0, 2**31), rows=st.integers(1, 40), items=st.integers(1, 90), classes=st.integers(1, 10))
def test_queries_against_a_gallery_are_those_of_the_brute_force_ranking(seed, rows, items, classes):
    embeddings, gallery = signs(seed, rows, 6), signs(seed + 1, items, 6)
    random = np.random.default_rng(seed)
    labels, gallery_labels = random.integers(0, classes, rows), random.integers(0, classes, items)
    report = evaluate(embeddings, labels, gallery, gallery_labels, recall_at=(1, 5))
    assert_equal(report, brute_force(embeddings, labels, gallery, gallery_labels))


@pytest.mark.guarantee(3)
@pytest.mark.parametrize("samples_per_class", [1, 2, 5, 40])
def test_real_cosines_of_any_length_are_ranked_exactly(core_path, samples_per_class):
    random = np.random.default_rng(samples_per_class)
    labels = np.repeat(np.arange(240 // samples_per_class), samples_per_class)
    random.shuffle(labels)
    vectors = random.standard_normal((240, 24)) + 0.3 * random.standard_normal((240, 24))[labels]
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    report = evaluate(vectors * random.uniform(0.1, 10, (240, 1)), labels, recall_at=(1, 5))
    assert_equal(report, brute_force(units, labels))


def test_many_tiles_give_the_same_metrics_as_the_brute_force_ranking(core_path, monkeypatch):
    monkeypatch.setattr("smoothap.metrics.counting._LARGEST_TILE", 64)
    embeddings = signs(0, 500, 10).astype(np.float32)
    random = np.random.default_rng(0)
    labels = random.choice(40, 500, p=random.dirichlet(np.ones(40)))
    expected = brute_force(embeddings, labels)
    for block_size in (None, 1, 200):
        assert_equal(evaluate(embeddings, labels, recall_at=(1, 5), block_size=block_size), expected)
    report = evaluate(embeddings[:150], labels[:150], embeddings, labels, recall_at=(1, 5), block_size=64)
    assert_equal(report, brute_force(embeddings[:150], labels[:150], embeddings, labels))


def test_a_collapsed_model_scores_badly(core_path):
    report = evaluate(np.ones((40, 8)), np.repeat(np.arange(10), 4))
    assert report.mean_average_precision == pytest.approx(3 / 39)
    assert report.recall[1] == 0


def test_duplicates_of_other_classes_are_exact_ties_wherever_they_are(core_path, monkeypatch):
    """An image that also carries a wrong label ties with itself: its rank counts the other copy."""
    monkeypatch.setattr("smoothap.metrics.counting._LARGEST_TILE", 64)
    random = np.random.default_rng(1)
    vectors = random.standard_normal((150, 24)).astype(np.float32)
    embeddings = np.concatenate([vectors, vectors])
    labels = np.concatenate([np.arange(150) // 3, 1000 + np.arange(150) // 5])
    report = evaluate(embeddings, labels)
    # the copy of the query is the one negative with the highest possible score
    assert report.first_hit_rank.min() >= 2
    precise = evaluate(embeddings.astype(np.float64), labels)
    assert np.allclose(report.average_precision, precise.average_precision, atol=1e-12)


def test_classes_count_the_same_in_the_class_mean(core_path):
    embeddings = np.array([[1, 0], [1, 0.1], [1, 0.2], [0, 1], [0.5, 1]], np.float64)
    report = evaluate(embeddings, ["a", "a", "a", "b", "b"])
    values = report.average_precision
    assert report.class_mean_average_precision == pytest.approx((values[:3].mean() + values[3:].mean()) / 2)


@pytest.mark.parametrize("pairs", [False, True])
def test_what_is_ignored_counts_neither_way(core_path, pairs):
    """Items for queries of their own class, or pairs."""
    random = np.random.default_rng(3)
    embeddings, labels = random.standard_normal((80, 8)), np.arange(80) % 10
    ignore = random.random((80, 80) if pairs else 80) < 0.3
    report = evaluate(embeddings, labels, recall_at=(1, 5), ignore=ignore)
    units = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    for q in range(80):
        kept = ~ignore[q] if pairs else ~(ignore & (labels == labels[q]))
        kept[q] = True
        expected = average_precision_of(units, labels, q, kept)
        assert report.average_precision[q] == pytest.approx(expected, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("kind", ["numpy", "torch", "memory-mapped", "float16", "bfloat16", "strings", "bytes"])
def test_any_kind_of_array_and_labels_gives_the_same_metrics(core_path, kind, tmp_path):
    embeddings, labels = signs(5, 120, 7).astype(np.float32), np.arange(120) % 17
    expected = evaluate(embeddings, labels)
    given_labels = labels
    given_embeddings = embeddings
    if kind == "torch":
        given_embeddings, given_labels = torch.from_numpy(embeddings), torch.from_numpy(labels)
    elif kind == "memory-mapped":
        np.save(tmp_path / "x.npy", embeddings)
        given_embeddings = np.load(tmp_path / "x.npy", mmap_mode="r")
    elif kind == "float16":
        given_embeddings = embeddings.astype(np.float16)
    elif kind == "bfloat16":
        given_embeddings = torch.from_numpy(embeddings).bfloat16().requires_grad_()
    elif kind == "strings":
        given_labels = [f"class {label}" for label in labels]
    elif kind == "bytes":
        given_embeddings = embeddings.astype(np.int8)
    report = evaluate(given_embeddings, given_labels)
    assert report.to_json() == expected.to_json()


class Animal(str, Enum):  # its str is "Animal.CAT", longer than its value
    CAT, DOG, OWL = "cat", "dog", "owl"


@pytest.mark.parametrize("kind", ["list", "array", "gallery", "numpy's own strings"])
def test_names_of_any_type_of_string_are_classes_by_their_whole_value(kind):
    embeddings, names = signs(6, 60, 7), [list(Animal)[row % 3] for row in range(60)]
    plain = [name.value for name in names]
    expected = evaluate(embeddings, plain, embeddings, plain) if kind == "gallery" else evaluate(embeddings, plain)
    if kind == "gallery":
        report = evaluate(embeddings, plain, embeddings, names)
    elif kind == "numpy's own strings":
        if not hasattr(np.dtypes, "StringDType"):
            pytest.skip("this numpy has none")
        report = evaluate(embeddings, np.array(plain, np.dtypes.StringDType()))
    else:
        report = evaluate(embeddings, names if kind == "list" else np.array(names, object))
    assert report.mean_average_precision < 1
    assert report.to_json() == expected.to_json()


def test_a_set_without_any_positive_is_all_skipped(core_path):
    report = evaluate(np.eye(4), np.arange(4))
    assert (report.queries, report.skipped) == (0, 4)
    assert np.isnan(report.mean_average_precision)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": np.arange(3)}, r"labels has shape \(3,\), but embeddings has 4 rows"),
        ({"labels": np.zeros(4)}, "whole numbers or strings"),
        ({"labels": [0.0, 1, 2, 3]}, "labels has 0.0 in row 0"),
        ({"labels": ["a", "b", None, "b"]}, "labels has None in row 2.*drop the rows that have no class"),
        ({"labels": ["a", float("nan"), "b", "b"]}, "labels has nan in row 1"),
        ({"labels": [1, 1, None, 2]}, "labels has None in row 2"),
        ({"labels": np.array(["a", "b", "b", np.nan], object)}, "labels has nan in row 3"),
        ({"labels": [1, "1", 2, 2]}, "labels has '1' in row 1.*one kind for all rows"),
        ({"gallery": np.eye(4), "gallery_labels": [None, 1, 1, 2]}, "gallery_labels has None in row 0"),
        ({"embeddings": np.eye(4) * 1j}, "embeddings must be real numbers, not complex128"),
        ({"embeddings": torch.eye(4) * 1j}, "embeddings must be real numbers, not torch.complex64"),
        ({"embeddings": np.full((4, 4), "a")}, "embeddings must be real numbers, not <U1"),
        ({"embeddings": np.zeros(4)}, r"\(rows, dimension\)"),
        ({"embeddings": np.empty((0, 3)), "labels": []}, "at least one row"),
        ({"embeddings": np.array([[1.0], [np.nan], [1], [1]])}, "embeddings has NaN or infinite values in row 1"),
        ({"embeddings": np.array([[1.0], [1], [0], [1]])}, "embeddings is all zeros in row 2"),
        ({"gallery": np.eye(4)}, "gallery_labels are missing"),
        ({"gallery": np.eye(3), "gallery_labels": [0, 1, 2]}, "4 dimensions and the gallery 3"),
        ({"gallery": np.eye(4), "gallery_labels": list("abcd")}, "one kind for both"),
        ({"labels": list("abcd"), "gallery": np.eye(4), "gallery_labels": [b"\xff"] * 4}, "one kind for both"),
        ({"gallery_labels": [1]}, "gallery, which is missing"),
        ({"recall_at": (0, 1)}, "recall_at"),
        ({"recall_at": 0}, "recall_at must be whole numbers"),
        ({"recall_at": "5"}, "recall_at must be whole numbers"),
        ({"recall_at": None}, "recall_at must be whole numbers"),
        ({"recall_at": float("inf")}, "recall_at must be whole numbers"),
        ({"block_size": 0}, "block_size must be a whole number from 1"),
        ({"block_size": "all"}, "block_size must be a whole number from 1"),
        ({"ignore": np.zeros(5, bool)}, r"\(4,\) or \(4, 4\)"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_with_a_sentence(arguments, message):
    with pytest.raises(ValueError, match=message):
        evaluate(**({"embeddings": np.eye(4), "labels": np.zeros(4, int)} | arguments))


@pytest.mark.parametrize(
    "arguments",
    [
        {"embeddings": np.ma.masked_equal(np.eye(4), 1)},
        {"labels": np.ma.masked_equal([0, 0, 1, 1], 1)},
        {"gallery": np.ma.array(np.eye(4), mask=np.eye(4)), "gallery_labels": [0, 1, 0, 1]},
        {"relevance": np.ma.masked_equal([[0.5]], 0.5)},
        {"ignore": np.ma.masked_equal([True, False, False, False], True)},
    ],
)
def test_a_masked_array_is_refused_before_its_mask_is_lost(arguments):
    with pytest.raises(TypeError, match=f"{next(iter(arguments))} is a masked array, whose mask would be lost"):
        evaluate(**({"embeddings": np.eye(4), "labels": np.zeros(4, int)} | arguments))


@pytest.mark.guarantee(3)
@pytest.mark.parametrize("start", [2**53, 2**62, 2**63 - 4])
def test_signed_and_unsigned_labels_beyond_2_to_53_are_kept_apart(start):
    vectors = np.random.default_rng(0).standard_normal((24, 5))
    names = [start + row // 6 for row in range(24)]
    expected = evaluate(vectors, np.arange(24) // 6, vectors, np.arange(24) // 6).to_json()
    signed, unsigned = np.array(names, np.int64), np.array(names, np.uint64)
    for labels, gallery_labels in ((signed, unsigned), (unsigned, signed), (names, unsigned)):
        assert evaluate(vectors, labels, vectors, gallery_labels).to_json() == expected
    mixed = [2**63 + row // 6 if row < 12 else -(row // 6) for row in range(24)]  # no type of numpy holds both
    assert evaluate(vectors, mixed).queries == 24


@pytest.mark.guarantee(5)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("place", ["embeddings", "gallery"])
def test_bad_rows_are_refused_by_row_wherever_they_are(core_path, value, dtype, place):
    whole = np.random.default_rng(0).standard_normal((9000, 2)).astype(dtype)
    broken = whole.copy()
    broken[8500] = value
    labels = np.arange(9000) % 7
    given = (broken, labels) if place == "embeddings" else (whole[:5], labels[:5], broken, labels)
    with pytest.raises(ValueError, match=f"{place} .* in row 8500"):
        evaluate(*given)
