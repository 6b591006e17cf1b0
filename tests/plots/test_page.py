import base64
import io
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from smoothap.metrics import evaluate
from smoothap.plots.rankings import BeforeAfter, choose_queries, rank
from smoothap.plots.report import SHOWN, write_report

HOSTILE = [
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "שלום",
    "\u202egnp",
    "a&amp;b",
    "\udcff",
    "$x",
]
WITHOUT_END = {"meta", "img", "use"}


class Page(HTMLParser):
    """Elements with their attributes and the text of the page; every element must be closed where it should be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in WITHOUT_END:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data

    def count(self, kind: str) -> int:
        return sum(attributes.get("class") == kind for _, attributes in self.elements)


@pytest.fixture
def write(toy_set, vectors, tmp_path):
    def write(images=None, **options):
        images = toy_set(size=5) if images is None else images
        arrays = [vectors(images.labels, apart) for apart in (0.4, 1.0)]
        compared = {
            "before": arrays[0],
            "after": arrays[1],
            "before_report": evaluate(arrays[0], images.labels, recall_at=(1, 2, 10), progress=False),
            "after_report": evaluate(arrays[1], images.labels, recall_at=(1, 2, 10), progress=False),
        }
        compared = {name: options.pop(name, value) for name, value in compared.items()}
        given = {
            "title": "Toys",
            "curve": [{"step": step, "loss": 1 / (step + 1), "validation_map": 0.5} for step in range(5)],
            "command": "smoothap demo --seed 3 > log",
            "queries": 4,
        } | options
        path = write_report(tmp_path / "run" / "report.html", BeforeAfter(images, **compared), **given)
        return path.read_text(encoding="utf-8"), given | compared | {"test_set": images}

    return write


def test_the_page_is_well_formed_and_says_the_figures(write):
    text, given = write()
    page = Page(text)
    shown = []
    for report in (given["before_report"], given["after_report"]):
        assert f"{100 * report.mean_average_precision:.1f}%" in page.text
        shown.append(report.interval("mean_average_precision"))
        for value in report.recall.values():
            assert f"{100 * value:.1f} ±" in page.text
    for phrase in ("mAP", "Recall@1", "Recall@2", "Recall@10", "40 images of 8 classes", "--seed 3 > log", "Toys"):
        assert phrase in page.text
    gained = given["after_report"].compare(given["before_report"], "mean_average_precision")
    change = f"{100 * gained.value:+.1f} ± {100 * gained.margin:.1f}".replace("-", "−")
    assert "mAP" + "".join([*map(str, shown), change]) in re.sub(r"\n", "", page.text)
    gain = given["after_report"].average_precision - given["before_report"].average_precision
    assert f"rose for {np.sum(gain > 0)} of 40 queries, fell for {np.sum(gain < 0)}" in page.text


def test_nothing_comes_from_outside_the_file_and_nothing_runs(write):
    text, _ = write()
    page = Page(text)
    for tag, attributes in page.elements:
        assert tag not in {"script", "link", "iframe", "object", "embed", "base", "form"}
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name in {"src", "href", "xlink:href", "data", "srcset", "poster", "action"}:
                assert value.startswith(("data:image/", "#")), (tag, name, value)
    assert not re.search(r"url\((?!#)|@import|https?://|file:", text)
    assert any("default-src 'none'" in attributes.get("content", "") for _, attributes in page.elements)


def test_links_and_marks_within_the_page_lead_somewhere_and_ids_are_not_shared_by_different_things(write):
    page = Page(write()[0])
    ids = {attributes["id"] for _, attributes in page.elements if "id" in attributes}
    targets = {attributes["href"][1:] for _, attributes in page.elements if "href" in attributes}
    assert targets <= ids
    assert {"results", "learning", "queries", "classes", "command"} <= targets


def test_each_tile_shows_its_own_image_with_its_rank_and_score(write):
    text, given = write(queries=1, seed=5)
    images = given["test_set"]
    reports = given["before_report"], given["after_report"]
    (group,) = choose_queries(*(report.average_precision for report in reports), images.labels, 1, 5)
    rows = [rank(images, given[name], group.queries[0]) for name in ("before", "after")]
    pattern = r'<li class="tile \w+" title="([^"]*)"><img src="data:image/webp;base64,([^"]*)" alt="([^"]*)"'
    tiles = re.findall(pattern, text)
    items = [(place, row, int(row.items[place])) for row in rows for place in range(SHOWN)]
    for (place, row, item), (title, address, alternative) in zip(items, tiles, strict=True):
        assert title == alternative
        assert title.startswith(f"Rank {place + 1}, {'right' if row.right[place] else 'wrong'}: class ")
        assert title.endswith(f"{images.names[item]}, cosine {row.scores[place]:.3f}")
        with Image.open(io.BytesIO(base64.b64decode(address))) as picture:
            difference = np.subtract(picture.getpixel((40, 40)), images.read(item).getpixel((0, 0)), dtype=int)
        assert np.abs(difference).max() <= 8, item


def test_every_picture_has_words(write):
    page = Page(write()[0])
    pictures = [attributes for tag, attributes in page.elements if tag == "img"]
    assert len(pictures) >= 4 * 25
    assert all("alt" in attributes for attributes in pictures)
    drawings = [a for tag, a in page.elements if tag == "svg" and a.get("aria-hidden") != "true"]
    assert len(drawings) == 4 + 2
    assert all(attributes["role"] == "img" and attributes["aria-label"] for attributes in drawings)


def test_hostile_names_are_text(write, toy_set):
    images = toy_set(HOSTILE, size=5)
    text, _ = write(images, title="<i>Toys</i>\u202e", command="a </code><script>b", queries=20)
    page = Page(text)
    assert "script" not in {tag for tag, _ in page.elements}
    assert not any("onerror" in attributes for _, attributes in page.elements)
    assert sum(tag == "img" and attributes.get("src") == "x" for tag, attributes in page.elements) == 0
    assert "\u202e" not in text
    for name in ("<script>alert(1)</script>", "שלום", "\\u202egnp", "a&amp;b", "\\udcff", "$x", "<i>Toys</i>\\u202e"):
        assert name in page.text
    hovered = " ".join(attributes.get("title", "") for _, attributes in page.elements)
    assert "\"'><img src=x onerror=alert(1)>" in hovered


def test_the_same_run_gives_the_same_page_and_the_seed_another(write):
    text, _ = write()
    assert write()[0] == text
    assert write(seed=1)[0] != text


def test_queries_against_a_gallery_are_shown_by_their_rows(toy_set, vectors, tmp_path):
    is_query = np.arange(40) % 5 == 0
    images = toy_set(size=5, is_query=is_query, is_gallery=~is_query)
    embeddings = vectors(images.labels, 1.0)
    report = evaluate(
        embeddings[is_query], images.labels[is_query], embeddings[~is_query], images.labels[~is_query], progress=False
    )
    path = write_report(
        tmp_path / "report.html",
        BeforeAfter(images, embeddings, embeddings, report, report),
        title="Toys",
        curve=[],
        command="x",
    )
    page = Page(path.read_text())
    assert "8 queries are ranked against 32 images" in page.text
    asked = [a["title"] for _, a in page.elements if a.get("class") == "tile query"]
    assert sorted(asked) == sorted(
        f"Query: class {name}, {name}/{5 * place}.png" for place, name in enumerate("abcdefgh")
    )


def test_reports_and_embeddings_of_another_set_are_refused(write, toy_set, vectors):
    other = toy_set(size=4)
    embeddings = vectors(other.labels, 1.0)
    with pytest.raises(ValueError, match="a row for each of the 40 images"):
        write(after=embeddings)
    with pytest.raises(ValueError, match="the report is of 32 queries and toys <test> has 40"):
        write(before_report=evaluate(embeddings, other.labels, progress=False))
