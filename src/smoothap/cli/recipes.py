"""`smoothap recipes`."""

from __future__ import annotations

import textwrap

from smoothap.cli._options import command


@command()
def recipes(name: str | None = None, /) -> None:
    """List the recipes that come with the package, with the paper's row and results; or print one, to copy and change.

    Parameters
    ----------
    name
        One of them, such as sop-384: its file is printed.
    """
    from smoothap.training.recipe_files import PREFIX, recipe_by_name, recipe_files, summary_of

    if name is not None:
        print(recipe_by_name(name.removeprefix(PREFIX)).read_text(encoding="utf-8"), end="")
        return
    for known, file in recipe_files().items():
        print(known)
        for line in summary_of(file):
            print(textwrap.fill(line, 110, initial_indent="    ", subsequent_indent="        "))
    print(f"\nNext: smoothap train {PREFIX}sop-384 --data PATH --out runs/sop-384 --dry-run")
    print("      smoothap recipes sop-384 > mine.py     (a copy to change; then smoothap train mine.py ...)")
