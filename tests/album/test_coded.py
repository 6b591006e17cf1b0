"""Vectors in one byte a number name the same photos as all exact scores do, to the last bit and in the same order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothap.album import Album
from smoothap.album.engines.codes import CodedVectors
from smoothap.album.search import best_rows


class Nearest(CodedVectors):
    """The best of what the codes name, by their scores."""

    def __init__(self, vectors):
        super().__init__(vectors)
        self.scored = []

    def nearest(self, query, k, left_out, *how, **more):
        rows = self.candidates(query, k, left_out, *how, **more)
        self.scored.append(len(rows))
        scores = self._cosines.of(query, rows)
        best = best_rows(scores, k)
        return rows[best], scores[best]


def rows_of(number, dimension, seed, kind):
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(number, dimension)).astype(np.float32)
    if kind == "copies":
        vectors[random.integers(number, size=number // 2)] = vectors[random.integers(number)]
        # as near to each other as float32 can tell apart
        near = random.integers(number, size=number // 4)
        vectors[near] = (
            vectors[0] * (1 + random.normal(size=(len(near), 1)) * 1e-7)
            + random.normal(size=(len(near), dimension)) * 1e-8
        )
    elif kind == "one large number":  # which leaves few codes to the others
        vectors[:, 0] *= 300 * random.random(number).astype(np.float32)
    return vectors


KINDS = st.sampled_from(["any", "copies", "one large number"])


@settings(deadline=None, max_examples=80)
@given(
    number=st.integers(1, 700), dimension=st.integers(1, 40), seed=st.integers(0, 10**6), kind=KINDS,
    k=st.integers(1, 800), filtered=st.booleans(),
)  # fmt: skip
def test_codes_name_what_all_scores_name(number, dimension, seed, kind, k, filtered):
    album, random = Album.from_arrays(rows_of(number, dimension, seed, kind)), np.random.default_rng(seed + 1)
    passing = random.random(number) < 0.6 if filtered else None
    nearest, row = Nearest(album.vectors), int(random.integers(number))
    other = random.normal(size=dimension).astype(np.float32)
    for query, left_out in ((album.vectors[row], [row]), (other / np.linalg.norm(other), [])):
        ranking = album.ranking(np.array(query), left_out)
        if passing is not None:
            ranking.scores[~passing] = -np.inf
        expected = ranking.best(k)
        found = nearest.nearest(query, k, np.array(left_out, np.int64), passing)
        assert [each.tolist() for each in found] == [each.tolist() for each in expected]


def test_queries_that_are_compared_together_find_what_each_finds_alone():
    vectors = rows_of(301, 24, 5, "any")
    nearest, queries = Nearest(Album.from_arrays(vectors).vectors), rows_of(9, 24, 6, "any")
    nobody = np.empty(0, np.int64)
    for query, bounded in zip(queries, nearest.bounded(queries), strict=True):
        alone, together = nearest.nearest(query, 7, nobody), nearest.nearest(query, 7, nobody, bounded=bounded)
        assert [each.tolist() for each in together] == [each.tolist() for each in alone]


@pytest.mark.parametrize("shift", [0.0, 1e-7])
def test_scores_that_codes_cannot_tell_apart_are_told_apart(shift):
    """Rows whose codes put them in another order than their scores do."""
    random = np.random.default_rng(3)
    base = random.normal(size=256).astype(np.float32)
    vectors = (
        np.repeat(base[None], 400, 0) + random.normal(size=(400, 256)).astype(np.float32) * 3e-2 + np.float32(shift)
    )
    album = Album.from_arrays(vectors)
    nearest, differs = Nearest(album.vectors), 0
    for query in np.array(album.vectors[:20]):
        most = np.abs(album.vectors[:]).max(1, keepdims=True)
        products = (np.rint(album.vectors[:] / most * 127) * most) @ query
        expected = [hit.id for hit in album.search(query, k=3, rerank=False)]
        assert nearest.nearest(query, 3, np.empty(0, np.int64))[0].tolist() == expected
        differs += np.argsort(-products, kind="stable")[:3].tolist() != expected
    assert differs  # else nothing was shown here


def test_few_of_many_are_scored():
    """What makes it fast: of 20,000 vectors, fewer than a hundredth are looked at for the best 20."""
    vectors = np.random.default_rng(0).normal(size=(20_000, 128)).astype(np.float32)
    album = Album.from_arrays(vectors)
    nearest = Nearest(album.vectors)
    for query in np.array(album.vectors[:50]):
        assert nearest.nearest(query, 20, np.empty(0, np.int64))[0][0] in range(50)
    assert max(nearest.scored) < 200


def test_the_longest_sum_of_codes_fits_32_bits():
    """Vectors whose numbers are all as large as they can be, of which the product is the largest there is."""
    for dimension in (1, 512, 520, 20_000):  # with the next larger codes of a query, 520 of them turn to below zero
        vectors = np.full((3, dimension), 1.0, np.float32)
        vectors[1] *= -1
        nearest = Nearest(Album.from_arrays(vectors).vectors)
        for k, expected in ((1, [0]), (3, [0, 2, 1])):
            found, scores = nearest.nearest(vectors[0], k, np.empty(0, np.int64))
            assert found.tolist() == expected
            assert scores == pytest.approx([1, 1, -1][:k])


def test_a_vector_that_its_code_puts_lower_is_found():
    """Two vectors to either side of the query: one is its own code, the other a little nearer, and its code is not."""
    for step in (10, 30, 60):
        angle = np.arctan((step + 0.45) / 127)  # rounded down
        rows = np.array([[1, 0], [np.cos(angle), np.sin(angle)]], np.float32)
        between = angle / 2 + 1e-5
        query = np.array([np.cos(between), np.sin(between)], np.float32)
        nearest = Nearest(Album.from_arrays(rows).vectors)
        assert nearest.nearest(query, 1, np.empty(0, np.int64))[0].tolist() == [1]


def test_a_query_whose_small_numbers_its_code_leaves_out_finds_the_nearest():
    """All but one number of the query are too small for its code, and together they decide."""
    dimension = 20_000
    query = np.full(dimension, 5e-4, np.float32)
    query[0] = 1
    rows = np.full((2, dimension), 1.0, np.float32)  # codes, but for their length
    rows[0, 1:19_001], rows[0, 19_001:] = -1, 0
    rows[:, 0] = 127
    nearest = Nearest(Album.from_arrays(rows).vectors)
    assert nearest.nearest(query, 1, np.empty(0, np.int64))[0].tolist() == [1]


def test_vectors_of_float16_are_coded_too(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(500, 16)).astype(np.float32)
    album = Album.from_arrays(vectors, path=tmp_path / "album", dtype="float16")
    assert not isinstance(album.vectors, np.ndarray)
    found, scores = Nearest(album.vectors).nearest(np.array(album.vectors[7]), 9, np.array([7]))
    assert [(hit.id, hit.score) for hit in album.search(7, k=9, rerank=False)] == list(zip(found, scores, strict=True))


def test_codes_take_a_quarter_of_the_vectors():
    nearest = Nearest(Album.from_arrays(np.random.default_rng(0).normal(size=(4_000, 64))).vectors)
    held = [value.nbytes for value in vars(nearest).values() if isinstance(value, np.ndarray)]
    assert sum(held) <= 4_000 * 64 + 2 * 4 * 4_000
