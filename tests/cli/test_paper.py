"""`smoothap paper queries`, `classes` and `all` on a folder of small images, from the command line."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from smoothap.cli import app
from smoothap.models import Embedder
from smoothap.paper.analysis import Analysis


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Classes of one colour each, and two models with random weights."""
    root = tmp_path_factory.mktemp("photos")
    generator = np.random.default_rng(0)
    for label in range(8):
        colour = generator.integers(0, 256, 3)
        for place in range(4):
            pixels = np.clip(colour + generator.normal(0, 30, (32, 32, 3)), 0, 255).astype(np.uint8)
            path = root / "images" / f"class {label}" / f"{place}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(path)
    for name in ("before", "after"):
        Embedder("resnet18", dimension=16, size=32, pretrained=False).save(root / name)
    return root


def run(*words):
    app(["paper", *map(str, words)], result_action="return_value")


@pytest.fixture
def given(photos):
    return ["--data", f"folder:{photos / 'images'}", "--model", photos / "after", "--before", photos / "before"]


def test_classes_writes_three_figures(given, tmp_path):
    run("classes", *given, "--number", 1, "--pairs", 2, "--out", tmp_path)
    stems = sorted(path.stem for path in tmp_path.glob("*.png"))
    assert stems == ["classes-changes", "classes-confusions", "classes-sizes"]


def test_a_model_that_is_not_there_is_named_with_a_remedy(given, tmp_path):
    with pytest.raises(ValueError, match="There is no model folder nowhere: give the folder that smoothap train wrote"):
        run("queries", *given[:2], "--model", "nowhere", "--out", tmp_path)


def test_all_makes_one_page_on_which_a_failed_analysis_says_why(given, tmp_path, monkeypatch, capsys):
    def small(name):
        return Analysis(name, name.title(), [{"a": 1}], {"": Figure((1, 1))}, "nothing", "agrees")

    def fails(*_, **__):
        raise RuntimeError("the cat ate it")

    for name in ("indicator", "triplet_example", "operating_region", "cost", "classes", "queries"):
        monkeypatch.setattr(
            f"smoothap.paper.all.{name}",
            lambda *_, name=name, layout="", **__: small(f"{name}-{layout}".rstrip("-").replace("_", "-")),
        )
    monkeypatch.setattr("smoothap.paper.all.tightness", fails)
    run("all", *given, "--out", tmp_path)
    text = (tmp_path / "analyses.html").read_text()
    assert "Not made: </b>RuntimeError: the cat ate it" in text
    for name in ("indicator", "triplet-example", "tightness", "operating-region", "cost", "classes"):
        assert f'<section id="{name}">' in text
    for layout in ("rows", "column", "grid", "columns"):
        assert f'<section id="queries-{layout}">' in text
    assert 'id="ablation"' not in text
    assert "not made: tightness" in capsys.readouterr().out

    small("ablation").save(tmp_path)  # a saved one is shown
    monkeypatch.setattr("smoothap.paper.all.indicator", fails)  # and with --reuse nothing is made again
    run("all", *given[:2], "--reuse", "--out", tmp_path)
    text = (tmp_path / "analyses.html").read_text()
    assert '<section id="ablation">' in text
    assert text.count("Not made: ") == 1


def test_all_without_a_model_says_what_is_missing(given, tmp_path, monkeypatch):
    for name in ("indicator", "triplet_example", "operating_region", "cost", "tightness"):
        monkeypatch.setattr(f"smoothap.paper.all.{name}", lambda *_, **__: 1 / 0)
    run("all", *given[:2], "--out", tmp_path)
    text = (tmp_path / "analyses.html").read_text()
    assert text.count("repeat the command with --model FOLDER") == 5
    assert text.count("ZeroDivisionError") == 5
