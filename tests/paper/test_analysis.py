"""An analysis as files: figures that open, numbers that any reader of json takes."""

import json

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from smoothap.paper.analysis import Analysis


def an_analysis(**changes):
    figure = Figure()
    figure.add_subplot().plot([0, 1])
    given = {
        "name": "small", "title": "A small one", "numbers": {"share": np.float32(0.5), "rows": np.arange(3)},
        "figures": {"": figure, "again": figure}, "table": [{"tau": 0.01, "error": float("nan")}],
        "paper": "It says so.", "agreement": "Ours does too.",
    }  # fmt: skip
    return Analysis(**(given | changes))


def test_every_figure_is_written_as_png_and_svg_and_the_numbers_as_json(tmp_path):
    paths = an_analysis().save(tmp_path / "new", "smoothap paper small")
    names = ["small.png", "small.svg", "small-again.png", "small-again.svg", "small.json"]
    assert [path.name for path in paths] == names
    with Image.open(paths[0]) as picture:
        assert picture.width > 100
    assert paths[1].read_text().lstrip().startswith("<?xml")
    kept = json.loads(paths[-1].read_text())
    assert kept["numbers"] == {"share": 0.5, "rows": [0, 1, 2]}
    assert kept["table"] == [{"tau": 0.01, "error": None}]
    assert (kept["paper"], kept["agreement"]) == ("It says so.", "Ours does too.")
    assert (kept["command"], kept["title"]) == ("smoothap paper small", "A small one")
