from PIL import Image

from smoothap.report.curves import save_figure
from smoothap.report.figure import before_after_figure
from smoothap.report.ranking_rows import rank


def test_each_query_has_its_curves_and_its_two_rows(toy_set, vectors, tmp_path):
    images = toy_set(["$a", "<b>", "日本", "\u202e"])  # letters that the font may not have, and a formula without end
    before, after = (vectors(images.labels, apart) for apart in (0.3, 2.0))
    figure = before_after_figure(images, before, after, [0, 5, 9], first=6)
    assert len(figure.axes) == 3 * 3
    titles = [axes.get_title(loc="left") for axes in figure.axes if axes.images]
    assert titles == [
        f"{name}, AP {100 * rank(images, embeddings, query).average_precision:.1f}%"
        for query in (0, 5, 9)
        for name, embeddings in (("before", before), ("after", after))
    ]
    assert "|P| = 3" in {axes.get_title() for axes in figure.axes}
    with Image.open(save_figure(figure, tmp_path / "figure.png")) as picture:
        assert picture.width > 1000
    assert save_figure(figure, tmp_path / "figure.svg").read_text().count("<image") == 6
