"""What a loss learns itself: at its own rate, and without weight decay."""

import torch
from torch import nn

from smoothap.losses import SmoothAP
from smoothap.training.config import TrainingConfig
from smoothap.training.loss import parameter_groups


class Boundary(nn.Module):
    learning_rate = 5e-4

    def __init__(self):
        super().__init__()
        self.beta = nn.Parameter(torch.ones(3))


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.proxies, self.boundary = nn.Parameter(torch.ones(2)), Boundary()

    def forward(self, embeddings, labels):
        return (embeddings.sum(1) * self.proxies[labels % 2]).mean() + self.boundary.beta[0]


def test_a_part_with_a_rate_of_its_own_learns_at_that_one():
    loss = Both()
    shared, own = parameter_groups(loss, TrainingConfig(learning_rate=1e-5, loss_factor=4))
    assert (shared["lr"], shared["params"]) == (4e-5, [loss.proxies])
    assert (own["lr"], own["params"]) == (5e-4, [loss.boundary.beta])
    assert shared["weight_decay"] == own["weight_decay"] == 0
    assert parameter_groups(SmoothAP(), TrainingConfig()) == []
