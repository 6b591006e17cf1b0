import numpy as np
import pytest
from sklearn.metrics import average_precision_score, precision_recall_curve

from smoothap.metrics import evaluate
from smoothap.plots.rankings import precision_recall, rank


def test_the_ranking_is_that_of_a_plain_sort_without_the_query(toy_set, vectors):
    images = toy_set()
    embeddings = vectors(images.labels, 1.0)
    for query in (0, 7, 31):
        row = rank(images, embeddings, query)
        vector = embeddings[query].astype(float)
        cosine = {
            item: float(other @ vector / np.linalg.norm(other) / np.linalg.norm(vector))
            for item, other in enumerate(embeddings.astype(float))
            if item != query
        }
        assert row.items.tolist() == sorted(cosine, key=lambda item: -cosine[item])
        assert np.allclose(row.scores, [cosine[item] for item in row.items], atol=1e-12)
        assert row.right.tolist() == [images.labels[item] == images.labels[query] for item in row.items]
        assert row.positives == 3
        assert row.right[row.last_right - 1]
        assert not row.right[row.last_right :].any()
        assert row.right_among(row.last_right) == 3


def test_average_precision_is_that_of_evaluate_and_of_scikit_learn(toy_set, vectors):
    images = toy_set()
    embeddings = vectors(images.labels, 0.7)
    report = evaluate(embeddings, images.labels, progress=False)
    for query in range(len(images)):
        row = rank(images, embeddings, query)
        assert row.average_precision == pytest.approx(report.average_precision[query], abs=1e-15)
        assert row.average_precision == pytest.approx(average_precision_score(row.right, row.scores), abs=1e-12)


def test_the_curve_is_scikit_learns_also_with_equal_scores(toy_set, vectors):
    images = toy_set()
    embeddings = vectors(images.labels, 0.7).round()  # many equal vectors
    embeddings[4] = embeddings[5] = embeddings[9] = embeddings[0]
    row = rank(images, embeddings, 0)
    assert len(np.unique(row.scores)) < len(row.scores)
    curve = precision_recall(row.scores, row.right)
    precision, recall = curve.precision, curve.recall
    expected_precision, expected_recall, _ = precision_recall_curve(row.right, row.scores)
    rises = np.diff(expected_recall[::-1], prepend=0) > 0
    assert np.allclose(precision[1:], expected_precision[::-1][rises])
    assert np.allclose(recall, [0, *expected_recall[::-1][rises]])
    assert precision[0] == precision[1]  # no line up the axis


def test_equal_images_have_equal_scores_and_the_wrong_ones_come_first(toy_set):
    images = toy_set(size=300)
    embeddings = np.random.default_rng(0).normal(size=(2400, 61)).astype(np.float32)
    same = [1, 77, 1003, 1950, 2398, 2399]  # two of them right
    embeddings[same] = embeddings[0] + 0.01 * embeddings[5]
    row = rank(images, embeddings, 0)
    assert row.items[:6].tolist() == [1003, 1950, 2398, 2399, 1, 77]
    assert len(set(row.scores[:6].tolist())) == 1


def test_embeddings_of_another_set_are_refused(toy_set):
    with pytest.raises(ValueError, match=r"32 images of toys <test>, not the shape \(31, 8\)"):
        rank(toy_set(), np.ones((31, 8)), 0)
