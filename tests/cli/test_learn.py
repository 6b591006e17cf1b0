"""`smoothap album learn`, and a training on the collections of an album, as typed."""

import json
import shlex

import numpy as np
import pytest
import teachable_albums
from photo_makers import pattern_folder, tiny_model

from smoothap.album import Album
from smoothap.cli import app
from smoothap.cli._options import NOT_IMPROVED
from smoothap.cli.train import _print_training
from smoothap.data.names import open_data
from smoothap.training.finetune import FineTuned


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def smoothap(*words):
    app([str(word) for word in words], result_action="return_value", exit_on_error=False)


def exit_code(*words):
    try:
        smoothap(*words)
    except SystemExit as ended:
        return ended.code
    return 0


def next_commands(told):
    """The commands that a message names, as they would be typed."""
    return [shlex.split(line.removeprefix("Next:")) for line in told.splitlines() if "smoothap " in line]


def test_learn_check_and_undo(tmp_path, capsys):
    album = tmp_path / "my album"
    teachable_albums.taught_album(album)
    vectors = np.array(Album.open(album).vectors)
    assert exit_code("album", "learn", album, "--check") == 0
    told = capsys.readouterr().out
    assert "Nothing was changed." in told
    assert next_commands(told)[-1][-4:] == ["smoothap", "album", "learn", str(album)]
    assert (Album.open(album).vectors == vectors).all()
    assert exit_code("album", "learn", album) == 0
    told = capsys.readouterr().out
    assert "learnt from 96 photos in 12 collections" in told
    assert ["smoothap", "serve", str(album)] in next_commands(told)
    assert ["smoothap", "album", "learn", str(album), "--undo"] in next_commands(told)
    assert Album.open(album).vectors.shape == vectors.shape
    assert (Album.open(album).vectors != vectors).any()
    assert exit_code("album", "learn", album, "--undo") == 0
    assert "vectors of its model again" in capsys.readouterr().out
    assert (Album.open(album).vectors == vectors).all()
    with pytest.raises(ValueError, match="has learnt nothing that could be undone"):
        smoothap("album", "learn", album, "--undo")
    with pytest.raises(ValueError, match="give one of them"):
        smoothap("album", "learn", album, "--undo", "--check")


def test_what_does_not_help_is_told_by_the_exit_code_too(tmp_path, capsys):
    teachable_albums.labelled_album(tmp_path / "album")
    assert exit_code("album", "learn", tmp_path / "album") == NOT_IMPROVED
    assert "at least 5 collections of 4 photos or more, and it has 0" in capsys.readouterr().out
    assert exit_code("album", "learn", tmp_path / "album", "--json") == NOT_IMPROVED
    assert not json.loads(capsys.readouterr().out)["learnt"]


def test_where_learning_does_not_help_the_long_way_is_named(tmp_path, capsys):
    album, labels = teachable_albums.labelled_album(tmp_path / "my album")
    order = np.random.default_rng(5).permutation(len(labels))
    for number in range(6):
        album.collections.add(f"any {number}", order[8 * number : 8 * number + 8].tolist())
    assert exit_code("album", "learn", tmp_path / "my album") == NOT_IMPROVED
    words = next_commands(capsys.readouterr().out)[-1]
    data = f"album:{tmp_path / 'my album'}"
    assert words[words.index("smoothap") :] == ["smoothap", "train", "--data", data, "--out", "runs/my album"]


def test_learn_as_json(tmp_path, capsys):
    teachable_albums.taught_album(tmp_path / "album")
    smoothap("album", "learn", tmp_path / "album", "--json")
    answer = json.loads(capsys.readouterr().out)
    assert answer["learnt"]
    assert (answer["collections"], answer["photos"]) == (12, 96)
    assert answer["taught"]["low"] > 0
    assert answer["after"] - answer["before"] == pytest.approx(answer["taught"]["gain"])
    smoothap("album", "learn", tmp_path / "album", "--undo", "--json")
    assert json.loads(capsys.readouterr().out) == {"learnt": False}


@pytest.fixture
def photo_album(tmp_path):
    """An album of 8 things, of which 6 are collections; a photo is in two of them."""
    photos = pattern_folder(tmp_path / "my photos", 8, 5)
    album = Album.create(tmp_path / "my album", tiny_model(tmp_path / "model"), photos)
    album.update(progress=False)
    for thing in range(6):
        album.collections.add(f"thing {thing}", [photo.id for photo in album.photos if f"thing {thing}/" in photo.path])
    album.collections.add("thing 0", [next(photo.id for photo in album.photos if "thing 1/0" in photo.path)])
    album.collections.mark("thing 2", wrong=[next(photo.id for photo in album.photos if "thing 7/0" in photo.path)])
    return album


def test_collections_are_classes_to_train_on(photo_album):
    benchmark = open_data(f"album:{photo_album.collections.folder.parent}", test_fraction=0)
    train = benchmark.train
    assert list(train.class_names) == [f"thing {number}" for number in range(6)]
    assert len(train) == 29
    for name, label in zip(train.names, train.labels, strict=True):
        assert name.startswith(f"{train.class_names[label]}/")
    assert train.read(0).size == (24, 24)
    assert benchmark.warnings == ("1 photos are in more than one collection, and are left out.",)
    split = open_data(f"album:{photo_album.collections.folder.parent}")
    assert split.tests["test"].classes == 2
    (photo_album.root / "thing 3" / "0.png").unlink()
    told = open_data(f"album:{photo_album.collections.folder.parent}").warnings
    assert any("1 photos of the collections are not in" in warning for warning in told)


def test_an_album_without_collections_says_how_to_make_them(photo_album):
    for name in photo_album.collections.all():
        photo_album.collections.delete(name)
    with pytest.raises(ValueError, match=r"has no collection of 2 photos or more to train on: .*smoothap serve"):
        open_data(f"album:{photo_album.collections.folder.parent}")


def test_a_training_on_collections_names_the_next_commands(photo_album, tmp_path, capsys):
    album = photo_album.collections.folder.parent
    words = ("train", "--data", f"album:{album}", "--out", tmp_path / "runs" / "mine", "--model", "test_resnet")
    words += ("--weights", "none", "--size", 24, "--dimension", 8, "--device", "cpu", "--steps", 1)
    assert exit_code(*words, "--test-fraction", 0, "--validation-fraction", 0) == 0
    told = capsys.readouterr().out
    assert "Batches have 24 images, not 128: 4 of each of 6 classes." in told
    commands = next_commands(told)
    new = f"{album}-mine"
    index = ["smoothap", "index", str(photo_album.root), "--model", str(tmp_path / "runs/mine/model"), "--out", new]
    assert index in commands
    assert ["smoothap", "serve", str(album), new] in commands
    smoothap(*index[1:])
    capsys.readouterr()
    assert len(Album.open(new)) == 40


def test_an_evaluation_of_a_model_for_an_album_can_be_typed_as_it_is_told(photo_album, tmp_path, capsys):
    from smoothap.metrics import evaluate

    album, labels = photo_album.collections.folder.parent, np.arange(8) // 2
    report = {"test": evaluate(np.eye(4)[labels], labels)}
    data = f"{shlex.quote(f'album:{album}')} --test-fraction 0.5"
    _print_training(FineTuned(None, tmp_path / "run", 5, 5, 0.9, report, report, data), "")
    words = next(each for each in next_commands(capsys.readouterr().out) if "evaluate" in each)
    assert words[words.index("--data") + 1] == f"album:{album}"


def test_few_classes_say_how_many_were_set_aside(photo_album, tmp_path):
    album = photo_album.collections.folder.parent
    with pytest.raises(
        ValueError, match=r"has 3 classes to train on, .* 3 of its 6 classes were set aside to test on"
    ) as told:
        smoothap("train", "--data", f"album:{album}", "--out", tmp_path / "run", "--test-fraction", 0.5)
    assert "--test-fraction" in str(told.value)
    assert "--validation-fraction 0" in str(told.value)
