"""MIC: surrogate classes hold nothing of the class, and the reversal makes the two heads independent."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import normalize

from smoothap.benchmark.methods import METHODS, mic
from smoothap.benchmark.methods.mic import (
    Independence,
    InterclassMining,
    released_numbers,
    with_random_labels,
    with_reversed_gradient,
    without_class,
)
from smoothap.data.image_set import ImageSet
from smoothap.data.samplers import BalancedBatches
from smoothap.models import Embedder
from smoothap.training.config import TrainingConfig
from smoothap.training.loss import TrainingSetup


def test_the_reversal_turns_the_gradient_and_nothing_else():
    values = torch.randn(5, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    out = with_reversed_gradient(values)
    assert torch.equal(out, values)
    (out * torch.arange(15.0).reshape(5, 3)).sum().backward()
    assert torch.equal(values.grad, -torch.arange(15.0).reshape(5, 3))


def test_without_its_class_a_feature_has_mean_0_in_every_class_and_its_own_deviation():
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 20)
    given = random.normal(size=(80, 6)) * (labels[:, None] + 1) + 5 * labels[:, None]
    features = without_class(given, labels)
    for label in range(4):
        np.testing.assert_allclose(features[labels == label].mean(0), 0, atol=1e-9)
        np.testing.assert_allclose(features[labels == label].std(0), given[labels == label].std(0), atol=1e-9)


def test_a_fifth_of_the_images_stand_for_a_cluster_at_random():
    torch.manual_seed(0)
    labels = torch.full((20_000,), 49)
    changed = with_random_labels(labels, 50)
    assert float((changed != 49).float().mean()) == pytest.approx(0.2 * 49 / 50, abs=0.01)
    assert changed.unique().tolist() == list(range(50))


@pytest.mark.parametrize(
    ("data_set", "numbers"),
    [
        ("sop train", (50, 250, 0.5)),
        ("vehicle-id", (50, 250, 0.5)),
        ("cars train", (150, 500, 0.8)),
        ("mine", (30, 2500, 0.8)),
    ],
)
def test_the_numbers_of_a_set_are_the_released_ones(data_set, numbers):
    assert released_numbers(data_set) == numbers


def mining(second_steps=1.0):
    model = Embedder("test_resnet", 8, size=32, pretrained=False)
    loss = InterclassMining(model, 4, 16, surrogates=3, reversal=250.0, second_steps=second_steps, seed=0)
    images, labels = torch.rand(16, 3, 32, 32), torch.arange(16) // 4
    loss.before_step(torch.arange(16))
    loss.surrogate_of_row.copy_(torch.arange(16) % 3)
    return model, loss, images, labels


def test_the_second_head_s_classes_count_in_their_share_of_the_steps():
    model, loss, images, labels = mining(0.5)
    learned = []
    for step in range(40):
        torch.manual_seed(step)
        loss.zero_grad()
        loss(model(images), labels).backward()
        learned.append(loss.surrogate.loss.beta.grad is not None)
    assert 10 < sum(learned) < 30


def test_the_second_head_learns_with_the_clusters_at_random_among_them(monkeypatch):
    model, loss, images, labels = mining()
    monkeypatch.setattr(mic, "with_random_labels", lambda given, classes: (given + 1) % classes)
    asked = []
    loss.surrogate.register_forward_hook(lambda module, inputs, value: asked.append(inputs[1]))
    loss(model(images), labels)
    assert torch.equal(asked[0], (torch.arange(16) % 3 + 1) % 3)


@pytest.mark.parametrize(("data_set", "share"), [("sop train", 0.5), ("cars train", 0.8)])
def test_the_method_takes_the_share_of_its_set(data_set, share):
    rows = np.arange(8) // 4
    images = ImageSet(data_set, [str(row) for row in range(8)], rows, ["0", "1"], lambda row: None)
    model = Embedder("test_resnet", 8, size=32, pretrained=False)
    setup = TrainingSetup(images, model, TrainingConfig(batch_size=8), BalancedBatches(rows, 8, 4))
    assert METHODS["mic"](setup).loss.second_steps == share


def test_clusters_are_made_again_before_every_fourth_epoch_of_the_second_head_s_vectors(monkeypatch):
    _, loss, _, _ = mining()
    asked = []

    def behind(model, dataset, layer=None):
        asked.append(layer)
        return SimpleNamespace(vectors=np.random.default_rng(0).random((16, 8), np.float32), rows=np.arange(16))

    monkeypatch.setattr(mic, "features_behind", behind)
    images = SimpleNamespace(labels=np.arange(16) // 4)
    dataset = type("Set", (), {"images": images, "__len__": lambda self: 16})()
    made = []
    for epoch in range(9):
        before = len(asked)
        loss.before_epoch(epoch, None, dataset)
        made += [epoch] * (len(asked) - before)
    assert made == [0, 4, 8]
    assert asked == [None, loss.second_head, loss.second_head]


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
