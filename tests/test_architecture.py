"""docs/packages.md and docs/architecture.md are true: the arrows between packages, the walks through the code."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "smoothap"
PAGE, PACKAGES = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("architecture.md", "packages.md"))

# The core needs torch and numpy; numba is looked for where the extra `fast` is installed.
CORE = {"_core", "functional", "losses", "metrics"}
CORE_MAY_IMPORT = {"torch", "numpy", "numba", "smoothap"} | set(sys.stdlib_module_names)


def module_of(file: Path) -> str:
    parts = ("smoothap", *file.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(file): file for file in sorted(SOURCE.rglob("*.py"))}


@cache
def imports_of(text: str, *, hidden: bool = True) -> set[str]:
    """The modules that a text imports, anywhere in it; with `hidden` also those in strings and for types alone."""
    tree = ast.parse(text)
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    names: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in for_types and not hidden:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "write imports in full, not relative"
            names |= {
                name if (name := f"{node.module}.{alias.name}") in MODULES else str(node.module) for alias in node.names
            }
        elif hidden and isinstance(node, ast.Constant) and isinstance(node.value, str):
            module = node.value.partition(":")[0]
            names |= {module} & set(MODULES) - {"smoothap"}
    return names


def package_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def arrows() -> dict[str, set[str]]:
    """Which packages each package imports, by the source; the two files that start everything are no packages."""
    found: dict[str, set[str]] = defaultdict(set)
    for module, file in MODULES.items():
        ours = {name for name in imports_of(file.read_text(encoding="utf-8")) if name.partition(".")[0] == "smoothap"}
        found[package_of(module)] |= {package_of(name) for name in ours} - {package_of(module)}
    return {package: packages for package, packages in found.items() if package not in ("__init__", "__main__")}


def arrows_of_the_page() -> dict[str, set[str]]:
    rows = re.findall(r"^\| `(\w+)(?:/|\.py)` \| .* \| ([^|]*) \|$", PACKAGES, re.MULTILINE)
    return {package: set(re.findall(r"`(\w+)`", cell)) for package, cell in rows}


def walks_of_the_page() -> list[list[tuple[str, str]]]:
    """The stops of each walk: a file and the name to look at."""
    return [
        re.findall(r"^\| `([\w/]+\.py)` \| `(\w+)` \|", walk, re.MULTILINE)
        for walk in PAGE.partition("## Three walks")[2].partition("\n## ")[0].split("**From ")[1:]
    ]


def test_the_table_of_packages_is_what_the_imports_say():
    assert arrows_of_the_page() == arrows()


def test_no_package_leads_back_to_itself():
    TopologicalSorter(arrows()).prepare()  # raises CycleError


def test_no_module_leads_back_to_itself():
    graph = {
        module: imports_of(file.read_text(encoding="utf-8"), hidden=False) & set(MODULES) - {module}
        for module, file in MODULES.items()
    }
    TopologicalSorter(graph).prepare()


def test_a_module_with_a_leading_underscore_is_its_own_packages_business():
    for module, file in MODULES.items():
        ours = {name for name in imports_of(file.read_text(encoding="utf-8")) if name.startswith("smoothap.")}
        private = {
            name
            for name in ours
            if "._" in name.removeprefix("smoothap._core") and package_of(name) != package_of(module)
        }
        assert not private, f"{module} imports {', '.join(sorted(private))}"


def test_an_import_is_seen_wherever_it_hides():
    text = 'import torch\nif TYPE_CHECKING:\n    import smoothap.data\nrun = "smoothap.cli.train:train"\n'
    text += "def later():\n    from smoothap.album import Album, engines\n"
    assert imports_of(text) == {
        "torch", "smoothap.data", "smoothap.cli.train", "smoothap.album", "smoothap.album.engines",
    }  # fmt: skip
    assert imports_of(text, hidden=False) == {"torch", "smoothap.album", "smoothap.album.engines"}


@pytest.mark.parametrize("module", [module for module in MODULES if package_of(module) in CORE])
def test_the_core_needs_torch_and_numpy_alone(module):
    outside = {name.split(".")[0] for name in imports_of(MODULES[module].read_text(encoding="utf-8"))}
    assert outside <= CORE_MAY_IMPORT


@pytest.mark.parametrize("walk", [0, 1, 2])
def test_a_walk_is_a_way_that_the_code_takes(walk):
    stops = walks_of_the_page()[walk]
    assert 5 <= len(stops) <= 8
    files = [file for file, _ in stops]
    assert len(set(files)) == len(files), "a walk that comes back to a file is no walk"
    for file, name in stops:
        text = (SOURCE / file).read_text(encoding="utf-8")
        assert re.search(rf"^((async )?def|class) {name}\b", text, re.MULTILINE), f"{file} has no {name}"
    for place, file in enumerate(files[1:], start=1):
        before = " ".join((SOURCE / earlier).read_text(encoding="utf-8") for earlier in files[:place])
        module = module_of(SOURCE / file)
        package = module.rpartition(".")[0]
        assert module in before or re.search(rf"from {package} import .*\b{stops[place][1]}\b", before), file


def test_every_package_says_what_a_stranger_may_touch():
    for init in SOURCE.glob("*/__init__.py"):
        package = import_module(module_of(init))
        for name in package.__all__:
            assert f"{package.__name__}.{name}" in MODULES or hasattr(package, name), (
                f"{package.__name__} has no {name}"
            )


def test_no_package_is_named_after_nothing():
    forbidden = {"utils", "common", "helpers", "base", "manager", "misc"}
    assert not [file for file in MODULES.values() if file.stem in forbidden]


def test_importing_the_core_brings_torch_and_nothing_heavy_and_the_default_network_no_timm():
    heavy = ["torchvision", "timm", "matplotlib", "PIL", "rich", "cyclopts", "pandas", "sklearn", "numba", "fastapi"]
    code = f"""
import sys
from smoothap import SmoothAP, evaluate
print([m for m in {heavy} if m in sys.modules])
from smoothap.models import Embedder
Embedder(size=64, pretrained=False)
print([m for m in {heavy[:2]} if m in sys.modules])
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["[]", "[]"]


def test_help_does_not_import_torch():
    run = "from smoothap.cli import app; app(['--help'], result_action='return_value')"
    code = f"import sys; {run}; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip().endswith("False")
