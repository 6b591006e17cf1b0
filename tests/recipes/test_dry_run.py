"""`smoothap train RECIPE --dry-run`: a few steps, what the training will take, and what is missing."""

import os
import re
import signal

import pytest
from tiny_sets import write_ijbc, write_sop, write_vehicle_id, write_vggface2

from smoothap.cli import app
from smoothap.data.datasets import counts, faces
from smoothap.models import embedder
from smoothap.training import log

pytestmark = pytest.mark.usefixtures("small_networks")
COUNTS = counts.compare_counts


@pytest.fixture
def real_counts(monkeypatch):
    """The tiny sets are partial copies here."""
    for module in (counts, faces):
        monkeypatch.setattr(module, "compare_counts", COUNTS)


def smoothap(*words):
    """The exit code."""
    try:
        app([str(word) for word in words], result_action="return_value", exit_on_error=False)
    except SystemExit as ended:
        return ended.code
    return 0


def dry_run(recipe, data, out, *more, size=32):
    sizes = () if size is None else ("--size", size)
    return smoothap("train", recipe, "--data", data, "--out", out, "--device", "cpu", *sizes, "--dry-run", *more)


def test_a_dry_run_tells_what_a_training_takes_and_leaves_nothing_behind(tmp_path, capsys):
    data, out = write_sop(tmp_path / "data"), tmp_path / "run"
    words = ("--batch-size", 16, "--weights", "none", "--validation-fraction", 0.1)
    assert dry_run("recipe:sop-384", data, out, *words) == 0
    told = capsys.readouterr().out
    assert "45,120 images, 2,820 batches of 16" in told  # 94 epochs of 10 batches of each pair of 3 groups
    assert all(word in told for word in ("images a second", "hours", "GB at most", "disk", "Nothing is missing."))
    assert not list(out.iterdir())


@pytest.mark.usefixtures("real_counts")
def test_a_partial_copy_is_taken_and_what_it_lacks_is_listed(tmp_path, capsys):
    data, out = write_vehicle_id(tmp_path / "data"), tmp_path / "run"
    for path in sorted((data / "image").iterdir())[::6]:
        path.unlink()
    with pytest.raises(ValueError, match="listed files are missing"):
        smoothap("train", "recipe:vehicle-id-384", "--data", data, "--out", out, "--weights", "none")
    assert dry_run("recipe:vehicle-id-384", data, out, "--weights", "none") == 1
    told = capsys.readouterr().out
    assert "listed files are missing" in told
    assert "vehicle-id train is partial: found" in told
    assert re.search(r"classes for batches of \d+ here, not of 384", told)
    assert f"{400 * round(110_178 / 384):,} batches of 384" in told  # those of a whole copy


@pytest.mark.usefixtures("real_counts")
def test_a_partial_copy_of_groups_is_tried_with_batches_that_fit_and_the_time_is_that_of_a_whole_copy(tmp_path, capsys):
    assert dry_run("recipe:sop-384", write_sop(tmp_path / "data"), tmp_path / "run", "--weights", "none") == 1
    told = capsys.readouterr().out
    assert int(re.search(r"classes for batches of (\d+) here, not of 384", told)[1]) < 48  # images of the tiny set
    assert "1,082,880 images, 2,820 batches of 384" in told  # 94 epochs of 10 batches of each pair of 3 groups


def test_weights_and_sets_that_are_not_there_are_missing_and_no_error(tmp_path, capsys):
    data, out = write_vggface2(tmp_path / "data"), tmp_path / "run"
    further = ("--test-on", f"ijbc:{tmp_path / 'nowhere'}", "--test-on", f"ijbc:{write_ijbc(tmp_path / 'ijbc')}")
    assert dry_run("recipe:faces-senet50", data, out, "--batch-size", 8, *further) == 1
    told = capsys.readouterr().out
    assert "1. --test-on ijbc:" in told
    assert "The weights to start from, as --weights FILE: senet50_256.pth" in told


def test_published_weights_that_cannot_be_fetched_are_missing_and_no_error(tmp_path, capsys, monkeypatch):
    small = embedder.build_backbone

    def unreachable(architecture, size=None, pretrained=True):
        if pretrained:
            raise ConnectionError(f"The weights of {architecture} are not on this machine")
        return small(architecture, size, pretrained)

    monkeypatch.setattr(embedder, "build_backbone", unreachable)
    assert dry_run("recipe:sop-384", write_sop(tmp_path / "data"), tmp_path / "run", "--batch-size", 16) == 1
    assert "1. The weights of resnet50.tv_in1k are not on this machine" in capsys.readouterr().out


def test_an_interrupted_dry_run_leaves_the_folder_as_it_was(tmp_path, capsys, monkeypatch):
    data, out = write_sop(tmp_path / "data"), tmp_path / "run"
    written = log.Log.write

    def interrupting(self, row):
        written(self, row)
        if "loss" in row:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(log.Log, "write", interrupting)
    assert dry_run("recipe:sop-384", data, out, "--batch-size", 16, "--weights", "none") == 130
    assert f"{out} is as it was." in capsys.readouterr().out
    assert not list(out.iterdir())
