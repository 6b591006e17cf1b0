"""`smoothap evaluate`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothap._core.files import write_atomically
from smoothap.cli import _options as options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from smoothap.metrics import Report


@options.options_of("Vectors in files")
@dataclass(frozen=True)
class Files:
    """Vectors and their classes.

    Parameters
    ----------
    embeddings
        A .npy file of vectors (n, d); each queries all others, or the gallery.
    labels
        A .npy file of the n classes, whole numbers or strings.
    gallery
        A .npy file of vectors to rank instead of the others.
    gallery_labels
        A .npy file of their classes.
    """

    embeddings: Path | None = None
    labels: Path | None = None
    gallery: Path | None = None
    gallery_labels: Path | None = None


@options.options_of("A model on a set of images")
@dataclass(frozen=True)
class Images(options.Split):
    """A model, and the images that it embeds.

    Parameters
    ----------
    model
        The folder of a trained model, or a timm name for its published weights.
    data
        NAME or NAME:PATH, such as emoji, sop:PATH or folder:PATH: its test classes are evaluated.
    """

    model: str | None = None
    data: str | None = None
    weights: str | None = None
    size: int | None = None


_NO_FILES, _NO_IMAGES = Files(), Images()


@options.command()
def evaluate(
    *,
    files: Files = _NO_FILES,
    images: Images = _NO_IMAGES,
    recall_at: str | None = None,
    rerank: bool = False,
    against: Path | None = None,
    as_json: options.AsJson = False,
    out: Path | None = None,
    device: str | None = None,
    workers: int | None = None,
) -> None:
    """Exact retrieval metrics over the full ranking: of embeddings in files, or of a model on a set of images.

    Parameters
    ----------
    recall_at
        The K of Recall@K, such as 1,10,100; by default those of the set.
    rerank
        Also rank each query's list by the neighbourhoods of the set, as a search in an album does, and print both.
    against
        The JSON file of another evaluation of the same queries, which --out wrote: the differences are printed too.
    as_json
        Print the metrics as JSON.
    out
        A JSON file for the metrics, with the values of each query.
    """
    model, data = images.model, images.data
    if (files.embeddings is None) == (model is None):
        raise ValueError("Give --embeddings and --labels, or --model and --data.")
    given = [value is not None for value in vars(files).values()]
    if given[0] != given[1] or given[2] != given[3]:
        raise ValueError("Vectors and labels go together: --embeddings with --labels, --gallery with --gallery-labels.")
    if model is not None and data is None:
        raise ValueError("--model needs --data, the set to evaluate it on, such as emoji or folder:PATH.")
    unused = images if model is None else files
    for name in (f"--{name.replace('_', '-')}" for name, value in vars(unused).items() if value is not None):
        needed = "--model, which embeds images" if model is None else "--embeddings, vectors in a file"
        raise ValueError(f"{name} goes with {needed}, which is missing: leave {name} out.")
    if rerank and model is None:
        raise ValueError("--rerank goes with --model and --data: leave it out for vectors in files.")
    if model is not None:
        options.check_network_options(model, size=images.size, weights=images.weights)
    wanted = None if recall_at is None else _whole_numbers(recall_at)
    if out is not None:
        options.check_file(out, "metrics.json")
    if against is not None and not against.is_file():
        raise ValueError(f"There is no file {against}: give one that smoothap evaluate --out wrote.")
    from smoothap._core.devices import chosen_device
    from smoothap._core.distributed import joined_processes
    from smoothap.paper.paper_rows import beside_the_paper
    from smoothap.training import evaluate_files

    place = chosen_device(device)
    with joined_processes() as processes:
        if model is not None and data is not None:
            from smoothap.training import evaluate_model

            place_of_list = (out.parent if out else Path()) / "unreadable-images.csv"
            reading = options.chosen_workers(workers, place)
            reports = evaluate_model(
                **vars(images), recall_at=wanted, device=str(place), workers=reading, unreadable=place_of_list,
                rerank=_evaluate_ranked() if rerank else None,
            )  # fmt: skip
        else:
            ks = wanted or (1, 10, 100, 1000)
            reports = {"": evaluate_files(**vars(files), recall_at=ks, device=device and str(place))}
        if processes.rank == 0:
            others = {} if against is None else _reports_against(reports, against)
            _print_reports(reports, others, as_json, out)
            if data is not None and not as_json and (table := beside_the_paper(data, {"": reports})):
                print(f"\n{table}")


def _evaluate_ranked() -> Callable[[np.ndarray, np.ndarray, Sequence[int]], Report]:
    from smoothap.album.ranked_lists import evaluate_ranked

    return evaluate_ranked


def _whole_numbers(text: str) -> tuple[int, ...]:
    """Positive numbers with commas between them."""
    words = text.split(",")
    if not all(word.strip().isdecimal() and int(word) > 0 for word in words):
        raise ValueError(f"{text!r} is not a list of positive whole numbers with commas, such as 64,128.")
    return tuple(map(int, words))


def _reports_against(reports: dict[str, Report], against: Path) -> dict[str, Report]:
    from smoothap.metrics import Report

    others = Report.load_all(against)
    for name in reports:
        if name not in others:
            raise ValueError(f"{against} has no report {name!r}; it has {', '.join(map(repr, others))}.")
    return others


def _print_reports(reports: dict[str, Report], others: dict[str, Report], as_json: bool, out: Path | None) -> None:
    whole = {name: json.loads(report.to_json()) for name, report in reports.items()}
    try:
        if out is not None:
            write_atomically(out, json.dumps(whole.get("", whole), indent=1) + "\n")
    finally:  # metrics that took hours are printed even where the disk does not take them
        if as_json:
            brief = {name: _brief(report, whole[name], others.get(name)) for name, report in reports.items()}
            text = json.dumps(brief.get("", brief))
            print(json.dumps(json.loads(text, parse_constant=lambda _: None), indent=1))  # JSON knows no NaN
        else:
            for name, report in reports.items():
                print(f"{name}\n{report.with_intervals()}" if name else report.with_intervals())
                if name in others:
                    print("Compared with the other evaluation:")
                    for title, metric in report.main_metrics().items():
                        if metric in others[name].metrics():
                            print(f"{title:<12}{report.compare(others[name], metric)}")


def _brief(report: Report, whole: dict[str, Any], other: Report | None) -> dict[str, Any]:
    """The metrics of a report without those of each query, their intervals, and how far they are from another's."""
    brief, metrics = {key: whole[key] for key in report.summary()}, report.metrics()
    brief["interval_95"] = {name: [each.low, each.high] for name, each in report.intervals(metrics).items()}
    if other is not None:
        shared = [name for name in metrics if name in other.metrics()]
        brief["difference"] = {name: report.compare(other, name)._asdict() for name in shared}
    return brief
