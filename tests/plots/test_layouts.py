import io

import numpy as np
import pytest
from matplotlib.text import Text
from PIL import Image

from smoothap.plots.drawing import save_figure
from smoothap.plots.layouts import LAYOUTS, rankings_figure
from smoothap.plots.rankings import rank


@pytest.fixture
def drawn(toy_set, vectors):
    def draw(layout, queries, first, class_names=tuple("abcdefgh")):
        images = toy_set(class_names, size=12)
        before, after = (vectors(images.labels, apart) for apart in (0.3, 1.2))
        pairs = [(rank(images, before, query), rank(images, after, query)) for query in queries]
        return rankings_figure(images, pairs, layout, first), images, (before, after), pairs

    return draw


def pictures_of(figure):
    """The pictures of the figure in their order: the query, and both rankings."""
    drawn = [axes for axes in figure.axes if axes.images]
    return [np.asarray(axes.images[0].get_array()) for axes in drawn]


def texts_of(figure):
    return [text for text in figure.findobj(Text) if text.get_visible() and text.get_text()]


def brute_force(images, embeddings, query):
    """Rows by falling cosine, computed pair by pair; there are no ties in these vectors."""
    units = [vector / np.linalg.norm(vector.astype(np.float64)) for vector in embeddings]
    others = [row for row in range(len(units)) if row != query]
    return sorted(others, key=lambda row: -float(units[row] @ units[query]))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_tile_shows_the_image_of_its_rank(layout, drawn):
    figure, images, embeddings, _ = drawn(layout, [5], LAYOUTS[layout].shown)
    pictures = pictures_of(figure)
    side, gap = LAYOUTS[layout].side, LAYOUTS[layout].gap
    middles = [
        tuple(int(value) for value in picture[top + side // 2, left + side // 2, :3])
        for picture in pictures
        for top in range(0, picture.shape[0], side + gap)
        for left in range(0, picture.shape[1], side + gap)
    ]
    rankings = [brute_force(images, each, 5)[: LAYOUTS[layout].shown] for each in embeddings]
    rows = [5, *rankings[0], *([5] if layout == "grid" else []), *rankings[1]]
    assert middles == [images.read(row).getpixel((0, 0)) for row in rows]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_ap_and_the_number_of_positives_are_given_and_nothing_leaves_the_figure(layout, drawn, tmp_path):
    hostile = [
        "$a",
        "<b>",
        "日本",
        "\u202e",
        "U+1F600",
        "a very long name of a class that goes on and on and on",
        "g",
        "h",
    ]
    figure, _, _, pairs = drawn(layout, range(0, 12 * 8, 96 // LAYOUTS[layout].queries), LAYOUTS[layout].shown, hostile)
    texts = [text.get_text() for text in texts_of(figure)]
    for pair in pairs:
        for row in pair:
            assert any(f"{100 * row.average_precision:.1f}%" in text for text in texts)
    assert sum("|P| = 11" in text for text in texts) == len(pairs)
    picture = np.asarray(Image.open(io.BytesIO(save_figure(figure, tmp_path / "figure.png").read_bytes())).convert("L"))
    for edge in (picture[:4], picture[-4:], picture[:, :4], picture[:, -4:]):
        assert edge.min() > 250
    assert "<image" in save_figure(figure, tmp_path / "figure.svg").read_text()
