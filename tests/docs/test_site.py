"""The site builds without a warning, and no page of it loads anything from another host."""

import re
import shutil
import subprocess
import sys
import time
from html.parser import HTMLParser

import pytest
from doc_pages import PAGES, ROOT

pytest.importorskip("zensical")
LOADING = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "object": "data",
}
OUTSIDE = re.compile(r"^(?:[a-z]+:)?//", re.IGNORECASE)


class Loaded(HTMLParser):
    """The addresses that a page loads by itself, and its links."""

    def __init__(self):
        super().__init__()
        self.addresses: list[str] = []
        self.classes: set[str] = set()

    def handle_starttag(self, tag, attrs):
        given = {name: value or "" for name, value in attrs}
        self.classes |= set(given.get("class", "").split())
        if tag in LOADING:
            self.addresses.append(given.get(LOADING[tag], ""))
        elif tag == "link" and given.get("rel") not in ("canonical", "prev", "next", "alternate"):
            self.addresses.append(given.get("href", ""))
        self.addresses += re.findall(r"url\(([^)]+)\)", given.get("style", ""))


def loaded_by(html):
    reader = Loaded()
    reader.feed(html)
    styles = re.findall(r"<style[^>]*>(.*?)</style>", html, re.DOTALL)
    return reader.addresses + [
        url for style in styles for url in re.findall(r"url\(['\"]?([^)'\"]+)", style)
    ], reader.classes


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("documentation")
    shutil.copy(ROOT / "zensical.toml", folder)
    shutil.copytree(ROOT / "docs", folder / "docs")
    start = time.monotonic()
    result = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"], cwd=folder, capture_output=True, text=True
    )
    said = result.stdout + result.stderr
    assert result.returncode == 0, said
    return folder / "site", said, time.monotonic() - start


def test_the_site_builds_without_a_warning_in_seconds(built):
    site, said, seconds = built
    assert "warning" not in said.lower(), said
    assert seconds < 30
    for page in PAGES[1:]:
        assert (site / page.file.relative_to(ROOT / "docs").with_suffix(".html")).is_file(), page


def test_no_page_loads_anything_from_another_host(built):
    site = built[0]
    pages = sorted(site.rglob("*.html"))
    assert len(pages) >= len(PAGES) - 1
    for page in pages:
        addresses, classes = loaded_by(page.read_text(encoding="utf-8"))
        assert addresses
        assert not [address for address in addresses if OUTSIDE.match(address)], page
        # these make the theme's script fetch a library from elsewhere
        assert not classes & {"mermaid", "glightbox", "arithmatex", "pyodide"}, page
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        assert not [url for url in re.findall(r"url\(['\"]?([^)'\"]+)", text) if OUTSIDE.match(url)], style
        assert "@import" not in text
