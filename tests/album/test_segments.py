"""Albums of several segments: mapped, never put together in memory, and the same answers as one; in float16 too."""

import mmap
import os
from pathlib import Path

import numpy as np
import pytest
from smoothap.album._settling import settle
from smoothap.album._storage import Storage

from smoothap.album import Album, _segments
from smoothap.album.vectors import MappedVectors

RANDOM = np.random.default_rng(7)
VECTORS = RANDOM.standard_normal((90, 24)).astype(np.float32)
VECTORS[70] = VECTORS[3]  # an exact copy, in another segment
SEGMENTS = [range(20), range(20, 21), range(21, 77), range(77, 90)]


@pytest.fixture
def many(tmp_path, monkeypatch):
    """An album of four segments, and the same rows as one."""
    monkeypatch.setattr(_segments, "ENOUGH", 1)
    one = Album.from_arrays(VECTORS, path=tmp_path / "one")
    several = Album.from_arrays(VECTORS[:20], path=tmp_path / "several")
    storage = several._storage
    records = [one.photos.record(row) for row in range(90)]
    with storage.writing():
        for rows in SEGMENTS[1:]:
            description = storage.load()[0]
            storage.append(description, [records[row] for row in rows], one.vectors[list(rows)], [None] * len(rows))
    return Album.open(tmp_path / "several"), one


def definition(first: np.ndarray, second: np.ndarray) -> float:
    """The score as docs/maths.md has it, in plain Python."""

    def by_halves(products: list[float]) -> float:
        products = products + [0.0] * ((1 << (len(products) - 1).bit_length()) - len(products))
        while len(products) > 1:
            half = len(products) // 2
            products = [products[i] + products[half + i] for i in range(half)]
        return products[0]

    def sums(x: np.ndarray, y: np.ndarray) -> float:
        return by_halves([float(a) * float(b) for a, b in zip(x, y, strict=True)])

    return sums(first, second) / (sums(first, first) ** 0.5 * sums(second, second) ** 0.5)


def test_several_segments_answer_as_one_to_the_last_bit(many):
    several, one = many
    assert len(several._description.segments) == 4
    assert isinstance(several.vectors, MappedVectors)
    assert isinstance(one.vectors, np.memmap)
    for query in (3, 20, 55, VECTORS[9] + VECTORS[80]):
        for options in ({"k": 7}, {"everything": True}, {"minimum": 0.1}, {"k": 5, "expand": 3, "right": [1, 60]}):
            assert several.search(query, **options) == one.search(query, **options)
    assert several.all_above(0.3) == one.all_above(0.3)
    assert several.search(3)[0].id == 70


def test_rows_come_as_from_an_array():
    pieces = [VECTORS[list(rows)] for rows in SEGMENTS]
    order = RANDOM.permutation(90)[:50]
    for vectors, wanted in (
        (MappedVectors(pieces, 24), VECTORS),
        (MappedVectors(pieces, 24, order), VECTORS[order]),
        (MappedVectors([VECTORS], 24, order), VECTORS[order]),
        (MappedVectors([MappedVectors(pieces, 24, order)], 24, np.array([4, 4, 1])), VECTORS[order][[4, 4, 1]]),
        (MappedVectors([piece.astype(np.float16) for piece in pieces], 24), VECTORS.astype(np.float16)),
        (MappedVectors([], 24), np.zeros((0, 24))),
    ):
        assert vectors.shape == wanted.shape
        assert np.array_equal(np.asarray(vectors), wanted)
        assert np.asarray(vectors).dtype == np.float32
        factors = RANDOM.standard_normal((24, 3))
        assert np.allclose(vectors @ factors, np.asarray(wanted, float) @ factors)
        assert (vectors @ factors[:, 0]).shape == wanted.shape[:1]
        for rows in (
            slice(15, 25),
            slice(22, 30),
            slice(None, None, -7),
            slice(30, 2),
            [],
            np.arange(len(wanted)) % 3 == 1,
        ):
            assert np.array_equal(vectors[rows], wanted[rows])
            assert vectors[rows].dtype == np.float32
        if len(wanted) > 3:
            for rows in (0, -1, [3, 0, -2], np.array([[1, 2], [0, 1]])):
                assert np.array_equal(vectors[rows], wanted[rows])
        for rows in (len(wanted), [-len(wanted) - 1], np.ones(len(wanted) + 1, bool)):
            with pytest.raises(IndexError):
                vectors[rows]
    inside = MappedVectors(pieces, 24)[22:30]
    assert np.shares_memory(inside, pieces[2])  # no copy where none is needed


def test_scores_of_float16_are_those_of_the_stored_values(tmp_path):
    album = Album.from_arrays(VECTORS, path=tmp_path / "half", dtype="float16")
    file = np.load(tmp_path / "half" / "vectors-000001.npy")
    assert file.dtype == np.float16
    unit = VECTORS / np.linalg.norm(VECTORS.astype(float), axis=1, keepdims=True)
    assert np.abs(file - unit).max() < 2**-11
    stored = file.astype(np.float32)
    for album_here in (Album.open(tmp_path / "half"), Album.from_arrays(VECTORS, dtype="float16")):
        hits = album_here.search(5, everything=True)
        assert len(hits) == 89
        for hit in hits:
            assert hit.score == definition(stored[5], stored[hit.id])
    wanted = {(i, j): definition(stored[i], stored[j]) for i in range(90) for j in range(i + 1, 90)}
    # Rounded rows are not of length 1: the product of the two shortest is below their score.
    lengths = np.linalg.norm(stored.astype(float), axis=1)
    least = min((lengths[i] * lengths[j], score) for (i, j), score in wanted.items() if score > 0.3)[1]
    pairs = {(pair.first, pair.second): pair.score for pair in album.all_above(least)}
    assert pairs == {pair: score for pair, score in wanted.items() if score >= least}
    assert pairs[3, 70] == 1


def test_float16_stays_float16_when_photos_come_and_go(tmp_path, model, photos):
    full = Album.create(tmp_path / "full", model, photos)
    half = Album.create(tmp_path / "half", model, photos, dtype="float16")
    for album in (full, half):
        album.update(progress=False)
        album.remove([4])
        (photos / "class0/000.png").touch()
        album.update(progress=False)
    again = Album.open(tmp_path / "half")
    again.verify()
    assert np.array_equal(again.vectors, np.asarray(full.vectors).astype(np.float16))
    scores = ({hit.id: hit.score for hit in each.search(0, everything=True)} for each in (again, full))
    assert next(scores) == pytest.approx(next(scores), abs=1e-3)
    with pytest.raises(ValueError, match="float32 or in float16, not in 'int8'"):
        Album.create(tmp_path / "other", model, photos, dtype="int8")


def test_only_segments_that_changed_are_written(many, tmp_path):
    several, _ = many
    before = {file.name: file.stat().st_ino for file in (tmp_path / "several").glob("*-*")}
    several.remove([20, 30])
    after = {file.name: file.stat().st_ino for file in (tmp_path / "several").glob("*-*")}
    assert [segment.rows for segment in several._description.segments] == [20, 55, 13]
    kept = {name: node for name, node in before.items() if name.split("-")[1][:6] in ("000001", "000004")}
    assert kept.items() <= after.items()
    assert len(after) == 6
    assert np.array_equal(several.photos.ids, np.delete(np.arange(90), [20, 30]))
    unit = Album.from_arrays(VECTORS).vectors
    assert np.array_equal(several.vectors, np.delete(unit, [20, 30], axis=0))
    Album.open(tmp_path / "several").verify()


def test_vectors_get_a_second_name_when_only_what_is_said_of_photos_changes(many, tmp_path):
    several, _ = many
    storage = several._storage
    description, photos, _ = storage.load()
    labels = ["new" if 20 < row < 77 else None for row in range(90)]
    table = photos.table.drop_columns("label").append_column(photos.table.schema.field("label"), [labels])
    before = os.stat(tmp_path / "several" / "vectors-000003.npy").st_ino  # noqa: PTH116
    with storage.writing():
        settle(storage, description, table.select(photos.table.column_names))
    names = sorted(file.name for file in (tmp_path / "several").glob("vectors-*"))
    assert names == [f"vectors-{number:06}.npy" for number in (1, 2, 4, 5)]
    assert (tmp_path / "several" / "vectors-000005.npy").stat().st_ino == before
    again = Album.open(tmp_path / "several")
    again.verify()
    assert again.photos.labels().tolist() == labels
    assert np.array_equal(again.vectors, Album.from_arrays(VECTORS).vectors)


def test_small_segments_are_brought_together(many, tmp_path, monkeypatch):
    several, _ = many
    monkeypatch.setattr(_segments, "ENOUGH", 50)
    several.remove([89])
    # The third is large enough to stay, so that the last is left alone.
    assert [segment.rows for segment in several._description.segments] == [21, 56, 12]
    assert several.vectors.order() is None
    monkeypatch.setattr(_segments, "ENOUGH", 1000)
    several.remove([88])
    assert [segment.rows for segment in several._description.segments] == [88]
    assert isinstance(Album.open(tmp_path / "several").vectors, np.memmap)


def test_the_graph_is_cached_for_these_vectors_in_this_order(many, tmp_path):
    several, _ = many
    cache = Path(os.environ["XDG_CACHE_HOME"], "smoothap", "indices")
    found = Album.open(tmp_path / "several", engine="hnsw").search(3, 10)
    assert found == Album.open(tmp_path / "one", engine="hnsw").search(3, 10)
    files = set(cache.glob("*.faiss"))
    assert len(files) == 2
    Album.open(tmp_path / "several", engine="hnsw").search(4, 10)
    assert set(cache.glob("*.faiss")) == files
    several.remove([1])
    Album.open(tmp_path / "several", engine="hnsw").search(4, 10)
    assert len(set(cache.glob("*.faiss")) - files) == 1


def test_the_graph_of_another_order_is_another_graph(tmp_path):
    one, sums, files = Album.from_arrays(VECTORS), [], []
    for replaced in (5, 6):  # the same vectors, of which one replaces another photo's
        album = Album.from_arrays(VECTORS[:60], path=tmp_path / str(replaced))
        with album._storage.writing():
            records = [one.photos.record(row) for row in range(60, 90)]
            records[0]["id"] = replaced
            album._storage.append(album._description, records, one.vectors[60:], [None] * 30)
        opened = Album.open(tmp_path / str(replaced))
        assert np.array_equal(opened.vectors[replaced], one.vectors[60])
        sums.append(_segments.vectors_checksum(opened._description.segments, opened.vectors))
        files.append([segment.vectors for segment in opened._description.segments])
    assert files[0] == files[1]
    assert sums[0] != sums[1]


def test_a_large_album_maps_what_it_says_of_its_photos(many, tmp_path, monkeypatch):
    monkeypatch.setattr("smoothap.album._storage.MANY", 10)
    _, one = many
    first = Album.open(tmp_path / "several")
    reads = []
    read = Storage._photos
    monkeypatch.setattr(Storage, "_photos", lambda *given: reads.append(given) or read(*given))
    again = Album.open(tmp_path / "several")
    assert reads == []
    assert again.photos.table.equals(first.photos.table)
    assert again.photos.table.equals(one.photos.table)
    assert again.search(3) == one.search(3)
    with again._storage.writing():  # a photo that is replaced: rows are no longer in the order of files
        records = [{**one.photos.record(4), "label": "new"}]
        again._storage.append(again._description, records, one.vectors[80:81], [None])
    for _ in range(2):
        changed = Album.open(tmp_path / "several")
        assert changed.photos[4].label == "new"
        assert np.array_equal(changed.vectors[4], one.vectors[80])
        assert np.array_equal(changed.vectors[5], one.vectors[5])
    assert len(reads) == 5


def test_a_damaged_or_foreign_table_in_the_cache_is_not_believed(many, tmp_path, monkeypatch):
    monkeypatch.setattr("smoothap.album._storage.MANY", 10)
    wanted = Album.open(tmp_path / "several").photos.table
    folder = Path(os.environ["XDG_CACHE_HOME"], "smoothap", "tables")
    file = next(folder.glob("*.arrow"))
    content = file.read_bytes()
    for damage in (content[:-9], b"", bytes(len(content)), content.replace(b"00000004", b"00000005")):
        file.write_bytes(damage)
        assert Album.open(tmp_path / "several").photos.table.equals(wanted)
        assert file.read_bytes() == content  # written again
    folder.chmod(0o777)
    reads = []
    read = Storage._photos
    monkeypatch.setattr(Storage, "_photos", lambda *given: reads.append(given) or read(*given))
    assert Album.open(tmp_path / "several").photos.table.equals(wanted)
    assert len(reads) == 4


@pytest.mark.skipif(not hasattr(mmap, "MADV_RANDOM"), reason="this system takes no advice")
def test_rows_far_apart_are_read_without_what_lies_around_them(tmp_path):
    np.save(tmp_path / "rows.npy", np.arange(4000, dtype=np.float32).reshape(1000, 4))
    piece, said = np.load(tmp_path / "rows.npy", mmap_mode="r"), []

    class Advised:
        def madvise(self, advice):
            said.append(advice)

    piece._mmap = Advised()
    vectors = MappedVectors([piece], 4)
    assert vectors[np.array([999, 2, 500])].tolist() == piece[[999, 2, 500]].tolist()
    assert said == [mmap.MADV_RANDOM, mmap.MADV_NORMAL]
    assert vectors[np.arange(100, 300)].tolist() == piece[100:300].tolist()
    assert len(said) == 2  # side by side, they are read ahead
    assert vectors[np.empty(0, np.int64)].shape == (0, 4)
