"""What a score means: against counting by hand."""

import numpy as np
import pytest

from smoothap.album import Album, Calibration
from smoothap.album.calibration import calibrate


def labelled(classes=30, each=6, dimension=8, seed=0):
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), each)
    vectors = random.standard_normal((classes, dimension))[labels] + 0.7 * random.standard_normal(
        (len(labels), dimension)
    )
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True), labels


def counted(vectors, labels, score):
    """Mean recall over the queries and the share of wrong pairs at or above a score, one by one."""
    recalls, wrong, wrong_pairs = [], 0, 0
    for query in range(len(labels)):
        scores = vectors @ vectors[query]
        right = (labels == labels[query]) & (np.arange(len(labels)) != query)
        if right.any():
            recalls.append((scores[right] >= score).mean())
        wrong += (scores[labels != labels[query]] >= score).sum()
        wrong_pairs += (labels != labels[query]).sum()
    return np.mean(recalls), wrong / wrong_pairs


def test_the_curve_is_what_counting_gives():
    vectors, labels = labelled()
    labels[-7:] = [900, 901, 902, 902, 902, 903, 904]  # classes of one photo have nothing to find
    calibration = calibrate(vectors.astype(np.float32), labels, "made up")
    for place in range(0, len(calibration.scores), 40):
        recall, rate = counted(vectors, labels, calibration.scores[place] - 1e-6)
        assert calibration.recall[place] == pytest.approx(recall, abs=2e-3)
        assert calibration.false_positive_rate[place] == pytest.approx(rate, abs=2e-4)


@pytest.mark.parametrize("wanted", [0.1, 0.5, 0.8, 0.95, 1.0])
def test_the_list_for_a_recall_holds_it_and_is_the_shortest(wanted):
    vectors, labels = labelled()
    calibration = calibrate(vectors.astype(np.float32), labels, "made up")
    score = calibration.score_for_recall(wanted)
    assert counted(vectors, labels, score - 1e-6)[0] >= wanted - 1e-9
    higher = calibration.scores[calibration.scores > score + 1e-5]
    if len(higher):
        assert counted(vectors, labels, higher[0])[0] < wanted + 1 / 256


def test_precision_knows_how_large_the_album_is():
    vectors, labels = labelled()
    small = calibrate(vectors.astype(np.float32), labels, "made up")
    large = Calibration.from_dict(small.to_dict(), 100 * len(labels))
    score = small.score_for_recall(0.9)
    right = small.right_per_query * small.recall_at(score)
    _, rate = counted(vectors, labels, score - 1e-6)
    assert small.precision_at(score) == pytest.approx(right / (right + rate * (len(labels) - 5)), rel=0.02)
    assert large.precision_at(score) < 0.2 * small.precision_at(score)


def test_a_calibrated_album_keeps_it_and_answers_by_recall(tmp_path):
    vectors, labels = labelled()
    album = Album.from_arrays(vectors, {"label": labels.tolist()}, tmp_path / "album")
    told = album.calibrate(*labelled(seed=1), "other classes")
    opened = Album.open(tmp_path / "album")
    assert opened.calibration.source == "other classes"
    assert opened.calibration.photos == len(labels)
    for calibration, rerank in ((told, False), (told.ranked, True)):
        score = calibration.score_for_recall(0.9)
        assert all(hit.score >= score - 1e-6 for hit in opened.search(0, recall=0.9, rerank=rerank))
    for rerank, off in ((False, 0.06), (True, 0.1)):
        obtained = [
            sum(hit.label == str(labels[query]) for hit in opened.search(query, recall=0.9, rerank=rerank)) / 5
            for query in range(len(labels))
        ]
        assert np.mean(obtained) == pytest.approx(0.9, abs=off)  # of classes that calibration did not see


@pytest.mark.parametrize("recall", [0, -1, 1.01, float("nan")])
def test_a_recall_is_a_share(recall):
    vectors, labels = labelled()
    with pytest.raises(ValueError, match="A recall is a share"):
        calibrate(vectors, labels, "x").score_for_recall(recall)


def test_labels_without_pairs_cannot_calibrate():
    vectors, _ = labelled()
    with pytest.raises(ValueError, match="no class with two"):
        calibrate(vectors, np.arange(len(vectors)), "x")
    with pytest.raises(ValueError, match="one class only"):
        calibrate(vectors, np.zeros(len(vectors)), "x")
