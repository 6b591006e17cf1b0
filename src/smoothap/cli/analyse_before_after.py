"""`smoothap analyse queries` and `smoothap analyse classes`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from smoothap.cli import _options as options
from smoothap.cli._analysis_output import OUT, Before, TestData, TrainedModel, show
from smoothap.paper.command_line import command_line

if TYPE_CHECKING:
    from smoothap.plots.before_after import BeforeAfter


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ComparedModels:
    """Which models are compared on which images: the options that both commands take."""

    data: TestData
    model: TrainedModel
    before: Before = None
    weights: options.Weights = None
    test: options.TestName = None
    test_fraction: options.TestFraction = None
    test_classes: options.TestClasses = None
    columns: options.TableColumns = None
    seed: options.Seed = 0
    device: options.Device = None
    workers: options.Workers = None
    out: options.FigureFolder = OUT

    def compared(self) -> BeforeAfter:
        """The images as both models see them."""
        options.check_folder(self.out)
        from smoothap._core.devices import chosen_device
        from smoothap.training.before_after import compare_with_untrained

        place = chosen_device(self.device)
        workers = options.chosen_workers(self.workers, place)
        given: dict[str, Any] = {**vars(self), "device": str(place), "workers": workers, "folder": self.out}
        del given["out"]
        return compare_with_untrained(**given)

    def command(self, name: str, **options: Any) -> str:
        """The command with these options and those of a figure."""
        return command_line(name, **{**vars(self), "out": None}, **options)


def queries(
    *,
    models: ComparedModels,
    layout: Literal["rows", "column", "grid", "columns"] = "rows",
    query: Annotated[list[str] | None, Parameter(negative=())] = None,
    choose: Literal["random", "gained", "lost", "changed"] = "random",
    number: int | None = None,
    first: int | None = None,
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
    """
    compared = models.compared()
    from smoothap.paper.queries import queries_analysis

    command = models.command(
        "queries", layout=layout, query=query, choose=None if query else choose, number=number, first=first
    )
    analysis = queries_analysis(
        compared, layout=layout, names=query or (), choose=choose, number=number, first=first, seed=models.seed,
        command=command,
    )  # fmt: skip
    show(analysis, models.out)


def classes(*, models: ComparedModels, number: int = 10, pairs: int = 12) -> None:
    """Which classes gained and lost, which take each other's ranks, and AP by class size: what to label or clean next.

    Parameters
    ----------
    number
        How many classes that gained most, and as many that lost most.
    pairs
        How many pairs of classes that take each other's ranks.
    """
    compared = models.compared()
    from smoothap.paper.classes import classes_analysis

    command = models.command("classes", number=number, pairs=pairs)
    show(classes_analysis(compared, number=number, pairs=pairs, command=command), models.out)
