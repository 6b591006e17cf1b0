"""An album learns where that helps, and says so; where it does not, nothing changes."""

import re
import shutil

import numpy as np
import pytest
import teachable_albums
import torch
from teachable_albums import vectors_and_labels

from smoothap import evaluate
from smoothap.album import Album, learn


def maps(vectors, labels, rows):
    """The mAP of some rows among themselves, by class: taught ones and others."""
    rows = np.asarray(rows)
    report = evaluate(np.asarray(vectors)[rows], labels[rows], progress=False)
    of = labels[rows]
    return report.average_precision[of < 12].mean(), report.average_precision[of >= 12].mean()


def untouched(album):
    """Every byte of the album's own files."""
    return {file.name: file.read_bytes() for file in album.folder.iterdir() if file.is_file()}


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    """The folder of an album that was calibrated and has learnt, what was said of it, and the vectors before."""
    album, labels = teachable_albums.taught_album(tmp_path_factory.mktemp("learnt") / "album"), vectors_and_labels()[1]
    album.calibrate(album.vectors, labels, "labels")
    before = np.array(album.vectors)
    return album.folder, learn(album, progress=False), before


def test_photos_that_were_in_no_collection_are_found_better(learnt):
    folder, learning, vectors = learnt
    album, labels = Album.open(folder), vectors_and_labels()[1]
    kept = {photo for one in album.collections.all().values() for photo in one.right}
    rest = [row for row in range(len(labels)) if row not in kept]
    before = maps(vectors, labels, rest)
    assert learning.learnt
    assert learning.check.is_clear
    assert (learning.collections, learning.photos) == (12, 96)
    taught, others = maps(album.vectors, labels, rest)
    assert taught > before[0] + 0.1
    assert others > before[1] - 0.01  # it is the same directions that matter to them
    assert album.learnt.collections == 12
    assert album.learnt.gain[1] > 0


def test_what_scores_mean_is_learnt_anew(learnt, tmp_path):
    album, labels = Album.open(shutil.copytree(learnt[0], tmp_path / "album")), vectors_and_labels()[1]
    calibration = album.calibration
    assert "12 collections, each left out of the learning in turn" in calibration.source
    # The recall that is asked for among classes that were not taught, and the one that comes back.
    rows = np.flatnonzero(labels >= 12)
    scores = album.vectors[rows] @ album.vectors[rows].T
    same = (labels[rows][:, None] == labels[rows]) & ~np.eye(len(rows), dtype=bool)
    obtained = ((scores >= calibration.score_for_recall(0.8)) & same).sum(1) / same.sum(1)
    assert 0.65 < obtained.mean() < 0.95
    album.unlearn()
    assert album.calibration.source == "labels"


@pytest.mark.parametrize("check_only", [True, False])
def test_collections_without_meaning_teach_nothing(labelled_album, check_only):
    album, labels = labelled_album
    order = np.random.default_rng(5).permutation(len(labels))
    for number in range(12):
        album.collections.add(f"any {number}", order[8 * number : 8 * number + 8].tolist())
    before = untouched(album)
    learning = learn(album, check_only=check_only, progress=False)
    assert not learning.learnt
    assert not learning.check.is_clear
    assert learning.reason.startswith("The album goes on searching as before.")
    assert re.search(r"Mark (about )?ten (more )?photos .*, and learn again\.$", learning.reason)
    assert "mAP" not in learning.reason
    assert untouched(album) == before


def test_few_collections_are_not_learnt_from(labelled_album):
    album, labels = labelled_album
    for label in range(4):
        album.collections.add(f"thing {label}", np.flatnonzero(labels == label)[:8].tolist())
    album.collections.add("three photos", np.flatnonzero(labels == 9)[:3].tolist())
    before = untouched(album)
    learning = learn(album, progress=False)
    assert not learning.learnt
    assert learning.check is None
    assert "at least 5 collections of 4 photos or more, and it has 4" in learning.reason
    assert untouched(album) == before


def test_a_check_changes_nothing_and_says_what_learning_says(taught_album, learnt):
    album, _ = taught_album
    before = untouched(album)
    checked = learn(album, check_only=True, progress=False)
    assert not checked.learnt
    assert checked.check.is_clear
    assert untouched(album) == before
    assert learnt[1].check.taught == checked.check.taught


def test_the_same_marks_teach_the_same_bits_on_any_number_of_threads(taught_album):
    album, _ = taught_album
    threads = torch.get_num_threads()
    found = []
    try:
        for number in (1, 3):
            torch.set_num_threads(number)
            learn(album, progress=False)
            assert torch.get_num_threads() == number
            found.append(np.array(album.vectors))
    finally:
        torch.set_num_threads(threads)
    assert (found[0] == found[1]).all()


def test_learning_again_does_not_build_on_what_was_learnt(learnt, tmp_path):
    album, labels = Album.open(shutil.copytree(learnt[0], tmp_path / "album")), vectors_and_labels()[1]
    first = np.array(album.vectors)
    learn(album, progress=False)
    assert (album.vectors == first).all()
    album.collections.add("thing 20", np.flatnonzero(labels == 20)[:8].tolist())
    learn(album, progress=False)
    assert (album.vectors != first).any()


def test_photos_that_come_while_it_learns_are_projected_too(taught_album, monkeypatch):
    album, labels = taught_album
    from smoothap.album import learning as module

    check, removed = module.check, []

    def slow(*arguments):
        checked = check(*arguments)
        other = Album.open(album.folder)
        removed.append(other.photos[300].id)
        other.remove(removed)
        return checked

    monkeypatch.setattr(module, "check", slow)
    assert learn(album, progress=False).learnt
    assert len(album) == len(labels) - 1
    assert (album.vectors == album.projected(album.model_vectors()[1])).all()


def test_marks_of_what_is_wrong_push_it_away(tmp_path):
    """Photos much like a collection that are marked as wrong end up further from it than without the marks."""
    vectors, labels = vectors_and_labels(seed=3)
    random = np.random.default_rng(4)
    near = vectors[labels == 0] + 0.08 * random.normal(size=vectors.shape[1])  # another thing, with a mark of its own
    anything = random.normal(size=(3000, vectors.shape[1]))  # so that the near ones are seldom drawn by themselves
    rows = np.concatenate([vectors, near, anything])
    first, members = len(vectors), np.flatnonzero(labels == 0)[8:]
    scores = []
    for wrong in ([], list(range(first, first + 8))):
        album = Album.from_arrays(rows, path=tmp_path / f"album {len(wrong)}")
        for label in range(12):
            ids = np.flatnonzero(labels == label)[:8].tolist()
            album.collections.mark(f"thing {label}", right=ids, wrong=wrong if label == 0 else [])
        assert learn(album, progress=False).learnt
        others = np.arange(first + 8, first + 16)  # near ones that nobody has marked
        inside = (album.vectors[members] @ album.vectors[members].T).mean()
        scores.append(inside - (album.vectors[members] @ album.vectors[others].T).mean())
    assert scores[1] > 1.3 * scores[0]


def test_photos_in_two_collections_are_learnt_from_too(taught_album):
    album, labels = taught_album
    album.collections.add(
        "both", [*np.flatnonzero(labels == 0)[:4].tolist(), *np.flatnonzero(labels == 1)[:4].tolist()]
    )
    learning = learn(album, progress=False)
    assert learning.learnt
    assert learning.collections == 13


def test_an_album_of_marked_photos_alone_can_learn(tmp_path):
    vectors, labels = vectors_and_labels(classes=12, photos=8)
    album = Album.from_arrays(vectors, path=tmp_path / "album")
    for label in range(12):
        album.collections.add(f"thing {label}", np.flatnonzero(labels == label).tolist())
    assert learn(album, progress=False).check is not None


def test_an_album_in_memory_says_what_to_do():
    with pytest.raises(ValueError, match="This album is temporary"):
        learn(Album.from_arrays(np.eye(3)))
