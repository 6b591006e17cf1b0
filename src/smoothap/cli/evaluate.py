"""`smoothap evaluate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from smoothap._core.files import write_atomically
from smoothap.cli import _options as options

if TYPE_CHECKING:
    from smoothap.metrics import Report


def evaluate(
    *,
    embeddings: Path | None = None,
    labels: Path | None = None,
    gallery: Path | None = None,
    gallery_labels: Path | None = None,
    model: str | None = None,
    data: str | None = None,
    weights: options.Weights = None,
    size: options.NetworkSize = None,
    recall_at: str | None = None,
    against: Path | None = None,
    as_json: options.AsJson = False,
    out: Path | None = None,
    device: options.Device = None,
    workers: options.Workers = None,
    test_fraction: options.TestFraction = None,
    test_classes: options.TestClasses = None,
    columns: options.TableColumns = None,
) -> None:
    """Exact retrieval metrics over the full ranking: of embeddings in files, or of a model on a set of images.

    Parameters
    ----------
    embeddings
        A .npy file of vectors (n, d); each queries all others, or the gallery.
    labels
        A .npy file of the n classes, whole numbers or strings.
    gallery
        A .npy file of vectors to rank in the place of the others.
    gallery_labels
        A .npy file of their classes.
    model
        The folder of a trained model, or a timm name for its published weights.
    data
        NAME or NAME:PATH, such as emoji, sop:PATH or folder:PATH: its test classes are evaluated.
    recall_at
        The K of Recall@K, such as 1,10,100; by default those of the set.
    against
        The JSON file of another evaluation of the same queries, which --out wrote: the differences are printed too.
    as_json
        Print the metrics as JSON.
    out
        A JSON file for the metrics, with the values of each query.
    """
    if (embeddings is None) == (model is None):
        raise ValueError("Give --embeddings and --labels, or --model and --data.")
    if (embeddings is None) != (labels is None) or (gallery is None) != (gallery_labels is None):
        raise ValueError("Vectors and labels go together: --embeddings with --labels, --gallery with --gallery-labels.")
    if model is not None and data is None:
        raise ValueError("--model needs --data, the set to evaluate it on, such as emoji or folder:PATH.")
    of_images = {"--data": data, "--weights": weights, "--size": size, "--test-fraction": test_fraction}
    of_images = {**of_images, "--test-classes": test_classes, "--columns": columns}
    unused = of_images if model is None else {"--gallery": gallery}
    for name, value in unused.items():
        if value is not None:
            needed = "--model, which embeds images" if model is None else "--embeddings, vectors in a file"
            raise ValueError(f"{name} goes with {needed}, which is missing: leave {name} out.")
    if model is not None:
        options.check_network_options(model, size=size, weights=weights)
    wanted = None if recall_at is None else options.number_list(recall_at, int)

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

            reports = evaluate_model(
                model, data, weights=weights, size=size, recall_at=wanted, test_fraction=test_fraction,
                test_classes=test_classes, columns=columns, device=str(place),
                workers=options.chosen_workers(workers, place),
                unreadable=(out.parent if out else Path()) / "unreadable-images.csv",
            )  # fmt: skip
        else:
            assert embeddings is not None
            assert labels is not None
            ks = wanted or (1, 10, 100, 1000)
            on = device and str(place)
            reports = {"": evaluate_files(embeddings, labels, gallery, gallery_labels, ks, device=on)}
        if processes.rank == 0:
            others = {} if against is None else _reports_against(reports, against)
            _print_reports(reports, others, as_json, out)
            if data is not None and not as_json and (table := beside_the_paper(data, reports)):
                print(f"\n{table}")


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
            brief = {name: {key: whole[name][key] for key in report.summary()} for name, report in reports.items()}
            for name, report in reports.items():
                intervals = report.intervals(report.figures())
                brief[name]["interval_95"] = {figure: [each.low, each.high] for figure, each in intervals.items()}
                if name in others:
                    brief[name]["difference"] = {
                        figure: report.compare(others[name], figure)._asdict()
                        for figure in report.figures()
                        if figure in others[name].figures()
                    }
            print(json.dumps(brief.get("", brief), indent=1))
        else:
            for name, report in reports.items():
                print(f"{name}\n{report.with_intervals()}" if name else report.with_intervals())
                if name in others:
                    print("Compared with the other evaluation:")
                for title, figure in report.main_figures().items() if name in others else ():
                    if figure in others[name].figures():
                        print(f"{title:<12}{report.compare(others[name], figure)}")
