"""What a comparison leaves in its folder: the table in three formats, every number as JSON, and a page with figures."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from smoothap._core.files import write_atomically
from smoothap.benchmark.plan import Plan
from smoothap.benchmark.runner import Comparison, Outcome
from smoothap.benchmark.search import RATE
from smoothap.benchmark.statistics import Estimate
from smoothap.benchmark.table import MAIN, OURS, TableRow, as_csv, as_latex, as_markdown, shown_metrics, tables
from smoothap.metrics.report import copies_warning
from smoothap.plots.drawing import inline_svg, panel_figure, style_axes
from smoothap.plots.html import write_page
from smoothap.plots.palette import LIGHT

_ACROSS = 4  # small figures side by side


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
        "chosen": {  # of each split with all trials, as `read_plan` takes them back
            outcome.method.name: [asdict(outcome.chosen[split]) for split in sorted(outcome.chosen)]
            for outcome in outcomes
            if outcome.chosen
        },
        "tables": {protocol: [asdict(row) for row in rows] for protocol, rows in of_protocol.items()},
        "runs": [
            {name: value for name, value in asdict(result).items() if name != "by_class"}
            for outcome in comparison.rows
            for result in outcome.results
        ],
        "failures": {outcome.method.name: outcome.failure for outcome in comparison.rows if outcome.failure},
    }
    without_nan = json.loads(json.dumps(results), parse_constant=lambda _: None)  # JSON has no such number
    write_atomically(plan.out / "table.md", f"{introduction}\n\n    {command}\n\n{text}\n\n{note}\n")
    for number, rows in enumerate(of_protocol.values()):
        suffix = f"-{number}" if number else ""
        write_atomically(plan.out / f"table{suffix}.tex", as_latex(rows) + "\n")
        write_atomically(plan.out / f"table{suffix}.csv", as_csv(rows))
    write_atomically(plan.out / "results.json", json.dumps(without_nan, indent=1) + "\n")
    _write_page(plan, comparison, of_protocol, warnings, lead=introduction, note=note, command=command)
    return f"{introduction}\n\n{text}\n\n{note}"


def _write_page(
    plan: Plan,
    comparison: Comparison,
    of_protocol: Mapping[str, list[TableRow]],
    warnings: Mapping[str, str],
    **words: str,
) -> None:
    """One self-contained HTML file: the figures, the table in all its formats, and what makes it again."""
    alone = len(of_protocol) == 1
    headings = ["Results"] if alone else [f"Results: {protocol}" for protocol in of_protocol]
    trained = [outcome for outcome in comparison.rows if outcome.results]
    searched = [outcome for outcome in trained if any(chosen.trials for chosen in outcome.chosen.values())]
    sections = {
        **{f"test-{number}": (heading, True) for number, heading in enumerate(headings)},
        "learning": ("Learning curves", trained),
        "search": ("The search", searched),
        "methods": ("Methods and the paper's numbers", True),
        "formats": ("The table to take away", True),
    }
    curves = [
        inline_svg(
            curves_figure(trained, plan.batch_size, over_seconds=over_seconds),
            f"Learning curves of {len(trained)} methods over {'seconds' if over_seconds else 'images seen'}",
        )
        for over_seconds in (False, True)
        if trained
    ]
    formats = {"Markdown": as_markdown, "LaTeX": as_latex, "CSV": as_csv}
    write_page(
        plan.out / "page.html",
        "benchmark/page.html",
        title=f"Methods compared on {plan.data}",
        contents={name: heading for name, (heading, there) in sections.items() if there},
        protocols=[
            (rows, shown_metrics(rows), _intervals(rows), warnings[protocol]) for protocol, rows in of_protocol.items()
        ],
        curves=curves,
        trials=inline_svg(trials_figure(searched), f"The trials of {len(searched)} methods") if searched else "",
        methods=[outcome.method for outcome in comparison.rows],
        formats=[
            (name if alone else f"{name}, {protocol}", write(rows))
            for protocol, rows in of_protocol.items()
            for name, write in formats.items()
        ],
        settings=json.dumps(plan.described(), indent=1),
        **words,
    )


def _intervals(rows: Sequence[TableRow]) -> str:
    trained = [row for row in rows[1:] if row.metrics]
    if not trained:
        return ""
    untrained, best = rows[0].metrics[MAIN].value, max(trained, key=lambda row: row.metrics[MAIN].value)
    return inline_svg(
        interval_figure(trained, untrained),
        f"mAP of {len(trained)} methods with 95% intervals; the best is {best.title} with "
        f"{best.metrics[MAIN].value:.1f}, untrained is {untrained:.1f}",
    )


def _introduction(plan: Plan, comparison: Comparison, machine: str) -> str:
    trained = "the layer behind a frozen network" if plan.frozen else "each method"
    what = "the learning rate is" if plan.rate_only else "the learning rate and its own numbers are"
    trials = sorted({len(chosen.trials) for outcome in comparison.rows for chosen in outcome.chosen.values()} - {0})
    searched = f"All at learning rate {plan.learning_rate:g} and with their published numbers."
    if trials:
        searched = (
            f"For each method, {what} the best of {' or '.join(map(str, trials))} whole trainings at random values, "
            f"judged on {f'{plan.folds} folds of the training classes' if plan.folds > 1 else 'validation classes'}."
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
    over = ["seeds"] * (plan.seeds > 1) + ["splits"] * (plan.splits > 1) + ["test classes"]
    listed = " and ".join([", ".join(over[:-1]), over[-1]] if over[1:] else over)
    parts = [f"Per cent, mean ± half of the 95% interval over {listed}."]
    if any(outcome.method.name == OURS and outcome.results for outcome in comparison.rows):
        parts.append("To Smooth-AP: the difference in mAP in pairs of the same seed, split and queries.")
    parts.append("Two methods that share a letter of their group cannot be told apart (5%, Holm's rule for all pairs).")
    if any(outcome.method.start for outcome in comparison.rows):
        parts.append("NAME + NAME has the steps of both; its control is the last loss in both stages.")
    if any(chosen.edges for outcome in comparison.rows for chosen in outcome.chosen.values()):
        parts.append("* at an edge of what was tried: a better value may lie beyond it.")
    return " ".join(parts)


def _several(count: int, word: str) -> str:
    return f"{count} {word}{'s' if count > 1 else ''}"


def interval_figure(rows: Sequence[TableRow], untrained: float) -> Figure:
    """Dots with 95% intervals, the best on top: mAP, and where Smooth-AP is among them the difference to it.

    A dashed line is the untrained network on the left, no difference on the right; letters are the groups.
    """
    rows = sorted(rows, key=lambda row: row.metrics[MAIN].value)
    compared = any(row.differences for row in rows)
    figure = panel_figure(9.6 if compared else 7.4, 0.9 + 0.27 * len(rows))
    panels = figure.subplots(1, 2 if compared else 1, sharey=True, squeeze=False, width_ratios=(3, 2)[: 1 + compared])[
        0
    ]
    places = np.arange(len(rows))
    _dots(panels[0], rows, [row.metrics[MAIN] for row in rows], untrained)
    panels[0].set(xlabel="mAP on the test classes, per cent", ylim=(-0.7, len(rows) - 0.3))
    panels[0].set_yticks(places, [row.title for row in rows])
    if compared:
        none = Estimate(0.0, 0.0, 0.0)
        _dots(panels[1], rows, [row.differences.get(MAIN, none) for row in rows], 0.0)
        panels[1].set(xlabel="mAP less that of Smooth-AP")
        panels[1].tick_params(left=False)
    for place, row in zip(places, rows, strict=True):
        panels[-1].annotate(
            row.group, (1, place), (6, 0), xycoords=("axes fraction", "data"), textcoords="offset points", va="center",
            color=LIGHT["soft"], fontsize=9.5,
        )  # fmt: skip
    return figure


def _dots(axes: Axes, rows: Sequence[TableRow], values: Sequence[Estimate], line: float) -> None:
    axes.axvline(line, color=LIGHT["soft"], linestyle="--", linewidth=1.2)
    for place, (row, value) in enumerate(zip(rows, values, strict=True)):
        colour = LIGHT["green" if row.name == OURS else "blue"]
        axes.plot([value.low, value.high], [place, place], color=colour, linewidth=1.8, solid_capstyle="butt")
        axes.plot(value.value, place, "o", color=colour, markersize=5.5)
    axes.grid(axis="y", color=LIGHT["line"], linewidth=0.8)
    axes.set_axisbelow(True)
    style_axes(axes)


def curves_figure(outcomes: Sequence[Outcome], batch_size: int, *, over_seconds: bool) -> Figure:
    """A small curve for each method, its runs thin and their mean thick, with Smooth-AP's beside it in green."""
    curves: list[np.ndarray] = []  # images or seconds, and mAP in per cent, of all runs, (runs, n, 2)
    for outcome in outcomes:
        shortest = min(len(result.curve) for result in outcome.results)
        looks = np.array([result.curve[:shortest] for result in outcome.results])
        across = looks[..., 1] if over_seconds else batch_size * looks[..., 0]
        curves.append(np.stack([across, 100 * looks[..., 2]], axis=-1))
    names = [outcome.method.name for outcome in outcomes]
    ours = curves[names.index(OURS)] if OURS in names else None
    everything = np.concatenate([of_runs[..., 1].ravel() for of_runs in curves])
    room = 0.06 * max(float(np.ptp(everything)), 1.0)
    limits = float(everything.min()) - room, float(everything.max()) + room
    figure, panels = _small_panels(outcomes, "seconds" if over_seconds else "images seen", "val. mAP")
    for axes, of_runs in zip(panels, curves, strict=True):
        if ours is not None and of_runs is not ours:
            axes.plot(*ours.mean(0).T, color=LIGHT["green"], linewidth=1.6, linestyle="--")
        colour = LIGHT["green" if of_runs is ours else "blue"]
        for curve in of_runs:
            axes.plot(*curve.T, color=colour, linewidth=0.8, alpha=0.4)
        axes.plot(*of_runs.mean(0).T, "o-", color=colour, linewidth=2, markersize=2.5)
        axes.set_ylim(limits)
        axes.xaxis.set_major_locator(MaxNLocator(3, integer=not over_seconds))
    return figure


def trials_figure(outcomes: Sequence[Outcome]) -> Figure:
    """The validation mAP of every trial over its learning rate; the chosen ones have a ring, a red one at an edge."""
    figure, panels = _small_panels(outcomes, "learning rate", "val. mAP")
    for axes, outcome in zip(panels, outcomes, strict=True):
        for chosen in outcome.chosen.values():
            rates = [trial.values[RATE] for trial in chosen.trials]
            values = [100 * trial.validation_map for trial in chosen.trials]
            axes.plot(rates, values, "o", color=LIGHT["blue"], markersize=3.5, alpha=0.7)
            best = max((value, rate) for value, rate in zip(values, rates, strict=True) if rate == chosen.values[RATE])
            axes.plot(
                best[1], best[0], "o", markersize=9, markerfacecolor="none", markeredgewidth=1.6,
                markeredgecolor=LIGHT["red" if chosen.edges else "green"],
            )  # fmt: skip
        axes.set_xscale("log")
        axes.margins(0.08, 0.12)  # room for the rings
        axes.xaxis.set_major_locator(LogLocator(numticks=4))
        axes.xaxis.set_minor_formatter(NullFormatter())
    return figure


def _small_panels(outcomes: Sequence[Outcome], across: str, up: str) -> tuple[Figure, list[Axes]]:
    """A figure with a small panel for each method, with their titles and the labels of the outer axes."""
    columns = min(_ACROSS, len(outcomes))
    lines = -(-len(outcomes) // columns)
    figure = panel_figure(2.4 * columns + 0.5, 1.7 * lines + 0.5, 0.06, 0.06)
    panels = []
    for place, outcome in enumerate(outcomes):
        axes = figure.add_subplot(lines, columns, place + 1)
        axes.yaxis.set_major_locator(MaxNLocator(4))
        style_axes(axes)
        axes.tick_params(labelsize=8.5)
        title = "\n+ ".join(stage.title.rpartition(" + ")[2] for stage in outcome.method.stages)
        axes.set_title(title if outcome.method.start else outcome.method.title, color=LIGHT["ink"], fontsize=9)
        if place % columns == 0:
            axes.set_ylabel(up, fontsize=9)
        if place >= len(outcomes) - columns:
            axes.set_xlabel(across, fontsize=9)
        panels.append(axes)
    return figure, panels
