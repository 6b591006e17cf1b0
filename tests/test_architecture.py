"""The rooms of the package and the arrows between them: who may import whom."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "smoothap"

# room -> the rooms it may import. A room is a folder or a file directly under src/smoothap.
ARROWS: dict[str, set[str]] = {
    "__init__": {"ranking", "losses", "metrics"},
    "__main__": {"cli", "extras"},
    "ranking": set(),
    "losses": {"ranking"},
    "metrics": {"ranking", "distributed", "progress"},
    "distributed": set(),
    "files": set(),
    "sealed_json": {"files"},
    "memory": set(),
    "progress": set(),
    "torchvision_guard": set(),
    "data": {"torchvision_guard", "files", "progress"},
    "models": {"torchvision_guard", "files", "sealed_json", "data", "memory", "progress"},
    "training": {"data", "models", "metrics", "ranking", "distributed", "files", "sealed_json", "memory", "progress"},
    "report": {"ranking", "metrics", "data", "files"},
    "search": {"metrics", "models", "data", "files", "sealed_json", "memory", "progress"},
    "compare": {"training", "losses", "metrics", "models", "data", "report", "files", "progress"},
    "analysis": {
        "experiments", "ranking", "training", "losses", "metrics", "models", "data", "report", "files", "progress",
    },
    "experiments": {"data", "models", "extras"},
    "extras": set(),
    "web": {"search", "report", "data", "ranking"},
    "cli": {
        "ranking", "losses", "metrics", "data", "models", "training", "report", "search", "compare", "analysis",
        "web", "experiments", "extras", "distributed", "files", "progress",
    },
}  # fmt: skip

# The core needs torch and numpy; numba is looked for where the extra `fast` is installed.
CORE = {"ranking", "losses", "metrics", "distributed", "progress"}
CORE_MAY_IMPORT = {"torch", "numpy", "numba", "smoothap"} | set(sys.stdlib_module_names)


def room_of(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_modules(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: write imports in full, not relative"
            names.add(node.module or "")
            if node.module == "smoothap":
                names |= {f"smoothap.{alias.name}" for alias in node.names}
    return names


def wrong_arrows(room: str, modules: set[str]) -> list[str]:
    rooms = {module.split(".")[1] for module in modules if module.startswith("smoothap.")}
    return sorted(rooms - ARROWS[room] - {room})


SOURCES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_follow_the_arrows(file):
    room = room_of(file)
    assert room in ARROWS, f"{room} is a new room: give it its arrows here and in docs/architecture.md"
    modules = imported_modules(file)
    assert not wrong_arrows(room, modules), f"{room} may not import {wrong_arrows(room, modules)}"
    if room in CORE:
        outside = {module.split(".")[0] for module in modules} - CORE_MAY_IMPORT
        assert not outside, f"{room} is core and needs torch and numpy alone, not {sorted(outside)}"


def test_a_wrong_arrow_is_seen():
    assert wrong_arrows("ranking", {"smoothap.losses.smooth_ap", "torch"}) == ["losses"]
    assert wrong_arrows("losses", {"smoothap.ranking"}) == []


def test_no_room_is_named_after_nothing():
    forbidden = {"utils", "common", "helpers", "base", "manager", "misc"}
    assert not [file for file in SOURCES if file.stem in forbidden]


def test_importing_the_core_brings_torch_and_nothing_heavy():
    heavy = ["torchvision", "timm", "matplotlib", "PIL", "rich", "cyclopts", "pandas", "sklearn", "numba", "fastapi"]
    code = f"import sys; from smoothap import SmoothAP, evaluate; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_help_does_not_import_torch():
    run = "from smoothap.cli import app; app(['--help'], result_action='return_value')"
    code = f"import sys; {run}; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip().endswith("False")
