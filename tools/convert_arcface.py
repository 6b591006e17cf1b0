"""Turn InsightFace's MXNet weights of an LResNet50E-IR, such as VGG2-ResNet50-Arcface, into a file for --weights.

    python tools/convert_arcface.py model-0000.params arcface.safetensors

The file is read as bytes, by the format of MXNet's `NDArray::Save`; MXNet itself is not needed, nor model-symbol.json.
Names are those of `fresnet.py` (units of version 3, input 1, output E). Two things differ between the networks and are
put into the weights, so that the features are the same: MXNet's batch norms add 2e-5 to the variance, torch's 1e-5; and
pixels are divided by 128 there, by 127.5 here.
"""

import struct
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

_LIST, _ARRAYS = 0x112, (0xF993FAC8, 0xF993FAC9, 0xF993FACA)  # MXNet's magic numbers of a list and of its arrays
_TYPES = {0: np.float32, 1: np.float64, 2: np.float16}
_EPSILON = 2e-5 - 1e-5
_PIXELS = 127.5 / 128
_UNIT = {
    "bn1": "bn1", "conv1": "conv1", "bn2": "bn2", "relu1": "prelu", "conv2": "conv2", "bn3": "bn3",
    "conv1sc": "downsample.0", "sc": "downsample.1",
}  # fmt: skip
_OTHERS = {"conv0": "conv1", "bn0": "bn1", "relu0": "prelu", "bn1": "bn2", "pre_fc1": "fc", "fc1": "features"}
_PARTS = {
    "weight": "weight", "gamma": "weight", "bias": "bias", "beta": "bias",
    "moving_mean": "running_mean", "moving_var": "running_var",
}  # fmt: skip


def read_params(file: Path) -> dict[str, np.ndarray]:
    """The arrays of a .params file by name, such as "arg:conv0_weight"."""
    content, place = file.read_bytes(), 0

    def numbers(form: str) -> tuple[int, ...]:
        nonlocal place
        values = struct.unpack_from(f"<{form}", content, place)
        place += struct.calcsize(f"<{form}")
        return values

    magic, _, count = numbers("QQQ")
    if magic != _LIST:
        raise ValueError(f"{file} is no MXNet file of weights: it begins with {magic:#x}, not with {_LIST:#x}")
    arrays = []
    for _ in range(count):
        (magic,) = numbers("I")
        if magic not in _ARRAYS or (magic != _ARRAYS[0] and numbers("i") != (0,)):
            raise ValueError(f"{file} has an array of a kind that is not read here: sparse, or older than MXNet 1.0")
        (dimensions,) = numbers("I")
        shape = numbers(f"{dimensions}q")
        _, _, kind = numbers("iii")  # device, its number, and the type of the values
        values = np.frombuffer(content, _TYPES[kind], int(np.prod(shape)), place)
        place += values.nbytes
        arrays.append(values.reshape(shape).astype(np.float32))
    (count,) = numbers("Q")
    names = []
    for _ in range(count):
        (length,) = numbers("Q")
        names.append(content[place : place + length].decode())
        place += length
    return dict(zip(names, arrays, strict=True))


def converted(arrays: dict[str, np.ndarray]) -> dict[str, Tensor]:
    """The weights under the names of `iresnet50`."""
    state = {}
    for full_name, values in arrays.items():
        name = full_name.partition(":")[2]
        if name == "fc7_weight":  # the classifier
            continue
        layer, part = next((name[: -len(end) - 1], end) for end in _PARTS if name.endswith(f"_{end}"))
        if layer.startswith("stage"):
            stage, unit, inner = layer.split("_")
            target = f"layer{stage[5:]}.{int(unit[4:]) - 1}.{_UNIT[inner]}"
        else:
            target = _OTHERS[layer]
        values = torch.from_numpy(values)
        if target == "conv1":
            values = values * _PIXELS
        if target == "features" and part == "gamma":
            values = torch.ones_like(values)  # `fix_gamma`: what is stored plays no part
        state[f"{target}.{_PARTS[part]}"] = (values + _EPSILON if part == "moving_var" else values).contiguous()
    return state


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    save_file(converted(read_params(Path(sys.argv[1]))), sys.argv[2])
    print(f"Written to {sys.argv[2]}: smoothap train recipe:faces-arcface --weights {sys.argv[2]} ...")
