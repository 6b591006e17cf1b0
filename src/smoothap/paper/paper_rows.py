"""The rows of the paper's tables, and a model's own figures beside them where data and protocol are the paper's."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from smoothap.metrics import Report
from smoothap.plots.text import text_table


class PaperTable(NamedTuple):
    """A part of a table: what is measured on the tests of a set, and the paper's rows, one test after the other."""

    title: str
    recall_at: tuple[int, ...]  # none: mAP
    queries: dict[str, int | None]  # of each test protocol; None where the paper does not say it
    rows: dict[str, str]  # of Smooth-AP; figures as the paper prints them
    parts: tuple[str, ...]  # what the results of the compared methods call these tests
    start: str = ""  # the loss that the network was trained with before
    trainings: Mapping[str, str] = MappingProxyType({})  # of the ablations, by the name of the training


Published: TypeAlias = Callable[[str, str], dict[str, list[str]]]  # (set, training) -> the paper's figures by row
PAPER_TABLES = {
    "sop": PaperTable(
        "Table 2, Stanford Online Products", (1, 10, 100, 1000), {"test": 60_502},
        {"Smooth-AP BS=224": "79.2 91.0 96.5 98.9", "Smooth-AP BS=384": "80.1 91.5 96.6 99.0"}, ("SOP",),
    ),
    "vehicle-id": PaperTable(
        "Table 3, VehicleID", (1, 5), {"small": 7_332, "medium": 12_995, "large": 20_038},
        {"Smooth-AP": "94.9 97.6 93.3 96.4 91.9 96.2"},
        ("VehicleID small", "VehicleID medium", "VehicleID large"),
    ),
    "inaturalist": PaperTable(
        "Table 3, iNaturalist", (1, 4, 16, 32), {"test": 136_093},
        {"Smooth-AP BS=224": "65.9 80.9 89.8 92.7", "Smooth-AP BS=384": "67.2 81.8 90.3 93.1"},
        ("iNaturalist",),
    ),
    "vggface2": PaperTable(
        "Table 4, VGGFace2 test, SENet-50", (), {"test": 169_396}, {"softmax": "0.828", "+Smooth-AP": "0.850"},
        ("VGGFace2",), "softmax",
        {
            "tau-0.1": "0.824", "tau-0.01": "0.844", "tau-0.001": "0.839", "positives-4": "0.844",
            "positives-8": "0.833", "positives-16": "0.824", "batch-64": "0.824",
            "batch-128": "0.844", "batch-256": "0.853",
        },
    ),
    "ijbc": PaperTable(
        "Table 4, IJB-C, SENet-50", (), {"test": None}, {"softmax": "0.726", "+Smooth-AP": "0.754"},
        ("IJB-C",), "softmax",
        {
            "tau-0.1": "0.726", "tau-0.01": "0.736", "tau-0.001": "0.733", "positives-4": "0.736",
            "positives-8": "0.734", "positives-16": "0.726", "batch-64": "0.726",
            "batch-128": "0.736", "batch-256": "0.754",
        },
    ),
    "vggface2-aligned": PaperTable(
        "Table 4, VGGFace2 test, ResNet-50", (), {"test": 169_396}, {"ArcFace": "0.858", "+Smooth-AP": "0.902"},
        ("VGGFace2",), "arcface",
    ),
    "ijbc-aligned": PaperTable(
        "Table 4, IJB-C, ResNet-50", (), {"test": None}, {"ArcFace": "0.772", "+Smooth-AP": "0.803"},
        ("IJB-C",), "arcface",
    ),
}  # fmt: skip
_READABLE = 0.99  # the least share of the paper's queries; the others are images that cannot be read


def own_rows(set_name: str, training: str) -> dict[str, list[str]]:
    """The paper's rows for a training with Smooth-AP: those of its ablation, by the training's name, or all others."""
    table = PAPER_TABLES[set_name]
    rows = {training: table.trainings[training]} if training in table.trainings else table.rows
    return {row: figures.split() for row, figures in rows.items()}


def printed(set_name: str, row: str, results: Mapping[str, Mapping[str, float]]) -> dict[str, list[str]]:
    """A row of another method, from its metrics in per cent by data set, as the paper prints it; none without any."""
    table = PAPER_TABLES[set_name]
    metrics = [f"Recall@{k}" for k in table.recall_at] or ["mAP"]
    values = [results.get(part, {}).get(metric) for part in table.parts for metric in metrics]
    if values.count(None) == len(values):
        return {}
    shown = ["-" if value is None else f"{value:.1f}" if table.recall_at else f"{value / 100:.3f}" for value in values]
    return {row: shown}


def beside_the_paper(data: str, runs: Mapping[str, Mapping[str, Report]], published: Published = own_rows) -> str:
    """The figures of trainings in the form of the paper's rows, each below its own; nothing for other sets and tests.

    `data` is NAME:PATH. `runs` are reports by test protocol, those of further sets with the set's name before, as
    `FineTuned.after` has them, by the name of the training, "" for a single one.
    """
    name, tables = data.partition(":")[0], []
    for set_name, table in PAPER_TABLES.items():
        prefix = "" if set_name == name else f"{set_name} "
        metrics = [f"Recall@{k}" for k in table.recall_at] or ["mAP"]
        columns = [
            f"{part} {metric}" if len(table.queries) > 1 else metric for part in table.queries for metric in metrics
        ]
        rows: dict[str, list[str]] = {}
        for training, reports in runs.items():
            here = {protocol: reports.get(f"{prefix}{protocol}") for protocol in table.queries}
            if not all(_is_the_papers(table, protocol, report) for protocol, report in here.items()):
                continue
            rows |= {f"paper, {row}": figures for row, figures in published(set_name, training).items()}
            own = [figure for report in here.values() if report is not None for figure in _figures(table, report)]
            rows[f"here, {training}" if training else "here"] = own
        if any(row.startswith("paper, ") for row in rows):
            named = [{table.title: row, **dict(zip(columns, figures, strict=True))} for row, figures in rows.items()]
            tables.append(text_table(named, text=[table.title]))
    return "\n\n".join(tables)


def _is_the_papers(table: PaperTable, protocol: str, report: Report | None) -> bool:
    if report is None or not set(table.recall_at) <= set(report.recall):
        return False
    wanted, queries = table.queries[protocol], report.queries + report.skipped
    return wanted is None or _READABLE * wanted <= queries <= wanted


def _figures(table: PaperTable, report: Report) -> list[str]:
    """As the paper prints them: Recall@K in per cent, mAP as a fraction."""
    recalls = [f"{100 * report.recall[k]:.1f}" for k in table.recall_at]
    return recalls or [f"{report.mean_average_precision:.3f}"]
