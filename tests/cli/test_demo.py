"""`smoothap demo`, on a few of the emoji and for a few steps."""

import re
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from photo_makers import tiny_model

from smoothap.album import Album
from smoothap.cli import _demo as demo
from smoothap.cli import app
from smoothap.cli._demo import _write_album
from smoothap.data.datasets.emoji import emoji
from smoothap.models import Embedder

pytest.importorskip("smoothap.plots.report")


@pytest.fixture
def few_emoji(monkeypatch):
    """The first 75 emoji of either half: a batch needs 64 classes."""

    def opened():
        whole = emoji()
        train, test = (each.rows(np.flatnonzero(each.labels < 75)) for each in (whole.train, whole.tests["test"]))
        return replace(whole, train=train, tests={"test": test})

    monkeypatch.setattr(demo, "emoji", opened)


def run(out, capsys):
    with suppress(SystemExit):  # of a few steps, which need not teach it anything
        app(
            ["demo", "--out", str(out), "--minutes", "0.05", "--size", "32"],
            result_action="return_value",
            exit_on_error=False,
        )
    return capsys.readouterr().out


def test_the_demo_tells_two_rows_of_figures_and_where_to_go_next(few_emoji, tmp_path, capsys):
    told = run(tmp_path / "one", capsys)
    for row in ("before", "after", "gained"):
        assert re.search(rf"^{row}( +[+-]?\d+\.\d ± \d+\.\d){{4}}$", told, re.MULTILINE)
    assert "Recall@1 " in told
    assert "Recall@100" in told
    assert str(tmp_path / "one" / "report.html") in told
    assert "smoothap train --data folder:PATH" in told
    assert (tmp_path / "one" / "report.html").read_text().startswith("<!doctype html>")
    assert Embedder.load(tmp_path / "one" / "model").dimension == 512

    assert f"smoothap serve {tmp_path / 'one' / 'before'} {tmp_path / 'one' / 'after'}" in told
    before, after = (Album.open(tmp_path / "one" / name) for name in ("before", "after"))
    assert len(before) == len(after) > 400
    assert before.calibration is not None
    assert before.photo(0).label.startswith("U+")
    assert after.search(after.photo_path(3), k=1)[0].id == 3
    assert after.vectors.shape[1] == 512


def test_albums_of_an_earlier_run_are_made_again(tmp_path):
    images = SimpleNamespace(names=["a", "b"], labels=[0, 1], class_names=["x", "y"])
    model = tiny_model(tmp_path / "model")
    for number in (1, 2):
        album = _write_album(tmp_path / "before", model, images, np.eye(2, 8) + number)
    assert len(album) == 2


@pytest.mark.slow
def test_the_demo_tells_the_same_figures_again(few_emoji, tmp_path, capsys):
    told = [run(tmp_path / name, capsys) for name in ("one", "two")]
    first, second = (re.findall(r"^(?:before|after).*$", text, re.MULTILINE) for text in told)
    assert len(first) == 2
    assert first == second
