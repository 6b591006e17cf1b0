import math
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from smoothap.plots.curves import draw_precision_recall, loss_figure, precision_recall_figure, validation_figure
from smoothap.plots.drawing import inline_svg, save_figure
from smoothap.plots.palette import LIGHT
from smoothap.plots.rankings import rank


@pytest.fixture
def rows(toy_set, vectors):
    images = toy_set()
    return [rank(images, vectors(images.labels, apart), 0) for apart in (0.5, 1.5)]


def test_the_area_under_each_drawn_curve_is_the_average_precision(rows):
    axes = Figure().add_subplot()
    draw_precision_recall(axes, *rows)
    for line, row, colour in zip(axes.lines, rows, ("blue", "green"), strict=True):
        recall, precision = (np.asarray(values) for values in line.get_data())
        assert np.sum(np.diff(recall) * precision[1:]) == pytest.approx(row.average_precision)
        assert line.get_drawstyle() == "steps-pre"
        assert precision[0] == precision[1]  # no line up the axis
        assert line.get_color() == LIGHT[colour]
    assert axes.lines[0].get_linestyle() != axes.lines[1].get_linestyle()


def test_a_drawing_in_a_page_is_xml_in_the_colours_of_the_page_with_a_description(rows):
    svg = inline_svg(precision_recall_figure(*rows), 'a "curve" <b>')
    parsed = ElementTree.fromstring(svg)
    assert parsed.attrib["aria-label"] == 'a "curve" <b>'
    assert "viewBox" in parsed.attrib
    assert "var(--blue)" in svg
    assert "var(--green)" in svg
    assert "#0072b2" not in svg
    assert "font-size: 10" in svg
    assert "http" not in svg
    assert "precision" in svg


def test_the_same_figure_is_the_same_file(rows, tmp_path):
    figures = [save_figure(precision_recall_figure(*rows), tmp_path / f"{place}.svg") for place in range(2)]
    assert figures[0].read_bytes() == figures[1].read_bytes()
    with Image.open(save_figure(precision_recall_figure(*rows), tmp_path / "curve.png")) as picture:
        assert picture.width == 2.5 * 160
        assert picture.getpixel((0, 0))[:3] == (255, 255, 255)


def test_learning_curves_show_what_was_recorded_and_nothing_else():
    curve = [
        {"step": 1, "loss": 0.5},
        {"step": 2, "loss": math.nan},
        {"step": 3, "loss": 0.3, "validation_map": 0.25},
        {"step": 4, "loss": None},
        {"step": 5, "validation_map": 0.5},
    ]
    loss, validation = loss_figure(curve), validation_figure(curve)
    assert np.asarray(loss.axes[0].lines[0].get_data()).tolist() == [[1, 3], [0.5, 0.3]]
    assert np.asarray(validation.axes[0].lines[0].get_data()).tolist() == [[3, 5], [0.25, 0.5]]
    assert "50.0%" in inline_svg(validation, "")
    assert loss_figure([]) is None
    assert validation_figure([{"step": 1, "loss": 0.5}]) is None
