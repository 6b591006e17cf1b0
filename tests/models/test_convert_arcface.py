"""InsightFace's MXNet weights: a network as MXNet computes it gives the same features after the conversion."""

import struct

import numpy as np
import pytest
import torch
from convert_arcface import converted, read_params
from torch import nn

from smoothap.models.faces.iresnet import IResNet

LAYERS = {"conv1": "conv0", "bn1": "bn0", "prelu": "relu0", "bn2": "bn1", "fc": "pre_fc1", "features": "fc1"}
IN_UNIT = {"prelu": "relu1", "downsample.0": "conv1sc", "downsample.1": "sc"}


def mxnet_name(name):
    """Such as "aux:stage1_unit1_bn1_moving_var" for "layer1.0.bn1.running_var"."""
    layer, _, part = name.rpartition(".")
    is_norm = "bn" in layer or layer.endswith(("downsample.1", "features"))
    of_norm = {"weight": "gamma", "bias": "beta", "running_mean": "moving_mean", "running_var": "moving_var"}
    part = of_norm[part] if is_norm else "gamma" if layer.endswith("prelu") else part
    if layer.startswith("layer"):
        stage, unit, inner = layer.split(".", 2)
        layer = f"stage{stage[5:]}_unit{int(unit) + 1}_{IN_UNIT.get(inner, inner)}"
    else:
        layer = LAYERS[layer]
    return f"{'aux' if part.startswith('moving') else 'arg'}:{layer}_{part}"


def write_params(file, arrays):
    parts = [struct.pack("<QQQ", 0x112, 0, len(arrays))]
    for values in arrays.values():
        parts += [struct.pack("<IiI", 0xF993FAC9, 0, values.ndim), np.array(values.shape, "<i8").tobytes()]
        parts += [struct.pack("<iii", 1, 0, 0), values.astype("<f4").tobytes()]
    parts += [struct.pack("<Q", len(arrays))]
    for name in arrays:
        parts += [struct.pack("<Q", len(name)), name.encode()]
    file.write_bytes(b"".join(parts))


def test_the_features_are_those_that_mxnet_computes(tmp_path):
    torch.manual_seed(0)
    theirs = IResNet().train()
    with torch.no_grad():
        for module in theirs.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eps, module.momentum = 2e-5, 1.0
                module.weight.uniform_(0.5, 1.5)
                module.bias.normal_(0, 0.1)
        theirs.features.weight.fill_(1)
        theirs(torch.rand(4, 3, 112, 112) * 2 - 1)
    arrays = {
        mxnet_name(name): value.numpy()
        for name, value in theirs.eval().state_dict().items()
        if not name.endswith("num_batches_tracked")
    }
    arrays["arg:fc1_gamma"] = np.full(512, 7.0)  # is not used there
    arrays["arg:fc7_weight"] = np.zeros((3, 512))
    write_params(tmp_path / "model-0000.params", arrays)
    ours = IResNet().eval()
    missing, unknown = ours.load_state_dict(converted(read_params(tmp_path / "model-0000.params")), strict=False)
    assert unknown == []
    assert all(name.endswith("num_batches_tracked") for name in missing)
    pixels = torch.randint(0, 256, (2, 3, 112, 112)).float()
    with torch.no_grad():
        torch.testing.assert_close(ours((pixels - 127.5) / 127.5), theirs((pixels - 127.5) / 128), rtol=1e-3, atol=1e-2)


def test_another_file_is_refused(tmp_path):
    (tmp_path / "model.params").write_bytes(b"PK" + bytes(40))
    with pytest.raises(ValueError, match="is no MXNet file of weights"):
        read_params(tmp_path / "model.params")
