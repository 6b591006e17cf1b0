"""ArcFace's network against the published layout of InsightFace's `iresnet50`, with generated weights."""

import pytest
import torch
from safetensors.torch import save_file
from torch.nn.functional import batch_norm, conv2d, linear, normalize, prelu

from smoothap.models import Embedder
from smoothap.models.faces.iresnet import IResNet

BLOCKS = (3, 4, 14, 3)


def published_state():
    """Weights of the right size for every name; `published_vectors` asks for them by the names that are published."""
    state = {}
    for name, value in IResNet().state_dict().items():
        if name.endswith("running_var"):
            state[name] = torch.rand(value.shape) + 0.5
        elif name.endswith("num_batches_tracked"):
            state[name] = torch.tensor(1)
        elif value.ndim > 1:
            state[name] = torch.randn(value.shape) * (2 / value[0].numel()) ** 0.5
        else:
            state[name] = torch.rand(value.shape) * 0.1 + name.endswith("weight")
    return state


class Asked(dict):
    """Notes which names were asked for."""

    def __init__(self, *given):
        super().__init__(*given)
        self.names = set()

    def __getitem__(self, name):
        self.names.add(name)
        return super().__getitem__(name)


def published_vectors(state, images):
    """A forward pass of the published layout: images (n, 3, 112, 112) in -1 ... 1 -> (n, 512)."""

    def norm(features, name):
        parts = (state[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
        return batch_norm(features, *parts, eps=1e-5)

    features = prelu(norm(conv2d(images, state["conv1.weight"], padding=1), "bn1"), state["prelu.weight"])
    for stage, blocks in enumerate(BLOCKS, start=1):
        for block in range(blocks):
            name, stride = f"layer{stage}.{block}", 2 if block == 0 else 1
            inner = conv2d(norm(features, f"{name}.bn1"), state[f"{name}.conv1.weight"], padding=1)
            inner = prelu(norm(inner, f"{name}.bn2"), state[f"{name}.prelu.weight"])
            inner = norm(conv2d(inner, state[f"{name}.conv2.weight"], stride=stride, padding=1), f"{name}.bn3")
            if block == 0:
                features = conv2d(features, state[f"{name}.downsample.0.weight"], stride=2)
                features = norm(features, f"{name}.downsample.1")
            features = features + inner
    return norm(linear(norm(features, "bn2").flatten(1), state["fc.weight"], state["fc.bias"]), "features")


@pytest.fixture(scope="module")
def arcface(tmp_path_factory):
    torch.manual_seed(0)
    state, file = published_state(), tmp_path_factory.mktemp("arcface") / "backbone.safetensors"
    save_file(state, file)
    return Embedder("iresnet50", None, pretrained=file).eval(), state


def test_the_published_state_dict_loads_as_it_is_and_computes_the_same(arcface):
    model, state = arcface[0], Asked(arcface[1])
    images = torch.rand(1, 3, 112, 112) * 2 - 1
    with torch.inference_mode():
        expected = normalize(published_vectors(state, images))
        torch.testing.assert_close(model(images), expected, rtol=1e-3, atol=1e-4)
    assert {name for name in state if not name.endswith("num_batches_tracked")} == state.names


def test_faces_enter_as_rgb_in_minus_one_to_one_at_112(arcface):
    transform = arcface[0].transform
    assert (transform.name, transform.size, transform.channel_order) == ("whole", 112, "RGB")
    pixels = torch.tensor([0, 255, 0], dtype=torch.uint8).view(1, 3, 1, 1)
    torch.testing.assert_close(transform.normalise(pixels).flatten(), torch.tensor([-1.0, 1.0, -1.0]))


def test_the_fixed_scale_of_the_last_norm_is_not_trained(arcface):
    model = arcface[0]
    (group,) = model.parameter_groups(1e-5)
    assert all(model.backbone.features.weight is not each for each in group["params"])
