"""Table 5: temperature, positives per class and batch size, one varied at a time, on the same number of images."""

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from scipy.special import stdtrit

from smoothap._core.files import write_atomically
from smoothap.data.benchmark import Benchmark
from smoothap.data.image_set import ImageSet
from smoothap.data.names import open_data
from smoothap.losses import SmoothAP
from smoothap.models import Embedder
from smoothap.paper.analysis import OUT, Analysis, Start
from smoothap.plots.drawing import LEGEND, panel_figure, style_axes
from smoothap.plots.palette import LIGHT
from smoothap.training.config import QUICK, RunOptions, TrainingConfig
from smoothap.training.finetune import train_and_test
from smoothap.training.loop import alone_in

VALUES: dict[str, tuple[float, ...]] = {
    "tau": (0.1, 0.01, 0.001),
    "samples-per-class": (4, 8, 16),
    "batch-size": (64, 128, 256, 512, 1024),
}
SYMBOLS = {"tau": "τ", "samples-per-class": "|P|", "batch-size": "B"}
_LABELS = {"τ": "temperature τ", "|P|": "images of a class |P|", "B": "batch size B"}
# Table 5: mAP on VGGFace2-Test and IJB-C. B = 512 and 1,024 are beyond it.
PAPER: dict[str, dict[float, tuple[float, float]]] = {
    "tau": {0.1: (0.824, 0.726), 0.01: (0.844, 0.736), 0.001: (0.839, 0.733)},
    "samples-per-class": {4: (0.844, 0.736), 8: (0.833, 0.734), 16: (0.824, 0.726)},
    "batch-size": {64: (0.824, 0.726), 128: (0.844, 0.736), 256: (0.853, 0.754)},
}
_LARGEST_IN_ONE_PASS = 256  # above it in two passes, and with the first seed only
_PIECE = 128
_VALIDATION_FRACTION = 0.08  # leaves the glyphs the 256 classes that B = 1,024 needs


@dataclass(frozen=True)
class AblationRun:
    """One training: what is varied from tau 0.01, |P| = 4, B = 128, and the seed."""

    tau: float = 0.01
    samples_per_class: int = 4
    batch_size: int = 128
    seed: int = 0

    @property
    def folder(self) -> str:
        return f"tau-{self.tau:g}-per-class-{self.samples_per_class}-batch-{self.batch_size}-seed-{self.seed}"

    def settings(self, images_seen: int) -> TrainingConfig:
        """As `smoothap train` has them, for as many steps as show about `images_seen` images."""
        steps = max(1, round(images_seen / self.batch_size))
        return replace(
            QUICK, tau=self.tau, samples_per_class=self.samples_per_class, batch_size=self.batch_size, seed=self.seed,
            steps=steps, warm_up=min(QUICK.warm_up, steps - 1), head_init="random",
            micro_batch_size=_PIECE if self.batch_size > _LARGEST_IN_ONE_PASS else None,
        )  # fmt: skip


def runs_of(
    vary: Sequence[str], seeds: Sequence[int], batch_size: int = 128
) -> dict[tuple[str, float], list[AblationRun]]:
    """The trainings behind each cell (what is varied, its value); cells share the one in the middle."""
    cells: dict[tuple[str, float], list[AblationRun]] = {}
    for name in vary:
        if name not in VALUES:
            raise ValueError(f"There is nothing called {name!r} to vary: choose from {', '.join(VALUES)}.")
        for value in VALUES[name]:
            change: dict[str, Any] = {"batch_size": batch_size, name.replace("-", "_"): value}
            once = name == "batch-size" and value > _LARGEST_IN_ONE_PASS
            cells[name, value] = [AblationRun(seed=seed, **change) for seed in (seeds[:1] if once else seeds)]
    return cells


def large_classes(images: ImageSet, least: int) -> ImageSet:
    """The images of the classes that have at least `least` of them."""
    rows = np.flatnonzero(np.bincount(images.labels)[images.labels] >= least)
    if not len(rows):
        raise ValueError(
            f"No class of {images.name} has {least} images, which |P| = {least} needs: leave it out with "
            "--vary tau batch-size."
        )
    return images.rows(rows)


def cell(varied: str, value: float, results: Sequence[float]) -> dict[str, Any]:
    """One cell of the table: the mAP of its seeds, with half of the 95% interval by Student's t, and the paper's."""
    seeds, reach = len(results), math.nan
    if seeds > 1:
        reach = float(stdtrit(seeds - 1, 0.975) * np.std(results, ddof=1) / math.sqrt(seeds))
    vggface2, ijbc = PAPER[varied].get(value, (math.nan, math.nan))
    return {
        "varied": SYMBOLS[varied], "value": value, "mAP": float(np.mean(results)) if results else math.nan,
        "95% ±": reach, "lowest": min(results, default=math.nan), "highest": max(results, default=math.nan),
        "seeds": seeds, "paper VF2": vggface2, "paper IJB-C": ijbc,
    }  # fmt: skip


def ablation(
    start: Start = Start(data="glyphs", size=48),
    *,
    vary: Sequence[str] = tuple(VALUES),
    images_seen: int = 7680,
    batch_size: int = 128,
    seeds: int = 3,
    flip: bool = False,
    out: Path = OUT,
) -> Analysis:
    """Table 5: temperature, images of a class and batch size, one varied at a time, over several seeds.

    Each training leaves `result.json` in a folder of its own and is not repeated where that is there.

    Parameters
    ----------
    data
        NAME or NAME:PATH; its classes with at least as many images as the largest |P| are used.
    vary
        What to vary: tau, samples-per-class, batch-size.
    images_seen
        Images that each training sees: a larger batch makes fewer steps.
    batch_size
        Images in a batch where that is not varied.
    seeds
        How many trainings of each kind; batches above 256 are trained once, by gradient caching.
    seed
        The first of the seeds.
    flip
        Mirror half of the images; not for things whose mirror image is another thing, such as arrows or letters.
    """
    benchmark, all_seeds = open_data(start.data), range(start.seed, start.seed + seeds)
    cells = runs_of(vary, all_seeds, batch_size)
    least = int(max(run.samples_per_class for runs in cells.values() for run in runs))
    if benchmark.train is None:
        raise ValueError(f"{benchmark.name} has no training images: choose another set.")
    kept = replace(benchmark, train=large_classes(benchmark.train, least))
    images, validation = kept.train_and_validation(0, _VALIDATION_FRACTION)
    test_name, test = next((name, large_classes(test, least)) for name, test in benchmark.tests.items())
    tested = replace(benchmark, tests={test_name: test}, averages={})
    cells = {
        key: [run for run in runs if run.batch_size // run.samples_per_class <= images.classes]
        for key, runs in cells.items()
    }
    left_out = [f"{SYMBOLS[varied]} = {value:g}" for (varied, value), runs in cells.items() if not runs]
    if left_out:
        print(f"Left out, for {images.classes} classes are too few: {', '.join(left_out)}.")
    if not any(cells.values()):
        raise ValueError(
            f"{images.classes} classes are too few for batches of {batch_size}: take --batch-size {4 * images.classes}."
        )
    distinct = list(dict.fromkeys(run for runs in cells.values() for run in runs))
    results: dict[AblationRun, float] = {}
    for place, run in enumerate(distinct):
        print(f"{place + 1} of {len(distinct)}: {run.folder}", flush=True)
        network = replace(start, seed=run.seed).network(512)
        network.transform = replace(network.transform, flip=flip)
        settings, folder = run.settings(images_seen), out / "ablation" / run.folder
        results[run] = _result(network, settings, images, validation, tested, folder, start.device)
    rows = [cell(varied, value, [results[run] for run in runs]) for (varied, value), runs in cells.items()]
    return Analysis(
        name="ablation",
        title="Ablation of temperature, positives per class and batch size",
        figures={"": _figure(rows)},
        table=rows,
        paper=(
            "Table 5, mAP on VGGFace2-Test: tau 0.1 / 0.01 / 0.001 = 0.824 / 0.844 / 0.839; |P| 4 / 8 / 16 = 0.844 / "
            "0.833 / 0.824; B 64 / 128 / 256 = 0.824 / 0.844 / 0.853. IJB-C has the same order."
        ),
        agreement=_agreement(rows, images_seen),
        numbers={
            "data": start.data, "test": test_name, "images_seen": images_seen, "seeds": list(all_seeds),
            "least_images": least, "training_classes": images.classes, "left_out": left_out,
            "training_images": len(images), "test_classes": test.classes, "test_images": len(test),
            "settings": AblationRun(batch_size=batch_size).settings(images_seen).to_dict(),
            "runs": {run.folder: value for run, value in results.items()},
        },
    )  # fmt: skip


def _result(
    model: Embedder,
    settings: TrainingConfig,
    images: ImageSet,
    validation: ImageSet,
    tested: Benchmark,
    folder: Path,
    device: str | None,
) -> float:
    """mAP on the test classes, from the file of an earlier run where there is one."""
    path, training = folder / "result.json", folder / "training"
    ((test_name, test),) = tested.tests.items()
    config = {
        "settings": settings.to_dict(), "images": len(images), "classes": images.classes, "test_images": len(test),
        "architecture": model.architecture, "dimension": model.dimension, "transform": model.transform.to_dict(),
    }  # fmt: skip
    config = json.loads(json.dumps(config))  # as a file gives it back
    if path.exists():
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["config"] != config:
            raise ValueError(f"{path} is of a run with other settings: choose another --out, or delete {folder}.")
        return kept["test_map"]
    loss = SmoothAP(settings.tau)
    with alone_in(training):
        options = RunOptions(resume=True, device=device)
        tuned = train_and_test(model, loss, images, validation, settings, training, options, tests=[tested])
    report = tuned.after[test_name]
    kept = {
        "test_map": report.mean_average_precision, "test": report.summary(), "best_step": tuned.best_step,
        "validation_map": tuned.validation_map, "config": config,
    }  # fmt: skip
    write_atomically(path, json.dumps(kept, indent=1) + "\n")
    shutil.rmtree(training)  # a model and a checkpoint of each of two dozen runs would fill a disk
    return kept["test_map"]


def _agreement(rows: Sequence[Mapping[str, Any]], images_seen: int) -> str:
    """For each column of the table, whether the order of our means is the paper's, and how sure that is."""
    sentences = []
    for symbol in dict.fromkeys(row["varied"] for row in rows):
        in_both = [row for row in rows if row["varied"] == symbol and math.isfinite(row["paper VF2"] + row["mAP"])]
        if len(in_both) < 2:
            continue
        ours = sorted(in_both, key=lambda row: -row["mAP"])
        theirs = sorted(in_both, key=lambda row: -row["paper VF2"])
        order = " > ".join(f"{row['value']:g} ({100 * row['mAP']:.1f})" for row in ours)
        verdict = (
            "the paper's order" if ours == theirs
            else "the paper's best, another order behind it" if ours[0] is theirs[0]
            else f"not the paper's best, which is {theirs[0]['value']:g}"
        )  # fmt: skip
        sure = (
            "every seed of the best is above every seed of the next" if ours[0]["lowest"] > ours[1]["highest"]
            else "the seeds of the best two overlap"
        )  # fmt: skip
        sentences.append(f"{symbol}: {order}, {verdict} ({sure})")
    return (
        f"{'; '.join(sentences)}. All trainings saw about {images_seen:,} images, so a larger batch made fewer steps."
    )


def _figure(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """A column for each thing varied: our mean with its interval and the range of the seeds above, Table 5 below."""
    symbols = list(dict.fromkeys(row["varied"] for row in rows))
    figure = panel_figure(0.8 + 3.5 * len(symbols), 6, h_pad=0.1)
    named: list[Any] = []
    above: Axes | None = None
    below: Axes | None = None
    for place, symbol in enumerate(symbols):
        cells = [row for row in rows if row["varied"] == symbol and row["seeds"]]
        at = range(len(cells))
        above = figure.add_subplot(2, len(symbols), place + 1, sharey=above)
        above.errorbar(
            at, [row["mAP"] for row in cells], np.nan_to_num([row["95% ±"] for row in cells]), fmt="o-",
            color=LIGHT["green"], linewidth=2.2, markersize=7, capsize=5, label="ours, mean, 95% interval over seeds",
        )  # fmt: skip
        ends = [row["lowest"] for row in cells], [row["highest"] for row in cells]
        for heights, label in zip(ends, ("ours, lowest and highest seed", None), strict=True):
            above.plot(at, heights, "_", color=LIGHT["ink"], markersize=11, label=label)
        below = figure.add_subplot(2, len(symbols), len(symbols) + place + 1, sharey=below)
        for values, style, colour, label in (
            ([row["paper VF2"] for row in cells], "o--", "blue", "the paper, VGGFace2"),
            ([row["paper IJB-C"] for row in cells], "s-.", "red", "the paper, IJB-C"),
        ):
            below.plot(at, values, style, color=LIGHT[colour], linewidth=2.2, markersize=6, label=label)
        for axes, title in ((above, "ours"), (below, "the paper, Table 5")):
            axes.set_xticks(
                at, [f"{value:,g}" if value < 1 else f"{value:,.0f}" for value in (row["value"] for row in cells)]
            )
            axes.set(xlim=(-0.4, len(cells) - 0.6), xlabel=_LABELS[symbol], ylabel="" if place else "mAP")
            axes.yaxis.set_major_locator(MaxNLocator(6, steps=(1, 2, 5, 10)))
            axes.yaxis.set_major_formatter(PercentFormatter(1))
            style_axes(axes, "" if place else title)
            if place == 0:
                named += zip(*axes.get_legend_handles_labels(), strict=True)
    handles, labels = zip(*named, strict=True)
    ncols = (1, 2, 4)[min(len(symbols), 3) - 1]  # of names, as the figure has room for
    figure.legend(handles, labels, loc="outside lower center", ncols=ncols, fontsize=10, **LEGEND)
    return figure
