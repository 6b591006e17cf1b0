"""`smoothap train RECIPE --rehearse`: the whole course in minutes, what the training will take, and what is missing."""

import json
import os
import signal

import numpy as np
import pytest
from photo_makers import pattern_folder
from tiny_sets import write_ijbc, write_sop, write_vehicle_id, write_vggface2

from smoothap.cli import app
from smoothap.data import counts, ijbc
from smoothap.data.vehicle_id import one_in_the_gallery
from smoothap.experiments import _few_tests
from smoothap.experiments.data_sets import open_data
from smoothap.training import log

pytestmark = pytest.mark.usefixtures("small_networks")
COUNTS = counts.compare_counts


@pytest.fixture
def real_counts(monkeypatch):
    """The tiny sets are partial copies here."""
    for module in (counts, ijbc):
        monkeypatch.setattr(module, "compare_counts", COUNTS)


def smoothap(*words):
    """The exit code."""
    try:
        app([str(word) for word in words], result_action="return_value", exit_on_error=False)
    except SystemExit as ended:
        return ended.code
    return 0


def rehearse(recipe, data, out, *more, size=32):
    sizes = () if size is None else ("--size", size)
    return smoothap("train", recipe, "--data", data, "--out", out, "--device", "cpu", *sizes, "--rehearse", *more)


def found(out):
    return json.loads((out / "rehearsal" / "rehearsal.json").read_text())


def test_a_rehearsal_goes_through_everything_and_tells_what_a_training_takes(tmp_path, capsys):
    data, out = write_sop(tmp_path / "data"), tmp_path / "run"
    words = ("--batch-size", 16, "--weights", "none", "--validation-fraction", 0.1)
    assert rehearse("recipe:sop-384", data, out, *words) == 0
    told = capsys.readouterr().out
    assert "The rehearsal went through: every part of the training, stopped and resumed once, tests and report." in told
    assert "45,120 images, 2,820 batches of 16" in told  # 94 epochs of 10 batches of each pair of 3 groups
    assert all(word in told for word in ("images a second", "hours", "GB at most", "disk", "Nothing is missing."))
    assert sorted(path.name for path in out.iterdir()) == ["rehearsal"]
    left = {path.name for path in (out / "rehearsal").rglob("*")}
    assert left == {".lock", "metrics.jsonl", "rehearsal.json"}  # no model that anybody could take for a trained one
    rows = log.read_rows(out / "rehearsal")
    assert [row["step"] for row in rows if "loss" in row] == [1, 2, 3, 4]
    assert [row["step"] for row in rows if "validation_map" in row] == [0, 1, 4]  # it was stopped, and resumed


def test_a_training_begins_in_a_folder_that_was_rehearsed_in(tmp_path, capsys):
    data, out = write_sop(tmp_path / "data"), tmp_path / "run"
    words = ("--batch-size", 16, "--weights", "none")
    assert rehearse("recipe:sop-224", data, out, *words) == rehearse("recipe:sop-224", data, out, *words) == 0
    options = ("--out", out, "--device", "cpu", "--size", 32, "--steps", 1)
    assert smoothap("train", "recipe:sop-224", "--data", data, *options, *words) in (0, 3)
    assert (out / "model" / "model.json").is_file()
    assert found(out)["finished"]


@pytest.mark.usefixtures("real_counts")
def test_a_partial_copy_is_rehearsed_and_what_it_lacks_is_listed(tmp_path, capsys):
    data, out = write_vehicle_id(tmp_path / "data"), tmp_path / "run"
    for path in sorted((data / "image").iterdir())[::6]:
        path.unlink()
    with pytest.raises(ValueError, match="listed files are missing"):
        smoothap("train", "recipe:vehicle-id-384", "--data", data, "--out", out, "--weights", "none")
    assert rehearse("recipe:vehicle-id-384", data, out) == 1
    told = capsys.readouterr().out
    assert "listed files are missing" in told
    assert "vehicle-id train is partial: found" in told
    (forecast,) = found(out)["trainings"]
    assert forecast["batch_size"] < 384
    assert f"classes for batches of {forecast['batch_size']}, not of 384" in told
    assert forecast["steps"] == 400 * round(110_178 / forecast["batch_size"])  # those of a whole copy


def test_weights_and_sets_that_are_not_there_are_missing_and_no_error(tmp_path, capsys):
    data, out = write_vggface2(tmp_path / "data"), tmp_path / "run"
    further = ("--test-on", f"ijbc:{tmp_path / 'nowhere'}", "--test-on", f"ijbc:{write_ijbc(tmp_path / 'ijbc')}")
    assert rehearse("recipe:faces-senet50", data, out, "--batch-size", 8, *further) == 1
    told = capsys.readouterr().out
    assert "1. --test-on ijbc:" in told
    assert "The weights to start from, as --weights FILE: senet50_256.pth" in told


def test_each_training_of_an_ablation_is_rehearsed(tmp_path, capsys):
    data, out = write_vggface2(tmp_path / "data"), tmp_path / "run"
    assert rehearse("recipe:ablation-tau", data, out, "--batch-size", 8, "--weights", "none", size=16) == 0
    assert [one["name"] for one in found(out)["trainings"]] == ["tau-0.1", "tau-0.01", "tau-0.001"]
    assert "all of them" in capsys.readouterr().out


@pytest.mark.usefixtures("real_counts")
def test_batches_that_a_partial_copy_has_no_groups_for_are_said(tmp_path, capsys):
    data = write_sop(tmp_path / "data")
    for path in (data / "chair_final", data / "lamp_final"):
        for file in path.iterdir():
            file.unlink()
    assert rehearse("recipe:sop-384", data, tmp_path / "run", "--weights", "none") == 1
    assert "the batches of the recipe were not rehearsed, but balanced ones" in capsys.readouterr().out


def test_own_photos_are_rehearsed_without_a_recipe(tmp_path, capsys):
    photos, out = pattern_folder(tmp_path / "photos", 16, 5), tmp_path / "run"
    words = ("--model", "test_resnet", "--weights", "none", "--size", 24, "--dimension", 16, "--device", "cpu")
    code = smoothap("train", "--data", f"folder:{photos}", "--out", out, *words, "--rehearse", "--workers", 1)
    told = capsys.readouterr().out
    assert code == 0, told
    assert "reading alone" in told
    assert "Nothing is missing." in told


def test_what_is_no_rehearsal_is_not_deleted(tmp_path):
    (tmp_path / "run" / "rehearsal").mkdir(parents=True)
    (tmp_path / "run" / "rehearsal" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="holds files that no rehearsal wrote"):
        rehearse("recipe:sop-384", tmp_path, tmp_path / "run")
    assert (tmp_path / "run" / "rehearsal" / "notes.txt").read_text() == "mine"


def test_an_interrupted_rehearsal_leaves_the_folder_as_it_was(tmp_path, capsys, monkeypatch):
    data, out = write_sop(tmp_path / "data"), tmp_path / "run"
    written = log.Log.write

    def interrupting(self, row):
        written(self, row)
        if "loss" in row:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(log.Log, "write", interrupting)
        assert rehearse("recipe:sop-384", data, out, "--batch-size", 16, "--weights", "none") == 130
    assert f"{out} is as it was." in capsys.readouterr().out
    assert [path.name for path in out.iterdir()] == ["rehearsal"]
    assert not found(out)["finished"]
    assert rehearse("recipe:sop-384", data, out, "--batch-size", 16, "--weights", "none") == 0


def test_resume_does_not_go_with_a_rehearsal(tmp_path):
    with pytest.raises(ValueError, match="leave --resume out"):
        rehearse("recipe:sop-384", tmp_path, tmp_path / "run", "--resume")


def test_few_images_keep_queries_with_their_gallery(tmp_path):
    whole = open_data(f"vehicle-id:{write_vehicle_id(tmp_path / 'data')}").tests["small"]
    draw = one_in_the_gallery(whole, 0)
    rows = _few_tests._few(draw)
    assert np.array_equal(rows, np.arange(len(whole)))
    small = _few_tests.FewTests.of(open_data(f"vehicle-id-gallery:{tmp_path / 'data'}"), [])
    assert len({images.source for images in small.tests.values()}) == 3  # ten draws of a list embed it once
