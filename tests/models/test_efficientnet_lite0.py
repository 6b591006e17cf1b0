"""EfficientNet-Lite0 in plain torch: timm's network, name by name and bit by bit."""

import pytest
import torch

from smoothap._core.extras import ensure_torchvision
from smoothap.models.cpu.folding import _pairs
from smoothap.models.efficientnet_lite import EfficientNetLite0

ensure_torchvision()
import timm  # noqa: E402


@pytest.fixture
def both():
    torch.manual_seed(0)
    theirs = timm.create_model("tf_efficientnet_lite0", num_classes=0)
    for norm in theirs.modules():
        if isinstance(norm, torch.nn.BatchNorm2d):
            norm.running_mean.normal_(0, 0.1)
            norm.running_var.uniform_(0.5, 2)
    ours = EfficientNetLite0()
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict(theirs.state_dict())
    return ours.eval(), theirs.eval()


@pytest.mark.parametrize("size", [64, 75, 112])
def test_the_features_are_timms(both, size):
    images = torch.randn(2, 3, size, size).contiguous(memory_format=torch.channels_last)
    ours, theirs = (network(images) for network in both)
    assert torch.equal(ours, theirs)


def test_what_is_said_of_the_published_weights_is_what_timm_says(both):
    ours, theirs = both
    assert {name: theirs.pretrained_cfg[name] for name in ours.pretrained_cfg} == ours.pretrained_cfg
    assert ours.head_hidden_size == theirs.head_hidden_size


def test_random_weights_are_drawn_as_timm_draws_them(both):
    torch.manual_seed(1)
    drawn = EfficientNetLite0().state_dict()
    for name, weight in timm.create_model("tf_efficientnet_lite0", num_classes=0).state_dict().items():
        if weight.numel() > 500:
            assert float(drawn[name].std()) == pytest.approx(float(weight.std()), rel=0.15, abs=1e-6), name


def test_every_convolution_is_folded_with_its_batch_norm(both):
    ours, _ = both
    convolutions = [layer for layer in ours.modules() if isinstance(layer, torch.nn.Conv2d)]
    norms = [layer for layer in ours.modules() if isinstance(layer, torch.nn.BatchNorm2d)]  # they alternate
    assert _pairs(ours, 64) == list(zip(convolutions, norms, strict=True))
    assert len(norms) == 49
