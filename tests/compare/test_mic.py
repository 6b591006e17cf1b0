"""MIC: surrogate classes hold nothing of the class, and the reversal makes the two heads independent."""

import numpy as np
import torch
from torch import nn
from torch.nn.functional import normalize

from smoothap.compare.mic import Independence, with_reversed_gradient, without_class


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
    """The share of the first head that a linear map of the second explains, after training with the reversal."""
    torch.manual_seed(0)
    features = torch.randn(256, 12)
    first, second = nn.Linear(12, 4), nn.Linear(12, 4)
    independence = Independence(4, 4)
    parameters = [*first.parameters(), *second.parameters(), *independence.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=3e-3)
    wanted = normalize(features[:, :4], dim=1), normalize(features[:, 2:6], dim=1)  # the tasks share two numbers
    for _ in range(400):
        heads = [normalize(head(features), dim=1) for head in (first, second)]
        tasks = sum(-(head * target).sum(1).mean() for head, target in zip(heads, wanted, strict=True))
        optimiser.zero_grad()
        (tasks + weight * independence(*heads)).backward()
        optimiser.step()
    with torch.no_grad():
        heads = [normalize(head(features), dim=1) for head in (first, second)]
        columns = torch.cat([heads[1], torch.ones(256, 1)], 1)
        left = heads[0] - columns @ torch.linalg.lstsq(columns, heads[0]).solution
        return 1 - (left.var(0).sum() / heads[0].var(0).sum()).item()


def test_the_reversal_lowers_the_mutual_predictability():
    apart, together = predictability(0.5), predictability(0.0)
    assert together > 0.3
    assert apart < 0.6 * together
