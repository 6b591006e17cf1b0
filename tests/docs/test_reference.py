"""The reference, the table of packages and the map of the paper say what the code is."""

import re

import pytest
from doc_pages import ROOT, DocPage
from write_api import PAGE, page

from smoothap._core.extras import ensure_torchvision

ARCHITECTURE, PAPER = (DocPage(ROOT / "docs" / name) for name in ("architecture.md", "paper.md"))


def test_the_reference_is_that_of_the_docstrings():
    ensure_torchvision()  # timm imports it
    pytest.importorskip("timm")
    pytest.importorskip("pyarrow")
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python tools/write_api.py"


def test_every_test_that_is_named_exists():
    named = {span for span in PAPER.spans() if span.startswith("test_")}
    files = list((ROOT / "tests").rglob("test_*.py"))
    there = {file.name for file in files}
    for file in files:
        there |= set(re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE))
    assert len(named) > 20
    assert not named - there
