"""All analyses, each at a small size, on one page: every figure with what it says beside the paper."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from PIL import Image

from smoothap.paper.ablation import ablation as make_ablation
from smoothap.paper.analysis import OUT, Analysis, Start
from smoothap.paper.classes import classes
from smoothap.paper.cost import cost
from smoothap.paper.indicator import indicator
from smoothap.paper.operating_region import operating_region
from smoothap.paper.queries import queries
from smoothap.paper.tightness import tightness
from smoothap.paper.triplet_example import triplet_example
from smoothap.plots.html import data_address, write_page
from smoothap.plots.layouts import LAYOUTS
from smoothap.plots.rankings import BeforeAfter
from smoothap.plots.text import numeric_columns
from smoothap.training.before_after import compare_with_untrained
from smoothap.training.config import NETWORK

Section = Mapping[str, Any]  # what NAME.json holds and the pictures of its figures, or the reason why there is none
_SHARPNESS = 0.7  # of a figure's pixels on the page, so that a fine screen has something to show


def saved_section(out: Path, name: str) -> Section | None:
    """The analysis that was saved under a name in a folder, or None."""
    try:
        content = json.loads((out / f"{name}.json").read_text(encoding="utf-8"))
        content["title"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    files = [file for file in (out / f"{name}.png", *sorted(out.glob(f"{name}-*.png"))) if file.exists()]
    return {**content, "name": name, "failure": "", "pictures": [_picture(file) for file in files]}


def _picture(file: Path) -> dict[str, Any]:
    """A figure as an address that holds it, and its size on the page."""
    with Image.open(file) as picture:
        width, height = (round(_SHARPNESS * side) for side in picture.size)
    return {"address": data_address(file.read_bytes(), "png"), "stem": file.stem, "width": width, "height": height}


def failed_section(name: str, reason: str) -> Section:
    """An analysis that could not be made."""
    return {"name": name, "title": f"{name.replace('-', ' ').capitalize()} (not made)", "failure": reason}


def all_analyses(
    start: Start = Start(data="emoji"),
    *,
    model: str | None = None,
    before: str | None = None,
    network: str = NETWORK,
    steps: int = 20,
    ablation: bool = False,
    reuse: bool = False,
    workers: int = 0,
    out: Path = OUT,
) -> list[Section]:
    """Run all analyses, each at a small size (the whole takes minutes), and put them on one page.

    An analysis that fails is a section that says why. The ablation, which trains many models, is made only when asked
    for; a saved one is shown.

    Parameters
    ----------
    model
        The folder of a trained model, for queries and classes before and after.
    network
        The network that the other analyses start from, by its timm name.
    steps
        How many steps to train for each temperature of the tightness, and for each batch size of the operating region.
    ablation
        Make the ablation too, which takes an hour or more on two cores.
    reuse
        Show what is saved in the folder already, and make only what is missing.
    """
    start = replace(start, model=network)

    @cache
    def compared() -> BeforeAfter:
        if model is None:
            raise ValueError(
                "this needs a trained model: repeat the command with --model FOLDER, one that smoothap train or "
                "smoothap demo wrote."
            )
        return compare_with_untrained(
            start.data, model, before=before, weights=start.weights, seed=start.seed, device=start.device,
            workers=workers, folder=out,
        )  # fmt: skip

    measured = replace(start, model="resnet50", weights="none", size=224)
    makers: dict[str, Callable[[], Analysis]] = {
        "indicator": partial(indicator, start),
        "triplet-example": partial(triplet_example, start),
        "tightness": partial(tightness, start, steps=steps, out=out),
        "operating-region": partial(operating_region, start, batch_sizes=(64, 128, 256), steps=steps, out=out),
        "ablation": partial(make_ablation, replace(start, data="glyphs", size=48), out=out),
        "cost": partial(cost, measured, batch_sizes=(112, 224), rounds=3, backbone_rounds=1, out=out),
        **{
            f"queries-{layout}": lambda layout=layout: queries(compared(), layout=layout, seed=start.seed)
            for layout in LAYOUTS
        },
        "classes": lambda: classes(compared()),
    }
    sections: list[Section] = []
    for name, make in makers.items():
        wanted = ablation or name != "ablation"
        section = saved_section(out, name) if reuse or not wanted else None
        if section is None and wanted:
            print(f"\n== {name}")
            try:
                make().save(out)
                section = saved_section(out, name)
            except Exception as error:  # the others are made all the same
                reason = str(error) if isinstance(error, (ValueError, OSError)) else f"{type(error).__name__}: {error}"
                print(f"Not made: {reason}")
                section = failed_section(name, reason)
        sections += [] if section is None else [section]
    return sections


def write_analyses_page(path: Path, sections: Sequence[Section], *, title: str, command: str) -> Path:
    """Write one HTML file that needs nothing else: contents, and a section for each analysis."""
    made = sum(not section["failure"] for section in sections)
    return write_page(
        path, "paper/page.html", title=title, command=command, sections=sections, numeric_columns=numeric_columns,
        lead=f"{made} of {len(sections)} analyses. Beside each figure: what the paper reports, and if ours agrees.",
        contents={section["name"]: section["title"] for section in sections},
    )  # fmt: skip
