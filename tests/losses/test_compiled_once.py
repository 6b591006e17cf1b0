"""The first process, which compiles the kernels, computes the same bits as those that find them in the cache."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")

DIGESTS = """
import hashlib
import torch
from smoothap.losses import SmoothAP

for items, classes in ((None, 64), (300, 64), (None, 1)):  # against itself, against a set, with many positives
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(64, 512, generator=generator).repeat_interleave(4, 0)
    embeddings = (torch.randn(256, 512, generator=generator) + 0.3 * centres).requires_grad_()
    labels = torch.arange(64).repeat_interleave(4) % classes
    further = {} if items is None else {
        "ref_emb": torch.randn(items, 512, generator=generator), "ref_labels": torch.arange(items) % 64
    }
    loss = SmoothAP()(embeddings, labels, **further)
    loss.backward()
    print(loss.item(), hashlib.sha256(embeddings.grad.numpy().tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_a_cold_and_a_warm_cache_give_the_same_bits(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-c", DIGESTS]
    cold, warm = (
        subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout for _ in range(2)
    )
    assert any(tmp_path.rglob("*.nbc"))
    assert len(cold.splitlines()) == 3
    assert cold == warm
