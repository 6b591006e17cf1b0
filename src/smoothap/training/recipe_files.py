"""The recipes that come with the package: where their files are, and what each says of itself. Nothing is run here."""

import ast
import difflib
import re
from pathlib import Path

PREFIX = "recipe:"  # recipe:sop-384 is the file sop_384.py


def recipe_files() -> dict[str, Path]:
    """The recipes by name, such as sop-384: of the installed package, or beside `src` where it runs from its source."""
    package = Path(__file__).parents[1]
    folders = (package / "recipes", package.parents[1] / "recipes")
    folder = next((folder for folder in folders if (folder / "sop_384.py").is_file()), folders[0])
    return {file.stem.replace("_", "-"): file for file in sorted(folder.glob("*.py"))}


def summary_of(file: Path) -> list[str]:
    """The first line of a recipe, with the paper's row, the data and the network, and the paper's results if any."""
    opening = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    found = re.search(r"^Paper +(.*(?:\n +.*)*)", opening, re.MULTILINE)
    results = [] if found is None else [line.strip() for line in found[1].splitlines()]
    return [opening.partition("\n")[0], *results]


def recipe_by_name(name: str) -> Path:
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
        return recipe_by_name(words.removeprefix(PREFIX))
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
