"""The rows of the paper's tables, and a model's own figures beside them where data and protocol are the paper's."""

from collections.abc import Mapping
from typing import NamedTuple

from smoothap.metrics import Report
from smoothap.plots.text import text_table


class PaperTable(NamedTuple):
    """A part of a table: what is measured on the tests of a set, and the paper's rows, one test after the other."""

    title: str
    recall_at: tuple[int, ...]  # none: mAP
    queries: dict[str, int | None]  # of each test protocol; None where the paper does not say it
    rows: dict[str, str]  # figures as the paper prints them


PAPER_TABLES = {
    "sop": PaperTable(
        "Table 2, Stanford Online Products", (1, 10, 100, 1000), {"test": 60_502},
        {"Smooth-AP BS=224": "79.2 91.0 96.5 98.9", "Smooth-AP BS=384": "80.1 91.5 96.6 99.0"},
    ),
    "vehicle-id": PaperTable(
        "Table 3, VehicleID", (1, 5), {"small": 7_332, "medium": 12_995, "large": 20_038},
        {"Smooth-AP": "94.9 97.6 93.3 96.4 91.9 96.2"},
    ),
    "inaturalist": PaperTable(
        "Table 3, iNaturalist", (1, 4, 16, 32), {"test": 136_093},
        {"Smooth-AP BS=224": "65.9 80.9 89.8 92.7", "Smooth-AP BS=384": "67.2 81.8 90.3 93.1"},
    ),
    "vggface2": PaperTable(
        "Table 4, VGGFace2 test, SENet-50", (), {"test": 169_396}, {"softmax": "0.828", "+Smooth-AP": "0.850"}
    ),
    "ijbc": PaperTable("Table 4, IJB-C, SENet-50", (), {"test": None}, {"softmax": "0.726", "+Smooth-AP": "0.754"}),
    "vggface2-aligned": PaperTable(
        "Table 4, VGGFace2 test, ResNet-50", (), {"test": 169_396}, {"ArcFace": "0.858", "+Smooth-AP": "0.902"}
    ),
    "ijbc-aligned": PaperTable(
        "Table 4, IJB-C, ResNet-50", (), {"test": None}, {"ArcFace": "0.772", "+Smooth-AP": "0.803"}
    ),
}  # fmt: skip
_READABLE = 0.99  # the least share of the paper's queries; the others are images that cannot be read


def beside_the_paper(data: str, reports: Mapping[str, Report]) -> str:
    """The model's figures in the form of the paper's rows, below them; nothing for other sets and other protocols.

    `data` is NAME:PATH. `reports` are by test protocol, those of further sets with the set's name before, as
    `FineTuned.after` has them.
    """
    name, tables = data.partition(":")[0], []
    for set_name, table in PAPER_TABLES.items():
        prefix = "" if set_name == name else f"{set_name} "
        here = {protocol: reports.get(f"{prefix}{protocol}") for protocol in table.queries}
        if not all(_is_the_papers(table, protocol, report) for protocol, report in here.items()):
            continue
        metrics = [f"Recall@{k}" for k in table.recall_at] or ["mAP"]
        columns = [f"{protocol} {metric}" if len(here) > 1 else metric for protocol in here for metric in metrics]
        own = [figure for report in here.values() if report is not None for figure in _figures(table, report)]
        rows = {**{f"paper, {row}": figures.split() for row, figures in table.rows.items()}, "here": own}
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
