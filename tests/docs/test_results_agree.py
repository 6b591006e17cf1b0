"""No two pages disagree about a result."""

import json
import re

import pytest
from doc_pages import PAGES, ROOT, DocPage

ids = pytest.mark.parametrize("page", PAGES, ids=str)
README, RESULTS = DocPage(ROOT / "README.md"), DocPage(ROOT / "docs" / "results.md")
QUERIES = DocPage(ROOT / "docs" / "analyses" / "queries.md")


def from_to(text):
    """The first mAP before and after."""
    return re.search(r"mAP (?:rises|rose|went) from (\d+\.\d+) to (\d+\.\d+)", text).groups()


def test_readme_and_analyses_give_one_result_for_the_glyphs():
    saved = json.loads((ROOT / "docs" / "analyses" / "queries-rows.json").read_text(encoding="utf-8"))
    assert from_to(README.text) == from_to(QUERIES.text) == from_to(saved["agreement"])


def test_the_readme_gives_the_results_of_the_demo_that_the_results_page_has():
    section = RESULTS.text.partition("## What training does in five minutes")[2].partition("\n## ")[0]
    rows = [
        re.findall(r"[\d.]+", re.sub(r"± [\d.]+", "", line))[:2]
        for line in section.splitlines()
        if re.match(r"\| (?:before|after) \|", line)
    ]
    demo = README.text.partition("## Two commands")[2].partition("\n## ")[0]
    assert len(rows) == 2
    assert not {number for row in rows for number in row} - set(re.findall(r"\d+\.\d+", demo))


@pytest.mark.parametrize("recipe", sorted((ROOT / "recipes").glob("*.py")), ids=lambda recipe: recipe.stem)
def test_the_page_on_reproducing_expects_what_the_recipe_says(recipe):
    text = recipe.read_text(encoding="utf-8")
    said = text.partition("\nPaper ")[2].partition("\nRun ")[0]
    results = set(re.findall(r"\d+\.\d+", said))
    page = (ROOT / "docs" / "reproduce.md").read_text(encoding="utf-8")
    assert len(results) >= 3 or text.startswith('"""Past the paper')
    assert not results - set(re.findall(r"\d+\.\d+", page))
