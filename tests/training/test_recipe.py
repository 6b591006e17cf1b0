import pytest

from smoothap.training.recipe import load_recipe

WRITTEN = """
from dataclasses import dataclass, replace
from smoothap.training.recipe import Recipe
from smoothap.training.config import TrainingConfig

@dataclass
class Own:
    number: int = 3

def nothing(*_):
    return Own().number

recipe = Recipe(nothing, nothing, nothing, {config})
"""


@pytest.fixture
def write(tmp_path):
    def written(config="TrainingConfig()", text=WRITTEN):
        file = tmp_path / "mine.py"
        file.write_text(text.replace("{config}", config))
        return file

    return written


def test_a_recipe_is_any_python_file_that_defines_one(write):
    recipe = load_recipe(write())
    assert recipe.data(None) == 3  # its functions still see what the file defines
    assert list(recipe.configs()) == [""]
    assert recipe.varies() == set()


def test_a_file_that_is_not_there_or_defines_none_is_told(write, tmp_path):
    with pytest.raises(ValueError, match=r"There is no recipe .*gone.py\. Give a Python file"):
        load_recipe(tmp_path / "gone.py")
    with pytest.raises(ValueError, match=r"mine.py defines no recipe: it should end in recipe = Recipe"):
        load_recipe(write(text="recipe = 3"))
    (tmp_path / "recipe.txt").write_text("hello")
    with pytest.raises(ValueError, match=r"recipe.txt is no Python file"):
        load_recipe(tmp_path / "recipe.txt")
