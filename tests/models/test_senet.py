"""SENet-50 against the two published layouts of VGGFace2, with generated weights of their names and shapes."""

import pytest
import torch
from safetensors.torch import save_file
from torch.nn.functional import adaptive_avg_pool2d, batch_norm, conv2d, linear, max_pool2d, normalize, relu

from smoothap.models.faces.senet import vggface2_senet50

BLOCKS = (3, 4, 6, 3)


def generated(shape):
    return torch.randn(shape) * (2 / max(torch.Size(shape[1:]).numel(), 1)) ** 0.5


def add_norm(state, name, channels):
    for part in ("weight", "bias", "running_mean"):
        state[f"{name}.{part}"] = torch.randn(channels) * 0.1 + (part == "weight")
    state[f"{name}.running_var"] = torch.rand(channels) + 0.5


def published_state(layout):
    """Names and shapes of `senet50_256` (Oxford) or of the converted Caffe network."""
    oxford, state = layout == "oxford", {}

    def add(name, norm, shape):
        state[f"{name}.weight"] = generated(shape)
        add_norm(state, norm, shape[0])

    add(*(("conv1_7x7_s2", "conv1_7x7_s2_bn") if oxford else ("conv1", "bn1")), (64, 3, 7, 7))
    channels_in = 64
    for stage, blocks in enumerate(BLOCKS):
        inner, outer = 64 * 2**stage, 256 * 2**stage
        for block in range(blocks):
            prefix = f"conv{stage + 2}_{block + 1}_" if oxford else f"layer{stage + 1}.{block}."
            names = ("1x1_reduce", "3x3", "1x1_increase") if oxford else ("conv1", "conv2", "conv3")
            shapes = ((inner, channels_in, 1, 1), (inner, inner, 3, 3), (outer, inner, 1, 1))
            for name, shape in zip(names, shapes, strict=True):
                add(
                    f"{prefix}{name}",
                    f"{prefix}{name}_bn" if oxford else f"{prefix}{name.replace('conv', 'bn')}",
                    shape,
                )
            down, up = ("1x1_down", "1x1_up") if oxford else ("conv4", "conv5")
            state[f"{prefix}{down}.weight"] = generated((outer // 16, outer, 1, 1))
            state[f"{prefix}{down}.bias"] = torch.randn(outer // 16)
            state[f"{prefix}{up}.weight"] = generated((outer, outer // 16, 1, 1))
            state[f"{prefix}{up}.bias"] = torch.randn(outer)
            if block == 0:
                projection = ("1x1_proj", "1x1_proj_bn") if oxford else ("downsample.0", "downsample.1")
                add(f"{prefix}{projection[0]}", f"{prefix}{projection[1]}", (outer, channels_in, 1, 1))
            channels_in = outer
    if oxford:
        state["feat_extract.weight"] = generated((256, 2048, 1, 1))
    else:
        state["fc.weight"], state["fc.bias"] = generated((8631, 2048)), torch.zeros(8631)
    return state


def published_vectors(state, images):
    """A forward pass of Oxford's layout: images (n, 3, h, w) RGB less the mean -> (n, 256)."""

    def convolve(features, name, stride=1, padding=0):
        features = conv2d(features, state[f"{name}.weight"], stride=stride, padding=padding)
        parts = (state[f"{name}_bn.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
        return batch_norm(features, *parts, eps=1e-5)

    features = relu(convolve(images, "conv1_7x7_s2", stride=2, padding=3))
    features = max_pool2d(features, 3, stride=2, ceil_mode=True)
    for stage, blocks in enumerate(BLOCKS, start=2):
        for block in range(1, blocks + 1):
            name, stride = f"conv{stage}_{block}_1x1", 2 if stage > 2 and block == 1 else 1
            inner = relu(convolve(features, f"{name}_reduce", stride))
            inner = relu(convolve(inner, f"conv{stage}_{block}_3x3", padding=1))
            inner = convolve(inner, f"{name}_increase")
            gate = relu(conv2d(adaptive_avg_pool2d(inner, 1), state[f"{name}_down.weight"], state[f"{name}_down.bias"]))
            gate = torch.sigmoid(conv2d(gate, state[f"{name}_up.weight"], state[f"{name}_up.bias"]))
            if block == 1:
                features = convolve(features, f"{name}_proj", stride)
            features = relu(gate * inner + features)
    return linear(features.mean((2, 3)), state["feat_extract.weight"].flatten(1))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("vggface2")
    states = {layout: published_state(layout) for layout in ("oxford", "caffe")}
    for layout, state in states.items():
        save_file(state, folder / f"{layout}.safetensors")
    return folder, states


def test_oxfords_file_computes_what_it_computes_there(files):
    folder, states = files
    model = vggface2_senet50(folder / "oxford.safetensors").eval().double()  # random gates amplify rounding
    images = torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8)
    centred = images - torch.tensor([131.0912, 103.8827, 91.4953], dtype=torch.float64).view(1, 3, 1, 1)
    state = {name: value.double() for name, value in states["oxford"].items()}
    with torch.inference_mode():
        expected = normalize(published_vectors(state, centred)).float()
        torch.testing.assert_close(model(centred.flip(1)), expected)
        assert not torch.allclose(model(centred), expected, atol=1e-2)  # RGB instead of BGR


def test_the_caffe_conversion_loads_by_its_names(files):
    folder, states = files
    model = vggface2_senet50(folder / "caffe.safetensors")
    loaded, caffe = model.backbone.state_dict(), states["caffe"]
    for name, published in {
        "layer0.conv1.weight": "conv1.weight",
        "layer3.5.bn2.running_var": "layer3.5.bn2.running_var",
        "layer2.0.downsample.1.bias": "layer2.0.downsample.1.bias",
        "layer4.2.se_module.fc1.weight": "layer4.2.conv4.weight",
        "layer4.2.se_module.fc2.bias": "layer4.2.conv5.bias",
    }.items():
        assert torch.equal(loaded[name], caffe[published]), name
    assert model.dimension == 256
