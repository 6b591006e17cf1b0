"""What a comparison leaves in its folder: the table in Markdown, a page, and every number as JSON."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict

from smoothap.compare._page import write_page
from smoothap.compare._run import RunResult
from smoothap.compare._table import as_markdown, tables
from smoothap.compare.plan import Plan
from smoothap.compare.runner import Outcome
from smoothap.files import write_atomically
from smoothap.metrics.report import copies_warning


def write_output(plan: Plan, untrained: RunResult, outcomes: Sequence[Outcome], command: str) -> str:
    """Write table.md, results.json and page.html; returns the table with its introduction, as text."""
    of_protocol = tables(untrained, outcomes)
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    rates = ", ".join(f"{rate:.1e}" for rate in plan.rates)
    chosen_rate = (
        f"The learning rate of each was picked out of {rates} by the validation mAP after {plan.search_steps} steps."
        if rates
        else f"All at learning rate {plan.learning_rate:.1e}."
    )
    introduction = (
        f"{plan.data}: each method from the same weights, with the same batches of {plan.batch_size}, "
        f"{plan.steps} steps, {plan.seeds} seed{'s' if plan.seeds > 1 else ''}; tested is the "
        f"best of {plan.validations + 1} looks at the validation classes, the first of them before training. "
        f"{chosen_rate} Machine: {machine}."
    )
    warnings = {
        protocol: copies_warning(report.get("copies", 0), report["queries"] + report["skipped"])
        for protocol, report in untrained.test.items()
    }
    text = "\n\n".join(
        part
        for protocol, rows in of_protocol.items()
        for part in (protocol if len(of_protocol) > 1 else "", as_markdown(rows), warnings[protocol])
        if part
    )
    results = {
        "command": command,
        "machine": machine,
        "settings": plan.described(),
        "tables": {protocol: [asdict(row) for row in rows] for protocol, rows in of_protocol.items()},
        "runs": [asdict(result) for outcome in outcomes for result in outcome.results],
        "failures": {outcome.method.name: outcome.failure for outcome in outcomes if outcome.failure},
    }
    without_nan = json.loads(json.dumps(results), parse_constant=lambda _: None)  # JSON has no such number
    write_atomically(plan.out / "table.md", f"{introduction}\n\n    {command}\n\n{text}\n")
    write_atomically(plan.out / "results.json", json.dumps(without_nan, indent=1) + "\n")
    write_page(
        plan.out / "page.html", title=f"Methods compared on {plan.data}", introduction=introduction,
        tables=of_protocol, warnings=warnings, outcomes=outcomes, command=command,
    )  # fmt: skip
    return f"{introduction}\n\n{text}"
