"""The same answer to the last bit, however the work is cut up."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from smoothap import evaluate

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def restore_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def many(dtype, dimension=96, rows=2300):
    random = np.random.default_rng(0)
    labels = random.choice(60, rows, p=random.dirichlet(np.ones(60)))
    vectors = random.standard_normal((rows, dimension)) + 0.4 * random.standard_normal((60, dimension))[labels]
    vectors[100:200] = vectors[:100]
    return vectors.astype(dtype), labels


@pytest.mark.guarantee(3)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blocks_threads_and_kernels_change_no_bit(dtype, restore_threads, monkeypatch):
    from smoothap._core.threads import numba_is_there

    monkeypatch.setattr("smoothap.metrics.counting._PAIRS_WORTH_COMPILING", 0)
    embeddings, labels = many(dtype)
    expected = evaluate(embeddings, labels).to_json()
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        for block_size in (None, 700, 1500):
            assert evaluate(embeddings, labels, block_size=block_size).to_json() == expected
    monkeypatch.setenv("SMOOTHAP_NO_NUMBA", "1")
    numba_is_there.cache_clear()
    assert evaluate(embeddings, labels, block_size=1500).to_json() == expected
    numba_is_there.cache_clear()


def test_the_order_of_the_rows_changes_no_metric():
    embeddings, labels = many(np.float32)
    order = np.random.default_rng(1).permutation(len(labels))
    first, second = evaluate(embeddings, labels), evaluate(embeddings[order], labels[order])
    assert np.array_equal(first.average_precision[order], second.average_precision, equal_nan=True)
    assert np.array_equal(first.first_hit_rank[order], second.first_hit_rank)


SCRIPT = """
import sys
import numpy as np, torch.distributed as dist
from smoothap import evaluate
dist.init_process_group("gloo")
data = np.load(sys.argv[1])
report = evaluate(data["embeddings"], data["labels"], distributed=True, progress=False)
gallery = evaluate(data["embeddings"][:300], data["labels"][:300], data["embeddings"], data["labels"], distributed=True)
open(f"{sys.argv[2]}.{dist.get_rank()}", "w").write(report.to_json() + gallery.to_json())
dist.destroy_process_group()
"""


@pytest.mark.alone
@pytest.mark.slow  # distributed/test_gathering.py has two of them
@pytest.mark.parametrize("processes", [2, 3])
def test_several_processes_change_no_bit(processes, tmp_path):
    embeddings, labels = many(np.float32)
    np.savez(tmp_path / "data.npz", embeddings=embeddings, labels=labels)
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    subprocess.run(
        [*command, str(tmp_path / "script.py"), str(tmp_path / "data.npz"), str(tmp_path / "out")],
        check=True, env=environment, capture_output=True, timeout=240,
    )  # fmt: skip
    expected = evaluate(embeddings, labels).to_json()
    expected += evaluate(embeddings[:300], labels[:300], embeddings, labels).to_json()
    for rank in range(processes):
        assert (tmp_path / f"out.{rank}").read_text() == expected
