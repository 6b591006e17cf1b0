"""Several queries in one pass over the vectors give what each gives alone, to the last bit and in the same order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothap.search import Album
from smoothap.search.together import TogetherNearest


def album_of(number, dimension, seed, copies):
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(number, dimension)).astype(np.float32)
    if copies:
        vectors[random.integers(number, size=number // 2)] = vectors[random.integers(number)]
        # as near to each other as float32 can tell apart
        near = random.integers(number, size=number // 4)
        vectors[near] = (
            vectors[0] * (1 + random.normal(size=(len(near), 1)) * 1e-7)
            + random.normal(size=(len(near), dimension)) * 1e-8
        )
    return Album.from_arrays(vectors)


@settings(deadline=None, max_examples=60)
@given(
    number=st.integers(1, 300), dimension=st.integers(1, 40), seed=st.integers(0, 10**6), copies=st.booleans(),
    ks=st.lists(st.integers(1, 400), min_size=1, max_size=5),
)  # fmt: skip
def test_a_batch_is_answered_as_each_query_alone(number, dimension, seed, copies, ks):
    album, random = album_of(number, dimension, seed, copies), np.random.default_rng(seed + 1)
    nearest = TogetherNearest(album.vectors)
    rows = random.integers(number, size=len(ks))
    found = nearest.nearest(album.vectors[rows], ks, [[row] for row in rows])
    for row, k, (best, scores) in zip(rows.tolist(), ks, found, strict=True):
        alone = album.search(row, k=k)
        assert best.tolist() == [hit.id for hit in alone]
        assert scores.tolist() == [hit.score for hit in alone]


@pytest.mark.parametrize("shift", [0.0, 1e-7])
def test_scores_that_a_product_cannot_tell_apart_are_told_apart(shift):
    """Rows whose products with the query are in another order than their scores."""
    random = np.random.default_rng(3)
    base = random.normal(size=256).astype(np.float32)
    vectors = (
        np.repeat(base[None], 400, 0) + random.normal(size=(400, 256)).astype(np.float32) * 3e-4 + np.float32(shift)
    )
    album = Album.from_arrays(vectors)
    queries = np.array(album.vectors[:20])
    products = queries @ album.vectors.T
    found = TogetherNearest(album.vectors).nearest(queries, [3] * 20, [[]] * 20)
    differs = 0
    for query, product, (best, _) in zip(queries, products, found, strict=True):
        expected = [hit.id for hit in album.search(query, k=3)]
        assert best.tolist() == expected
        differs += np.argsort(-product, kind="stable")[:3].tolist() != expected
    assert differs  # else nothing was shown here
