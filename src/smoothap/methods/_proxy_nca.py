"""Proxy NCA (Movshovitz-Attias et al., ICCV 2017) as its Eq. 4 and the re-implementation that the paper ran have it.

The library's has the positive proxy in the denominator too, which makes it a softmax over all proxies.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

_LENGTH = 3.0  # of embeddings and proxies, in the re-implementation


class ProxyNCA(nn.Module):
    """The squared distance to the proxy of the class, plus the log of the sum of exp(-distance) to all others."""

    def __init__(self, classes: int, dimension: int) -> None:
        super().__init__()
        self.proxies = nn.Parameter(torch.randn(classes, dimension))

    def forward(self, embeddings: Tensor, labels: Tensor, *others: object) -> Tensor:
        """The mean over embeddings (b, d) with labels (b,), the numbers of their proxies."""
        if any(other is not None for other in others):
            raise ValueError("Proxy NCA compares with proxies alone: it takes no ref_emb, pairs or triplets")
        cosines = normalize(embeddings, dim=1) @ normalize(self.proxies.to(embeddings.dtype), dim=1).T
        distances = _LENGTH**2 * (2 - 2 * cosines)  # squared, (b, classes)
        to_own = distances.gather(1, labels[:, None])
        is_own = torch.zeros_like(distances, dtype=torch.bool).scatter_(1, labels[:, None], True)
        to_others = distances.masked_fill(is_own, torch.inf)
        return (to_own[:, 0] + torch.logsumexp(-to_others, 1)).mean()
