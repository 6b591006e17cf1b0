"""Images with several labels, graded relevance, and the ranking of whole rows that both rest on."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, ndcg_score

from smoothap import Report, evaluate


def points(seed, rows, dimension=3, whole=True):
    """Vectors with many equal scores, as small whole numbers have."""
    random = np.random.default_rng(seed)
    vectors = (
        random.integers(-2, 3, (rows, dimension)).astype(np.float32)
        if whole
        else random.standard_normal((rows, dimension))
    )
    vectors[~vectors.any(1)] = 1
    return vectors


def scores_of(queries, items):
    """Cosines with the ties that the definition has: products and squared lengths of whole numbers are exact."""
    lengths = np.sqrt((queries.astype(float) ** 2).sum(1))[:, None] * np.sqrt((items.astype(float) ** 2).sum(1))
    return queries.astype(float) @ items.T.astype(float) / lengths


def average_precisions(scores, relevant, one_set):
    found = []
    for q in range(len(scores)):
        kept = np.arange(scores.shape[1]) != q if one_set else np.ones(scores.shape[1], bool)
        some = relevant[q][kept].any()
        found.append(average_precision_score(relevant[q][kept], scores[q][kept]) if some else np.nan)
    return np.array(found)


@given(seed=st.integers(0, 2**31), rows=st.integers(2, 14), labels=st.integers(2, 5), whole=st.booleans())
def test_positives_share_a_label(seed, rows, labels, whole):
    vectors, marks = points(seed, rows, whole=whole), np.random.default_rng(seed + 1).random((rows, labels)) > 0.7
    report = evaluate(vectors, marks)
    expected = average_precisions(scores_of(vectors, vectors), marks.astype(int) @ marks.T > 0, one_set=True)
    assert np.allclose(report.average_precision, expected, equal_nan=True, atol=1e-12)
    assert report.skipped == np.isnan(expected).sum()


@given(seed=st.integers(0, 2**31), rows=st.integers(1, 8), items=st.integers(1, 14))
def test_several_labels_against_a_gallery(seed, rows, items):
    vectors, gallery, random = points(seed, rows), points(seed + 1, items), np.random.default_rng(seed + 2)
    marks, item_marks = random.random((rows, 4)) > 0.6, random.random((items, 4)) > 0.6
    report = evaluate(vectors, marks, gallery, item_marks)
    expected = average_precisions(scores_of(vectors, gallery), marks.astype(int) @ item_marks.T > 0, one_set=False)
    assert np.allclose(report.average_precision, expected, equal_nan=True, atol=1e-12)


def test_every_way_to_say_it_is_the_same():
    vectors = np.random.default_rng(0).standard_normal((60, 8))
    marks = np.random.default_rng(1).random((60, 5)) > 0.7
    names = [[f"label {column}" for column in np.flatnonzero(row)] for row in marks]
    expected = evaluate(vectors, marks).to_json()
    for labels in (marks.astype(int), torch.from_numpy(marks), names, [set(each) for each in names]):
        assert evaluate(vectors, labels).to_json() == expected
    assert evaluate(vectors, marks, block_size=7).to_json() == expected


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("classes", [2, 3])
def test_one_label_each_gives_the_numbers_of_plain_labels_bit_for_bit(core_path, classes, ties, monkeypatch):
    random = np.random.default_rng(classes)
    labels = random.integers(0, classes, 700)
    vectors = random.standard_normal((700, 16)).astype(np.float32)
    if ties:
        vectors[100:160] = vectors[:60]  # copies tie with each other, across classes
        vectors[200:500] = 3 * vectors[:300]  # these score the same but for a rounding
    expected = evaluate(vectors, labels)
    monkeypatch.setattr("smoothap.metrics.sorting._PAIRS_WORTH_SORTING", 0)
    assert evaluate(vectors, labels).to_json() == expected.to_json()
    several = evaluate(vectors, np.eye(classes, dtype=int)[labels])
    assert np.array_equal(several.average_precision, expected.average_precision)
    assert several.copies == expected.copies


@given(seed=st.integers(0, 2**31), rows=st.integers(2, 12), classes=st.integers(1, 4), whole=st.booleans())
def test_graded_relevance_gives_the_ndcg_of_scikit_learn_with_ties(seed, rows, classes, whole):
    random = np.random.default_rng(seed)
    vectors, labels = points(seed, rows, whole=whole), random.integers(0, classes, rows)
    table = np.round(random.random((classes, classes)), 1) * (random.random((classes, classes)) > 0.4)
    report = evaluate(vectors, labels, relevance=table)
    scores = scores_of(vectors, vectors)
    for q in range(rows):
        others = np.arange(rows) != q
        gains = table[labels[q]][labels[others]]
        if not gains.any():
            assert np.isnan(report.ndcg_of_queries[q])
        elif others.sum() > 1:  # scikit-learn takes no list of one
            assert report.ndcg_of_queries[q] == pytest.approx(ndcg_score([gains], [scores[q][others]]), abs=1e-9)
    plain = evaluate(vectors, labels)
    assert np.array_equal(report.average_precision, plain.average_precision, equal_nan=True)
    assert plain.ndcg is None


def test_a_graded_report_has_its_interval_and_survives_the_disk(tmp_path):
    random = np.random.default_rng(3)
    labels = random.integers(0, 6, 80)
    table = np.eye(6) + 0.5 * np.kron(np.eye(3), np.ones((2, 2))) * (1 - np.eye(6))
    report = evaluate(random.standard_normal((80, 8)), labels, relevance=table)
    assert "nDCG" in str(report)
    interval = report.interval("ndcg")
    assert interval.low <= report.ndcg <= interval.high
    report.save(tmp_path / "report.json")
    assert Report.load(tmp_path / "report.json").to_json() == report.to_json()


@pytest.mark.parametrize(
    ("labels", "more", "message"),
    [
        (np.full((4, 2), 3), {}, "0 and 1"),
        ([["a"], ["b"], "c", ["d"]], {}, "each row a list"),
        ([["a"], [1], ["c"], ["d"]], {}, "one kind"),
        ([["a"], ["b"], ["c"]], {}, "3 rows"),
        (np.eye(4, dtype=int), {"relevance": np.eye(2)}, "give one of them"),
        ([0, 1, 2, 3], {"relevance": np.eye(3)}, "from 0 to 2"),
        ([0, 1, 2, 0], {"relevance": -np.eye(3)}, "0 or more"),
        (["a", "a\0", "b", "b"], {}, "NUL"),
        ([0, 1, 2, 0], {"relevance": {0: 1}}, "relevance must be a table.*dict"),
        ([0, 1, 2, 0], {"relevance": [[1, 0], [1]]}, "relevance must be a table.*list"),
        ([0, 1, 2, 0], {"relevance": "abc"}, "relevance must be a table.*str"),
        ([0, 1, 2, 0], {"relevance": np.eye(3) * 1j}, "relevance must be a table.*complex"),
        ([0, 1, 2, 0], {"relevance": torch.eye(3).to_sparse()}, "relevance is sparse"),
        ([["a", "b"], ["c"], [1], ["d"]], {}, "labels has 1 in row 2"),
        ([[("a", "b")], ["c"], ["d"], ["e"]], {}, r"labels has \('a', 'b'\) in row 0"),
        ([[1], [1], [2], [2]], {"gallery": np.eye(4), "gallery_labels": [["1"]] * 4}, "one kind for both"),
        (np.eye(4, dtype=int), {"gallery": np.eye(4), "gallery_labels": [["1"]] * 4}, "one kind for both"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(labels, more, message):
    with pytest.raises(ValueError, match=message):
        evaluate(np.eye(4), labels, **more)


def test_a_recall_that_is_asked_for_twice_is_one():
    vectors, labels = np.random.default_rng(0).standard_normal((40, 4)), np.arange(40) // 4
    twice, once = evaluate(vectors, labels, recall_at=(1, 1, 10)), evaluate(vectors, labels, recall_at=(1, 10))
    assert twice.to_json() == once.to_json()
    assert twice.interval("precision_at_10").value == pytest.approx(once.precision[10])


def test_a_matrix_of_0_and_1_is_one_however_it_is_given():
    random = np.random.default_rng(3)
    vectors, marks = random.normal(size=(40, 6)), np.eye(5, dtype=int)[random.integers(5, size=40)]
    marks[::3, 0] = 1
    wanted = evaluate(vectors, marks, progress=False).to_json()
    for rows in (marks.tolist(), list(marks), [torch.from_numpy(row) for row in marks], marks.astype(bool).tolist()):
        assert evaluate(vectors, rows, progress=False).to_json() == wanted


def test_labels_that_are_numbers_in_a_list_of_tensors_are_numbers():
    vectors, labels = np.random.default_rng(4).normal(size=(30, 4)), np.arange(30) % 4
    wanted = evaluate(vectors, labels, progress=False).to_json()
    assert evaluate(vectors, list(torch.from_numpy(labels)), progress=False).to_json() == wanted


def test_ndcg_has_one_value_in_the_report_and_in_its_interval():
    random = np.random.default_rng(5)
    vectors, labels = random.normal(size=(60, 6)), np.arange(60) % 20
    labels[labels > 14] = np.arange(50, 65)[: (labels > 14).sum()] % 5 + 15  # gains alone: no other of these classes
    labels[-3:] = 20, 21, 22
    report = evaluate(vectors, labels, relevance=np.eye(23) + 0.5 * random.integers(2, size=(23, 23)), progress=False)
    assert (report.first_hit_rank == 0).any()
    assert report.interval("ndcg", level=0.95).value == pytest.approx(report.ndcg, abs=1e-12)
