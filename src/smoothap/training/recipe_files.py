"""The recipes that come with the package: where their files are, and what each says of itself. Nothing is run here."""

import ast
import difflib
import re
from dataclasses import dataclass
from pathlib import Path

PREFIX = "recipe:"  # recipe:sop-384 is the file sop_384.py


@dataclass(frozen=True)
class RecipeFile:
    """A file of the package's recipes, by its name on the command line, such as sop-384."""

    name: str
    file: Path

    def description(self) -> str:
        """The first line of the file: the paper's row, the data and the network."""
        return self._opening().partition("\n")[0]

    def results(self) -> list[str]:
        """The paper's results, a line or more; none where it has none."""
        found = re.search(r"^Paper +(.*(?:\n +.*)*)", self._opening(), re.MULTILINE)
        return [] if found is None else [line.strip() for line in found[1].splitlines()]

    def _opening(self) -> str:
        return ast.get_docstring(ast.parse(self.file.read_text(encoding="utf-8"))) or ""


def recipe_files() -> dict[str, RecipeFile]:
    """The recipes by name: in the installed package, or beside `src` where the package runs from its source."""
    package = Path(__file__).parents[1]
    folders = (package / "recipes", package.parents[1] / "recipes")
    folder = next((folder for folder in folders if (folder / "sop_384.py").is_file()), folders[0])
    files = sorted(folder.glob("*.py"))
    return {file.stem.replace("_", "-"): RecipeFile(file.stem.replace("_", "-"), file) for file in files}


def recipe_by_name(name: str) -> RecipeFile:
    """The recipe of this name; an error names those that are spelled nearly so, or all."""
    known = recipe_files()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name.replace("_", "-"), known, 3)
    meant = f"Did you mean {' or '.join(near)}?" if near else f"There are {', '.join(known)}."
    raise ValueError(f"There is no recipe called {name!r}. {meant} smoothap recipes says what each is.")


def recipe_file(recipe: Path | str) -> Path:
    """The file of `recipe:NAME`, or the file that is given."""
    words = str(recipe)
    if words.startswith(PREFIX):
        return recipe_by_name(words.removeprefix(PREFIX)).file
    file = Path(words).expanduser()
    if not file.is_file():
        name = file.stem.replace("_", "-")
        near = difflib.get_close_matches(name, recipe_files(), 1)
        meant = f" Did you mean {PREFIX}{near[0]}?" if near else ""
        raise ValueError(
            f"There is no recipe {file}.{meant} Give a Python file, or one of those that come with the package, which "
            f"smoothap recipes lists, as {PREFIX}NAME"
        )
    return file
