"""`smoothap analyse`: the paper's analyses on the user's own images and model, one command each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from smoothap.cli import _options as options
from smoothap.cli._analysis_output import OUT, Before, Network, make, show
from smoothap.paper.command_line import command_line
from smoothap.training.config import NETWORK

if TYPE_CHECKING:
    from smoothap.paper.batch import Batch

app = App(
    name="analyse",
    help="The paper's analyses on your model and images, with figures.",
    help_epilogue="Examples:\n\n    smoothap analyse triplet-example\n    smoothap analyse tightness --data emoji",
)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class MeasuredBatch:
    """A batch of images on which an analysis is measured too, where data is given."""

    data: Annotated[str | None, Parameter(help="NAME or NAME:PATH: measure on a batch of these images too.")] = None
    model: Network = NETWORK
    weights: options.Weights = None
    size: options.NetworkSize = 64
    batch_size: options.BatchSize = 128
    seed: options.Seed = 0

    def opened(self) -> Batch | None:
        """What the analysis takes; None where no data is given."""
        from smoothap.paper.batch import Batch

        return None if self.data is None else Batch(**vars(self))


_NO_BATCH = MeasuredBatch()


@app.command(help_epilogue="Example:\n\n    smoothap analyse indicator --data emoji")
def indicator(
    *,
    batch: MeasuredBatch = _NO_BATCH,
    width: float = 0.2,
    device: options.Device = None,
    out: options.FigureFolder = OUT,
) -> None:
    """Figure 2: the indicator, sigmoids at three temperatures, linear and exponential relaxations, and their slopes.

    Parameters
    ----------
    width
        Of the linear and the exponential relaxation.
    """
    make("indicator", locals() | {"batch": batch.opened()})


@app.command(help_epilogue="Example:\n\n    smoothap analyse triplet-example --data emoji")
def triplet_example(
    *,
    batch: MeasuredBatch = _NO_BATCH,
    tau: options.Tau = 0.01,
    step: float = 0.02,
    margin: float = 0.1,
    device: options.Device = None,
    out: options.FigureFolder = OUT,
) -> None:
    """Section 4: six violating terms that a triplet loss treats alike and AP does not.

    Parameters
    ----------
    step
        The distance between neighbouring scores; the paper gives their order only.
    margin
        The margin of the triplet loss.
    """
    make("triplet_example", locals() | {"batch": batch.opened()})


@app.command(help_epilogue="Example:\n\n    smoothap analyse tightness --data emoji --size 64")
def tightness(
    *,
    data: options.Data = "emoji",
    model: Network = NETWORK,
    weights: options.Weights = None,
    size: options.Size = 64,
    batch_size: options.BatchSize = 128,
    tau: Annotated[str, Parameter(name="--tau")] = "0.1,0.01,0.001",
    steps: int | None = None,
    seed: options.Seed = 0,
    device: options.Device = None,
    out: Path = OUT,
) -> None:
    """Figure 4: the error of the AP approximation at every step of one epoch, for each temperature.

    Parameters
    ----------
    tau
        The temperatures, with commas between them.
    steps
        Stop after so many steps instead of an epoch.
    out
        The folder for the figure and the numbers, and for the trainings in a folder of their own.
    """
    make("tightness", locals() | {"tau": options.number_list(tau, float), "folder": out / "tightness"})


@app.command(help_epilogue="Example:\n\n    smoothap analyse operating-region --data emoji --model runs/demo/model")
def operating_region(
    *,
    data: options.Data = "emoji",
    model: Annotated[list[str] | None, Parameter(negative=())] = None,
    weights: options.Weights = None,
    size: options.NetworkSize = 64,
    batch_sizes: str = "64,128,256,512,1024,2048,4096",
    samples_per_class: options.PerClass = 4,
    tau: options.Tau = 0.01,
    seed: options.Seed = 0,
    device: options.Device = None,
    out: options.FigureFolder = OUT,
) -> None:
    """Supplement C: the share of the differences of scores that the sigmoid gives a gradient, by batch size.

    Parameters
    ----------
    model
        A network by its timm name, or the folder of a trained model; give it again for a line beside the first.
    batch_sizes
        With commas between them. Where the training images have too few classes, the test images join them.
    """
    make(
        "operating_region",
        locals() | {"model": model or [NETWORK], "batch_sizes": options.number_list(batch_sizes, int), "folder": out},
    )


@app.command(help_epilogue="Example:\n\n    smoothap analyse ablation --data glyphs --size 48 --seeds 3")
def ablation(
    *,
    data: str = "glyphs",
    model: Network = NETWORK,
    weights: options.Weights = None,
    size: options.Size = 48,
    vary: str = "tau,samples-per-class,batch-size",
    images_seen: int = 7680,
    batch_size: int = 128,
    seeds: int = 3,
    seed: int = 0,
    flip: options.Flip = False,
    device: options.Device = None,
    out: Path = OUT,
) -> None:
    """Table 5: temperature, images of a class and batch size, one varied at a time, over several seeds.

    Parameters
    ----------
    data
        NAME or NAME:PATH; its classes with at least as many images as the largest |P| are used.
    vary
        What to vary, with commas between: tau, samples-per-class, batch-size.
    images_seen
        Images that each training sees: a larger batch makes fewer steps.
    batch_size
        Images in a batch where that is not varied.
    seeds
        How many trainings of each kind; batches above 256 are trained once, in two passes.
    seed
        The first of the seeds.
    out
        The folder for the figure and the numbers; a training that is done there is not repeated.
    """
    make("ablation", locals() | {"vary": vary.split(","), "folder": out / "ablation"})


@app.command(help_epilogue="Example:\n\n    smoothap analyse cost --batch-sizes 112,224")
def cost(
    *,
    data: str | None = None,
    model: str = "resnet50",
    weights: str = "none",
    size: options.Size = 224,
    batch_sizes: str = "112,224,384,1024,4096",
    rounds: int = 9,
    backbone_rounds: int = 3,
    seed: options.Seed = 0,
    device: options.Device = None,
    out: options.FigureFolder = OUT,
) -> None:
    """Supplement E: time and memory of four AP losses, alone and behind a backbone.

    Parameters
    ----------
    data
        NAME or NAME:PATH: images for the backbone; the time is the same with none, random ones.
    model
        The backbone by its timm name, or the folder of a trained model.
    weights
        A file for the backbone; the time is the same with none, random ones.
    batch_sizes
        With commas between them; the supplement's is 112.
    rounds
        How often each loss is measured.
    backbone_rounds
        How often 16 images go through the backbone.
    """
    make("cost", locals() | {"batch_sizes": options.number_list(batch_sizes, int), "folder": out})


@app.command(
    name="all",
    help="All analyses on one page.",
    help_epilogue="Example:\n\n    smoothap analyse all --data emoji --model runs/demo/model",
)
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
    workers: options.Workers = None,
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
    from smoothap._core.devices import chosen_device
    from smoothap.paper.all import all_analyses, all_sections
    from smoothap.paper.page import write_analyses_page

    options.check_folder(out)
    place = chosen_device(device)
    makers = all_analyses(
        data=data, model=model, before=before, network=network, weights=weights, size=size, steps=steps, seed=seed,
        device=str(place), workers=options.chosen_workers(workers, place), folder=out,
    )  # fmt: skip
    sections = all_sections(makers, out, show, reuse=reuse, ablation=ablation)
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


app.command(
    "smoothap.cli.analyse_before_after:queries",
    help="Figures 1, 3, S1 to S6: rankings before and after.",
    help_epilogue="Example:\n\n    smoothap analyse queries --data emoji --model runs/demo/model --layout rows",
)
app.command(
    "smoothap.cli.analyse_before_after:classes",
    help="Classes that gained, lost, and are confused.",
    help_epilogue="Example:\n\n    smoothap analyse classes --data emoji --model runs/demo/model",
)
