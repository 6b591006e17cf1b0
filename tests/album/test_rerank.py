"""Ranking by neighbourhood: the graph of neighbours, the walk over it, and what a search makes of both."""

import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothap import evaluate
from smoothap.album import Album, graph_kernels, neighbourhood
from smoothap.album import graph as graphs
from smoothap.album.graph import Graph, build_graph
from smoothap.album.ranked_lists import evaluate_ranked
from smoothap.album.vectors import StoredVectors, unit_vectors
from smoothap.metrics.cosine import Cosines


def clusters(classes: int, size: int, spread: float, dimension: int = 16, seed: int = 0):
    """Unit vectors in clusters that overlap, and their labels."""
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), size)
    rows = random.normal(size=(classes, dimension))[labels] + spread * random.normal(size=(len(labels), dimension))
    return unit_vectors(rows.astype(np.float32)), labels


def album_of(vectors, labels=None, path=None) -> Album:
    metadata = {"path": [f"{row}.jpg" for row in range(len(vectors))]}
    return Album.from_arrays(
        vectors, metadata | ({} if labels is None else {"label": [str(label) for label in labels]}), path
    )


def ids(hits) -> list[int]:
    return [hit.id for hit in hits]


def nearest_by_definition(vectors: np.ndarray) -> np.ndarray:
    width = min(graphs.NEIGHBOURS, len(vectors) - 1)
    scores = np.stack([Cosines(vectors).of(row) for row in vectors])
    np.fill_diagonal(scores, -np.inf)
    return np.stack([np.lexsort((np.arange(len(row)), -row))[:width] for row in scores])


@pytest.mark.parametrize("with_numba", [True, False])
@pytest.mark.parametrize("copies", [0, 9, 40])
def test_the_neighbours_are_those_of_the_definition_also_among_copies(with_numba, copies, monkeypatch):
    monkeypatch.setattr(graphs, "numba_is_there", lambda: with_numba)
    monkeypatch.setattr(graphs, "_ROWS", 32)
    monkeypatch.setattr(graphs, "_COLUMNS", 48)
    vectors, _ = clusters(10, 12, 0.6)
    vectors[:copies] = vectors[0]
    graph = build_graph(StoredVectors(vectors), np.arange(len(vectors)))
    assert np.array_equal(graph.nearest, nearest_by_definition(vectors))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), taken=st.integers(0, 30), come=st.integers(0, 30), copies=st.booleans())
def test_a_graph_brought_up_to_date_is_the_one_made_from_nothing(seed, taken, come, copies):
    random = np.random.default_rng(seed)
    vectors, _ = clusters(12, 7, 0.7, seed=seed)
    if copies:
        vectors[random.integers(0, len(vectors), 20)] = vectors[3]
    slots = np.arange(len(vectors) - come)
    before = build_graph(StoredVectors(vectors[slots]), slots)
    left = np.sort(random.permutation(len(vectors) - taken)[: len(vectors) - taken])
    rows = np.setdiff1d(np.arange(len(vectors)), random.permutation(slots)[: min(taken, len(slots) - 2)])
    assert len(left)
    updated = build_graph(StoredVectors(vectors[rows]), rows, before)
    fresh = build_graph(StoredVectors(vectors[rows]), rows)
    for name in ("slots", "nearest", "scores", "starts", "linked", "weights"):
        assert np.array_equal(getattr(updated, name), getattr(fresh, name)), name


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), most=st.integers(1, 90), closed=st.floats(0, 0.5), number=st.integers(1, 5))
def test_the_compiled_walk_has_the_bits_of_the_plain_one(seed, most, closed, number):
    random = np.random.default_rng(seed)
    vectors, _ = clusters(8, 10, 0.8, seed=seed)
    graph = build_graph(StoredVectors(vectors), np.arange(len(vectors)))
    seeds = random.permutation(len(vectors))[:number]
    shut = random.random(len(vectors)) < closed
    arguments = graph.starts, graph.linked, graph.weights, seeds, random.random(number), shut, most, 15, 0.95
    for plain, compiled in zip(neighbourhood.reach(*arguments), graph_kernels.reach(*arguments), strict=True):
        assert np.array_equal(plain, compiled)


def test_the_walk_is_the_sum_of_the_equation():
    """f = d S f + (1 - d) y, 15 times from y, with S as dense as it is: nothing is cut off in a small graph."""
    vectors, _ = clusters(6, 8, 0.8)
    graph = build_graph(StoredVectors(vectors), np.arange(len(vectors)))
    dense = np.zeros((len(vectors), len(vectors)))
    for node in range(len(vectors)):
        links = slice(graph.starts[node], graph.starts[node + 1])
        dense[node, graph.linked[links]] = graph.weights[links]
    assert np.allclose(dense, dense.T)
    source = np.zeros(len(vectors))
    source[5] = 1.0
    expected = source
    for _ in range(15):
        expected = 0.95 * dense @ expected + 0.05 * source
    nothing = np.zeros(len(vectors), bool)
    links = graph.starts, graph.linked, graph.weights
    nodes, values, _ = neighbourhood.reach(*links, np.array([5]), np.ones(1), nothing, len(vectors), 15, 0.95)
    assert np.allclose(values, expected[nodes], atol=1e-12)


def test_photos_that_resemble_those_found_come_up_and_say_through_which():
    """A chain of photos, each like the next: the far end is no more like the first than others are."""
    angles = np.concatenate([np.linspace(0, 1.8, 25), [-1.2, -1.35, -1.5]])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    album = album_of(vectors)
    plain, ranked = (album.search(0, k=24, rerank=rerank) for rerank in (False, True))
    assert set(ids(plain)) & {25, 26}
    assert set(ids(ranked)) == set(range(1, 25))
    assert ranked[0].through is None
    assert all(hit.through in range(25) for hit in ranked[12:])


def test_it_ranks_better_where_classes_are_large_and_no_worse_where_they_are_pairs():
    for classes, size, spread, gained in ((12, 40, 1.3, 0.03), (150, 2, 0.9, -0.01)):
        vectors, labels = clusters(classes, size, spread, dimension=24)
        plain = evaluate(vectors, labels, progress=False).mean_average_precision
        assert evaluate_ranked(vectors, labels, progress=False).mean_average_precision > plain + gained


def test_a_report_of_ranked_lists_is_that_of_searches():
    vectors, labels = clusters(10, 9, 1.0)
    album, precisions = album_of(vectors), []
    for row in range(len(vectors)):
        right = labels[ids(album.search(row, everything=True))] == labels[row]
        precisions.append(np.mean(np.arange(1, right.sum() + 1) / (1 + np.flatnonzero(right))))
    assert np.allclose(evaluate_ranked(vectors, labels, progress=False).average_precision, precisions)


def test_the_list_has_the_plain_scores_in_its_places_and_begins_alike_whatever_its_length():
    vectors, _ = clusters(20, 30, 1.1)
    album = album_of(vectors)
    plain, ranked = (album.search(7, everything=True, rerank=rerank) for rerank in (False, True))
    assert [hit.score for hit in plain] == [hit.score for hit in ranked]
    assert ids(plain) != ids(ranked)
    assert sorted(ids(plain)) == sorted(ids(ranked))
    for k in (1, 20, 49, 51, 500):
        assert ids(album.search(7, k=k)) == ids(ranked)[:k]
    score = plain[40].score
    assert ids(album.search(7, min_score=score)) == ids(ranked)[: len(album.search(7, min_score=score, rerank=False))]
    ranking = album.ranking(np.array(album.vectors[7]), [7], rerank=True, photo=7)
    assert album.photos.ids[ranking.best()[0]].tolist() == ids(ranked)


def test_a_query_from_outside_is_joined_by_its_own_neighbours():
    vectors, labels = clusters(15, 30, 1.2, seed=3)
    inside = np.arange(len(vectors)) % 30 != 0
    album, gains = album_of(vectors[inside]), []
    for row in np.flatnonzero(~inside):
        found = [labels[inside][ids(album.search(vectors[row], k=29, rerank=one))] for one in (False, True)]
        gains.append((found[1] == labels[row]).mean() - (found[0] == labels[row]).mean())
    assert np.mean(gains) > 0.03


def test_what_is_marked_wrong_is_left_out_and_leads_to_nothing():
    angles = np.linspace(0, 1.5, 30)
    album = album_of(np.stack([np.cos(angles), np.sin(angles), np.zeros(30)], axis=1).astype(np.float32))
    found = album.search(0, k=29, wrong=[8, 9, 10, 11, 12])
    assert not set(ids(found)) & {8, 9, 10, 11, 12}
    assert not {hit.through for hit in found} & {8, 9, 10, 11, 12}


def test_only_what_passes_a_filter_is_ranked(tmp_path):
    vectors, labels = clusters(10, 20, 1.0)
    album = album_of(vectors, labels, tmp_path / "album")
    found = album.search(3, k=200, where={"label": "0"})
    assert {hit.label for hit in found} == {"0"}
    assert len(found) == 19


def test_the_graph_is_kept_in_the_album_and_a_damaged_or_foreign_one_is_made_again(tmp_path):
    vectors, _ = clusters(10, 12, 1.0)
    album = album_of(vectors, path=tmp_path / "album")
    expected = ids(album.search(5, everything=True))
    (file,) = (tmp_path / "album").glob("neighbours-*")
    whole = file.read_bytes()
    for damage in (whole[:-70], whole[: len(whole) // 2], b"", whole.replace(b'"form"', b'"from"'), flipped(whole)):
        file.write_bytes(damage)
        assert Graph.load(file) is None
        assert ids(Album.open(tmp_path / "album").search(5, everything=True)) == expected
        assert file.read_bytes() == whole
    opened = Album.open(tmp_path / "album")
    opened.remove([2, 3])
    assert sorted(ids(opened.search(5, everything=True))) == sorted(set(expected) - {2, 3})
    file.unlink()
    assert ids(opened.search(5, k=8)) == ids(Album.open(tmp_path / "album").search(5, k=8))


def flipped(content: bytes) -> bytes:
    place = len(content) * 3 // 4
    return content[:place] + bytes([content[place] ^ 64]) + content[place + 1 :]


def test_a_long_making_goes_on_in_the_background_and_photos_are_ranked_plainly_until_then(tmp_path, monkeypatch):
    vectors, _ = clusters(10, 30, 1.1)
    album = album_of(vectors, path=tmp_path / "album")
    monkeypatch.setattr(neighbourhood, "_AT_ONCE", 0)
    first = album.search(5, k=50)
    assert ids(first) == ids(album.search(5, k=50, rerank=False))
    assert "being linked" in first.note
    end = time.monotonic() + 60
    while (found := album.search(5, k=50)).note and time.monotonic() < end:
        time.sleep(0.02)
    assert not found.note
    assert ids(found) != ids(first)


@pytest.mark.parametrize("number", [1, 2, 3, 11])
def test_albums_of_a_few_photos_are_ranked_too(number):
    vectors, _ = clusters(number, 1, 0.5)
    album = album_of(vectors)
    assert len(album.search(0, everything=True)) == number - 1
    assert len(album.search(vectors[0], k=5)) == min(number, 5)


@pytest.mark.slow
def test_a_program_that_ends_while_photos_are_linked_ends_well(tmp_path):
    script = """
import sys, numpy as np
from smoothap.album import Album, neighbourhood
neighbourhood._AT_ONCE = 0
album = Album.from_arrays(np.random.default_rng(0).standard_normal((40_000, 512), np.float32), path=sys.argv[1])
print(album.search(5, k=3).note)
"""
    command = [sys.executable, "-c", script, str(tmp_path / "album")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "being linked" in ended.stdout
    assert not list((tmp_path / "album").glob("neighbours-*"))
    assert not list((tmp_path / "album").glob(".*.partial"))
