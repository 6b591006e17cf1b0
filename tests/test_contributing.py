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
