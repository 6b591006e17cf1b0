"""All analyses, each at a small size, on one page: every figure with what it says beside the paper."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from PIL import Image

from smoothap.paper.ablation import ablation as make_ablation
from smoothap.paper.analysis import OUT, Analysis
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

_SHARPNESS = 0.7  # of a figure's pixels on the page, so that a fine screen has something to show


@dataclass(frozen=True)
class Section:
    """One analysis as it was saved, or the reason why there is none."""

    name: str  # the stem of its files, and its anchor
    content: dict[str, Any]  # what NAME.json holds: title, command, paper, agreement, table, numbers
    figures: tuple[Path, ...] = ()  # PNG
    failure: str = ""

    @property
    def title(self) -> str:
        return str(self.content.get("title", f"{self.name.replace('-', ' ').capitalize()} (not made)"))

    def pictures(self) -> list[dict[str, Any]]:
        """The figures as addresses that hold them, and their sizes on the page."""
        pictures = []
        for path in self.figures:
            with Image.open(path) as picture:
                width, height = (round(_SHARPNESS * side) for side in picture.size)
            address = data_address(path.read_bytes(), "png")
            pictures.append({"address": address, "stem": path.stem, "width": width, "height": height})
        return pictures


def saved_section(out: Path, name: str) -> Section | None:
    """The analysis that was saved under a name in a folder, or None."""
    try:
        content = json.loads((out / f"{name}.json").read_text(encoding="utf-8"))
        content["title"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    alone = out / f"{name}.png"
    return Section(name, content, (*([alone] if alone.exists() else []), *sorted(out.glob(f"{name}-*.png"))))


def all_analyses(
    *,
    data: str = "emoji",
    model: str | None = None,
    before: str | None = None,
    network: str = NETWORK,
    weights: str | None = None,
    size: int = 64,
    steps: int = 20,
    ablation: bool = False,
    reuse: bool = False,
    seed: int = 0,
    device: str | None = None,
    workers: int = 0,
    out: Path = OUT,
    show: Callable[[Analysis, Path], object] = Analysis.save,
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
        How many steps to train for each temperature of the tightness.
    ablation
        Make the ablation too, which takes an hour or more on two cores.
    reuse
        Show what is saved in the folder already, and make only what is missing.
    """
    start: dict[str, Any] = {"weights": weights, "seed": seed, "device": device}
    network_start = {"data": data, "model": network, "size": size, **start}

    @cache
    def compared() -> BeforeAfter:
        if model is None:
            raise ValueError(
                "this needs a trained model: repeat the command with --model FOLDER, one that smoothap train or "
                "smoothap demo wrote."
            )
        return compare_with_untrained(data, model, before=before, workers=workers, folder=out, **start)

    makers: dict[str, Callable[[], Analysis]] = {
        "indicator": partial(indicator, **network_start),
        "triplet-example": partial(triplet_example, **network_start),
        "tightness": partial(tightness, **network_start, steps=steps, out=out),
        "operating-region": partial(operating_region, **network_start | {"model": [network]}, out=out),
        "ablation": partial(make_ablation, data="glyphs", model=network, out=out, **start),
        "cost": partial(
            cost, data=data, batch_sizes=(112, 224), rounds=3, backbone_rounds=1, seed=seed, device=device, out=out
        ),
        **{
            f"queries-{layout}": lambda layout=layout: queries(compared(), layout=layout, seed=seed)
            for layout in LAYOUTS
        },
        "classes": lambda: classes(compared()),
    }
    sections: list[Section] = []
    for name, make in makers.items():
        section = saved_section(out, name) if reuse or (name == "ablation" and not ablation) else None
        if section is None and (ablation or name != "ablation"):
            print(f"\n== {name}")
            try:
                show(make(), out)
            except Exception as error:  # the others are made all the same
                failure = str(error) if isinstance(error, (ValueError, OSError)) else f"{type(error).__name__}: {error}"
                print(f"Not made: {failure}")
                section = Section(name, {}, failure=failure)
            else:
                section = saved_section(out, name)
        sections += [] if section is None else [section]
    return sections


def write_analyses_page(path: Path, sections: Sequence[Section], *, title: str, command: str) -> Path:
    """Write one HTML file that needs nothing else: contents, and a section for each analysis."""
    made = sum(not section.failure for section in sections)
    lead = f"{made} of {len(sections)} analyses. Beside each figure: what the paper reports, and whether ours agrees."
    return write_page(
        path,
        "paper/page.html",
        title=title,
        lead=lead,
        contents={section.name: section.title for section in sections},
        sections=sections,
        numeric_columns=numeric_columns,
        command=command,
    )
