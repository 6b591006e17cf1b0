"""How far the AP of other losses is from AP on the batches of a training with Smooth-AP (Section 4's comparison)."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from smoothap.functional import average_precision
from smoothap.losses import SmoothAP

MARGIN = 0.02  # of Blackbox AP, as its authors set it


def histogram_ap(scores: Tensor, relevant: Tensor, bins: int) -> Tensor:
    """AP of each query as FastAP has it: of a soft histogram of squared distances, 0 to 4, in bins of equal width.

    scores (queries, items) are cosines, -inf for what is left out; relevant (queries, items) bool -> (queries,).
    """
    left_out = scores.isneginf()
    distances = 2 - 2 * scores.masked_fill(left_out, 1)
    positive, negative = relevant & ~left_out, ~relevant & ~left_out
    centres = torch.linspace(0, 4, bins + 1, dtype=scores.dtype, device=scores.device)
    precision, found, passed = scores.new_zeros(len(scores)), scores.new_zeros(len(scores)), 0.0
    for centre in centres:
        weights = (1 - (distances - centre).abs() * bins / 4).clamp(min=0)  # an item counts in the two nearest bins
        here = (weights * positive).sum(1)
        found = found + here
        passed = passed + here + (weights * negative).sum(1)
        precision = precision + torch.where(here > 0, here * found / passed, 0)
    return precision / positive.sum(1)


def margin_ap(scores: Tensor, relevant: Tensor, margin: float = MARGIN) -> Tensor:
    """AP of each query as Blackbox AP has it: exact, but positives are put back by half a margin, negatives forward."""
    return average_precision(scores - margin * (relevant.to(scores.dtype) - 0.5), relevant)


BASELINES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "FastAP, 10 bins": partial(histogram_ap, bins=10),
    "FastAP, 20 bins": partial(histogram_ap, bins=20),
    "Blackbox AP, margin 0.02": margin_ap,
}


def baseline_errors(embeddings: Tensor, labels: Tensor) -> list[float]:
    """The mean of |AP of the baseline - AP| over the queries of a batch, for each of `BASELINES`.

    embeddings (b, d) of length 1, labels (b,); each row is a query, and all others are its retrieval set.
    """
    rows = embeddings.detach().to(torch.promote_types(embeddings.dtype, torch.float32))
    scores = (rows @ rows.T).fill_diagonal_(-torch.inf)
    relevant = (labels[:, None] == labels).fill_diagonal_(False)
    exact = average_precision(scores, relevant)
    return [float((measure(scores, relevant) - exact).abs().nanmean()) for measure in BASELINES.values()]


class MeasuredSmoothAP(nn.Module):
    """Smooth-AP that notes the errors of its baselines at every step; they are saved with the checkpoint."""

    errors: Tensor
    step: Tensor

    def __init__(self, tau: float, steps: int) -> None:
        super().__init__()
        self.loss = SmoothAP(tau)
        self.tolerated_noise = self.loss.tolerated_noise
        self.register_buffer("errors", torch.zeros(steps, len(BASELINES)))
        self.register_buffer("step", torch.tensor(0))

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        self.errors[int(self.step)] = self.errors.new_tensor(baseline_errors(embeddings, labels))
        self.step += 1
        return self.loss(embeddings, labels)
