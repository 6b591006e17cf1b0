"""What CONTRIBUTING, the hooks and CITATION say is true of this repository."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
yaml = pytest.importorskip("yaml")


def test_every_make_command_that_is_named_exists():
    named = set(re.findall(r"make ([a-z-]+)", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {"test", "help", "lint"} <= named
    assert named <= targets


def test_every_path_that_is_named_exists():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = [path for path in re.findall(r"`([\w./]+/[\w./]*)`", text) if not path.startswith(".venv")]
    absent = [path for path in paths if not (ROOT / path).exists() and not (ROOT / "src/smoothap" / path).exists()]
    assert paths
    assert not absent


def test_every_folder_of_tests_is_a_room_or_named_in_contributing():
    named = set(re.findall(r"`(\w+)`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))
    rooms = {folder.name for folder in (ROOT / "src" / "smoothap").iterdir() if folder.is_dir()}
    folders = {file.parent.name for file in (ROOT / "tests").glob("*/**/test_*.py")}
    assert "losses" in folders & rooms
    assert folders - rooms <= named


def test_no_two_test_files_have_the_same_name():
    names = [file.name for file in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names))


def test_the_hooks_fetch_nothing():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repository["repo"] for repository in hooks["repos"]] == ["local"]
    for hook in hooks["repos"][0]["hooks"]:
        assert hook["language"] == "system"
        assert hook["entry"].startswith(".venv/bin/")


def test_the_citation_is_that_of_the_paper():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["preferred-citation"]["title"].startswith("Smooth-AP: ")
    assert [author["family-names"] for author in cited["preferred-citation"]["authors"]] == [
        "Brown", "Xie", "Kalogeiton", "Zisserman",
    ]  # fmt: skip
