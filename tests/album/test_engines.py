"""All engines under the same tests; Milvus embedded, and as a real server where it is set up (make test-milvus)."""

import os
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import numpy as np
import pytest
from milvus_servers import EVERY_MILVUS, address_of

from smoothap.album import Album
from smoothap.album.search import best_rows


def clustered(rows=1500, dimension=16, seed=0):
    random = np.random.default_rng(seed)
    centres = random.standard_normal((rows // 25, dimension))
    return np.repeat(centres, 25, axis=0) + 0.5 * random.standard_normal((rows // 25 * 25, dimension))


@pytest.fixture(params=["exact", "pq"])
def engine(request, monkeypatch):
    if request.param == "pq":
        pytest.importorskip("faiss")
    monkeypatch.setattr("smoothap.album.engines.faiss.LEAST", 1000)
    return request.param


@pytest.fixture(params=["exact", "pq", *EVERY_MILVUS])
def album(request, monkeypatch, tmp_path):
    """The clustered vectors as an album whose answers come from each engine."""
    monkeypatch.setattr("smoothap.album.engines.faiss.LEAST", 1000)
    if "milvus" not in request.param:
        if request.param != "exact":
            pytest.importorskip("faiss")
        return Album.from_arrays(clustered(), engine=request.param)
    from smoothap.album.engines.milvus_push import push

    monkeypatch.setattr("smoothap.album.engines.milvus.FEW", 30)
    address = f"{address_of(request, request.param)}/t{uuid.uuid4().hex[:12]}"
    push(Album.from_arrays(clustered(), path=tmp_path / "album"), address)
    return Album.open(tmp_path / "album", engine=address)


def test_engines_agree_with_brute_force(album):
    vectors, recalls = album.vectors[:].astype(float), []
    for query in np.random.default_rng(1).standard_normal((20, 16)):
        scores = vectors @ (query / np.linalg.norm(query))
        wanted = np.argsort(-scores)[:20]
        hits = album.search(query, 20)
        assert len(hits) == 20
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        for hit in hits:  # whatever the engine's own arithmetic, scores are those of the album's vectors
            assert hit.score == pytest.approx(scores[hit.id], abs=1e-5)
        recalls.append(len({hit.id for hit in hits} & set(wanted.tolist())) / 20)
    assert np.mean(recalls) >= (1.0 if album.searching.name == "exact" else 0.95)


def test_a_photo_of_the_album_is_left_out_and_k_is_kept(album):
    for row in (0, 700, 1499):
        hits = album.search(row, 10, wrong=[(row + 1) % 1500])
        assert len(hits) == 10
        assert not {row, (row + 1) % 1500} & {hit.id for hit in hits}


def test_more_than_the_engine_can_name_are_still_all_there(album):
    for k in (1500, 5000):
        assert sorted(hit.id for hit in album.search(np.ones(16), k)) == list(range(1500))
    assert len(album.search(np.ones(16), 1499)) == 1499


def test_codes_that_give_too_few_are_not_believed(monkeypatch):
    pytest.importorskip("faiss")
    monkeypatch.setattr("smoothap.album.engines.faiss.LEAST", 1000)
    monkeypatch.setattr("smoothap.album.engines.faiss.ProductCodes.nearest", lambda self, query, k: np.arange(k // 2))
    best = [hit.id for hit in Album.from_arrays(clustered()).search(np.ones(16), 30)]
    assert [hit.id for hit in Album.from_arrays(clustered(), engine="pq").search(np.ones(16), 30)] == best


def test_an_album_that_changed_is_searched_again(engine, tmp_path):
    album = Album.from_arrays(clustered(), path=tmp_path / "album", engine=engine)
    first = album.search(np.ones(16), 3)
    album.remove([first[0].id])
    assert [hit.id for hit in album.search(np.ones(16), 2)] == [hit.id for hit in first[1:]]
    again = Album.open(tmp_path / "album", engine=engine)
    assert [hit.id for hit in again.search(np.ones(16), 2)] == [hit.id for hit in first[1:]]


def test_a_library_that_changes_faiss_under_us_changes_nothing(tmp_path):
    # pytorch-metric-learning imports faiss.contrib.torch_utils, which replaces FAISS's search for the whole process.
    pytest.importorskip("faiss")
    program = (
        "import faiss.contrib.torch_utils, numpy\n"
        "from smoothap.album import Album\n"
        "vectors = numpy.random.default_rng(0).standard_normal((6000, 8))\n"
        "print([hit.id for hit in Album.from_arrays(vectors, engine='pq').search(vectors[7], 3)][0])\n"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == "7", done.stderr


def test_an_engine_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="smoothap album push"):
        Album.from_arrays(np.eye(3), engine="milvus://127.0.0.1:19530")


def test_auto_is_exact_for_small_albums(monkeypatch):
    assert Album.from_arrays(np.eye(3)).searching.name == "exact"
    monkeypatch.setattr("smoothap.album.search.EXACT_UP_TO", 2)
    assert Album.from_arrays(np.eye(3)).searching.name == "pq"


def test_the_best_rows_of_ties_are_the_first():
    scores = np.array([1.0, 2.0, 2.0, 2.0, 0.0])
    assert best_rows(scores, 2).tolist() == [1, 2]
    assert best_rows(scores, 9).tolist() == [1, 2, 3, 0, 4]
    assert best_rows(scores[:0], 3).tolist() == []


@pytest.mark.parametrize("dimension", [16, 13])
def test_codes_that_were_being_built_are_taken_up_again(monkeypatch, tmp_path, dimension):
    pytest.importorskip("faiss")
    from smoothap.album.engines import faiss

    vectors = clustered(dimension=dimension)
    for name, value in (("LEAST", 1000), ("_CHUNK", 100), ("_PIECE", 400)):
        monkeypatch.setattr(faiss, name, value)
    Album.from_arrays(vectors, path=tmp_path / "album")
    undisturbed = Album.open(tmp_path / "album", engine="pq")
    wanted = [undisturbed.search(row, 10) for row in range(0, 1500, 100)]
    cache = Path(os.environ["XDG_CACHE_HOME"], "smoothap", "indices")
    shutil.rmtree(cache)
    padded, added = faiss._padded, []

    def stopped(rows):
        if len(rows) == 100 and len(added) == 11:  # what the codes are fitted to comes first
            raise KeyboardInterrupt
        added.append(len(rows))
        return padded(rows)

    with monkeypatch.context() as patched:
        patched.setattr(faiss, "_padded", stopped)
        with pytest.raises(KeyboardInterrupt):
            Album.open(tmp_path / "album", engine="pq").search(0)
    assert len(list(cache.glob("*.faiss"))) == 2
    added.clear()
    monkeypatch.setattr(faiss, "_padded", lambda rows: added.append(len(rows)) or padded(rows))
    again = Album.open(tmp_path / "album", engine="pq")
    assert [again.search(row, 10) for row in range(0, 1500, 100)] == wanted
    assert sum(number for number in added if number == 100) == 1500 - 800
    added.clear()
    assert Album.open(tmp_path / "album", engine="pq").search(0, 10) == wanted[0]
    assert added == [1]  # the query


def test_the_pieces_of_an_index_are_kept_together(monkeypatch):
    pytest.importorskip("faiss")
    from smoothap.album.engines import faiss

    for name, value in (("LEAST", 1000), ("_PIECE", 250)):
        monkeypatch.setattr(faiss, name, value)
    for seed in range(6):
        Album.from_arrays(clustered(seed=seed), engine="pq").search(0)
    cache = Path(os.environ["XDG_CACHE_HOME"], "smoothap", "indices")
    assert len(list(cache.glob("*.faiss"))) == len(list(cache.glob("*.sha256"))) == 4 * 6


def test_few_vectors_are_compared_one_by_one_instead_of_by_codes(monkeypatch):
    monkeypatch.setattr("smoothap.album.engines.faiss.open_codes", None)
    assert [hit.id for hit in Album.from_arrays(np.eye(3), engine="pq").search(np.eye(3)[1], 1)] == [1]
