"""A stranger can read the pages: what a page is for, what its words mean, and no two pages that disagree."""

import json
import re

import pytest
from doc_pages import PAGES, ROOT, DocPage

ids = pytest.mark.parametrize("page", PAGES, ids=str)
README, RESULTS = DocPage(ROOT / "README.md"), DocPage(ROOT / "docs" / "results.md")
QUERIES = DocPage(ROOT / "docs" / "analyses" / "queries.md")

# What must stand near the first use of each word: so many characters before it or behind it.
EXPLAINED = {
    "mAP": r"mean\s+Average\s+Precision|mean\s+of\s+(?:AP|Average\s+Precision)|mean\s+over\s+the\s+queries",
    "Recall@": r"share\s+of\s+the|One minus the smoothed",
    "|P|": r"the\s+number\s+of",
}
NEAR = 300


def opening(page):
    """What stands before the first heading of the second level."""
    return page.text.partition("\n## ")[0]


def unexplained(page):
    text = page.prose.replace("\\|", "|")
    first = {word: text.find(word) for word in EXPLAINED if word in text}
    return [
        word
        for word, place in first.items()
        if not re.search(EXPLAINED[word], text[max(0, place - NEAR) : place + NEAR])
    ]


@ids
def test_a_page_begins_with_what_it_lets_you_do(page):
    assert re.search(r"\b[Yy]ou\b", opening(page)), f"{page} does not say what its reader can do with it"


@ids
def test_the_words_of_retrieval_are_explained_where_they_first_stand(page):
    assert not unexplained(page)


def test_a_word_without_its_meaning_is_seen(tmp_path):
    file = tmp_path / "page.md"
    file.write_text("# Title\n\nWith |P| images, the number of images of a class, mAP rises.\n")
    assert unexplained(DocPage(file)) == ["mAP"]


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
