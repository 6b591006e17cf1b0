"""All analyses, each at a small size, as the sections of one page."""

from collections.abc import Callable, Collection, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from smoothap.analysis.ablation import ablation
from smoothap.analysis.analysis import Analysis
from smoothap.analysis.batch import Batch
from smoothap.analysis.before_after import BeforeAfter
from smoothap.analysis.classes import classes_analysis
from smoothap.analysis.command_line import command_line
from smoothap.analysis.cost import cost
from smoothap.analysis.indicator import indicator
from smoothap.analysis.operating_region import operating_region
from smoothap.analysis.page import Section, failed_section, made_section, saved_section
from smoothap.analysis.queries import queries_analysis
from smoothap.analysis.tightness import tightness
from smoothap.analysis.triplet_example import triplet_example
from smoothap.report.layouts import LAYOUTS, Layout


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
    folder: Path,
    compare: Callable[[], BeforeAfter],
) -> dict[str, Callable[[], Analysis]]:
    """What makes each analysis, by its name.

    `compare` embeds the test set by `model` and by the one `before`, once for all the analyses that need it; the others
    start from `network` by its timm name. `folder` is for trainings and the list of images that cannot be read.
    """
    batch = Batch(data, network, weights, size, seed=seed)
    start: dict[str, Any] = {"weights": weights, "seed": seed, "device": device}

    @cache
    def compared() -> BeforeAfter:
        if model is None:
            raise ValueError(
                "this needs a trained model: repeat the command with --model FOLDER, one that smoothap train or "
                "smoothap demo wrote."
            )
        return compare()

    given = {"data": data, "model": model, "before": before, "weights": weights}

    def queries(layout: Layout) -> Analysis:
        command = command_line("queries", **given, layout=layout, choose="random", seed=seed)
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
        "classes": lambda: classes_analysis(compared(), command=command_line("classes", **given, seed=seed)),
    }


def made_sections(
    makers: Mapping[str, Callable[[], Analysis]],
    folder: Path,
    tell: Callable[[Analysis, list[Path]], None],
    *,
    reuse: bool,
    only_saved: Collection[str] = (),
) -> list[Section]:
    """Make and save the analyses; `tell` shows each one. A failure is told and does not stop the others.

    With `reuse` those that the folder has are not made again; `only_saved` names some that are not made in any case.
    """
    sections: list[Section | None] = []
    for name, make in makers.items():
        section = saved_section(folder, name) if reuse or name in only_saved else None
        if section is None and name not in only_saved:
            print(f"\n== {name}")
            try:
                analysis = make()
                paths = analysis.save(folder)
                tell(analysis, paths)
                section = made_section(analysis, paths)
            except Exception as error:  # one analysis that fails leaves the others, whatever its error is
                reason = str(error) if isinstance(error, (ValueError, OSError)) else f"{type(error).__name__}: {error}"
                print(f"Not made: {reason}")
                section = failed_section(name, reason)
        sections.append(section)
    return [section for section in sections if section is not None]
