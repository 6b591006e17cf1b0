"""All analyses, each at a small size, as the sections of one page."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from smoothap.paper.ablation import ablation
from smoothap.paper.analysis import Analysis
from smoothap.paper.batch import Batch
from smoothap.paper.classes import classes_analysis
from smoothap.paper.command_line import command_line
from smoothap.paper.cost import cost
from smoothap.paper.indicator import indicator
from smoothap.paper.operating_region import operating_region
from smoothap.paper.page import Section, failed_section, saved_section
from smoothap.paper.queries import queries_analysis
from smoothap.paper.tightness import tightness
from smoothap.paper.triplet_example import triplet_example
from smoothap.plots.before_after import BeforeAfter
from smoothap.plots.layouts import LAYOUTS, Layout
from smoothap.training.before_after import compare_with_untrained

Show = Callable[[Analysis, Path], None]  # saves an analysis in a folder, and shows it


def all_analyses(
    *,
    data: str,
    model: str | None,
    before: str | None,
    network: str,
    weights: str | None,
    size: int,
    steps: int,
    seed: int,
    device: str | None,
    workers: int,
    folder: Path,
) -> dict[str, Callable[[], Analysis]]:
    """What makes each analysis, by its name.

    Queries and classes compare the trained `model` with the one `before`; the others start from `network` by its timm
    name. `folder` is for trainings and the list of images that cannot be read.
    """
    batch = Batch(data, network, weights, size, seed=seed)
    start: dict[str, Any] = {"weights": weights, "seed": seed, "device": device}
    models = {"data": data, "model": model, "before": before, "weights": weights}

    @cache
    def compared() -> BeforeAfter:
        if model is None:
            raise ValueError(
                "this needs a trained model: repeat the command with --model FOLDER, one that smoothap train or "
                "smoothap demo wrote."
            )
        return compare_with_untrained(
            data, model, before=before, weights=weights, seed=seed, device=device, workers=workers, folder=folder
        )

    def queries(layout: Layout) -> Analysis:
        command = command_line("queries", **models, layout=layout, choose="random", seed=seed)
        return queries_analysis(compared(), layout=layout, seed=seed, command=command)

    return {
        "indicator": lambda: indicator(batch=batch, device=device),
        "triplet-example": lambda: triplet_example(batch=batch, device=device),
        "tightness": lambda: tightness(
            data=data, model=network, size=size, steps=steps, folder=folder / "tightness", **start
        ),
        "operating-region": lambda: operating_region(data=data, model=[network], size=size, folder=folder, **start),
        "ablation": lambda: ablation(data="glyphs", model=network, folder=folder / "ablation", **start),
        "cost": lambda: cost(
            data=data, batch_sizes=(112, 224), rounds=3, backbone_rounds=1, seed=seed, device=device, folder=folder
        ),
        **{f"queries-{layout}": partial(queries, layout) for layout in LAYOUTS},
        "classes": lambda: classes_analysis(compared(), command=command_line("classes", **models, seed=seed)),
    }


def all_sections(
    makers: Mapping[str, Callable[[], Analysis]], folder: Path, show: Show, *, reuse: bool, ablation: bool
) -> list[Section]:
    """Make the analyses, or with `reuse` only those that the folder does not have; `show` is called with each one made.

    Without `ablation` that one, which trains many models, is shown if it was saved and never made. A failure, whatever
    it is, becomes a section that says why.
    """
    sections: list[Section] = []
    for name, make in makers.items():
        failure: str | None = None
        kept = reuse and saved_section(folder, name) is not None
        if not kept and (ablation or name != "ablation"):
            print(f"\n== {name}")
            try:
                show(make(), folder)
            except Exception as error:  # the others are made all the same
                failure = str(error) if isinstance(error, (ValueError, OSError)) else f"{type(error).__name__}: {error}"
                print(f"Not made: {failure}")
        section = saved_section(folder, name) if failure is None else failed_section(name, failure)
        sections += [] if section is None else [section]
    return sections
