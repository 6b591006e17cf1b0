"""A result of docs/guarantees.md counts until what it is about changes."""

import subprocess

import long_tests
import pytest
from guarantees import GUARANTEES

LOSS = "src/smoothap/losses/smooth_ap.py"
CORE = "src/smoothap/_core/threads.py"  # which the loss imports
OTHERS = "src/smoothap/server/app.py", "src/smoothap/_core/files.py"
TEST = "tests/losses/test_smooth_ap.py"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A repository with files that guarantee 1 covers, a test of it, and files that it does not cover."""
    for name in (LOSS, CORE, TEST, *OTHERS):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("from smoothap._core.threads import pool" if name == LOSS else "before")
    monkeypatch.setattr(long_tests, "ROOT", tmp_path)
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    return tmp_path


def git(folder, *words):
    author = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *author, *words], cwd=folder, check=True, capture_output=True)


def commit(folder):
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "change")


def is_valid(**changes):
    row = {"kept": True, "commit": long_tests.commit_here(), "tests": [f"{TEST}::test_gradients"]} | changes
    return lambda: long_tests.is_valid(1, {"1": row})


def test_a_result_is_valid_until_the_code_it_covers_or_its_test_changes(project):
    assert "losses" in GUARANTEES[1].covers
    for changed in (LOSS, CORE, TEST):
        valid = is_valid()
        assert valid()
        for other in OTHERS:
            (project / other).write_text(changed)
        assert valid()
        with (project / changed).open("a") as file:
            file.write("\nafter")
        assert not valid()
        commit(project)
        assert not valid()


def test_a_result_of_changes_that_are_not_committed_is_never_valid(project):
    (project / LOSS).write_text("after")
    valid = is_valid()
    assert long_tests.commit_here().endswith("+")
    commit(project)
    assert not valid()


@pytest.mark.parametrize("changes", [{"kept": False}, {"commit": "0123abcd"}], ids=["broken", "unknown commit"])
def test_a_result_that_was_not_kept_or_of_an_unknown_commit_is_not_valid(project, changes):
    assert is_valid()()
    assert not is_valid(**changes)()


def test_what_has_no_result_yet_is_not_valid(project):
    assert not long_tests.is_valid(1, {})
