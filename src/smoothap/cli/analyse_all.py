"""`smoothap analyse all`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from smoothap.cli import analyse
from smoothap.cli.analysis_output import NETWORK, OUT, command_line, show
from smoothap.cli.options import Data, Device, Size, Weights, Workers, check_folder, chosen_device

if TYPE_CHECKING:
    from smoothap.experiments.before_after import BeforeAfter
    from smoothap.report.analyses_page import Section
    from smoothap.report.layouts import Layout

_LAYOUTS: tuple[Layout, ...] = ("rows", "column", "grid", "columns")
_PAGE = "analyses.html"


def everything(
    *,
    data: Data = "emoji",
    model: str | None = None,
    before: str | None = None,
    network: str = NETWORK,
    weights: Weights = None,
    size: Size = 64,
    steps: int = 20,
    ablation: Annotated[bool, Parameter(negative=())] = False,
    reuse: Annotated[bool, Parameter(negative=())] = False,
    seed: int = 0,
    device: Device = None,
    workers: Workers = 0,
    out: Path = OUT,
) -> None:
    """Run all analyses, each at a small size (the whole takes minutes), and put them on one page.

    An analysis that fails is a section that says why. The ablation, which trains many models, is made only when asked
    for; a saved one is shown.

    Parameters
    ----------
    model
        The folder of a trained model, for queries and classes before and after.
    before
        The model to compare it with, a folder or a timm name; by default the same network before it was trained.
    network
        The network that the other analyses start from, by its timm name.
    steps
        How many steps to train for each temperature of the tightness.
    ablation
        Make the ablation too, which takes an hour or more on two cores.
    reuse
        Show what is saved in the folder already, and make only what is missing.
    seed
        Chooses everything that is left to chance.
    out
        The folder for figures, numbers and the page.
    """
    from smoothap.report.analyses_page import write_analyses_page

    check_folder(out)
    device = chosen_device(device)
    trained: dict[str, Any] = {
        "data": data,
        "weights": weights,
        "size": size,
        "seed": seed,
        "device": device,
        "out": out,
    }

    @cache
    def compared() -> BeforeAfter:
        from smoothap.cli.analyse_before_after import compare

        if model is None:
            raise ValueError(
                "this needs a trained model: repeat the command with --model FOLDER, one that smoothap train or "
                "smoothap demo wrote."
            )
        return compare(data, model, before, weights, seed=seed, device=device, workers=workers, out=out)

    given = {"data": data, "model": model, "before": before, "weights": weights}

    def queries(layout: Layout) -> None:
        from smoothap.analysis.queries import queries_analysis

        command = command_line("queries", **given, layout=layout, choose="random", seed=seed)
        show(queries_analysis(compared(), layout=layout, seed=seed, command=command), out)

    def classes() -> None:
        from smoothap.analysis.classes import classes_analysis

        show(classes_analysis(compared(), command=command_line("classes", **given, seed=seed)), out)

    jobs: dict[str, Callable[[], None]] = {
        "indicator": lambda: analyse.indicator(model=network, **trained),
        "triplet-example": lambda: analyse.triplet_example(model=network, **trained),
        "tightness": lambda: analyse.tightness(model=network, steps=steps, **trained),
        "operating-region": lambda: analyse.operating_region(model=[network], **trained),
        "ablation": lambda: analyse.ablation(out=out, model=network, weights=weights, seed=seed, device=device),
        "cost": lambda: analyse.cost(
            data=data, batch_sizes="112,224", rounds=3, backbone_rounds=1, seed=seed, device=device, out=out
        ),
        **{f"queries-{layout}": lambda layout=layout: queries(layout) for layout in _LAYOUTS},
        "classes": classes,
    }
    sections = [
        _made(name, job, out, reuse or (name == "ablation" and not ablation)) for name, job in jobs.items()
        if name != "ablation" or ablation or (out / "ablation.json").exists()
    ]  # fmt: skip
    options = {**given, "network": network, "size": size, "steps": steps, "seed": seed, "out": out}
    command = command_line("all", **options, **{name: True for name, on in (("ablation", ablation),) if on})
    page = write_analyses_page(out / _PAGE, sections, title=f"Analyses of Smooth-AP on {data}", command=command)
    failed = [section.name for section in sections if section.failure]
    print(f"\n{len(sections) - len(failed)} analyses made" + (f", not made: {', '.join(failed)}" if failed else ""))
    print(page.resolve())


def _made(name: str, job: Callable[[], None], out: Path, saved_will_do: bool) -> Section:
    """The section of one analysis: made now, or found in the folder; a failure is told and does not stop the others."""
    from smoothap.report.analyses_page import failed_section, saved_section

    if saved_will_do and (section := saved_section(out, name)) is not None:
        return section
    print(f"\n== {name}")
    try:
        job()
    except Exception as error:  # one analysis that fails leaves the others, whatever its error is
        reason = str(error) if isinstance(error, (ValueError, OSError)) else f"{type(error).__name__}: {error}"
        print(f"Not made: {reason}")
        return failed_section(name, reason)
    section = saved_section(out, name)
    assert section is not None
    return section
