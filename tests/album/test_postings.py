"""The inverted index: ids by value, in blocks that are lists or bits, against sets."""

import sqlite3

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothap.album import postings
from smoothap.album.postings import BLOCK

KEYS = [("label", b""), ("label", b"a"), ("label", b"ab"), ("label", b"b"), ("column:x", b"a"), ("column:y", b"\xff")]
CHANGES = st.lists(
    st.tuples(
        st.booleans(), st.sampled_from(KEYS), st.integers(0, 2**32 - 1),
        st.sampled_from([1, 5, 2046, 2047, 2048, 2049, 20_000, BLOCK]), st.integers(0, 3),
    ),
    max_size=8,
)  # fmt: skip


def index():
    connection = sqlite3.connect(":memory:")
    connection.execute(postings.SCHEMA)
    return connection


@settings(deadline=None, max_examples=60)
@given(CHANGES)
def test_ids_are_found_as_in_sets(changes):
    connection, sets = index(), {key: set() for key in KEYS}
    for given_to, key, seed, number, block in changes:
        first = BLOCK * block + (BLOCK // 2 if seed % 2 else 0)  # some are in two blocks
        ids = (first + np.random.default_rng(seed).permutation(BLOCK)[:number]).tolist()
        pairs = [(identity, key) for identity in ids]
        postings.change(connection, () if given_to else pairs, pairs if given_to else ())
        sets[key] = sets[key] | set(ids) if given_to else sets[key] - set(ids)
    postings.check(connection)
    for (name, value), ids in sets.items():
        found = postings.having(connection, name, value)
        assert found.dtype == np.int64
        assert found.tolist() == sorted(ids)
    union = sorted(sets["label", b"a"] | sets["label", b"ab"])
    assert postings.having(connection, "label", b"a", b"b").tolist() == union
    assert postings.counts(connection, "label") == {
        value: len(ids) for (name, value), ids in sets.items() if name == "label" and ids
    }
    assert postings.column_names(connection) == [
        name.partition(":")[2] for name in ("column:x", "column:y") if any(sets[key] for key in KEYS if key[0] == name)
    ]
    every = {}
    for value, ids in postings.values(connection, "label"):
        every.setdefault(value, []).extend(ids.tolist())
    assert every == {value: sorted(ids) for (name, value), ids in sets.items() if name == "label" and ids}
    rows = connection.execute("SELECT number, length(ids) FROM posting").fetchall()
    assert all(size == min(2 * number, BLOCK // 8) for number, size in rows)


def test_a_value_that_is_taken_and_given_in_one_change_stays():
    connection, pairs = index(), [(7, KEYS[1])]
    postings.change(connection, (), pairs)
    postings.change(connection, pairs, pairs)
    assert postings.having(connection, *KEYS[1]).tolist() == [7]


@pytest.mark.parametrize("content", [b"x", b"\xff\xff", bytes(BLOCK), bytes(BLOCK // 8 + 2)])
def test_bytes_that_are_no_ids_are_refused(content):
    with pytest.raises(ValueError, match=r"index in album\.db is damaged"):
        postings.unpacked(content)


def test_a_row_that_changed_is_found():
    connection = index()
    postings.change(connection, (), [(7, KEYS[1])])
    connection.execute("UPDATE posting SET number=2")
    with pytest.raises(ValueError, match="damaged"):
        postings.check(connection)
