import json
import re
from html.parser import HTMLParser

import pytest
from PIL import Image

from smoothap.paper.all import failed_section, saved_section, write_analyses_page

HOSTILE = "</code><script>alert(1)</script>\u202e & co"


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data):
        self.text += data


@pytest.fixture
def folder(tmp_path):
    """Two saved analyses, one with two figures and a long table, and a file that is none."""

    def save(name, figures, **described):
        for stem in figures:
            Image.new("RGB", (200, 100), "white").save(tmp_path / f"{stem}.png")
        (tmp_path / f"{name}.json").write_text(json.dumps(described))

    save(
        "cost", ["cost-memory", "cost-time"], title="Cost",
        command="smoothap paper cost", paper="705.0 ms", agreement="Agrees.",
        table=[{"method": "ours", "ms": 0.000123456 * place, "batch": 1000 * place} for place in range(20)], numbers={},
    )  # fmt: skip
    save(
        "queries-rows", ["queries-rows"], title=HOSTILE,
        command=f"smoothap paper queries {HOSTILE}", paper="Figure 1",
        agreement="Agrees in part.", table=[{"class": HOSTILE, "AP": None, "right": True}], numbers={},
    )  # fmt: skip
    (tmp_path / "broken.json").write_text("[1")
    return tmp_path


@pytest.fixture
def page(folder):
    sections = [
        saved_section(folder, "cost"),
        saved_section(folder, "queries-rows"),
        failed_section("ablation", "no disk"),
    ]
    path = write_analyses_page(folder / "analyses.html", sections, title="Analyses", command="smoothap paper all")
    return Tags(path.read_text(encoding="utf-8"))


def test_every_link_leads_to_a_place_on_the_page_and_nothing_comes_from_outside(page, folder):
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    links = [attributes["href"] for _, attributes in page.elements if "href" in attributes]
    assert len(ids) == len(set(ids))
    assert {"#cost", "#queries-rows", "#ablation"} <= set(links)
    assert all(link.startswith("#") and link[1:] in ids for link in links)
    for tag, attributes in page.elements:
        assert tag not in {"script", "link", "iframe", "object", "embed", "base", "form"}
        assert attributes.get("src", "data:image/").startswith("data:image/")
        assert not any(name.startswith("on") for name in attributes)
    text = (folder / "analyses.html").read_text()
    assert not re.search(r"url\((?!#)|@import|https?://|file:", re.sub(r"base64,[^\"]*", "", text))
    assert "\u202e" not in text
