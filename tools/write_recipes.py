"""Writes docs/recipes.md, every recipe with the paper's results, its settings and how long it takes, from the recipes.

python tools/write_recipes.py
"""

import ast
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from smoothap.data.datasets.counts import PAPER, RELEASE
from smoothap.training.recipe import Recipe, load_recipe
from smoothap.training.recipe_files import recipe_files, summary_of

PAGE = Path(__file__).parents[1] / "docs" / "recipes.md"
HEADING = """# All recipes

Every recipe with its row of the paper, the results to expect, how long it takes, and its settings: what the paper says,
what the released code does, and what we do. [Reproduce a table](reproduce.md) says how to run one.
`python tools/write_recipes.py` makes this page from the recipes.
"""
TIME = """## How long they take

Estimates; `--dry-run` tells you for your machine. They are the images seen divided by a published rate: 370 images a
second for ResNet-50 in float32 on a V100, 460 on an A100 (scaled by peak), 2,470 in 16 bits on an A100 (NVIDIA); other
networks are scaled by their multiplications. Real times are longer: the rates are of tuned benchmarks, and images must
be read as fast.
"""
RATES = {"A100, float32": 460, "V100, float32": 370, "A100, float16": 2_470}  # images a second, of ResNet-50
MULTIPLICATIONS = {"vggface2": 3.86 / 4.09, "vggface2-aligned": 6.33 / 4.09}  # SENet-50 and iresnet50, to ResNet-50
BATCHES = {"hard_negatives": 10 * 66, "whole_classes": 5 * 66}  # an epoch of SOP, by the recipe's function of batches
ELSEWHERE = ("cars", "sop-recall-4000", "sop-vit-small")  # other networks and sizes, which no published rate is about


def recipes_by_row() -> dict[str, Path]:
    """The recipes in the order of the paper's tables, then those that go past the paper."""
    files = recipe_files()
    return {name: files[name] for name in sorted(files, key=lambda name: (name in ELSEWHERE, summary_of(files[name])))}


def name_of(function: object) -> str:
    """What a function is called; one that a recipe does not have is called nothing."""
    return getattr(function, "__name__", "")


def set_of(recipe: Recipe) -> str:
    """The name of the set that a recipe opens."""
    if isinstance(recipe.data, partial):
        return "vggface2-aligned"
    return name_of(recipe.data).replace("_", "-")


def images_seen(recipe: Recipe) -> int:
    """Of all the trainings of a recipe, views of images that go through the network, on a whole copy of its set."""
    split = f"{set_of(recipe).removesuffix('-aligned')} train"
    images = (PAPER[split] if split.startswith("vehicle-id") else RELEASE.get(split, PAPER[split])).images
    seen = 0
    for name, config in recipe.configs().items():
        batches = name_of(recipe.batches.get(name) if isinstance(recipe.batches, Mapping) else recipe.batches)
        if config.steps is not None:
            seen += config.steps * config.batch_size
        elif batches in BATCHES:
            seen += config.epochs * BATCHES[batches] * config.batch_size
        else:
            seen += config.epochs * images
    return seen


def in_hours(seconds: float) -> str:
    """Such as "14 h" or "2.7 h"."""
    hours = seconds / 3600
    return f"{hours:.0f} h" if hours >= 9.5 else f"{hours:.1f} h"


def results() -> list[str]:
    """What each recipe is about and what the paper has, as a table."""
    lines = ["| recipe | the experiment | the paper's results |", "| --- | --- | --- |"]
    for name, file in recipes_by_row().items():
        title, *rows = (line.replace("|P|", "\\|P\\|") for line in summary_of(file))
        lines.append(f"| [`{name}`](#{name}) | {title.rstrip('.')} | {'<br>'.join(rows)} |")
    return lines


def times() -> list[str]:
    """How long each recipe of the paper takes, as a table."""
    lines = [f"| recipe | images seen | {' | '.join(RATES)} |", f"| --- | ---: |{' ---: |' * len(RATES)}"]
    for name, file in recipes_by_row().items():
        if name in ELSEWHERE:
            continue
        recipe = load_recipe(file)
        seen, factor = images_seen(recipe), MULTIPLICATIONS.get(set_of(recipe), 1)
        hours = (in_hours(seen * factor / rate) for rate in RATES.values())
        lines.append(f"| `{name}` | {seen / 1e6:.1f} M | {' | '.join(hours)} |")
    return lines


def page() -> str:
    """The whole page as Markdown."""
    lines = [HEADING, *results(), "", TIME, *times()]
    for name, file in recipes_by_row().items():
        opening = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        lines += ["", f"## {name}", "", "```text", opening, "```"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE} is up to date.")
