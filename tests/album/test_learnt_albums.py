"""An album that has learnt searches in projected vectors, projects what is new, and can go back."""

import numpy as np
import pytest
from photo_makers import photo_bytes

from smoothap.album import Album, prepare, update
from smoothap.album.projection import Learnt, Projection


def projection(seed=0, numbers=5, of=8):
    random = np.random.default_rng(seed)
    return Projection(random.normal(size=(numbers, of)).astype(np.float32), np.zeros(numbers, np.float32))


def taught(album, seed=0):
    one = projection(seed)
    album.learn(one, Learnt(one.dimension, 5, 20, (0.1, 0.05, 0.15)), None)
    return one


def by_hand(vectors, one):
    rows = vectors.astype(float) @ one.weight.T.astype(float) + one.bias
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_searches_are_in_projected_vectors_and_queries_are_projected_alike(album, photos):
    originals = np.array(album.vectors)
    one = taught(album)
    wanted = by_hand(originals, one)
    assert np.abs(album.vectors - wanted).max() < 1e-6
    photo = photos / album.photos[4].path
    best = album.search(photo, k=3, rerank=False)
    assert best[0].id == album.photos[4].id
    assert best[0].score == pytest.approx(1, abs=1e-5)
    assert (album.embed(photo) == album.projected(album.embedder().embed([photo], progress=False).numpy())[0]).all()
    scores = wanted @ wanted[4]
    for hit in album.search(album.photos[4].id, everything=True, rerank=False):
        assert hit.score == pytest.approx(scores[album.photos.row_of(hit.id)], abs=1e-6)


def test_it_is_still_so_when_opened_again_and_after_an_update(album, photos, model):
    one = taught(album)
    (photos / "new.png").write_bytes(photo_bytes(500))
    (photos / "class0" / "000.png").write_bytes(photo_bytes(501))
    again = Album.open(album.folder, model=model)
    assert np.array_equal(again.vectors, album.vectors)
    assert again.learnt == album.learnt
    assert album.learnt.gain == (0.1, 0.05, 0.15)
    again.update()
    assert len(again) == 13
    _, originals = again.model_vectors()
    assert originals.shape == (13, 8)
    assert (again.vectors == one(originals)).all()
    again.remove([again.photos[0].id])
    assert (again.vectors == one(again.model_vectors()[1])).all()
    assert len(again) == 12


def test_a_run_that_was_stopped_in_the_middle_has_projected_what_it_took_in(album, photos, monkeypatch):
    one = taught(album)
    monkeypatch.setattr(prepare, "BATCH", 2)
    monkeypatch.setattr(update, "COMMIT_ROWS", 2)
    for number in range(6):
        (photos / f"new{number}.png").write_bytes(photo_bytes(600 + number))
    monkeypatch.setattr(update, "write_refusals", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        album.update()
    stopped = Album.open(album.folder)
    assert len(stopped) == 18
    assert (stopped.vectors == one(stopped.model_vectors()[1])).all()


def test_undone_it_is_the_album_of_before(album):
    folder = album.folder
    album.calibrate(album.vectors, album.photos.labels(), "labels")
    before, calibration = np.array(album.vectors), album.calibration.to_dict()
    taught(album)
    assert album.calibration is None
    taught(album, seed=1)  # learnt twice: undone at once
    assert album.vectors.shape[1] == 5
    album.unlearn()
    for now in (album, Album.open(folder)):
        assert now.learnt is None
        assert (now.vectors == before).all()
        assert now.calibration.to_dict() == calibration
    assert not [*folder.glob("learnt-*"), *folder.glob("projection-*")]
    with pytest.raises(ValueError, match="has learnt nothing that could be undone"):
        album.unlearn()


def test_learning_again_begins_with_the_vectors_of_the_model(album):
    originals = np.array(album.vectors)
    taught(album)
    second = taught(album, seed=1)
    assert (album.model_vectors()[1] == originals).all()
    assert (album.vectors == second(originals)).all()
    assert len([*album.folder.glob("learnt-*")]) == 1


def test_exact_copies_stay_ties(tmp_path):
    random = np.random.default_rng(3)
    rows = random.normal(size=(40, 8)).astype(np.float32)
    rows[30:] = rows[5:15]
    album = Album.from_arrays(rows, path=tmp_path / "album")
    taught(album)
    assert (album.vectors[30:] == album.vectors[5:15]).all()
    scores = {hit.id: hit.score for hit in album.search(0, everything=True, rerank=False)}
    assert all(scores[30 + place] == scores[5 + place] for place in range(10))


def test_a_query_of_the_model_alone_is_refused_with_a_remedy(album):
    original = np.array(album.vectors[0])
    taught(album)
    with pytest.raises(ValueError, match=r"before what the album learnt: take album\.embed"):
        album.search(original, rerank=False)
    assert album.search(album.projected(original[None])[0], rerank=False)[0].id == album.photos[0].id


def test_a_large_album_is_projected_some_rows_at_a_time_and_each_once(tmp_path):
    vectors = np.random.default_rng(0).standard_normal((17_000, 8)).astype(np.float32)
    album = Album.from_arrays(vectors, [{"path": f"{row}.jpg"} for row in range(17_000)], tmp_path / "album")
    one = taught(album)
    assert (album.vectors == one(album.model_vectors()[1])).all()
    assert (tmp_path / "album" / "learnt-photo-1-1").stat().st_size == 17_000 * one.dimension * 4
