"""`smoothap recipes`, and recipes by their names."""

from pathlib import Path

import pytest

from smoothap.cli import app
from smoothap.training.recipe import load_recipe

FOLDER = Path(__file__).parents[2] / "recipes"
NAMES = {file.stem.replace("_", "-") for file in FOLDER.glob("*.py")}


def told(capsys, *words):
    app(["recipes", *words], result_action="return_value")
    return capsys.readouterr().out


def test_all_recipes_are_listed_with_the_papers_row_and_its_results(capsys):
    listed = told(capsys)
    assert set(listed.splitlines()) >= NAMES
    assert '\nsop-384\n    Table 2, row "Smooth-AP BS=384": Stanford Online Products, ResNet-50, batch 384' in listed
    assert "\n    Recall@1 / 10 / 100 / 1000 = 80.1 / 91.5 / 96.6 / 99.0\n" in listed
    assert "\n    0.001  0.839  0.733\n" in listed  # results that take several lines


def test_the_file_of_a_recipe_is_printed_as_it_is(capsys, tmp_path):
    copy = tmp_path / "mine.py"
    copy.write_text(told(capsys, "sop-384"))
    assert copy.read_bytes() == (FOLDER / "sop_384.py").read_bytes()
    assert load_recipe(copy).config == load_recipe("recipe:sop-384").config


@pytest.mark.parametrize(
    ("recipe", "complaint"),
    [
        ("recipe:sop_384", r"no recipe called 'sop_384'. Did you mean sop-384 or"),
        ("recipe:zebra", r"no recipe called 'zebra'. There are .*sop-224, sop-384"),
        ("recipes/sop_38.py", r"no recipe recipes/sop_38.py. Did you mean recipe:sop-384\?"),
        ("zebra.py", r"no recipe zebra.py. Give a Python file, or one of those"),
    ],
)
def test_a_name_that_is_no_recipe_is_answered_with_those_near_it(tmp_path, recipe, complaint):
    with pytest.raises(ValueError, match=complaint):
        app(["train", recipe, "--data", "here", "--out", str(tmp_path)], result_action="return_value")
