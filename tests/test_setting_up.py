"""What `make demo` and `make test` set up, with a pip that only notes what it is asked for."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
PIP = """#!/bin/sh
echo "$@" >> calls.txt
echo "WARNING: the index of this machine" >&2
exit $PIP_ENDS_WITH
"""


@pytest.fixture
def project(tmp_path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, script in {"python": PIP, "smoothap": "#!/bin/sh\necho the demo\n"}.items():
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    return tmp_path


def make(project, *targets, pip_ends_with=0):
    environment = {"PATH": os.environ["PATH"], "PIP_ENDS_WITH": str(pip_ends_with)}
    return subprocess.run(["make", *targets], cwd=project, env=environment, capture_output=True, text=True)


def installed(project):
    return [line for line in (project / "calls.txt").read_text().splitlines() if "--editable" in line]


def test_the_demo_installs_its_own_packages_alone_and_shows_our_lines_alone(project):
    ran = make(project, "demo")
    assert ran.stdout.splitlines() == ["Setting up .venv (a few minutes the first time) ...", "the demo"]
    assert ran.stderr == ""
    assert installed(project) == ["-m pip install --quiet --editable .[demo,web]"]
    assert make(project, "demo").stdout == "the demo\n"


def test_everything_else_is_installed_by_what_needs_it_and_the_demo_needs_no_more(project):
    assert make(project, ".venv/installed").returncode == 0
    (everything,) = installed(project)
    assert ".[all]" in everything
    assert "--group test" in everything
    assert make(project, "demo").stdout == "the demo\n"


def test_where_pip_fails_its_words_are_shown_and_nothing_counts_as_installed(project):
    ran = make(project, "demo", pip_ends_with=1)
    assert ran.returncode != 0
    assert "WARNING: the index of this machine" in ran.stdout
    assert "the demo" not in ran.stdout
    assert make(project, "demo").returncode == 0
