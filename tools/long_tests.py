"""Run the long form of every guarantee, print the table, and write docs/guarantees.md. Run by `make test-long`.

    python tools/long_tests.py [NUMBER ...] [--all] [--short]

Without numbers, those are tried whose last result is valid no more: it was of changes that nobody committed, or the
files that the guarantee covers, or its tests, have changed since. Each result is kept as soon as it is there, with the
commit that it belongs to, so that the whole need not be run in one go.
"""

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from guarantees import GUARANTEES

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "guarantees.md"
RESULTS = ROOT / "docs" / "guarantees.json"
BY_SCRIPT = {6: "mutation.py", 20: "audit.py"}  # these print their result as their last line


def run_tests(number: int, short: bool) -> dict[str, Any]:
    """Run the tests of a guarantee, and sum up what became of them."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "guarantees.json"
        environment = {**os.environ, "SMOOTHAP_GUARANTEES": f"{file}:{number}"}
        if not short:
            environment["SMOOTHAP_LONG"] = "1"
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-m", "guarantee"]
        done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
        outcomes = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    kept = outcomes.get(str(number), [])
    failed = [each["test"] for each in kept if each["outcome"] == "failed"]
    passed = [each["test"] for each in kept if each["outcome"] == "passed"]
    measured = list(dict.fromkeys(words for each in kept for words in each["measured"]))
    passes = f"{len(passed)} test{'s' if len(passed) != 1 else ''} passed"
    if done.returncode and not failed:
        passes += f"; pytest ended with exit code {done.returncode}"
    return {
        "kept": bool(passed) and not done.returncode,
        "measured": f"failed: {failed[0]}" if failed else "; ".join([passes, *measured]),
        "tests": sorted({re.sub(r"\[.*", "", test) for test in passed + failed}),
        "seconds": round(time.monotonic() - began),
    }


def run_script(number: int) -> dict[str, Any]:
    """Run a guarantee that is shown by a program of its own."""
    began = time.monotonic()
    script = Path(__file__).parent / BY_SCRIPT[number]
    result = subprocess.run([sys.executable, str(script)], cwd=ROOT, capture_output=True, text=True)
    lines = result.stdout.strip().splitlines() or [result.stderr.strip()[-300:]]
    print("\n".join(lines[:-1]), result.stderr[-2000:] if result.returncode else "", flush=True)
    return {
        "kept": result.returncode == 0,
        "measured": lines[-1],
        "tests": [f"tools/{script.name}"],
        "seconds": round(time.monotonic() - began),
    }


def print_row(number: int, row: dict[str, Any]) -> None:
    """One line of the table on the terminal."""
    state = "kept  " if row["kept"] else "BROKEN"
    print(
        f"{number:>3}  {state}  {GUARANTEES[number].guarantee:<40} {row['measured']}  ({row['seconds']} s)", flush=True
    )


HEAD = """# Guarantees

This page tells you what you can rely on, how we test it, and what came out when we last did. You can test any guarantee
yourself, for example number 9, that a training which is killed and resumed ends with the same weights:

```
make test-long GUARANTEE=9
```

`make test` tests every guarantee in a short form, which takes minutes. `make test-long` tests them in the long form
of the table, which takes hours, and writes each result into the table. A result stays valid until the code that the
guarantee covers changes, or its tests; without a number, only what has no valid result is run again.

In the table, *aim* is what the long form must reach, and *last result* is what it reached, with the day, the commit
(with a + if changes were not committed yet) and the seconds it took. *Bit-equal* means equal in every bit. *Hypothesis*
and *gradcheck* are the tools that make up random cases and that compare a gradient with finite differences.

| # | guarantee | how it is tested | aim | last result | tests |
| --- | --- | --- | --- | --- | --- |"""


def write_page(results: dict[str, Any]) -> None:
    """docs/guarantees.md: the table, with the last result of each guarantee."""
    lines = [HEAD]
    for number, guarantee in GUARANTEES.items():
        row = results.get(str(number))
        files = sorted({test.partition("::")[0] for test in row["tests"]}) if row else []
        last = (
            f"{row['measured']} ({row['day']}, {row.get('commit', 'commit not kept')}, {row['seconds']} s)"
            if row
            else "not yet run in its long form"
        )
        shown = ", ".join(f"`{file}`" for file in files)
        lines.append(f"| {number} | {guarantee.guarantee} | {guarantee.proof} | {guarantee.aim} | {last} | {shown} |")
    total = sum(row["seconds"] for row in results.values())
    lines += ["", f"The long forms of these {len(results)} took {total / 60:.0f} minutes together on two cores.", ""]
    PAGE.write_text("\n".join(lines), encoding="utf-8")


def main() -> None:
    """Try the guarantees asked for, print the table, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "numbers", type=int, nargs="*", help="which guarantees; by default those without a valid result"
    )
    parser.add_argument("--all", action="store_true", help="all of them")
    parser.add_argument(
        "--short", action="store_true", help="the short forms, as in make test; the page is not written"
    )
    options = parser.parse_args()
    rows: dict[int, dict[str, Any]] = {}
    known = read_results()
    wanted = [number for number in GUARANTEES if options.all or options.short or not is_valid(number, known)]
    for number in options.numbers or wanted:
        commit = commit_here()
        rows[number] = run_script(number) if number in BY_SCRIPT else run_tests(number, options.short)
        print_row(number, rows[number])
        if not options.short:
            keep(number, {**rows[number], "commit": commit})
    broken = [number for number, row in rows.items() if not row["kept"]]
    print(f"{len(rows) - len(broken)} of {len(rows)} guarantees kept" + (f"; broken: {broken}" if broken else ""))
    sys.exit(1 if broken else 0)


def read_results() -> dict[str, Any]:
    """The last result of each guarantee, by its number."""
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}


def is_valid(number: int, results: dict[str, Any]) -> bool:
    """Whether a guarantee was kept when it was last tried, and nothing that it covers has changed since."""
    row = results.get(str(number), {})
    commit = row.get("commit", "+")
    if commit.endswith("+") or not row["kept"]:
        return False
    covered = {each if "." in each else f"src/smoothap/{each}" for each in GUARANTEES[number].covers}
    covered |= {core for each in covered for core in core_modules(ROOT / each)}
    tests = {test.partition("::")[0] for test in row["tests"]}
    unchanged = ["git", "diff", "--quiet", commit, "--", *sorted(covered | tests)]
    return subprocess.run(unchanged, cwd=ROOT, check=False, capture_output=True).returncode == 0


def core_modules(place: Path) -> set[str]:
    """The files of `_core` that a package imports."""
    source = "".join(file.read_text(encoding="utf-8") for file in place.rglob("*.py"))
    return {f"src/smoothap/_core/{name}.py" for name in re.findall(r"smoothap\._core\.(\w+)", source)}


def commit_here() -> str:
    """The commit that is checked out; with a + if code is changed that is not committed yet."""
    short = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(short, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    changed = ["git", "diff", "--quiet", "HEAD", "--", "src", "tests", "pyproject.toml", "constraints.txt"]
    return commit + ("+" if subprocess.run(changed, cwd=ROOT, check=False).returncode else "")


def keep(number: int, row: dict[str, Any]) -> None:
    """Put a result into the file and the page, with the day."""
    results = read_results()
    results[str(number)] = {**row, "day": datetime.date.today().isoformat()}
    RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    write_page(results)


if __name__ == "__main__":
    main()
