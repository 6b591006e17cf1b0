"""What a comparison leaves in its folder: the table in three formats, a page, and every number as JSON."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from markupsafe import Markup

from smoothap._core.files import write_atomically
from smoothap.benchmark.figures import curves_figure, interval_figure, trials_figure
from smoothap.benchmark.plan import Plan
from smoothap.benchmark.runner import Comparison, Outcome
from smoothap.benchmark.table import MAIN, OURS, TableRow, as_csv, as_latex, as_markdown, shown_metrics, tables
from smoothap.metrics.report import copies_warning
from smoothap.plots import html as document
from smoothap.plots.drawing import inline_svg


def write_output(plan: Plan, comparison: Comparison, command: str) -> str:
    """Write the table, results.json and page.html; returns the table with its introduction, as text."""
    of_protocol = tables(comparison)
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    introduction, note = _introduction(plan, comparison, machine), _note(plan, comparison)
    warnings = {
        protocol: copies_warning(report.get("copies", 0), report["queries"] + report["skipped"])
        for protocol, report in comparison.untrained[0].test.items()
    }
    text = "\n\n".join(
        part
        for protocol, rows in of_protocol.items()
        for part in (protocol if len(of_protocol) > 1 else "", as_markdown(rows), warnings[protocol])
        if part
    )
    outcomes = [*comparison.rows, *comparison.first_stages]
    results = {
        "command": command,
        "machine": machine,
        "settings": {name: value for name, value in plan.described().items() if name != "chosen"},
        "chosen": {outcome.method.name: _chosen(outcome) for outcome in outcomes if outcome.chosen},
        "tables": {protocol: [asdict(row) for row in rows] for protocol, rows in of_protocol.items()},
        "runs": [_without_classes(asdict(result)) for outcome in comparison.rows for result in outcome.results],
        "failures": {outcome.method.name: outcome.failure for outcome in comparison.rows if outcome.failure},
    }
    without_nan = json.loads(json.dumps(results), parse_constant=lambda _: None)  # JSON has no such number
    write_atomically(plan.out / "table.md", f"{introduction}\n\n    {command}\n\n{text}\n\n{note}\n")
    for number, rows in enumerate(of_protocol.values()):
        suffix = f"-{number}" if number else ""
        write_atomically(plan.out / f"table{suffix}.tex", as_latex(rows) + "\n")
        write_atomically(plan.out / f"table{suffix}.csv", as_csv(rows))
    write_atomically(plan.out / "results.json", json.dumps(without_nan, indent=1) + "\n")
    _write_page(plan, comparison, of_protocol, warnings, introduction=introduction, note=note, command=command)
    return f"{introduction}\n\n{text}\n\n{note}"


def _write_page(
    plan: Plan,
    comparison: Comparison,
    of_protocol: Mapping[str, list[TableRow]],
    warnings: Mapping[str, str],
    *,
    introduction: str,
    note: str,
    command: str,
) -> None:
    """One self-contained HTML file: the figures, the table in all its formats, and what makes it again."""
    headings = ["Results"] if len(of_protocol) == 1 else [f"Results: {protocol}" for protocol in of_protocol]
    contents = {f"test-{number}": heading for number, heading in enumerate(headings)}
    trained = [outcome for outcome in comparison.rows if outcome.results]
    searched = [outcome for outcome in trained if any(chosen.trials for chosen in outcome.chosen.values())]
    contents |= {"learning": "Learning curves"} if trained else {}
    contents |= {"search": "The search"} if searched else {}
    contents |= {"methods": "Methods and the paper's numbers", "formats": "The table to take away"}
    document.write_page(
        plan.out / "page.html",
        "benchmark/page.html",
        title=f"Methods compared on {plan.data}",
        lead=introduction,
        note=note,
        contents=contents,
        protocols=[
            (rows, shown_metrics(rows), _dots(rows), warnings[protocol]) for protocol, rows in of_protocol.items()
        ],
        curves=_curves(trained, plan.batch_size),
        trials=inline_svg(trials_figure(searched), f"The trials of {len(searched)} methods") if searched else "",
        methods=[outcome.method for outcome in comparison.rows],
        formats=_formats(of_protocol),
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


def _formats(of_protocol: Mapping[str, list[TableRow]]) -> list[tuple[str, str]]:
    formats = {"Markdown": as_markdown, "LaTeX": as_latex, "CSV": as_csv}
    return [
        (f"{name}, {protocol}" if len(of_protocol) > 1 else name, write(rows))
        for protocol, rows in of_protocol.items()
        for name, write in formats.items()
    ]


def _introduction(plan: Plan, comparison: Comparison, machine: str) -> str:
    trained = "the layer behind a frozen network" if plan.frozen else "each method"
    what = "the learning rate is" if plan.rate_only else "the learning rate and its own numbers are"
    trials = sorted({len(chosen.trials) for outcome in comparison.rows for chosen in outcome.chosen.values()} - {0})
    searched = f"All at learning rate {plan.learning_rate:g} and with their published numbers."
    if trials:
        searched = (
            f"For each method, {what} the best of {' or '.join(map(str, trials))} whole trainings at random values, "
            f"judged on {_validated(plan)}."
        )
    elif plan.chosen is not None:
        searched = "The learning rate and the numbers of each method are those that an earlier search chose."
    repeated = f"{_several(plan.seeds, 'seed')} in {_several(plan.splits, 'split')} of the classes"
    return (
        f"{plan.data}: {trained} from the same weights, with the same batches of {plan.batch_size}, {plan.steps} "
        f"steps, {repeated}; tested is the best of {plan.validations + 1} looks at validation classes, the first of "
        f"them before training. {searched} Machine: {machine}, {_several(plan.jobs, 'training')} at a time."
    )


def _note(plan: Plan, comparison: Comparison) -> str:
    """What the columns mean."""
    over = [
        name
        for name, several in (("seeds", plan.seeds > 1), ("splits", plan.splits > 1), ("test classes", True))
        if several
    ]
    parts = [f"Per cent, mean ± half of the 95% interval over {_listed(over)}."]
    if any(outcome.method.name == OURS and outcome.results for outcome in comparison.rows):
        parts.append("To Smooth-AP: the difference in mAP in pairs of the same seed, split and queries.")
    parts.append("Two methods that share a letter of their group cannot be told apart (5%, Holm's rule for all pairs).")
    if any(outcome.method.start for outcome in comparison.rows):
        parts.append("NAME + NAME has the steps of both; its control is the last loss in both stages.")
    if any(chosen.edges for outcome in comparison.rows for chosen in outcome.chosen.values()):
        parts.append("* at an edge of what was tried: a better value may lie beyond it.")
    return " ".join(parts)


def _validated(plan: Plan) -> str:
    return f"{plan.folds} folds of the training classes" if plan.folds > 1 else "validation classes"


def _several(count: int, word: str) -> str:
    return f"{count} {word}{'s' if count > 1 else ''}"


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _chosen(outcome: Outcome) -> list[dict[str, Any]]:
    """The values of each split with all trials, as `read_plan` takes them back."""
    return [asdict(outcome.chosen[split]) for split in sorted(outcome.chosen)]


def _without_classes(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name != "by_class"}
