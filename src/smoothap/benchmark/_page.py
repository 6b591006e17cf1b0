"""The page of a comparison: one HTML file with the figures, the table in all its formats, and what makes it again."""

import json
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from smoothap.benchmark._figures import curves_figure, interval_figure, trials_figure
from smoothap.benchmark._formats import as_csv, as_latex, as_markdown
from smoothap.benchmark._table import MAIN, TableRow, shown_metrics
from smoothap.benchmark.plan import Plan
from smoothap.benchmark.runner import Comparison, Outcome
from smoothap.plots import html as document
from smoothap.plots.drawing import inline_svg


def write_page(
    path: Path,
    *,
    title: str,
    introduction: str,
    note: str,
    tables: dict[str, list[TableRow]],
    warnings: dict[str, str],
    comparison: Comparison,
    plan: Plan,
    command: str,
) -> Path:
    """Write the comparison as one self-contained page."""
    headings = ["Results"] if len(tables) == 1 else [f"Results: {protocol}" for protocol in tables]
    contents = {f"test-{number}": heading for number, heading in enumerate(headings)}
    trained = [outcome for outcome in comparison.rows if outcome.results]
    searched = [outcome for outcome in trained if any(chosen.trials for chosen in outcome.chosen.values())]
    contents |= {"learning": "Learning curves"} if trained else {}
    contents |= {"search": "The search"} if searched else {}
    contents |= {"methods": "Methods and the paper's numbers", "formats": "The table to take away"}
    return document.write_page(
        path,
        "benchmark/page.html",
        title=title,
        lead=introduction,
        note=note,
        contents=contents,
        protocols=[(rows, shown_metrics(rows), _dots(rows), warnings[protocol]) for protocol, rows in tables.items()],
        curves=_curves(trained, plan.batch_size),
        trials=inline_svg(trials_figure(searched), f"The trials of {len(searched)} methods") if searched else "",
        methods=[outcome.method for outcome in comparison.rows],
        formats=_formats(tables),
        settings=json.dumps(plan.described(), indent=1),
        command=command,
    )


def _dots(rows: Sequence[TableRow]) -> Markup | None:
    trained = [row for row in rows[1:] if row.metrics]
    if not trained:
        return None
    untrained, best = rows[0].metrics[MAIN].value, max(trained, key=lambda row: row.metrics[MAIN].value)
    return inline_svg(
        interval_figure(trained, untrained),
        f"mAP of {len(trained)} methods with 95% intervals; the best is {best.title} with "
        f"{best.metrics[MAIN].value:.1f}, untrained is {untrained:.1f}",
    )


def _curves(trained: Sequence[Outcome], batch_size: int) -> list[Markup]:
    if not trained:
        return []
    return [
        inline_svg(
            curves_figure(trained, batch_size, over_seconds=over_seconds),
            f"Learning curves of {len(trained)} methods over {'seconds' if over_seconds else 'images seen'}",
        )
        for over_seconds in (False, True)
    ]


def _formats(tables: dict[str, list[TableRow]]) -> list[tuple[str, str]]:
    formats = {"Markdown": as_markdown, "LaTeX": as_latex, "CSV": as_csv}
    return [
        (f"{name}, {protocol}" if len(tables) > 1 else name, write(rows))
        for protocol, rows in tables.items()
        for name, write in formats.items()
    ]
