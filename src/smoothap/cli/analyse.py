"""`smoothap analyse`: the paper's analyses on the user's own images and model, one command each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from smoothap.cli.analysis_output import OUT, Network, numbers_of, show
from smoothap.cli.options import Data, Device, FigureFolder, NetworkSize, Size, Weights, check_folder, chosen_device
from smoothap.experiments import NETWORK

app = App(
    name="analyse",
    help="The paper's analyses on your model and images, with figures.",
    help_epilogue="Examples:\n\n    smoothap analyse triplet-example\n    smoothap analyse tightness --data emoji",
)


@app.command(help_epilogue="Example:\n\n    smoothap analyse indicator --data emoji")
def indicator(
    *,
    data: str | None = None,
    model: Network = NETWORK,
    weights: Weights = None,
    size: NetworkSize = 64,
    batch_size: int = 128,
    width: float = 0.2,
    seed: int = 0,
    device: Device = None,
    out: FigureFolder = OUT,
) -> None:
    """Figure 2: the indicator, sigmoids at three temperatures, linear and exponential relaxations, and their slopes.

    Parameters
    ----------
    data
        NAME or NAME:PATH: measure every relaxation on a batch of these images too.
    batch_size
        Images in the batch.
    width
        Of the linear and the exponential relaxation.
    seed
        Chooses the batch.
    """
    from smoothap.analysis.batch import Batch
    from smoothap.analysis.indicator import indicator

    check_folder(out)
    batch = None if data is None else Batch(data, model, weights, size, batch_size, seed)
    show(indicator(width=width, batch=batch, device=chosen_device(device)), out)


@app.command(help_epilogue="Example:\n\n    smoothap analyse triplet-example --data emoji")
def triplet_example(
    *,
    data: str | None = None,
    model: Network = NETWORK,
    weights: Weights = None,
    size: NetworkSize = 64,
    batch_size: int = 128,
    tau: float = 0.01,
    step: float = 0.02,
    margin: float = 0.1,
    seed: int = 0,
    device: Device = None,
    out: FigureFolder = OUT,
) -> None:
    """Section 4: six violating terms that a triplet loss treats alike and AP does not.

    Parameters
    ----------
    data
        NAME or NAME:PATH: measure the same on all violating terms of a batch of these images too.
    batch_size
        Images in the batch.
    tau
        The temperature of the sigmoid.
    step
        The distance between neighbouring scores; the paper gives their order only.
    margin
        The margin of the triplet loss.
    seed
        Chooses the batch.
    """
    from smoothap.analysis.batch import Batch
    from smoothap.analysis.triplet_example import triplet_example

    check_folder(out)
    batch = None if data is None else Batch(data, model, weights, size, batch_size, seed)
    show(triplet_example(tau=tau, step=step, margin=margin, batch=batch, device=chosen_device(device)), out)


@app.command(help_epilogue="Example:\n\n    smoothap analyse tightness --data emoji --size 64")
def tightness(
    *,
    data: Data = "emoji",
    model: Network = NETWORK,
    weights: Weights = None,
    size: Size = 64,
    batch_size: int = 128,
    tau: Annotated[str, Parameter(name="--tau")] = "0.1,0.01,0.001",
    steps: int | None = None,
    seed: int = 0,
    device: Device = None,
    out: Path = OUT,
) -> None:
    """Figure 4: the error of the AP approximation at every step of one epoch, for each temperature.

    Parameters
    ----------
    batch_size
        Images in a batch.
    tau
        The temperatures, with commas between them.
    steps
        Stop after so many steps instead of an epoch.
    seed
        Chooses the batches, the views and the new weights: the same for every temperature.
    out
        The folder for the figure and the numbers, and for the trainings in a folder of their own.
    """
    from smoothap.analysis.tightness import tightness

    check_folder(out)
    analysis = tightness(
        data=data, model=model, weights=weights, size=size, batch_size=batch_size, tau=numbers_of(tau, float),
        steps=steps, seed=seed, device=chosen_device(device), folder=out / "tightness",
    )  # fmt: skip
    show(analysis, out)


@app.command(help_epilogue="Example:\n\n    smoothap analyse operating-region --data emoji --model runs/demo/model")
def operating_region(
    *,
    data: Data = "emoji",
    model: Annotated[list[str] | None, Parameter(negative=())] = None,
    weights: Weights = None,
    size: NetworkSize = 64,
    batch_sizes: str = "64,128,256,512,1024,2048,4096",
    per_class: int = 4,
    tau: float = 0.01,
    seed: int = 0,
    device: Device = None,
    out: FigureFolder = OUT,
) -> None:
    """Supplement C: the share of the differences of scores that the sigmoid gives a gradient, by batch size.

    Parameters
    ----------
    model
        A network by its timm name, or the folder of a trained model; give it again for a line beside the first.
    batch_sizes
        With commas between them. Where the training images have too few classes, the test images join them.
    per_class
        Images of each class in a batch.
    tau
        The temperature of the sigmoid.
    seed
        Chooses the batches.
    """
    from smoothap.analysis.operating_region import operating_region

    check_folder(out)
    analysis = operating_region(
        data=data, model=model or [NETWORK], weights=weights, size=size, batch_sizes=numbers_of(batch_sizes, int),
        per_class=per_class, tau=tau, seed=seed, device=chosen_device(device), folder=out,
    )  # fmt: skip
    show(analysis, out)


@app.command(help_epilogue="Example:\n\n    smoothap analyse ablation --data glyphs --size 48 --seeds 3")
def ablation(
    *,
    data: str = "glyphs",
    model: Network = NETWORK,
    weights: Weights = None,
    size: Size = 48,
    vary: str = "tau,per-class,batch-size",
    images_seen: int = 7680,
    batch_size: int = 128,
    seeds: int = 3,
    seed: int = 0,
    flip: bool = False,
    device: Device = None,
    out: Path = OUT,
) -> None:
    """Table 5: temperature, images of a class and batch size, one varied at a time, over several seeds.

    Parameters
    ----------
    data
        NAME or NAME:PATH; its classes with at least as many images as the largest |P| are used.
    vary
        What to vary, with commas between: tau, per-class, batch-size.
    images_seen
        Images that each training sees: a larger batch makes fewer steps.
    batch_size
        Images in a batch where that is not varied.
    seeds
        How many trainings of each kind; batches above 256 are trained once, in two passes.
    seed
        The first of the seeds.
    flip
        Mirror half of the images; not for letters.
    out
        The folder for the figure and the numbers; a training that is done there is not repeated.
    """
    from smoothap.analysis.ablation import ablation

    check_folder(out)
    analysis = ablation(
        data=data, model=model, weights=weights, size=size, vary=vary.split(","), images_seen=images_seen,
        batch_size=batch_size, seeds=seeds, seed=seed, flip=flip, device=chosen_device(device), folder=out / "ablation",
    )  # fmt: skip
    show(analysis, out)


@app.command(help_epilogue="Example:\n\n    smoothap analyse cost --batch-sizes 112,224")
def cost(
    *,
    data: str | None = None,
    model: str = "resnet50",
    weights: str = "none",
    size: Size = 224,
    batch_sizes: str = "112,224,384,1024,4096",
    rounds: int = 9,
    backbone_rounds: int = 3,
    seed: int = 0,
    device: Device = None,
    out: FigureFolder = OUT,
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
    seed
        Chooses the random weights and the images.
    """
    from smoothap.analysis.cost import cost

    check_folder(out)
    analysis = cost(
        data=data, model=model, weights=weights, size=size, batch_sizes=numbers_of(batch_sizes, int), rounds=rounds,
        backbone_rounds=backbone_rounds, seed=seed, device=chosen_device(device), folder=out,
    )  # fmt: skip
    show(analysis, out)


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
app.command(
    "smoothap.cli.analyse_all:everything",
    name="all",
    help="All analyses on one page.",
    help_epilogue="Example:\n\n    smoothap analyse all --data emoji --model runs/demo/model",
)
