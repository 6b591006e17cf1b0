"""`smoothap analyse queries` and `smoothap analyse classes`."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from smoothap.analysis.command_line import command_line
from smoothap.cli.analysis_output import OUT, Before, TestData, TrainedModel, show
from smoothap.cli.options import (
    Device,
    FigureFolder,
    TestClasses,
    TestFraction,
    TestName,
    Weights,
    Workers,
    check_folder,
    chosen_device,
)


def queries(
    *,
    data: TestData,
    model: TrainedModel,
    before: Before = None,
    weights: Weights = None,
    layout: Literal["rows", "column", "grid", "columns"] = "rows",
    query: Annotated[list[str] | None, Parameter(negative=())] = None,
    choose: Literal["random", "gained", "lost", "changed"] = "random",
    number: int | None = None,
    first: int | None = None,
    test: TestName = None,
    test_fraction: TestFraction = None,
    test_classes: TestClasses = None,
    seed: int = 0,
    device: Device = None,
    workers: Workers = 0,
    out: FigureFolder = OUT,
) -> None:
    """Figures 1, 3 and S1 to S6: ranked images of some queries before and after training, with their curves.

    Parameters
    ----------
    layout
        rows: the curve, one row before over one after (Figure 1). column: the first 3 below each query (Figure 3).
        grid: the first 79 from left to right (S1, S2). columns: the first 10 from top to bottom (S3 to S6).
    query
        The name of an image, or of a class for its first image; may be given several times.
    choose
        Which queries, where none is named: at random, or those whose AP rose, fell or changed most.
    number
        How many of them; by default 4 rows, 10 columns of 3, 1 grid or 5 columns of 10.
    first
        How many images of each ranking to draw; by default as many as the paper shows.
    seed
        Draws the queries.
    """
    from smoothap.analysis.queries import queries_analysis
    from smoothap.experiments import compare_with_untrained

    given = {
        "data": data, "model": model, "before": before, "weights": weights, "layout": layout, "query": query,
        "choose": None if query else choose, "number": number, "first": first, "test": test,
        "test_fraction": test_fraction, "test_classes": test_classes, "seed": seed,
    }  # fmt: skip
    check_folder(out)
    compared = compare_with_untrained(
        data, model, before=before, weights=weights, test=test, test_fraction=test_fraction, test_classes=test_classes,
        seed=seed, device=chosen_device(device), workers=workers, folder=out,
    )  # fmt: skip
    analysis = queries_analysis(
        compared, layout=layout, names=query or (), choose=choose, number=number, first=first, seed=seed,
        command=command_line("queries", **given),
    )  # fmt: skip
    show(analysis, out)


def classes(
    *,
    data: TestData,
    model: TrainedModel,
    before: Before = None,
    weights: Weights = None,
    number: int = 10,
    pairs: int = 12,
    test: TestName = None,
    test_fraction: TestFraction = None,
    test_classes: TestClasses = None,
    seed: int = 0,
    device: Device = None,
    workers: Workers = 0,
    out: FigureFolder = OUT,
) -> None:
    """Which classes gained and lost, which take each other's ranks, and AP by class size: what to label or clean next.

    Parameters
    ----------
    number
        How many classes that gained most, and as many that lost most.
    pairs
        How many pairs of classes that take each other's ranks.
    seed
        Draws the new layer of a network by name, where it needs one.
    """
    from smoothap.analysis.classes import classes_analysis
    from smoothap.experiments import compare_with_untrained

    given = {
        "data": data, "model": model, "before": before, "weights": weights, "number": number, "pairs": pairs,
        "test": test, "test_fraction": test_fraction, "test_classes": test_classes, "seed": seed,
    }  # fmt: skip
    check_folder(out)
    compared = compare_with_untrained(
        data, model, before=before, weights=weights, test=test, test_fraction=test_fraction, test_classes=test_classes,
        seed=seed, device=chosen_device(device), workers=workers, folder=out,
    )  # fmt: skip
    show(classes_analysis(compared, number=number, pairs=pairs, command=command_line("classes", **given)), out)
