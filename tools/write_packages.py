"""Writes docs/packages.md, what is in each package and which others it imports, from the source.

python tools/write_packages.py
"""

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "smoothap"
PAGE = ROOT / "docs" / "packages.md"
HEADING = """# Packages

What is in each folder of `src/smoothap/`, and which other packages it imports. [Architecture](architecture.md) follows
an image and a query through them. `python tools/write_packages.py` makes this page from the source. If a row of
imports changes, make sure that you meant it.

| package | what is in it | imports |
| --- | --- | --- |
"""


def imports_of(package: Path, packages: set[str]) -> list[str]:
    """The other packages that a package imports, anywhere in it, those in strings and for types alone too."""
    found: dict[str, bool] = defaultdict(bool)
    for file in package.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                names = re.findall(r"^smoothap\.[\w.]+", node.value)
            for name in names:
                found[".".join(name.split(".")[:2])] = True
    return sorted(name for name in packages - {package.name} if found[f"smoothap.{name}"])


def page() -> str:
    """The whole page as Markdown, each package below those that it imports."""
    files = {init.parent.name: init for init in sorted(SOURCE.glob("*/__init__.py"))}
    imports = {name: imports_of(init.parent, set(files)) for name, init in files.items()}
    lines = []
    for name in sorted(files, key=lambda name: (len(imports[name]), name)):
        opening = (ast.get_docstring(ast.parse(files[name].read_text(encoding="utf-8"))) or "").partition("\n")[0]
        lines.append(f"| `{name}/` | {opening} | {', '.join(f'`{each}`' for each in imports[name])} |")
    return HEADING + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE} is up to date.")
