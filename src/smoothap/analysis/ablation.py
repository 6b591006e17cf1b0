"""Table 5: temperature, positives per class and batch size, one varied at a time, on the same number of images."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from smoothap.analysis.analysis import Analysis
from smoothap.data.benchmark import Benchmark
from smoothap.data.image_set import ImageSet
from smoothap.files import write_atomically
from smoothap.losses import SmoothAP
from smoothap.models import Embedder
from smoothap.report.ablation_figure import ablation_figure
from smoothap.training.evaluation import evaluate_set
from smoothap.training.loop import train
from smoothap.training.settings import QUICK, Settings

VALUES: dict[str, tuple[float, ...]] = {
    "tau": (0.1, 0.01, 0.001),
    "per-class": (4, 8, 16),
    "batch-size": (64, 128, 256, 512, 1024),
}
SYMBOLS = {"tau": "τ", "per-class": "|P|", "batch-size": "B"}
# Table 5: mAP on VGGFace2-Test and IJB-C. B = 512 and 1,024 are beyond it.
PAPER: dict[str, dict[float, tuple[float, float]]] = {
    "tau": {0.1: (0.824, 0.726), 0.01: (0.844, 0.736), 0.001: (0.839, 0.733)},
    "per-class": {4: (0.844, 0.736), 8: (0.833, 0.734), 16: (0.824, 0.726)},
    "batch-size": {64: (0.824, 0.726), 128: (0.844, 0.736), 256: (0.853, 0.754)},
}
_LARGEST_IN_ONE_PASS = 256  # above it in two passes, and with the first seed only
_PIECE = 128
_VALIDATION_FRACTION = 0.08  # leaves the glyphs the 256 classes that B = 1,024 needs


@dataclass(frozen=True)
class Run:
    """One training: what is varied from tau 0.01, |P| = 4, B = 128, and the seed."""

    tau: float = 0.01
    per_class: int = 4
    batch_size: int = 128
    seed: int = 0

    @property
    def folder(self) -> str:
        return f"tau-{self.tau:g}-per-class-{self.per_class}-batch-{self.batch_size}-seed-{self.seed}"

    def settings(self, images_seen: int) -> Settings:
        """As `smoothap train` has them, for as many steps as show about `images_seen` images."""
        steps = max(1, round(images_seen / self.batch_size))
        return replace(
            QUICK, tau=self.tau, per_class=self.per_class, batch_size=self.batch_size, seed=self.seed, steps=steps,
            warm_up=min(QUICK.warm_up, steps - 1),
            piece_size=_PIECE if self.batch_size > _LARGEST_IN_ONE_PASS else None,
        )  # fmt: skip


def runs_of(vary: Sequence[str], seeds: Sequence[int], batch_size: int = 128) -> dict[tuple[str, float], list[Run]]:
    """The trainings behind each cell (what is varied, its value); cells share the one in the middle."""
    cells: dict[tuple[str, float], list[Run]] = {}
    for name in vary:
        if name not in VALUES:
            raise ValueError(f"There is nothing called {name!r} to vary: choose from {', '.join(VALUES)}.")
        for value in VALUES[name]:
            change: dict[str, Any] = {"batch_size": batch_size, name.replace("-", "_"): value}
            once = name == "batch-size" and value > _LARGEST_IN_ONE_PASS
            cells[name, value] = [Run(seed=seed, **change) for seed in (seeds[:1] if once else seeds)]
    return cells


def large_classes(images: ImageSet, least: int) -> ImageSet:
    """The images of the classes that have at least `least` of them."""
    rows = np.flatnonzero(np.bincount(images.labels)[images.labels] >= least)
    if not len(rows):
        raise ValueError(
            f"No class of {images.name} has {least} images, which |P| = {least} needs: leave it out with "
            "--vary tau,batch-size."
        )
    return images.rows(rows)


def ablation(
    benchmark: Benchmark,
    new_model: Callable[[int], Embedder],
    folder: Path,
    *,
    vary: Sequence[str] = tuple(VALUES),
    seeds: Sequence[int] = (0, 1, 2),
    images_seen: int = 7680,
    batch_size: int = 128,
    data: str = "",
    device: str | None = None,
    command: str = "smoothap analyse ablation",
) -> Analysis:
    """mAP on unseen classes of every cell, mean and deviation over the seeds; `new_model` takes the seed.

    Each training leaves `result.json` in a folder of its own under `folder` and is not repeated where that is there.
    """
    cells = runs_of(vary, seeds, batch_size)
    least = int(max(run.per_class for runs in cells.values() for run in runs))
    if benchmark.train is None:
        raise ValueError(f"{benchmark.name} has no training images: choose another set.")
    kept = replace(benchmark, train=large_classes(benchmark.train, least), validation_fraction=_VALIDATION_FRACTION)
    images, validation = kept.train_and_validation(0)
    name, test = next(iter(benchmark.tests.items()))
    test = large_classes(test, least)
    cells = {
        cell: [run for run in runs if run.batch_size // run.per_class <= images.classes] for cell, runs in cells.items()
    }
    left_out = [f"{SYMBOLS[varied]} = {value:g}" for (varied, value), runs in cells.items() if not runs]
    if left_out:
        print(f"Left out, for {images.classes} classes are too few: {', '.join(left_out)}.")
    if not any(cells.values()):
        raise ValueError(
            f"{images.classes} classes are too few for batches of {batch_size}: take --batch-size {4 * images.classes}."
        )
    distinct = list(dict.fromkeys(run for runs in cells.values() for run in runs))
    found: dict[Run, float] = {}
    for place, run in enumerate(distinct):
        print(f"{place + 1} of {len(distinct)}: {run.folder}", flush=True)
        found[run] = _result(run, images, validation, test, new_model, folder / run.folder, images_seen, device)
    rows = [_row(varied, value, [found[run] for run in runs]) for (varied, value), runs in cells.items()]
    return Analysis(
        name="ablation",
        title="Ablation of temperature, positives per class and batch size",
        numbers={
            "data": data, "test": name, "images_seen": images_seen, "seeds": list(seeds), "least_images": least,
            "training_classes": images.classes, "left_out": left_out, "training_images": len(images),
            "test_classes": test.classes, "test_images": len(test),
            "settings": Run(batch_size=batch_size).settings(images_seen).to_dict(),
            "runs": {run.folder: value for run, value in found.items()},
        },
        figures={"": ablation_figure(rows, {SYMBOLS[name]: PAPER[name] for name in vary})},
        table=rows,
        paper=(
            "Table 5, mAP on VGGFace2-Test: tau 0.1 / 0.01 / 0.001 = 0.824 / 0.844 / 0.839; |P| 4 / 8 / 16 = 0.844 / "
            "0.833 / 0.824; B 64 / 128 / 256 = 0.824 / 0.844 / 0.853. IJB-C has the same order."
        ),
        agreement=_agreement(rows, images_seen),
        command=command,
    )  # fmt: skip


def _result(
    run: Run,
    images: ImageSet,
    validation: ImageSet,
    test: ImageSet,
    new_model: Callable[[int], Embedder],
    folder: Path,
    images_seen: int,
    device: str | None,
) -> float:
    """mAP on the test classes, from the file of an earlier run where there is one."""
    path, training = folder / "result.json", folder / "training"
    settings = run.settings(images_seen)
    model = new_model(run.seed)
    described = {
        "settings": settings.to_dict(), "images": len(images), "classes": images.classes, "test_images": len(test),
        "architecture": model.architecture, "dimension": model.dimension, "transform": model.transform.to_dict(),
    }  # fmt: skip
    described = json.loads(json.dumps(described))  # as a file gives it back
    if path.exists():
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["described"] != described:
            raise ValueError(f"{path} is of a run with other settings: choose another --out, or delete {folder}.")
        return kept["test_map"]
    result = train(model, SmoothAP(run.tau), images, validation, settings, training, resume=True, device=device)
    if not result.finished:
        raise KeyboardInterrupt
    figures = evaluate_set(model, test, unreadable=folder / "unreadable-test.csv")
    kept = {
        "test_map": figures.mean_average_precision, "test": figures.summary(), "best_step": result.best_step,
        "validation_map": result.best, "described": described,
    }  # fmt: skip
    write_atomically(path, json.dumps(kept, indent=1) + "\n")
    shutil.rmtree(training)  # a model and a checkpoint of each of two dozen runs would fill a disk
    return kept["test_map"]


def _row(varied: str, value: float, found: list[float]) -> dict[str, Any]:
    paper = PAPER[varied].get(value)
    return {
        "varied": SYMBOLS[varied],
        "value": value,
        "mAP": float(np.mean(found)) if found else None,
        "spread": float(np.std(found, ddof=1)) if len(found) > 1 else None,
        "lowest": min(found, default=None),
        "highest": max(found, default=None),
        "seeds": len(found),
        "paper VF2": paper[0] if paper else None,
        "paper IJB-C": paper[1] if paper else None,
    }


def _agreement(rows: list[dict[str, Any]], images_seen: int) -> str:
    """For each column of the table, whether the order of our means is the paper's, and how sure that is."""
    sentences = []
    for symbol in dict.fromkeys(row["varied"] for row in rows):
        own = [
            row for row in rows if row["varied"] == symbol and row["paper VF2"] is not None and row["mAP"] is not None
        ]
        if len(own) < 2:
            continue
        ours = sorted(own, key=lambda row: -row["mAP"])
        theirs = sorted(own, key=lambda row: -row["paper VF2"])
        order = " > ".join(f"{row['value']:g} ({100 * row['mAP']:.1f})" for row in ours)
        apart = ours[0]["lowest"] > ours[1]["highest"]
        verdict = (
            "the paper's order" if ours == theirs
            else "the paper's best, another order behind it" if ours[0] is theirs[0]
            else f"not the paper's best, which is {theirs[0]['value']:g}"
        )  # fmt: skip
        sure = (
            "every seed of the best is above every seed of the next" if apart else "the seeds of the best two overlap"
        )
        sentences.append(f"{symbol}: {order}, {verdict} ({sure})")
    return (
        f"{'; '.join(sentences)}. All trainings saw about {images_seen:,} images, so a larger batch made fewer steps."
    )
