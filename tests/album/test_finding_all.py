"""What is missing from a collection: the right photos are offered first, and how many are missing is about true."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from smoothap.album import Album, finding_all
from smoothap.album.finding_all import Belonging, expected_missing, find_next


def clouds(seed, sizes, spread=0.9, dimension=32, path=None):
    """An album of clouds of vectors, and the cloud of each."""
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    centres = random.normal(size=(len(sizes), dimension))
    vectors = centres[labels] + spread * random.normal(size=(len(labels), dimension))
    order = random.permutation(len(labels))
    return Album.from_arrays(vectors[order], (), path), labels[order]


def collection(labels, rows, wanted):
    """A collection of the looked-at rows, each marked by its label."""
    right = tuple(int(row) for row in rows if labels[row] == wanted)
    wrong = tuple(int(row) for row in rows if labels[row] != wanted)
    return SimpleNamespace(name="thing", right=right, wrong=wrong)


@pytest.fixture(scope="module")
def looked():
    """A user who looks at what is offered, ten at a time: (album, labels, the collection after each round)."""
    album, labels = clouds(0, [30] + [60] * 12)
    rows, rounds = [int(np.flatnonzero(labels == 0)[0])], []
    for _ in range(12):
        kept = collection(labels, rows, 0)
        offered = find_next(album, kept, number=10)
        rounds.append((kept, offered))
        rows += [hit.id for hit in offered.photos]
    return album, labels, rounds


def test_looking_at_what_is_offered_finds_all_far_sooner_than_going_down_one_list(looked):
    album, labels, rounds = looked
    first = rounds[0][0].right[0]
    ranking = [hit.id for hit in album.search(first, everything=True, rerank=False)]
    last = max(ranking.index(row) for row in np.flatnonzero(labels == 0) if row != first)
    needed = next(place for place, (kept, _) in enumerate(rounds) if len(kept.right) == 30)
    assert 10 * needed <= last / 3


def test_what_is_offered_is_new_ranked_by_its_chance_and_without_what_was_seen(looked):
    album, _, rounds = looked
    kept, offered = rounds[2]
    ids = [hit.id for hit in offered.photos]
    assert not set(ids) & {*kept.right, *kept.wrong}
    chances = [hit.score for hit in offered.photos]
    assert chances == sorted(chances, reverse=True)
    assert [hit.rank for hit in offered.photos] == list(range(1, 11))
    others = find_next(album, kept, number=10, seen=ids[:3]).photos
    assert [hit.id for hit in others][:7] == ids[3:]


def test_the_announced_recall_comes_to_the_true_one_and_its_range_holds_it(looked):
    _, _, rounds = looked
    told = [(len(kept.right) / 30, offered) for kept, offered in rounds if offered.recall is not None]
    assert len(told) >= 4
    assert all(offered.highest - offered.lowest <= 0.6 for _, offered in told)
    inside = [offered.lowest <= true <= offered.highest for true, offered in told]
    assert np.mean(inside) >= 0.9
    true, last = told[-1]
    assert true == 1
    assert last.recall > 0.95
    assert last.missing < 2
    assert last.lowest <= last.recall <= last.highest


def test_while_there_are_few_marks_nothing_is_announced_and_a_sentence_says_why(looked):
    album, labels, _ = looked
    few = find_next(album, SimpleNamespace(name="thing", right=(0, 1), wrong=(2, 3, 4)))
    assert (few.recall, few.lowest, few.highest, few.missing) == (None,) * 4
    assert "from 3 photos on that belong to it and 3 that do not" in few.why
    assert few.photos
    with pytest.raises(ValueError, match="holds no photos yet"):
        find_next(album, SimpleNamespace(name="thing", right=(), wrong=(2,)))
    everything = collection(labels, range(len(labels)), 0)
    done = find_next(album, everything)
    assert (done.photos, done.recall, done.missing) == ([], 1.0, 0.0)


def test_the_chances_are_those_of_logistic_regression_on_the_kernel(monkeypatch):
    """scikit-learn's solution of the same problem, in the features that the kernel is the product of."""
    album, labels = clouds(3, [20, 20, 20])
    right, wrong = np.flatnonzero(labels == 0)[:6], np.flatnonzero(labels == 1)[:6]
    others = np.setdiff1d(np.arange(60), [*right, *wrong])
    monkeypatch.setattr(finding_all, "_correction", lambda *_: (np.array([1.0, 0.0]), np.eye(2) * 1e-12))
    chances, _ = Belonging(album.vectors, right, wrong, others).chances()
    kernel = np.exp((album.vectors[:].astype(float) @ album.vectors[:].T.astype(float) - 1) / finding_all.WIDTH)
    values, directions = np.linalg.eigh(kernel)
    features = directions * np.sqrt(np.maximum(values, 0))
    drawn = np.random.default_rng(0).choice(others, len(others), replace=False)
    rows = [*right, *wrong, *drawn]
    weights = [1.0] * 12 + [1 / len(drawn)] * len(drawn)
    oracle = LogisticRegression(C=1 / finding_all.RIDGE, tol=1e-10, max_iter=10_000)
    oracle.fit(features[rows], [1] * 6 + [0] * (6 + len(drawn)), weights)
    assert chances == pytest.approx(oracle.predict_proba(features[others])[:, 1], abs=2e-3)


def test_leaving_a_photo_out_by_the_formula_is_leaving_it_out(monkeypatch):
    """The logit of a row by one solution of the last Newton step is that of a solution without the row."""
    random = np.random.default_rng(5)
    points = random.normal(size=(14, 3))
    kernel = np.exp(-((points[:, None] - points[None]) ** 2).sum(2) / 4)
    is_right = np.arange(14) < 7
    weights, offset, left_out = finding_all._kernel_regression(kernel, is_right, np.ones(14))
    logits = kernel @ weights + offset
    chance = 1 / (1 + np.exp(-logits))
    curvature = chance * (1 - chance)
    response = logits + (is_right - chance) / curvature
    for row in range(14):
        rest = np.delete(np.arange(14), row)
        system = np.ones((14, 14))
        system[13, 13] = 0
        system[:13, :13] = kernel[np.ix_(rest, rest)] + np.diag(finding_all.RIDGE / curvature[rest])
        solution = np.linalg.solve(system, [*response[rest], 0])
        assert left_out[row] == pytest.approx(kernel[row, rest] @ solution[:13] + solution[13], abs=2e-3)


def test_a_calibration_weighs_in_where_the_marks_leave_it_open():
    draws = np.array([2.0, 10.0, 50.0, 400.0])
    plain, few, many = expected_missing(10, draws, None)
    assert plain == pytest.approx(draws.mean())
    assert (few, many) == (2.0, 400.0)
    small, _, most = expected_missing(10, draws, 15)
    assert small < plain / 3
    assert most < 400
    assert expected_missing(10, np.full(50, 10.0), 4000)[0] == pytest.approx(10)  # marks that are sure stay so


def test_a_calibrated_album_says_that_it_used_its_calibration(looked):
    album, labels, rounds = looked
    calibrated, _ = clouds(0, [30] + [60] * 12)
    calibrated.calibrate(calibrated.vectors, labels, "itself")
    assert "calibration" in find_next(calibrated, rounds[-1][0]).why
    assert "calibration" not in find_next(album, rounds[4][0]).why


def test_of_a_large_album_the_nearest_photos_are_looked_at(looked, monkeypatch):
    album, _, rounds = looked
    kept, offered = rounds[1]  # while some are missing
    monkeypatch.setattr(finding_all, "NEAREST", 100)
    fewer = find_next(album, kept, number=10)
    assert len({hit.id for hit in fewer.photos} & {hit.id for hit in offered.photos}) >= 8
