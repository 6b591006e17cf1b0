"""Mutation tests: one small fault at a time in the code that everything rests on, which a test must catch.

    python tools/mutation.py [TARGET ...] [--sample 12] [--seed 0]

cosmic-ray makes the faults (another operator, number, comparison or condition), in a copy of the project. Of each
target a sample is tried, at most one fault a place. A fault that no test catches is printed: it changes nothing that
anybody can see, or a test is missing. The last line is the share that was caught.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
PATIENCE = 5  # times as long as without a fault may the tests of a fault take, which then counts as caught
LEAST = 0.75  # the share that must be caught: some faults change nothing but speed, memory or what is shown


class Target(NamedTuple):
    """Files or folders below src/smoothap, and the tests that should catch a fault in them."""

    sources: tuple[str, ...]
    tests: tuple[str, ...]


TARGETS = {
    "functional": Target(("functional",), ("tests/functional", "tests/losses")),
    "losses": Target(("losses",), ("tests/losses",)),
    "metrics": Target(("metrics",), ("tests/metrics",)),
    "samplers": Target(("data/samplers.py", "data/_class_stream.py"), ("tests/data/test_samplers.py",)),
    "store": Target(
        ("album/store.py", "album/settings.py", "album/growing.py", "album/database.py", "album/postings.py"),
        ("tests/album/test_store.py", "tests/album/test_postings.py", "tests/album/test_album_on_disk.py"),
    ),
}


def try_faults(target: Target, sample: int, seed: int) -> tuple[int, list[str]]:
    """How many faults were tried, and what those that survived look like."""
    from cosmic_ray.work_db import WorkDB, use_db
    from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkResult

    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "project"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__", "runs", ".milvus"))
        tests = f"{sys.executable} -m pytest -x -q -p no:cacheprovider {' '.join(target.tests)}"
        paths = ", ".join(f'"src/smoothap/{source}"' for source in target.sources)

        def configure(timeout: float) -> None:
            (copy / "mutation.toml").write_text(
                f'[cosmic-ray]\nmodule-path = [{paths}]\ntimeout = {timeout}\nexcluded-modules = ["**/__init__.py"]\n'
                f'test-command = "{tests}"\n\n[cosmic-ray.distributor]\nname = "local"\n',
                encoding="utf-8",
            )

        environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}

        def cosmic_ray(command: str) -> None:
            words = [sys.executable, "-m", "cosmic_ray.cli", command, "mutation.toml"]
            words += ["session.sqlite"] if command != "baseline" else []
            subprocess.run(words, cwd=copy, check=True, env=environment)

        configure(3_600.0)
        began = time.monotonic()
        cosmic_ray("baseline")  # the tests pass without a fault
        configure(PATIENCE * (time.monotonic() - began))
        cosmic_ray("init")
        session = str(copy / "session.sqlite")
        with use_db(session, WorkDB.Mode.open) as database:
            chosen = _sample(list(database.work_items), sample, seed)
            for item in database.work_items:
                if item.job_id not in chosen:
                    database.set_result(item.job_id, WorkResult(worker_outcome=WorkerOutcome.SKIPPED))
        cosmic_ray("exec")
        with use_db(session, WorkDB.Mode.open) as database:
            tried = [result for _, result in database.results if result.worker_outcome != WorkerOutcome.SKIPPED]
    survived = [str(result.diff) for result in tried if result.test_outcome == TestOutcome.SURVIVED]
    return len(tried), survived


def _sample(items: list[Any], size: int, seed: int) -> set[str]:
    """Faults by their ids: at most one a place, and none in a type such as `int | None`."""
    draw, places = random.Random(seed), dict[tuple[str, Any], list[str]]()
    for item in items:
        (mutation,) = item.mutations
        if "_BitOr_" not in mutation.operator_name:
            places.setdefault((str(mutation.module_path), mutation.start_pos), []).append(item.job_id)
    drawn = draw.sample(sorted(places, key=str), min(size, len(places)))
    return {draw.choice(places[place]) for place in drawn}


def main() -> None:
    """Try the targets that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(TARGETS)}; all by default")
    parser.add_argument("--sample", type=int, default=12, help="faults of each target")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if unknown := set(options.targets) - set(TARGETS):
        parser.error(f"there is no target {', '.join(unknown)}")
    tried = caught = 0
    for name in options.targets or TARGETS:
        number, survived = try_faults(TARGETS[name], options.sample, options.seed)
        for diff in survived:
            print(f"\nSurvived in {name}:\n{diff}")
        print(f"{name}: {number - len(survived)} of {number} faults caught", flush=True)
        tried, caught = tried + number, caught + number - len(survived)
    print(f"{caught} of {tried} faults caught")
    sys.exit(1 if caught < LEAST * tried else 0)


if __name__ == "__main__":
    main()
