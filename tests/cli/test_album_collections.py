"""`smoothap collection`, as a user runs it."""

import json
import zipfile

import pytest
from photo_makers import photo_folder

from smoothap.album import Album
from smoothap.cli import app


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An album of photos whose vectors nobody asks for."""
    import hashlib

    import numpy as np

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    photos = photo_folder(tmp_path / "photos", 6)
    files = sorted(photos.rglob("*.png"))
    metadata = [
        {"path": file.relative_to(photos).as_posix(), "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
        for file in files
    ]
    Album.from_arrays(np.eye(6), metadata, tmp_path / "album", root=photos)
    return tmp_path


@pytest.fixture
def run(place, capsys):
    def run_it(action="list", *words):
        command = ["album", "collections", action, place / "album", *words]
        app([str(word) for word in command], result_action="return_value")
        return capsys.readouterr()

    return run_it


def test_photos_are_kept_shown_and_taken_out_again(place, run):
    assert f"There are no collections yet: smoothap album collections add {place / 'album'}" in run().out
    photos = place / "photos"
    assert run("add", "my dog", photos / "class0" / "000.png", "class1/001.png").out == "my dog: 2 photos\n"
    assert run("add", "my dog", "--id", 5, "--wrong").out == "my dog: 2 photos, 1 marked wrong\n"
    listed = run("list").out
    assert "my dog" in listed
    assert json.loads(run("list", "--json").out)["collections"] == [
        {"name": "my dog", "right": 2, "wrong": 1, "away": 0}
    ]
    shown = run("show", "my dog").out
    assert "class0/000.png" in shown
    assert "wrong" in shown
    marks = [photo["mark"] for photo in json.loads(run("show", "my dog", "--json").out)["collections"][0]["photos"]]
    assert marks == ["right", "right", "wrong"]
    run("rename", "my dog", "Rex")
    assert run("remove", "Rex", "class1/001.png").out == "Rex: 1 photo, 1 marked wrong\n"
    assert run("undo").out == "Undone: took 1 photo out of Rex\n"
    assert run("undo").out == "Undone: renamed my dog to Rex\n"
    with pytest.raises(ValueError, match="no collection 'cat': there is 'my dog'"):
        run("show", "cat")
    deleted = run("delete", "my dog").out
    assert "my dog is deleted" in deleted
    assert f"smoothap album collections undo {place / 'album'}" in deleted
    assert "no collections yet" in run("list").out
    run("undo")
    assert "my dog" in run("list").out


def test_photos_leave_as_zip_table_copies_and_links_and_come_back(place, run):
    run("add", "my dog", "class0/000.png", "class0/003.png")
    out = run("export", "my dog", "--out", place / "dog.zip")
    assert "2 photos, " in out.err  # the size, before
    with zipfile.ZipFile(place / "dog.zip") as archive:
        assert sorted(archive.namelist()) == ["000.png", "003.png"]
    run("export", "--out", place / "dog.csv")
    assert (place / "dog.csv").read_text().startswith("collection,mark,path,label,sha256")
    assert run("export", "--out", place / "copies").out == f"2 copied: {place / 'copies'}\n"
    assert "2 already there" in run("export", "--out", place / "copies").out
    assert "2 linked" in run("export", "--links", "--out", place / "sorted" / "again").out
    run("delete", "my dog")
    assert "again" in run("import", place / "sorted").out
    assert json.loads(run("list", "--json").out)["collections"][0]["right"] == 2


def test_a_missing_original_is_named_and_the_command_fails(place, run, capsys):
    run("add", "my dog", "class0/000.png", "class0/003.png")
    (place / "photos" / "class0" / "003.png").unlink()
    with pytest.raises(SystemExit, match="1"):
        run("export", "--out", place / "copies")
    said = capsys.readouterr()
    assert "1 copied" in said.out
    assert "class0/003.png: no such file" in said.err
    (place / "photos" / "class0" / "000.png").unlink()
    with pytest.raises(ValueError, match="Nothing was exported: no original of 2 photos is there"):
        run("export", "--out", place / "more")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("show", "cat"), "no collection 'cat': there are none"),
        (("add", "cat"), "Say which photos"),
        (("add", "cat", "nowhere.jpg"), "1 photo of 1 not in the album"),
        (("export", "--out", "x"), "nothing to export"),
        (("import", "nowhere"), "There is no nowhere"),
        (("undo",), "nothing to undo"),
    ],
)
def test_mistakes_are_answered_in_a_sentence(run, words, sentence):
    with pytest.raises((ValueError, OSError), match=sentence):
        run(*words)
