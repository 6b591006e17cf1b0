"""What a batch tells about the smoothing: how much of it receives a gradient, and how far smoothed AP is from AP."""

from math import log, sqrt

import torch
from torch import Tensor

from smoothap.functional.scores import average_precision, smooth_ap

NEGLIGIBLE_GRADIENT = 0.005  # the supplement's limit of the operating region, for dG/dD


def operating_width(tau: float, gradient: float = NEGLIGIBLE_GRADIENT) -> float:
    """The difference |D| of two scores at which the slope of the sigmoid, dG/dD, has fallen to `gradient`."""
    product = gradient * tau  # g (1 - g) at the edge of the region
    if product >= 0.25:
        return 0.0  # a sigmoid so wide is nowhere that steep
    beyond = (1 - sqrt(1 - 4 * product)) / 2
    return tau * (log(1 - beyond) - log(beyond))


def operating_share(embeddings: Tensor, tau: float, gradient: float = NEGLIGIBLE_GRADIENT) -> float:
    """P of the supplement: the share of the difference matrices D (Eq. 4) in the sigmoid's operating region.

    embeddings (b, d) of length 1; each is a query, and D holds every ordered pair of different others. (The paper's
    sum over i and j also counts i = j, whose difference is always 0.) Counted in sorted scores: b^2 log b, not b^3.
    """
    items = len(embeddings) - 1
    if items < 2:
        return 0.0
    scores = _scores_of_others(embeddings).sort(1).values
    width = operating_width(tau, gradient)
    below = torch.searchsorted(scores, scores - width, right=True)
    above = torch.searchsorted(scores, scores + width)
    near = (above - below - 1).clamp(min=0)  # a score is near itself
    return int(near.sum()) / near.numel() / (items - 1)


def approximation_error(embeddings: Tensor, labels: Tensor, tau: float) -> float:
    """AP_e, Eq. 8: the mean of |smoothed AP - AP| over the queries of a batch that have a positive.

    embeddings (b, d) of length 1, labels (b,) or (b, c) of 0 and 1; NaN where no query has a positive.
    """
    scores = _scores_of_others(embeddings)
    belong = labels[:, None] == labels if labels.ndim == 1 else labels.float() @ labels.float().T > 0
    relevant = _without_diagonal(belong)
    smooth, exact = (
        values.cpu().double() for values in (smooth_ap(scores, relevant, tau), average_precision(scores, relevant))
    )
    return float((smooth - exact).abs().nanmean())


def _scores_of_others(embeddings: Tensor) -> Tensor:
    """Cosine scores of each row with every other, (b, b - 1), in float32 or better."""
    rows = embeddings.detach().to(torch.promote_types(embeddings.dtype, torch.float32))
    return _without_diagonal(rows @ rows.T)


def _without_diagonal(matrix: Tensor) -> Tensor:
    size = len(matrix)
    return matrix.flatten()[:-1].view(size - 1, size + 1)[:, 1:].reshape(size, size - 1)
