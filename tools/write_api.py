"""Writes docs/api.md, the reference of the public names, from signatures and docstrings.

    python tools/write_api.py

A name is public if `__all__` of its package has it. Signatures are taken from the source as they are there, so that
neither the version of Python nor an installed package changes the page.
"""

import ast
import inspect
import re
import textwrap
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
_PUBLIC = "losses", "functional", "metrics", "models", "training", "benchmark", "album"
PACKAGES = tuple(f"smoothap.{package}" for package in _PUBLIC)
WIDTH = 110
Shown = dict[str, str]  # where a method of a class is described, by the place in the source that defines it
HEADING = """# Python reference

Look up here what a class or a function takes and returns. You can import the names of `smoothap.losses`,
`smoothap.functional` and `smoothap.metrics` from `smoothap` itself, and the others from their own package:

```python
from smoothap import SmoothAP, evaluate
from smoothap.album import Album
```

The shape of a tensor is given in brackets after its name. The page is made from the docstrings by
`python tools/write_api.py`.
"""


def page() -> str:
    """The whole reference as Markdown."""
    shown: Shown = {}
    sections = [section(import_module(name), shown) for name in PACKAGES]
    return "\n".join([HEADING, *sections]).rstrip() + "\n"


def section(package: ModuleType, shown: Shown) -> str:
    """The public names of a package, the loss of the paper first."""
    lines = [f"## {package.__name__}", "", inspect.getdoc(package) or "", ""]
    for name in sorted(package.__all__, key=lambda name: name != "SmoothAP"):
        if isinstance(thing := getattr(package, name), (type, FunctionType)):  # not a constant
            lines += entry(name, thing, shown)
    return "\n".join(lines)


def entry(name: str, thing: type | FunctionType, shown: Shown) -> list[str]:
    """A function, or a class with its public methods; one that several inherit is described once."""
    tree = parsed(thing)
    lines = [f"### {name}", ""]
    if isinstance(tree, ast.FunctionDef):
        return [*lines, *signature(name, tree), *prose(tree)]
    if not isinstance(tree, ast.ClassDef) or not isinstance(thing, type):
        raise TypeError(f"{name} is neither a function nor a class")
    methods: dict[str, ast.FunctionDef] = {}
    owners: dict[str, str] = {}
    for each in thing.__mro__:
        if not each.__module__.startswith("smoothap."):
            continue
        parts = parsed(each)
        assert isinstance(parts, ast.ClassDef)
        for node in parts.body:
            if isinstance(node, ast.FunctionDef) and methods.setdefault(node.name, node) is node:
                owners[node.name] = f"{each.__module__}.{each.__qualname__}.{node.name}"
    if "__init__" in methods:
        lines += signature(name, methods["__init__"])
    else:
        lines += fields(name, tree)
    lines += prose(tree, methods.get("__init__"))
    same: list[str] = []
    for method, node in methods.items():
        if method.startswith("_") or not ast.get_docstring(node):
            continue
        first = shown.setdefault(owners[method], f"{name}.{method}")
        if first != f"{name}.{method}":
            same.append(f"[`{method}`](#{first.replace('.', '').lower()})")
            continue
        lines += [f"#### {name}.{method}", "", *signature(f"{name}.{method}", node), *prose(node)]
    return [*lines, f"Inherited: {', '.join(same)}.", ""] if same else lines


def parsed(thing: type | FunctionType) -> ast.stmt:
    """The source of a function or a class, as a tree."""
    return ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]


def signature(name: str, function: ast.FunctionDef) -> list[str]:
    """How a function is called, in a block of code; a property is called by its name alone."""
    decorators = {ast.unparse(each) for each in function.decorator_list}
    returned = f" -> {ast.unparse(function.returns)}" if function.returns and function.name != "__init__" else ""
    if "property" in decorators:
        return ["```python", f"{name}{returned}", "```", ""]
    arguments = function.args
    if arguments.args and arguments.args[0].arg in ("self", "cls"):
        arguments.args = arguments.args[1:]
    whole = f"{name}({', '.join(separately(arguments))}){returned}"
    if len(whole) > WIDTH:
        inside = "".join(f"    {each},\n" for each in separately(arguments))
        whole = f"{name}(\n{inside}){returned}"
    return ["```python", whole, "```", ""]


def separately(arguments: ast.arguments) -> list[str]:
    """Each argument by itself, with the stars and slashes between them."""
    depth, parts, text = 0, [""], ast.unparse(arguments)
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [re.sub(r"^(\**\w+: .*?)=", r"\1 = ", part.strip()) for part in parts]


def fields(name: str, tree: ast.ClassDef) -> list[str]:
    """The fields of a dataclass."""
    rows = [node for node in tree.body if isinstance(node, ast.AnnAssign)]
    if not rows:
        return []
    named = [f"    {ast.unparse(row.target)}: {ast.unparse(row.annotation)}" for row in rows]
    return ["```python", f"{name}:", *named, "```", ""]


def prose(tree: ast.FunctionDef | ast.ClassDef, called: ast.FunctionDef | None = None) -> list[str]:
    """The docstring: paragraphs, the arguments as a list, examples as code."""
    function = called or (tree if isinstance(tree, ast.FunctionDef) else None)
    names = {each.arg for each in ast.walk(function) if isinstance(each, ast.arg)} if function else set()
    lines: list[str] = []
    documented = re.sub(r"\nParameters\n-+\n", "\n", ast.get_docstring(tree) or "")
    documented = re.sub(r"^(\w+)\n    (?=\S)", r"- `\1`: ", documented, flags=re.MULTILINE)  # numpy's form, as a list
    for paragraph in re.split(r"\n\s*\n", documented):
        if paragraph.startswith(">>>"):
            lines += ["```pycon", paragraph, "```", ""]
        elif all(line.startswith("    ") for line in paragraph.splitlines()):
            lines += ["```python", textwrap.dedent(paragraph), "```", ""]
        else:
            lines += [*described(paragraph, names), ""]
    return lines


def described(paragraph: str, names: set[str]) -> list[str]:
    """A paragraph whose lines that begin with an argument become a list."""
    lines: list[str] = []
    for line in paragraph.splitlines():
        before = line.partition(":")[0]
        first = re.match(r"\w+", before)
        if line.startswith("- "):
            lines.append(line)
        elif ":" in line and first and first[0] in names:
            lines += [] if not lines or lines[-1].startswith(("- ", "  ")) else [""]
            lines.append(f"- `{before}`:{line.partition(':')[2]}")
        else:
            lines.append(f"  {line.strip()}" if lines and lines[-1].startswith(("- ", "  ")) else line)
    return lines


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE} is up to date.")
