"""`smoothap analyse all`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from smoothap.analysis.command_line import command_line
from smoothap.cli import _options as options
from smoothap.cli._analysis_output import OUT, Before, print_analysis
from smoothap.experiments import NETWORK


def everything(
    *,
    data: options.Data = "emoji",
    model: str | None = None,
    before: Before = None,
    network: str = NETWORK,
    weights: options.Weights = None,
    size: options.Size = 64,
    steps: int = 20,
    ablation: Annotated[bool, Parameter(negative=())] = False,
    reuse: Annotated[bool, Parameter(negative=())] = False,
    seed: options.Seed = 0,
    device: options.Device = None,
    workers: options.Workers = 0,
    out: Path = OUT,
) -> None:
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
    out
        The folder for figures, numbers and the page.
    """
    from smoothap.analysis.all import all_analyses, all_sections
    from smoothap.analysis.page import write_analyses_page
    from smoothap.numerics.devices import chosen_device

    options.check_folder(out)
    makers = all_analyses(
        data=data, model=model, before=before, network=network, weights=weights, size=size, steps=steps, seed=seed,
        device=str(chosen_device(device)), workers=workers, folder=out,
    )  # fmt: skip
    sections = all_sections(makers, out, print_analysis, reuse=reuse, ablation=ablation)
    command = command_line(
        "all", data=data, model=model, before=before, weights=weights, network=network, size=size, steps=steps,
        seed=seed, out=out, ablation=ablation or None,
    )  # fmt: skip
    page = write_analyses_page(
        out / "analyses.html", sections, title=f"Analyses of Smooth-AP on {data}", command=command
    )
    failed = [section.name for section in sections if section.failure]
    print(f"\n{len(sections) - len(failed)} analyses made" + (f", not made: {', '.join(failed)}" if failed else ""))
    print(page.resolve())
