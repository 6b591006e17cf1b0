"""SENet-50 for faces, as published with VGGFace2: box extended by 1.3, 224 x 224, BGR of 0 ... 255 less the mean.

timm's `legacy_seresnet50` strides in the first convolution of a block, where the published network has it.
"""

import re
from pathlib import Path

import torch
from torch import Tensor

from smoothap.data.transforms import SENET
from smoothap.models.embedder import Embedder
from smoothap.models.weights import load_state, read_state

ARCHITECTURE = "legacy_seresnet50"

_STEM = {"conv1_7x7_s2": "layer0.conv1", "conv1_7x7_s2_bn": "layer0.bn1"}
_BLOCK = {
    "1x1_reduce": "conv1",
    "1x1_reduce_bn": "bn1",
    "3x3": "conv2",
    "3x3_bn": "bn2",
    "1x1_increase": "conv3",
    "1x1_increase_bn": "bn3",
    "1x1_down": "se_module.fc1",
    "1x1_up": "se_module.fc2",
    "1x1_proj": "downsample.0",
    "1x1_proj_bn": "downsample.1",
}
_CAFFE_BLOCK = {"conv4": "se_module.fc1", "conv5": "se_module.fc2"}  # the other names are timm's already


def vggface2_senet50(weights: Path | str | None = None, dimension: int = 256) -> Embedder:
    """SENet-50 with an embedding of 256 dimensions; `weights` is a published VGGFace2 file, None gives random weights.

    Takes Oxford's PyTorch files (senet50_256, senet50_128 with their embedding; the 2048-D ones without) and the usual
    conversion of the Caffe files (senet50_ft, senet50_scratch), as .pth or .safetensors.
    """
    model = Embedder(ARCHITECTURE, dimension, size=SENET.size, pretrained=False)
    model.transform = SENET
    if weights is None:
        return model
    state = to_timm_names(read_state(weights))
    reduction = state.pop("feat_extract.weight", None)
    load_state(model.backbone, state, weights)
    if reduction is not None and model.embedding is not None:
        if len(reduction) != dimension:
            raise ValueError(f"{weights} has an embedding of {len(reduction)} dimensions, not {dimension}")
        published = {"weight": reduction.flatten(1), "bias": torch.zeros(dimension)}
        load_state(model.embedding, published, weights)
    return model


def to_timm_names(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """A published state dict of either layout under timm's names, the classifier left out, for BGR input."""
    oxford = "conv1_7x7_s2.weight" in state
    rename = _from_oxford if oxford else _from_caffe
    renamed = {rename(name): value for name, value in state.items() if not name.startswith(("classifier.", "fc."))}
    if oxford:  # these files take RGB: Oxford's own extractor feeds it to them
        renamed["layer0.conv1.weight"] = renamed["layer0.conv1.weight"].flip(1)
    return renamed


def _from_oxford(name: str) -> str:
    layer, part = name.rsplit(".", 1)
    if layer in _STEM:
        return f"{_STEM[layer]}.{part}"
    place = re.fullmatch(r"conv([2-5])_(\d)_(\w+)", layer)  # conv2_1_1x1_reduce: stage 2 is timm's layer1
    if place is None or place[3] not in _BLOCK:
        return name
    return f"layer{int(place[1]) - 1}.{int(place[2]) - 1}.{_BLOCK[place[3]]}.{part}"


def _from_caffe(name: str) -> str:
    parts = name.split(".")
    if parts[0] in ("conv1", "bn1"):
        return f"layer0.{name}"
    return ".".join(_CAFFE_BLOCK.get(part, part) for part in parts)
