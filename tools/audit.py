"""Which packages we pin, their licences, and whether a flaw is known in one of them. Run by `make audit`.

pip-audit asks the package index's advisory service; without a connection this says so and fails.
"""

import importlib.metadata
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def licence_of(name: str) -> str:
    """What the installed package says of its licence."""
    try:
        about = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed here"
    classifiers = [each.rpartition(":: ")[2] for each in about.get_all("Classifier") or [] if "License ::" in each]
    stated = about.get_all("License-Expression") or classifiers or about.get_all("License") or []
    return "; ".join(stated).split("\n")[0][:80] or "unknown"


def main() -> None:
    """Print the licences, run pip-audit, and end with one line that sums it up."""
    pinned = re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    for name in pinned:
        print(f"{name:<36} {licence_of(name)}")
    command = [sys.executable, "-m", "pip_audit", "--requirement", "constraints.txt", "--no-deps", "--disable-pip"]
    result = subprocess.run(
        [*command, "--format", "json", "--progress-spinner", "off"], cwd=ROOT, capture_output=True, text=True
    )
    try:
        audited = json.loads(result.stdout)["dependencies"]
    except (ValueError, KeyError):
        last = (result.stderr.strip().splitlines() or ["no answer"])[-1]
        print(f"{len(pinned)} packages and their licences listed; pip-audit could not ask its service: {last[:200]}")
        sys.exit(1)
    flawed = {each["name"]: [flaw["id"] for flaw in each["vulns"]] for each in audited if each.get("vulns")}
    for name, flaws in flawed.items():
        print(f"{name}: {', '.join(flaws)}")
    print(f"{len(audited)} packages audited, {len(flawed)} with a known flaw; licences listed")
    sys.exit(1 if flawed else 0)


if __name__ == "__main__":
    main()
