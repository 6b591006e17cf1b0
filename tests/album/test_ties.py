"""Copies of a photo have one score and are in order of their ids, in a search, on the page and in an evaluation."""

import numpy as np
import pytest
from oracles import defined_score

from smoothap import evaluate
from smoothap.album import Album, calibration
from smoothap.album.calibration import calibrate
from smoothap.server.decoder import Decoder
from smoothap.server.schemas import SearchRequest
from smoothap.server.searching import answer, asked
from smoothap.server.served_album import ServedAlbum
from smoothap.server.settings import Limits


@pytest.fixture(scope="module")
def album():
    """150 vectors, each twice, far apart from its copy and under another label."""
    random = np.random.default_rng(0)
    vectors = random.standard_normal((150, 67)).astype(np.float32)
    labels = [*(f"class {i // 3}" for i in range(150)), *(f"other {i // 5}" for i in range(150))]
    metadata = [{"path": f"{i:03d}.jpg", "label": label} for i, label in enumerate(labels)]
    return Album.from_arrays(np.concatenate([vectors, vectors]), metadata)


@pytest.mark.guarantee(21)
@pytest.mark.parametrize("form", ["first", "everything", "minimum"])
def test_copies_have_one_score_and_stand_in_order_of_their_ids(core_path, album, form):
    options = {"first": {"k": 40}, "everything": {"everything": True}, "minimum": {"min_score": -0.1}}[form]
    for query in range(0, 150, 10):
        hits = album.search(album.vectors[query] + np.float32(0.01), **options, rerank=False)
        scores = {hit.id: hit.score for hit in hits}
        both = [id_ for id_ in scores if id_ < 150 and id_ + 150 in scores]
        assert len(both) > 10
        assert all(scores[id_] == scores[id_ + 150] for id_ in both)
        assert [hit.id for hit in hits] == [hit.id for hit in sorted(hits, key=lambda hit: (-hit.score, hit.id))]


@pytest.mark.guarantee(21)
def test_a_score_is_that_of_the_definition(core_path, album):
    for hit in album.search(5, k=20, rerank=False):
        assert hit.score == defined_score(album.vectors[5], album.vectors[hit.id])
    for pair in album.all_above(0.3):
        assert pair.score == defined_score(album.vectors[pair.first], album.vectors[pair.second])


@pytest.mark.guarantee(21)
def test_the_page_shows_the_average_precision_of_the_evaluation(album):
    report = evaluate(album.vectors[:], album.photos.labels(), progress=False)
    served = ServedAlbum(album, "album", Decoder(Limits()))
    for row in range(0, 300, 7):
        question = SearchRequest(id=row, statistics=True, rerank=False)
        curve = answer(served, question, asked(served, question)).curve
        assert curve is not None
        assert curve.average_precision == pytest.approx(report.average_precision[row], abs=1e-14)


@pytest.mark.guarantee(21)
def test_pairs_at_the_score_itself_are_found(core_path, album):
    """A product may propose a little less than the score of a pair: those at it and just above are decided."""
    score = defined_score(album.vectors[0], album.vectors[1])
    assert {(0, 1), (0, 151), (1, 150), (150, 151)} <= {(pair.first, pair.second) for pair in album.all_above(score)}
    above = album.all_above(np.nextafter(score, 2))
    assert (0, 1) not in {(pair.first, pair.second) for pair in above}
    product = album.vectors[:] @ album.vectors[:].T
    scores = {(0, row): defined_score(album.vectors[0], album.vectors[row]) for row in range(1, 300)}
    too_low = [pair for pair, score in scores.items() if product[pair] < np.float32(score)]
    assert too_low  # or this would show nothing
    for pair in too_low[:5]:
        assert pair in {(first, second) for first, second, _ in album.all_above(scores[pair])}


@pytest.mark.guarantee(21)
def test_calibration_counts_by_the_definition(core_path, album, monkeypatch):
    """With a score of the curve at each right pair, ties between right and wrong pairs are counted as ties."""
    monkeypatch.setattr(calibration, "POINTS", 4096)
    labels = np.array(album.photos.labels())[:60]
    vectors = np.array(album.vectors[:60])
    vectors[30:] = vectors[:30]
    learnt = calibrate(vectors, labels, "sixty vectors")
    every = np.array([[defined_score(x, y) for x in vectors] for y in vectors])
    wrong = labels[:, None] != labels[None, :]
    expected = [(every[wrong] >= score).sum() / wrong.sum() for score in learnt.scores]
    assert learnt.false_positive_rate.tolist() == expected
    assert set(learnt.scores) <= set(every[~wrong & ~np.eye(60, dtype=bool)])
