"""The reference, the table of packages and the map of the paper say what the code is."""

import re

import pytest
import write_api
import write_commands
import write_comparisons
import write_packages
import write_recipes
from doc_pages import ROOT, DocPage

from smoothap._core.extras import ensure_torchvision

ARCHITECTURE, PAPER = (DocPage(ROOT / "docs" / name) for name in ("architecture.md", "paper.md"))


def test_the_reference_is_that_of_the_docstrings():
    ensure_torchvision()  # timm imports it
    pytest.importorskip("timm")
    pytest.importorskip("pyarrow")
    assert write_api.PAGE.read_text(encoding="utf-8") == write_api.page(), "run: python tools/write_api.py"


def test_the_page_of_commands_is_that_of_the_command_line():
    assert write_commands.PAGE.read_text(encoding="utf-8") == write_commands.page(), "run: tools/write_commands.py"


def test_the_tables_of_the_comparisons_are_those_of_their_runs():
    pytest.importorskip("pytorch_metric_learning")
    assert write_comparisons.PAGE.read_text(encoding="utf-8") == write_comparisons.page(), (
        "run: python tools/write_comparisons.py"
    )


def test_the_page_of_recipes_is_that_of_the_recipes():
    pytest.importorskip("pytorch_metric_learning")
    assert write_recipes.PAGE.read_text(encoding="utf-8") == write_recipes.page(), "run: python tools/write_recipes.py"


def test_the_page_of_packages_is_that_of_the_source():
    assert write_packages.PAGE.read_text(encoding="utf-8") == write_packages.page(), "run: tools/write_packages.py"


def test_a_method_that_several_losses_inherit_is_described_once():
    text = write_api.PAGE.read_text(encoding="utf-8")
    assert text.count(".forward(\n") == 1
    assert text.count("[`forward`](#smoothapforward)") > 3


def test_every_test_that_is_named_exists():
    named = {span for span in PAPER.spans() if span.startswith("test_")}
    files = list((ROOT / "tests").rglob("test_*.py"))
    there = {file.name for file in files}
    for file in files:
        there |= set(re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE))
    assert len(named) > 20
    assert not named - there
