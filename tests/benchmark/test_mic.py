"""MIC: surrogate classes hold nothing of the class, and the reversal makes the two heads independent."""

import numpy as np
import torch
from torch import nn
from torch.nn.functional import normalize

from smoothap.benchmark.methods.mic import Independence, with_reversed_gradient, without_class


def test_the_reversal_turns_the_gradient_and_nothing_else():
    values = torch.randn(5, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    out = with_reversed_gradient(values)
    assert torch.equal(out, values)
    (out * torch.arange(15.0).reshape(5, 3)).sum().backward()
    assert torch.equal(values.grad, -torch.arange(15.0).reshape(5, 3))


def test_without_its_class_a_feature_has_mean_0_and_deviation_1_in_every_class():
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 20)
    features = without_class(random.normal(size=(80, 6)) * (labels[:, None] + 1) + 5 * labels[:, None], labels)
    for label in range(4):
        np.testing.assert_allclose(features[labels == label].mean(0), 0, atol=1e-9)
        np.testing.assert_allclose(features[labels == label].std(0), 1, atol=1e-4)


def predictability(weight: float) -> float:
    """The share of the first head that a linear map of the second explains on new rows, after training both."""
    torch.manual_seed(0)
    features = torch.randn(512, 24)
    heads = nn.ModuleList([nn.Linear(24, 8), nn.Linear(24, 8)])
    independence = Independence(8, 8)
    optimiser = torch.optim.Adam([*heads.parameters(), *independence.parameters()], lr=3e-3)
    first, second = torch.randn(24, 8), torch.randn(24, 8)
    first[8:], second[:16] = 0, 0
    second += 0.7 * first[:, torch.randperm(8)]  # the tasks have something in common
    wanted = normalize(features @ first, dim=1), normalize(features @ second, dim=1)
    for _ in range(300):
        both = [normalize(head(features), dim=1) for head in heads]
        agreement = sum((head * target).sum(1).mean() for head, target in zip(both, wanted, strict=True))
        optimiser.zero_grad()
        (weight * independence(*both) - agreement).backward()
        optimiser.step()
    with torch.no_grad():
        both = [normalize(head(features), dim=1) for head in heads]
        columns = torch.cat([both[1], torch.ones(512, 1)], 1)
        map_between = torch.linalg.lstsq(columns[:256], both[0][:256]).solution
        left = both[0][256:] - columns[256:] @ map_between
        return 1 - (left.var(0).sum() / both[0][256:].var(0).sum()).item()


def test_the_reversal_lowers_the_mutual_predictability():
    together, apart = predictability(0.0), predictability(2500 / 128**2)
    assert together > 0.35
    assert apart < 0.8 * together
