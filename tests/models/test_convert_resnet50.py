"""Keras' ResNet-50: its graph, written out here, gives the features of the converted weights in timm's network."""

import json

import numpy as np
import torch
from convert_resnet50 import converted, read_shards
from torch.nn import functional as F

from smoothap.models.weights import build_backbone

BLOCKS = {2: "abc", 3: "abcd", 4: "abcdef", 5: "abc"}


def made_up_weights():
    """Arrays under Keras' names and in its layout, of a network that keeps the size of what passes."""
    random = np.random.default_rng(0)
    arrays = {}

    def layer(name, norm, size, channels_in, channels):
        scale = (size * size * channels_in) ** -0.5
        arrays[f"{name}/kernel"] = random.normal(0, scale, (size, size, channels_in, channels)).astype(np.float32)
        arrays[f"{name}/bias"] = random.normal(0, 0.3, channels).astype(np.float32)
        low = {"gamma": 0.5, "beta": -0.2, "moving_mean": -0.2, "moving_variance": 0.3}
        for part, least in low.items():
            arrays[f"{norm}/{part}"] = random.uniform(least, least + 0.5, channels).astype(np.float32)

    layer("conv1", "bn_conv1", 7, 3, 64)
    arrays["bn_conv1/moving_variance"] *= 3000  # of pixels up to 255
    channels_in = 64
    for stage, blocks in BLOCKS.items():
        width = 64 * 2 ** (stage - 2)
        for block in blocks:
            place = f"{stage}{block}_branch"
            layer(f"res{place}2a", f"bn{place}2a", 1, channels_in, width)
            layer(f"res{place}2b", f"bn{place}2b", 3, width, width)
            layer(f"res{place}2c", f"bn{place}2c", 1, width, 4 * width)
            if block == "a":
                layer(f"res{place}1", f"bn{place}1", 1, channels_in, 4 * width)
            channels_in = 4 * width
    arrays["fc1000/kernel"] = np.zeros((2048, 10), np.float32)
    return arrays


def keras_features(arrays, pixels):
    """Pixels (n, 3, h, w), RGB from 0 to 255, through the graph of model.json, up to the mean over the last map."""

    def layer(features, name, norm, stride=1, padding=0):
        kernel = torch.from_numpy(arrays[f"{name}/kernel"].transpose(3, 2, 0, 1).copy())
        features = F.conv2d(features, kernel, torch.from_numpy(arrays[f"{name}/bias"]), stride, padding)
        parts = (
            torch.from_numpy(arrays[f"{norm}/{part}"]) for part in ("moving_mean", "moving_variance", "gamma", "beta")
        )
        return F.batch_norm(features, *parts, eps=1e-3)

    features = pixels.flip(1) - torch.tensor([103.939, 116.779, 123.68])[:, None, None]
    features = F.max_pool2d(F.pad(layer(features, "conv1", "bn_conv1", 2, 3).relu(), (1, 1, 1, 1)), 3, 2)
    for stage, blocks in BLOCKS.items():
        for block in blocks:
            place, stride = f"{stage}{block}_branch", 2 if block == "a" and stage > 2 else 1
            inner = layer(features, f"res{place}2a", f"bn{place}2a", stride).relu()
            inner = layer(inner, f"res{place}2b", f"bn{place}2b", 1, 1).relu()
            inner = layer(inner, f"res{place}2c", f"bn{place}2c")
            shortcut = layer(features, f"res{place}1", f"bn{place}1", stride) if block == "a" else features
            features = (inner + shortcut).relu()
    return features.mean((2, 3))


def test_the_features_are_those_of_keras_graph(tmp_path):
    arrays = made_up_weights()
    content = b"".join(values.tobytes() for values in arrays.values())
    half = len(content) // 2 // 4 * 4
    (tmp_path / "one.bin").write_bytes(content[:half])
    (tmp_path / "two.bin").write_bytes(content[half:])
    weights = [{"name": name, "shape": list(values.shape), "dtype": "float32"} for name, values in arrays.items()]
    manifest = {"weightsManifest": [{"paths": ["one.bin", "two.bin"], "weights": weights}]}
    (tmp_path / "model.json").write_text(json.dumps(manifest))
    backbone = build_backbone("resnet50_keras", pretrained=False)
    missing, unknown = backbone.load_state_dict(converted(read_shards(tmp_path)), strict=False)
    assert unknown == []
    assert all(name.endswith("num_batches_tracked") for name in missing)
    pixels = torch.randint(0, 256, (2, 3, 96, 96)).float()
    mean, std = (torch.tensor(values)[:, None, None] for values in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    with torch.no_grad():
        expected = keras_features(arrays, pixels)
        found = backbone.eval()((pixels / 255 - mean) / std)
    # At the border Keras pads with its own mean colour, half a level from ours.
    assert float((found - expected).norm() / expected.norm()) < 0.002
