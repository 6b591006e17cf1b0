"""Examples in docstrings and in the README run, and print what they say."""

import doctest
import re
from importlib import import_module

import pytest
from doc_pages import ROOT

MODULES = [
    f"smoothap.{'.'.join(file.relative_to(ROOT / 'src' / 'smoothap').with_suffix('').parts)}"
    for file in sorted((ROOT / "src" / "smoothap").rglob("*.py"))
    if ">>> " in file.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_do_what_they_say(module):
    assert doctest.testmod(import_module(module)).failed == 0


@pytest.mark.parametrize("number", range(len(re.findall("```python", (ROOT / "README.md").read_text()))))
def test_python_snippets_of_the_readme_run(number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    snippet = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[number]
    if "pytorch_metric_learning" in snippet:
        pytest.importorskip("pytorch_metric_learning")
    exec(compile(snippet, f"README snippet {number}", "exec"), {"__name__": "readme"})
