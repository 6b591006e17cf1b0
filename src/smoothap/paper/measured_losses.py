"""The four losses that are measured, and the peak memory of one in a process of its own (Linux):

python -m smoothap.paper.measured_losses LOSS BATCH
"""

import sys
from pathlib import Path

import torch
from torch import Tensor, nn

from smoothap.losses import BlackboxAP, SmoothAP

DIMENSION = 512
PER_CLASS = 4
OURS, AUTHORS, FASTAP, BLACKBOX = "Smooth-AP, ours", "Smooth-AP, as the authors wrote it", "FastAP", "Blackbox AP"


class AuthorsSmoothAP(nn.Module):
    """Smooth-AP as the released code computes it, operation for operation, with batch x batch x batch tensors.

    Labels are sorted by class and all classes have `samples_per_class` images; the query is among its own positives.
    """

    def __init__(self, samples_per_class: int = PER_CLASS, tau: float = 0.01) -> None:
        super().__init__()
        self.samples_per_class, self.tau = samples_per_class, tau

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """The loss of a batch (b, d); its vectors are first brought to length 1, as by the authors' network."""
        units = nn.functional.normalize(embeddings)
        batch, classes = len(units), len(units) // self.samples_per_class
        rank = self._ranks((units @ units.T)[None])[0]  # R(i, S_Omega), of i for each query: (b, b)
        of_class = units.view(classes, self.samples_per_class, -1)
        rank_among_positives = self._ranks(of_class @ of_class.transpose(1, 2))  # R(i, S_P): (classes, p, p)
        precision = units.new_zeros(())
        for place in range(classes):  # as released; what is cut out is small, batch x batch
            here = slice(place * self.samples_per_class, (place + 1) * self.samples_per_class)
            precision = (
                precision + (rank_among_positives[place] / rank[here, here]).sum() / self.samples_per_class / batch
            )
        return 1 - precision

    def _ranks(self, scores: Tensor) -> Tensor:
        """The smoothed rank of every item for every query. scores (groups, n, n) -> (groups, n, n)"""
        items = scores.shape[-1]
        others = (1 - torch.eye(items, device=scores.device)).repeat(*scores.shape[:2], 1, 1)
        repeated = scores[:, :, None, :].repeat(1, 1, items, 1)
        exponent = -(repeated - repeated.transpose(2, 3)) / self.tau
        sigmoid = 1 / (1 + exponent.clamp(-50, 50).exp())
        return (sigmoid * others).sum(3) + 1


def loss_of(name: str) -> nn.Module:
    """The loss that a row of the table is about, with the supplement's settings."""
    if name != FASTAP:
        return {OURS: SmoothAP, AUTHORS: AuthorsSmoothAP, BLACKBOX: BlackboxAP}[name]()
    try:
        from pytorch_metric_learning.losses import FastAPLoss
    except ModuleNotFoundError as missing:
        raise ValueError("FastAP needs pytorch-metric-learning: pip install 'smoothap[compare]'") from missing
    return FastAPLoss(num_bins=10)


def balanced(batch: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Random embeddings (b, DIMENSION) and the labels (b,) of a class-balanced batch, classes one after the other."""
    generator = torch.Generator().manual_seed(0)
    embeddings = torch.randn(batch, DIMENSION, generator=generator).to(device).requires_grad_()
    return embeddings, torch.arange(batch // PER_CLASS, device=device).repeat_interleave(PER_CLASS)


def forward_and_backward(loss: nn.Module, embeddings: Tensor, labels: Tensor) -> None:
    """Compute the loss and its gradient once, without the gradient of the call before."""
    embeddings.grad = None
    loss(embeddings, labels).backward()


def growth(name: str, batch: int) -> float:
    """Megabytes by which a forward and backward raises the peak of this process."""
    device = torch.device("cpu")
    loss = loss_of(name)
    embeddings, labels = balanced(batch, device)
    # A small call first: it loads libraries and starts threads, whose memory is not the loss's.
    forward_and_backward(loss, *balanced(16, device))
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # sets the recorded peak back to the present use
    before = _peak()
    forward_and_backward(loss, embeddings, labels)
    return _peak() - before


def _peak() -> float:
    """This process's own peak; ru_maxrss would be inherited from the one that started it."""
    return int(Path("/proc/self/status").read_text(encoding="ascii").split("VmHWM:")[1].split()[0]) / 1024


if __name__ == "__main__":
    print(growth(sys.argv[1], int(sys.argv[2])))
