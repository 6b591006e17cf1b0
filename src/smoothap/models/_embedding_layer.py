"""What stands behind the backbone: one linear layer as in the paper, or one with a hidden layer beside it."""

import torch
from torch import Tensor, nn


class EmbeddingLayer(nn.Linear):
    """A linear layer plus a network with `hidden` numbers in its middle, whose part in the sum starts at zero.

    So whatever the linear layer starts as, a projection for example, is what the whole starts as.
    """

    def __init__(self, features: int, dimension: int, hidden: int) -> None:
        super().__init__(features, dimension)
        self.hidden, self.last = nn.Linear(features, hidden), nn.Linear(hidden, dimension, bias=False)
        nn.init.zeros_(self.last.weight)

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) + self.last(nn.functional.gelu(self.hidden(input)))


class GivenFeatures(nn.Module):
    """In the place of a backbone that has done its work already: (n, features, 1, 1) -> (n, features)."""

    place: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.head_hidden_size = features  # as timm calls it
        self.register_buffer("place", torch.empty(0), persistent=False)  # says on which device the model is

    def forward(self, features: Tensor) -> Tensor:
        return features.flatten(1)
