"""Searching in vectors: against brute force, with every kind of query."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import defined_score
from PIL import Image

from smoothap.album import Album, Filter
from smoothap.album.queries import corrected, expanded
from smoothap.album.vectors import unit
from smoothap.models import Embedder


def random_album(rows, dimension, seed, **options):
    vectors = np.random.default_rng(seed).standard_normal((rows, dimension))
    labels = [f"c{row % 5}" for row in range(rows)]
    return Album.from_arrays(vectors, {"path": [f"{row}.jpg" for row in range(rows)], "label": labels}, **options)


def brute_force(vectors, query, left_out=()):
    """Ids and cosines by a plain sort in float64, best first."""
    rows = [row for row in range(len(vectors)) if row not in left_out]
    unit = np.asarray(query, np.float64) / np.linalg.norm(query)
    scores = {row: float(np.float64(vectors[row]) @ unit) for row in rows}
    return sorted(rows, key=lambda row: -scores[row]), scores


def same_ranking(hits, vectors, query, k, left_out=()):
    ranked, scores = brute_force(vectors, query, left_out)
    assert len(hits) == min(k, len(ranked))
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    for hit, wanted in zip(hits, ranked, strict=False):  # equal scores may change places
        assert hit.id not in left_out
        assert abs(hit.score - scores[wanted]) < 1e-5
        assert abs(hit.score - scores[hit.id]) < 1e-5


@settings(deadline=None, max_examples=80)
@given(
    rows=st.integers(1, 60), dimension=st.integers(1, 9), k=st.integers(1, 80), seed=st.integers(0, 10_000),
    dtype=st.sampled_from(["float32", "float16"]), copies=st.booleans(), removed=st.floats(0, 0.9),
    filtered=st.booleans(), coded=st.booleans(),
)  # fmt: skip
def test_search_gives_what_the_definition_gives(rows, dimension, k, seed, dtype, copies, removed, filtered, coded):
    """To the last bit and in the order of ids among equals, before codes of the vectors are built and after."""
    random = np.random.default_rng(seed)
    vectors = random.standard_normal((rows, dimension))
    if copies:
        vectors = vectors[random.integers(rows, size=rows)]
        near = random.integers(rows, size=rows // 3)  # as near to each other as the numbers can tell apart
        vectors[near] = vectors[0] * (1 + 1e-7 * random.standard_normal((len(near), 1)))
    album = Album.from_arrays(vectors, {"label": [f"c{row % 3}" for row in range(rows)]}, dtype=dtype)
    gone = np.flatnonzero(random.random(rows) < removed)
    album.remove(gone[: rows - 1])
    ids = album.photos.ids.tolist()
    where = Filter(columns=(("label", "c1"),)) if filtered else None
    passing = [identity for identity in ids if not filtered or identity % 3 == 1]
    stored = {identity: np.array(album.vectors[row]) for row, identity in enumerate(ids)}
    itself, other = ids[seed % len(ids)], random.standard_normal(dimension).astype(np.float32)
    with pytest.MonkeyPatch.context() as patched:
        if coded:
            patched.setattr("smoothap.album.engines.codes._WORTH_CODING", 0)
            patched.setattr("smoothap.album.search._FEW", 0)
        for query, vector in ((itself, stored[itself]), (other, unit(other)), (itself, stored[itself])):
            scores = {one: defined_score(vector, stored[one]) for one in passing if one is not query}
            wanted = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
            least = min(max(wanted[len(wanted) // 2][1], -1.0), 1.0) if wanted else 0.0
            for options, expected in (
                ({"k": k}, wanted[:k]),
                ({"everything": True}, wanted),
                ({"min_score": least}, [one for one in wanted if one[1] >= least]),
            ):
                hits = album.search(query, where=where, **options, rerank=False)
                assert [(hit.id, hit.score) for hit in hits] == expected
                assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))


@given(st.integers(2, 60), st.floats(-1, 1), st.integers(0, 10_000))
def test_all_above_leaves_nothing_out(rows, score, seed):
    album = random_album(rows, 4, seed)
    cosines = np.float64(album.vectors) @ np.float64(album.vectors).T
    clear = np.abs(cosines - score) > 1e-5
    pairs = {(pair.first, pair.second) for pair in album.all_above(score)}
    for one in range(rows):
        for other in range(one + 1, rows):
            if clear[one, other]:
                assert ((one, other) in pairs) == (cosines[one, other] >= score)
    found = {hit.id for hit in album.all_above(score, query=0)}
    assert all((row in found) == (cosines[0, row] >= score) for row in range(1, rows) if clear[0, row])
    assert 0 not in found


def test_pairs_are_found_across_tiles(monkeypatch):
    from smoothap.album import duplicates

    album = random_album(50, 3, 0)
    whole = album.all_above(0.5)
    monkeypatch.setattr(duplicates, "_TILE", 7)
    assert [(a, b) for a, b, _ in album.all_above(0.5)] == [(a, b) for a, b, _ in whole]


@pytest.mark.parametrize("spread", [0.0, 0.7], ids=["all directions alike", "a few directions long"])
@pytest.mark.parametrize("score", [0.98, 0.9, 0.0])
def test_pairs_of_long_vectors_are_those_of_every_pair(monkeypatch, spread, score):
    """Long vectors are compared by a few of their numbers first, which must lose no pair, least of all at the score."""
    from smoothap.album import duplicates

    monkeypatch.setattr(duplicates, "_TILE", 16)
    monkeypatch.setattr(duplicates, "_SHORT", 8)
    monkeypatch.setattr(duplicates, "_FEW", 16)
    random = np.random.default_rng(7)
    vectors = random.standard_normal((60, 60)) * np.arange(1, 61) ** -spread
    far = random.standard_normal((60, 60))
    far -= (far * vectors).sum(1, keepdims=True) / (vectors**2).sum(1, keepdims=True) * vectors
    far *= np.linalg.norm(vectors, axis=1, keepdims=True) / np.linalg.norm(far, axis=1, keepdims=True)
    cosines = score + (1 - score) * np.linspace(-0.2, 0.2, 60)[:, None]  # of each and its neighbour: about the score
    rows = np.concatenate([vectors, cosines * vectors + np.sqrt(1 - cosines**2) * far]).astype(np.float32)
    found = {(pair.first, pair.second): pair.score for pair in duplicates.pairs_above(rows, score)}
    every = {(one, other): defined_score(rows[one], rows[other]) for other in range(120) for one in range(other)}
    assert found == {pair: value for pair, value in every.items() if value >= score}
    assert 28 <= sum((row, row + 60) in found for row in range(60)) <= 32
    least = min(found.values())
    assert len(duplicates.pairs_above(rows, least)) == sum(value >= least for value in every.values())


def test_few_tiles_of_an_album_of_groups_are_compared(monkeypatch):
    from smoothap.album import duplicates

    random = np.random.default_rng(0)
    groups = random.standard_normal((20, 40))[random.permutation(np.arange(20).repeat(16))]
    rows = (groups + 0.02 * random.standard_normal(groups.shape)).astype(np.float32)
    monkeypatch.setattr(duplicates, "_TILE", 16)
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    near = duplicates._near_tiles(units[duplicates._side_by_side(units)], 0.98)
    assert 20 <= len(near) < 60  # of 210
    assert len(duplicates.pairs_above(rows, 0.98)) == 20 * 16 * 15 // 2


def test_several_photos_are_one_query_and_are_left_out():
    album = random_album(40, 6, 3)
    mean = album.vectors[4] + album.vectors[9]
    same_ranking(album.search([4, 9], 10, rerank=False), album.vectors, mean, 10, (4, 9))
    same_ranking(album.search([album.vectors[4], 9], 10, rerank=False), album.vectors, mean, 10, (9,))


@pytest.mark.parametrize("minimum", [2, -1.5, float("nan")])
def test_a_minimum_that_no_score_can_have_is_refused(minimum: float):
    with pytest.raises(ValueError, match="between -1 and 1"):
        random_album(40, 6, 3).search(0, min_score=minimum, rerank=False)


def test_everything_ranks_the_whole_album_and_minimum_cuts_it():
    album = random_album(40, 6, 3)
    everything = album.search(0, everything=True, rerank=False)
    assert sorted(hit.id for hit in everything) == list(range(1, 40))
    assert [hit.id for hit in album.search(0, min_score=0.2, rerank=False)] == [
        hit.id for hit in everything if hit.score >= 0.2
    ]


def test_feedback_moves_towards_right_and_leaves_wrong_out():
    album = random_album(60, 6, 5)
    query, right, wrong = album.vectors[0], [7, 8], [9]
    moved = query + album.vectors[right].mean(axis=0) - 0.5 * album.vectors[9]
    same_ranking(album.search(query, 20, right=right, wrong=wrong, rerank=False), album.vectors, moved, 20, (9,))
    assert np.allclose(corrected(query, album.vectors[right], album.vectors[wrong]), moved / np.linalg.norm(moved))


def test_expansion_adds_the_first_answers_by_their_scores():
    album = random_album(60, 6, 5)
    query = album.vectors[0]
    ranked, scores = brute_force(album.vectors, query, (0,))
    for alpha in (0.0, 3.0):
        moved = query + sum(scores[row] ** alpha * album.vectors[row] for row in ranked[:4])
        same_ranking(album.search(0, 20, expand=4, alpha=alpha, rerank=False), album.vectors, moved, 20, (0,))
    assert np.allclose(expanded(query, album.vectors[:0], np.zeros(0)), query)


def test_equal_photos_come_in_the_order_of_their_ids():
    album = Album.from_arrays(np.tile([[0.6, 0.8]], (9, 1)))
    assert [hit.id for hit in album.search(np.array([0.6, 0.8]), 5, rerank=False)] == [0, 1, 2, 3, 4]


@pytest.mark.guarantee(5)
@pytest.mark.parametrize("value", [0.0, np.nan, np.inf, -np.inf])
def test_bad_vectors_are_named(value):
    vectors = np.ones((4, 3))
    vectors[2] = value
    with pytest.raises(ValueError, match="Vector 2"):
        Album.from_arrays(vectors)
    with pytest.raises(ValueError, match="zero or not finite"):
        Album.from_arrays(np.ones((4, 3))).search(np.full(3, value), rerank=False)
    with pytest.raises(ValueError, match="zero or not finite"):
        Album.from_arrays(np.ones((4, 3))).search([0, np.full(3, value)], rerank=False)
    with pytest.raises(ValueError, match="Vector 2"):
        Album.from_arrays(np.ones((4, 3))).calibrate(vectors, np.array([0, 0, 1, 1]), "test")


def test_a_query_of_another_size_is_refused():
    with pytest.raises(ValueError, match="another model"):
        random_album(5, 3, 0).search(np.ones(4), rerank=False)


def test_wrong_questions_are_answered_with_a_sentence():
    album = random_album(5, 3, 0)
    with pytest.raises(TypeError, match="vectors is a masked array"):
        album.search(np.ma.masked_equal([0.0, 1.0, 2.0], 0), rerank=False)
    with pytest.raises(ValueError, match="made elsewhere"):
        album.search("photo.jpg", rerank=False)
    with pytest.raises(KeyError, match="no photo 77"):
        album.search(77, rerank=False)
    with pytest.raises(ValueError, match="not calibrated"):
        album.search(0, recall=0.9, rerank=False)
    with pytest.raises(ValueError, match="at least 1"):
        album.search(0, 0, rerank=False)
    with pytest.raises(ValueError, match=r"expand is how many first answers .* not -1"):
        album.search(0, expand=-1, rerank=False)
    for alpha in (-1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="alpha is the power"):
            album.search(0, expand=2, alpha=alpha, rerank=False)
    with pytest.raises(ValueError, match="no engine 'annoy'"):
        random_album(5, 3, 0, engine="annoy")
    with pytest.raises(ValueError, match="metadata of 2"):
        Album.from_arrays(np.ones((3, 2)), [{}, {}])


@pytest.mark.parametrize("path", ["/etc/passwd", "../x.jpg", "a/../../x.jpg", "", "a\0.jpg"])
def test_a_path_out_of_the_folder_is_refused(path):
    with pytest.raises(ValueError, match="no path below"):
        Album.from_arrays(np.ones((1, 2)), [{"path": path}])


def test_an_empty_album_answers_with_nothing():
    album = Album.from_arrays(np.zeros((0, 4)))
    assert album.search(np.ones(4), rerank=False) == []
    assert album.all_above(0.5) == []
    assert album.search(np.ones(4), everything=True, rerank=False) == []


def test_a_search_by_photo_in_a_small_album_loads_nothing_that_it_can_do_without(tmp_path):
    model = Embedder(dimension=None, size=64, pretrained=False).save(tmp_path / "model")
    vectors = np.random.default_rng(0).standard_normal((2286, 1280), dtype=np.float32)
    album = Album.from_arrays(vectors, {"path": list(map(str, range(2286)))}, tmp_path / "album", model=model)
    album.link(progress=False)
    Image.new("RGB", (80, 60)).save(tmp_path / "photo.png")
    words = ["search", str(tmp_path / "album"), str(tmp_path / "photo.png"), "-k", "7"]
    run = f"from smoothap.cli import app; app({words}, result_action='return_value')"
    spared = ["timm", "torchvision", "pandas", "numba", "scipy"]
    code = f"import sys; {run}; print([name for name in {spared} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(result.stdout.splitlines()) == 1 + 7 + 1
    assert result.stdout.splitlines()[-1] == "[]"
