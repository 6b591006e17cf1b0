"""The peak memory of one loss in a process of its own: `python -m smoothap.analysis.peak_memory LOSS BATCH` (Linux)."""

import sys
from pathlib import Path

import torch

from smoothap.analysis.cost import balanced, forward_and_backward, loss_of


def growth(name: str, batch: int) -> float:
    """Megabytes by which a forward and backward raises the peak of this process."""
    device = torch.device("cpu")
    loss = loss_of(name)
    embeddings, labels = balanced(batch, device)
    forward_and_backward(loss, *balanced(16, device))  # what is loaded once is no growth
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts from what is held now
    before = _peak()
    forward_and_backward(loss, embeddings, labels)
    return _peak() - before


def _peak() -> float:
    """This process's own peak; ru_maxrss would be inherited from the one that started it."""
    return int(Path("/proc/self/status").read_text(encoding="ascii").split("VmHWM:")[1].split()[0]) / 1024


if __name__ == "__main__":
    print(growth(sys.argv[1], int(sys.argv[2])))
