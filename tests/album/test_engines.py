"""The engines of an album's own vectors under the same tests: exact, and product codes from FAISS."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from smoothap.album import Album, Filter
from smoothap.album.photos import new_record
from smoothap.album.search import best_rows
from smoothap.album.vectors import unit_vectors


def clustered(rows=1500, dimension=16, seed=0):
    random = np.random.default_rng(seed)
    centres = random.standard_normal((rows // 25, dimension))
    return np.repeat(centres, 25, axis=0) + 0.5 * random.standard_normal((rows // 25 * 25, dimension))


@pytest.fixture
def faiss(monkeypatch):
    """Product codes for small albums too."""
    pytest.importorskip("faiss")
    from smoothap.album.engines import faiss

    monkeypatch.setattr(faiss, "LEAST", 1000)
    return faiss


@pytest.fixture(params=["exact", "pq"])
def engine(request):
    if request.param == "pq":
        request.getfixturevalue("faiss")
    return request.param


@pytest.fixture
def album(engine):
    return Album.from_arrays(clustered(), engine=engine)


def cache():
    return Path(os.environ["XDG_CACHE_HOME"], "smoothap", "indices")


def add(album, vectors):
    """Take in vectors by hand; the album as it is then."""
    store = album.store
    with store.writing():
        first = store.settings().next_id
        store.add([new_record(f"new/{first + row}.jpg") for row in range(len(vectors))], unit_vectors(vectors))
    return album.reopened()


def brute_force(album, query, k):
    scores = album.vectors[:].astype(float) @ (query / np.linalg.norm(query))
    return album.photos.ids[np.argsort(-scores)[:k]].tolist()


def recall(album, queries, k=20):
    shares = []
    for query in queries:
        hits = album.search(query, k, rerank=False)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        shares.append(len({hit.id for hit in hits} & set(brute_force(album, query, k))) / k)
    return np.mean(shares)


def test_engines_agree_with_brute_force(album, engine):
    queries = np.random.default_rng(1).standard_normal((20, 16))
    assert album.searching.name == engine
    assert recall(album, queries) >= (1.0 if engine == "exact" else 0.95)
    exact = Album.from_arrays(clustered(), engine="exact")
    for query in queries:  # whatever proposes, scores are those of the definition
        scores = {hit.id: hit.score for hit in exact.search(query, everything=True, rerank=False)}
        assert all(hit.score == scores[hit.id] for hit in album.search(query, 20, rerank=False))


def test_a_photo_of_the_album_is_left_out_and_k_is_kept(album):
    for row in (0, 700, 1499):
        hits = album.search(row, 10, wrong=[(row + 1) % 1500], rerank=False)
        assert len(hits) == 10
        assert not {row, (row + 1) % 1500} & {hit.id for hit in hits}


def test_more_than_the_engine_can_name_are_still_all_there(album, faiss, monkeypatch):
    monkeypatch.setattr(faiss, "_LIMIT", 300)
    for k in (301, 1499, 1500, 5000):
        assert len({hit.id for hit in album.search(np.ones(16), k, rerank=False)}) == min(k, 1500)


@pytest.mark.parametrize("few", [0, 100_000])
def test_what_passes_a_filter_is_found_and_a_note_says_how(faiss, monkeypatch, few):
    """Where few pass, they are compared one by one; where many do, codes propose enough of them."""
    monkeypatch.setattr("smoothap.album.search.EXACT_UP_TO", few)
    labels = ["rare" if row % 100 == 0 else f"c{row % 2}" for row in range(1500)]
    album = Album.from_arrays(clustered(), {"label": labels}, engine="pq")
    for value in ("rare", "c0"):
        where = Filter(columns=(("label", value),))
        for query in (0, 7, 700):
            hits = album.search(query, 5, where=where, rerank=False)
            wanted = [hit.id for hit in album.search(query, everything=True, rerank=False) if labels[hit.id] == value][
                :5
            ]
            assert [hit.id for hit in hits] == wanted
            assert hits.note == "" or "all of them were compared, exactly" in hits.note
        if few:
            assert f"{labels.count(value)} photos pass the filter" in hits.note


def test_codes_that_name_too_few_are_not_believed(faiss, monkeypatch):
    album = Album.from_arrays(clustered(), engine="pq")
    best = [hit.id for hit in Album.from_arrays(clustered()).search(np.ones(16), 30, rerank=False)]
    monkeypatch.setattr(faiss.ProductCodes, "nearest", lambda self, query, k: np.arange(k // 2))
    assert [hit.id for hit in album.search(np.ones(16), 30, rerank=False)] == best


def test_an_album_that_changed_is_searched_again(engine, tmp_path):
    album = Album.from_arrays(clustered(), path=tmp_path / "album", engine=engine)
    first = album.search(np.ones(16), 3, rerank=False)
    album.remove([first[0].id])
    for now in (album, Album.open(tmp_path / "album", engine=engine)):
        assert [hit.id for hit in now.search(np.ones(16), 2, rerank=False)] == [hit.id for hit in first[1:]]


def test_codes_stay_valid_when_photos_come_and_go_and_new_ones_are_found_exactly(faiss, monkeypatch, tmp_path):
    for name, value in (("_PIECE", 400), ("_NEW", 100)):
        monkeypatch.setattr(faiss, name, value)
    album = Album.from_arrays(clustered(), path=tmp_path / "album", engine="pq")
    album.search(0, rerank=False)
    files = {file: file.stat().st_mtime_ns for file in cache().glob("*.faiss")}
    assert len(files) == 4
    built = []
    filled = faiss._filled
    monkeypatch.setattr(faiss, "_filled", lambda *how: built.append(how[2:]) or filled(*how))
    new = np.random.default_rng(5).standard_normal((60, 16))
    album = add(album, new)
    album.remove(range(0, 200, 2))
    for place, query in enumerate(new):
        assert (
            album.search(query, 1, rerank=False)[0].id == 1500 + place
        )  # nothing like the clusters that codes were fitted to
    assert recall(album, np.random.default_rng(1).standard_normal((20, 16))) >= 0.95
    assert built == []
    assert {file: file.stat().st_mtime_ns for file in cache().glob("*.faiss")} == files
    album = add(album, np.random.default_rng(6).standard_normal((60, 16)))  # more than are compared one by one
    album.search(1, rerank=False)
    assert built == [(1200, 1600), (1600, 1620)]
    assert recall(album, np.random.default_rng(1).standard_normal((20, 16))) >= 0.95


def test_a_library_that_changes_faiss_under_us_changes_nothing(tmp_path):
    # pytorch-metric-learning imports faiss.contrib.torch_utils, which replaces FAISS's search for the whole process.
    pytest.importorskip("faiss")
    program = (
        "import faiss.contrib.torch_utils, numpy\n"
        "from smoothap.album import Album\n"
        "from smoothap.album.engines import faiss\n"
        "faiss.LEAST = 300\n"
        "vectors = numpy.random.default_rng(0).standard_normal((300, 8))\n"
        "print([hit.id for hit in Album.from_arrays(vectors, engine='pq').search(vectors[7], 3, rerank=False)][0])\n"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == "7", done.stderr


def test_an_engine_that_there_is_not_is_refused():
    for name in ("hnsw", "milvus://127.0.0.1:19530"):
        with pytest.raises(ValueError, match=r"There is no engine .*smoothap album push"):
            Album.from_arrays(np.eye(3), engine=name)


def test_auto_is_exact_for_small_albums(faiss, monkeypatch):
    assert Album.from_arrays(clustered()).searching.name == "exact"
    monkeypatch.setattr("smoothap.album.search.EXACT_UP_TO", 1400)
    assert Album.from_arrays(clustered()).searching.name == "pq"
    few = Album.from_arrays(np.eye(3), engine="pq")  # compared one by one
    assert [hit.id for hit in few.search(1, 2, rerank=False)] == [0, 2]
    assert not cache().exists()


def test_the_best_rows_of_ties_are_the_first():
    scores = np.array([1.0, 2.0, 2.0, 2.0, 0.0])
    assert best_rows(scores, 2).tolist() == [1, 2]
    assert best_rows(scores, 9).tolist() == [1, 2, 3, 0, 4]
    assert best_rows(scores[:0], 3).tolist() == []


@pytest.mark.parametrize("dimension", [16, 13])
def test_codes_that_were_being_built_are_taken_up_again(faiss, monkeypatch, tmp_path, dimension):
    vectors = clustered(dimension=dimension)
    for name, value in (("_CHUNK", 100), ("_PIECE", 400)):
        monkeypatch.setattr(faiss, name, value)
    album = Album.from_arrays(vectors, path=tmp_path / "album", engine="pq")
    wanted = [album.search(row, 10, rerank=False) for row in range(0, 1500, 100)]
    shutil.rmtree(cache())
    filled, pieces = faiss._filled, []

    def stopped(*how):
        if len(pieces) == 2:
            raise KeyboardInterrupt
        pieces.append(how[2:])
        return filled(*how)

    with monkeypatch.context() as patched:
        patched.setattr(faiss, "_filled", stopped)
        with pytest.raises(KeyboardInterrupt):
            Album.open(album.folder, engine="pq").search(0, rerank=False)
    assert len(list(cache().glob("*.faiss"))) == 2
    monkeypatch.setattr(faiss, "_filled", lambda *how: pieces.append(how[2:]) or filled(*how))
    again = Album.open(album.folder, engine="pq")
    assert [again.search(row, 10, rerank=False) for row in range(0, 1500, 100)] == wanted
    assert Album.open(album.folder, engine="pq").search(0, 10, rerank=False) == wanted[0]
    assert pieces == [(0, 400), (400, 800), (800, 1200), (1200, 1500)]  # each once


def test_the_pieces_of_an_index_are_kept_together(faiss, monkeypatch):
    monkeypatch.setattr(faiss, "_PIECE", 250)
    for seed in range(6):
        Album.from_arrays(clustered(seed=seed), engine="pq").search(0, rerank=False)
    assert len(list(cache().glob("*.faiss"))) == len(list(cache().glob("*.sha256"))) == 4 * 6


@pytest.mark.guarantee(14)
def test_an_index_is_not_read_from_the_album_nor_from_an_open_folder_nor_damaged(faiss, tmp_path, monkeypatch):
    folder = Album.from_arrays(clustered(), path=tmp_path / "album").folder

    def found():
        return [hit.id for hit in Album.open(folder, engine="pq").search(0, 3, rerank=False)]

    wanted = found()
    index = next(cache().glob("*.faiss"))
    reads, read_index = [], faiss.faiss().read_index
    monkeypatch.setattr(faiss.faiss(), "read_index", lambda path: reads.append(path) or read_index(path))
    assert found() == wanted
    once = len(reads)
    assert once
    shutil.copy(index, folder)
    shutil.copy(index.with_suffix(".sha256"), folder)
    cache().chmod(0o777)  # anyone could have put it there
    assert found() == wanted
    assert len(reads) == once
    cache().chmod(0o700)
    damaged = bytearray(index.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    index.write_bytes(damaged)
    assert found() == wanted
    assert len(reads) == once
