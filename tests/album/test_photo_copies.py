"""Copies: found, told apart for good, moved away without a loss, and brought back."""

import errno
import hashlib
import io
import os
import shutil
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from photo_makers import photo_bytes
from PIL import Image

from smoothap.album import Album, Learnt, Projection, moving_copies
from smoothap.album.copies import best_first, copies_again, copies_in, not_copies
from smoothap.album.moving_copies import LOG, Move, lesser_copies, move_copies, undo_moves
from smoothap.album.photos import Photo


@pytest.fixture
def pile(tmp_path):
    """Two photos with copies: to the byte, and smaller ones; and three of which there is one."""
    root = tmp_path / "pile"
    (root / "old").mkdir(parents=True)
    for seed, name in enumerate(("one", "two")):
        large = photo_bytes(seed, 80)
        (root / f"{name}.png").write_bytes(large)
        (root / "old" / f"{name} again.png").write_bytes(large)
        stream = io.BytesIO()
        Image.open(io.BytesIO(large)).resize((60, 66)).save(stream, "PNG")
        (root / f"{name} small.png").write_bytes(stream.getvalue())
        os.utime(root / "old" / f"{name} again.png", (1_000_000_000, 1_000_000_000))
    for seed in range(10, 13):
        (root / f"{seed}.png").write_bytes(photo_bytes(seed))
    return root


@pytest.fixture
def album(tmp_path, model, pile):
    """The pile by vectors that tell the photos apart, as a trained network would."""
    vectors, known = [], []
    for file in sorted(path for path in pile.rglob("*.png")):
        name, status = file.relative_to(pile).as_posix(), file.stat()
        thing = ["one", "two", "10", "11", "12"].index(file.stem.split()[0])
        vectors.append(np.eye(8)[thing] + 0.05 * np.eye(8)[7] * ("small" in name))
        with Image.open(file) as picture:
            width, height = picture.size
        known.append({
            "path": name, "bytes": status.st_size, "modified": status.st_mtime, "width": width, "height": height,
            "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        })  # fmt: skip
    return Album.from_arrays(np.array(vectors), known, tmp_path / "album", root=pile, model=model)


def named(groups):
    return [[photo.path for photo in group.photos] for group in groups]


def everything(root):
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_copies_are_grouped_the_best_first(album):
    assert named(copies_in(album, None)) == [["old/one again.png", "one.png"], ["old/two again.png", "two.png"]]
    assert all(group.exact for group in copies_in(album, None))
    near = copies_in(album, 0.98)
    assert named(near) == [
        ["old/one again.png", "one.png", "one small.png"], ["old/two again.png", "two.png", "two small.png"],
    ]  # fmt: skip
    assert not any(group.exact for group in near)


def oracle(vectors, contents, score):
    """Groups by a search through all pairs, from one photo to the next."""
    scores = vectors @ vectors.T / np.outer(*2 * [np.linalg.norm(vectors, axis=1)])
    near = (scores >= score) | (np.array(contents)[:, None] == np.array(contents)[None])
    left, groups = set(range(len(vectors))), []
    while left:
        group, new = set(), {min(left)}
        while new:
            group |= new
            new = {other for one in new for other in np.flatnonzero(near[one])} - group
        left -= group
        groups += [sorted(group)] if len(group) > 1 else []
    return groups


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("score", [0.5, 0.8, 0.95])
def test_groups_are_those_of_brute_force(seed, score, tmp_path, monkeypatch):
    random = np.random.default_rng(seed)
    contents = random.integers(0, 40, 60)
    vectors = random.normal(size=(40, 4))[contents]  # the same content has the same vector
    known = [{"path": f"{row}.jpg", "sha256": f"{content:064x}"} for row, content in enumerate(contents)]
    album = Album.from_arrays(vectors, known)
    for _ in range(2):  # computed, then out of the cache
        found = [sorted(photo.id for photo in group.photos) for group in copies_in(album, score)]
        assert sorted(found) == oracle(vectors, contents, score)
    monkeypatch.setattr("smoothap.album.copies.pairs_above", lambda *_: pytest.fail("compared again"))
    assert len(copies_in(album, score)) == len(found)


def test_a_damaged_cache_is_not_believed(album, tmp_path):
    before = named(copies_in(album))
    (file,) = (tmp_path / "cache" / "smoothap" / "copies").iterdir()
    for bad in (b"", b"\x93NUMPY", np.array([[5, 99_999]]).tobytes(), _saved(np.array([[0, 99_999]]))):
        file.write_bytes(bad)
        assert named(copies_in(album)) == before


def _saved(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def test_what_is_no_copy_is_remembered(album, tmp_path):
    ids = {photo.path: photo.id for photo in album.photos}
    group = [photo.id for photo in copies_in(album)[0].photos]
    not_copies(album, [ids["one small.png"]], group)
    again = Album.open(tmp_path / "album")
    assert named(copies_in(again))[0] == ["old/one again.png", "one.png"]
    known = [{"path": f"moved/{photo.path}", "sha256": photo.sha256} for photo in album.photos]
    moved = Album.from_arrays(np.array(album.vectors), known, tmp_path / "moved")
    shutil.copytree(tmp_path / "album" / "collections", tmp_path / "moved" / "collections")
    assert len(copies_in(moved)[0].photos) == 2  # they are known by their content
    copies_again(again, [ids["one small.png"]])
    assert named(copies_in(again))[0] == ["old/one again.png", "one.png", "one small.png"]


def test_of_exact_copies_one_can_be_told_to_be_none(album):
    ids = {photo.path: photo.id for photo in album.photos}
    not_copies(album, [ids["one.png"], ids["old/one again.png"]])
    assert named(copies_in(album, None)) == [["old/two again.png", "two.png"]]


def test_lesser_copies_are_moved_and_come_back(album, tmp_path, pile):
    before = everything(pile)
    moves = lesser_copies(copies_in(album))
    assert {move.photo.path for move in moves} == {"one.png", "one small.png", "two.png", "two small.png"}
    moved = move_copies(album, moves, tmp_path / "away", progress=False)
    assert not moved.refused
    after, away = everything(pile), everything(tmp_path / "away")
    log = away.pop(LOG)
    assert log.count(b"\n") == 5
    assert {**after, **away} == before  # nothing was lost, and everything keeps its path
    assert {photo.path for photo in album.photos} == set(after)
    assert album.update(progress=False).unchanged == len(after)
    back = undo_moves(tmp_path / "away", progress=False)
    assert len(back.done) == 4
    assert everything(pile) == before
    assert everything(tmp_path / "away") == {LOG: b"was,is,sha256,kept\n"}


def test_a_photo_stays_if_anything_is_not_as_the_album_knows_it(album, tmp_path, pile):
    moves = lesser_copies(copies_in(album))
    (pile / "one.png").write_bytes(photo_bytes(77))  # edited: it may be the only one of its kind
    (pile / "old" / "two again.png").unlink()  # gone: its copies are all that is left
    before = everything(pile)
    moved = move_copies(album, moves, tmp_path / "away", progress=False)
    assert set(moved.done) == {"one small.png"}
    assert set(moved.refused) == {"one.png", "two.png", "two small.png"}
    assert "changed since it was indexed" in moved.refused["one.png"]
    away = everything(tmp_path / "away")
    away.pop(LOG)
    assert {**everything(pile), **away} == before


def test_nothing_is_replaced_on_the_way_there_or_back(album, tmp_path, pile):
    moves = lesser_copies(copies_in(album, None))
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "one.png").write_bytes(b"somebody else's")
    move_copies(album, moves, tmp_path / "away", progress=False)
    assert (tmp_path / "away" / "one.png").read_bytes() == b"somebody else's"
    assert (tmp_path / "away" / "one (2).png").exists()
    (pile / "one.png").write_bytes(b"a new one")
    back = undo_moves(tmp_path / "away", progress=False)
    assert (pile / "one.png").read_bytes() == b"a new one"
    assert "another file" in back.refused[str(tmp_path / "away" / "one (2).png")]
    (pile / "one.png").unlink()
    assert len(undo_moves(tmp_path / "away", progress=False).done) == 1


def test_onto_another_disk_a_copy_is_checked_before_the_photo_goes(album, tmp_path, pile, monkeypatch):
    def no_links(*_):
        raise OSError(18, "Invalid cross-device link")

    before, moves = everything(pile), lesser_copies(copies_in(album, None))
    monkeypatch.setattr(moving_copies.os, "link", no_links)
    with monkeypatch.context() as patched:
        patched.setattr(moving_copies.shutil, "copy2", lambda source, target: target.write_bytes(b"torn"))
        assert not move_copies(album, moves, tmp_path / "away", progress=False).done
    assert everything(pile) == before
    assert {path.name for path in (tmp_path / "away").iterdir()} == {LOG}
    moved = move_copies(album, moves, tmp_path / "away", progress=False)
    assert len(moved.done) == 2
    undo_moves(tmp_path / "away", progress=False)
    assert everything(pile) == before


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_run_that_is_killed_can_be_undone(album, tmp_path, pile, monkeypatch, moment):
    before = everything(pile)
    move = moving_copies._move

    def killed(source, target, sha256):
        if moment == "after":
            move(source, target, sha256)
        raise KeyboardInterrupt

    moves = lesser_copies(copies_in(album, None))
    monkeypatch.setattr(moving_copies, "_move", killed)
    with pytest.raises(KeyboardInterrupt):
        move_copies(album, moves, tmp_path / "away", progress=False)
    monkeypatch.setattr(moving_copies, "_move", move)
    undo_moves(tmp_path / "away", progress=False)
    assert everything(pile) == before


def test_copies_go_neither_into_the_photo_folder_nor_into_the_album(album, tmp_path, pile):
    moves = lesser_copies(copies_in(album, None))
    for place in (pile, pile / "away", tmp_path / "album" / "away"):
        with pytest.raises(ValueError, match="give a folder outside of it"):
            move_copies(album, moves, place)
    with pytest.raises(FileNotFoundError, match=r"There is no moved\.csv"):
        undo_moves(tmp_path)
    (tmp_path / LOG).write_text("what,ever\n")
    with pytest.raises(ValueError, match="is not a list of moved copies"):
        undo_moves(tmp_path)


@pytest.mark.parametrize("is_other_disk", [False, True])
def test_a_photo_that_cannot_leave_its_folder_is_not_there_twice(album, tmp_path, pile, monkeypatch, is_other_disk):
    before, unlink = everything(pile), Path.unlink

    def kept(path, missing_ok=False):
        if path.is_relative_to(pile):
            raise PermissionError(errno.EROFS, "Read-only file system")
        unlink(path, missing_ok)

    def no_link(*_):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(Path, "unlink", kept)
    if is_other_disk:
        monkeypatch.setattr(moving_copies.os, "link", no_link)
    moved = move_copies(album, lesser_copies(copies_in(album)), tmp_path / "away", progress=False)
    assert not moved.done
    assert set(moved.refused.values()) == {"read-only file system"}
    assert everything(pile) == before
    assert everything(tmp_path / "away") == {LOG: b"was,is,sha256,kept\n"}
    assert len(album) == len(before)


def test_a_link_is_never_moved(album, tmp_path, pile):
    (pile / "link.png").symlink_to("10.png")
    album.update(progress=False)
    ids = {photo.path: photo for photo in album.photos}
    moved = move_copies(album, [Move(ids["link.png"], ids["10.png"])], tmp_path / "away", progress=False)
    assert moved.refused == {"link.png": "it is a link"}
    assert (pile / "link.png").is_symlink()


def test_what_an_album_learnt_makes_no_copies(album):
    before = named(copies_in(album))
    bias = np.array([9, 0, 0], np.float32)  # which puts all photos in nearly one place
    album.learn(Projection(np.eye(3, 8, dtype=np.float32) / 100, bias), Learnt(3, 2, 4, (0.1, 0.05, 0.2)), None)
    assert np.ptp(album.vectors, axis=0).max() < 1e-2
    assert named(copies_in(album)) == before


@pytest.mark.parametrize(
    ("best", "lesser"),
    [
        ("2023/06/IMG_1234.jpg", "Backup/IMG_1234.jpg"),
        ("2023/06/IMG_1234.jpg", "2023/IMG_1234 (1).jpg"),
        ("holidays in Rome/DSC01234.JPG", "copies/DSC01234.JPG"),
        ("2023/06/PXL_20230601_120000.jpg", "a/beach.jpg"),
        ("copyright/IMG_1234.jpg", "old backups/IMG_1234.jpg"),
    ],
)
def test_of_equal_files_the_original_is_the_best_whatever_their_times(best, lesser):
    one = Photo(1, best, None, 9, 200.0, "00", 4, 3, datetime(2023, 6, 1))
    for other in (replace(one, id=2, path=lesser, modified=time) for time in (100.0, 200.0, 300.0)):
        assert [photo.path for photo in best_first([other, one])] == [best, lesser]
        larger = replace(other, width=8)
        assert best_first([one, larger])[0] is larger
