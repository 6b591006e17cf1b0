"""Networks by their timm names. Importing timm takes seconds, so this module is imported when one is wanted."""

from difflib import get_close_matches
from typing import Any

from torch import nn

from smoothap._core.extras import ensure_torchvision

ensure_torchvision()
import timm  # noqa: E402
from timm.models import register_model  # noqa: E402


def resnet50_keras(pretrained: bool = False, **options: Any) -> nn.Module:
    """timm's ResNet-50 whose stages halve the map in their first 1 x 1, not in the 3 x 3 behind it, as in Keras.

    The original ResNet of He et al. does so too. tools/convert_resnet50.py makes a weight file for it.
    """
    network = timm.create_model("resnet50.tv_in1k", pretrained=False, **options)
    for stage in ("layer2", "layer3", "layer4"):
        for layer, stride in (("conv1", 2), ("conv2", 1)):
            convolution = network.get_submodule(f"{stage}.0.{layer}")
            assert isinstance(convolution, nn.Conv2d)
            convolution.stride = (stride, stride)
    given: Any = network  # timm's networks have this mapping beside their layers
    # The same pixels as torchvision's weights; no hub has these.
    given.pretrained_cfg = {**given.pretrained_cfg, "architecture": "resnet50_keras", "hf_hub_id": None, "url": ""}
    return network


if not timm.is_model(resnet50_keras.__name__):
    register_model(resnet50_keras)


def timm_backbone(architecture: str, size: int | None) -> nn.Module:
    """A network by its timm name, with random weights and without a classifier."""
    name = architecture.split(".")[0]  # resnet50.tv_in1k: the part after the dot names the weights
    if not timm.is_model(name):
        near = get_close_matches(name, [*timm.list_models(), "iresnet50"], n=3)
        hint = f"; did you mean {', '.join(near)}?" if near else "; timm.list_models() lists them"
        raise ValueError(f"There is no folder {architecture}, and timm has no network named {architecture!r}{hint}")
    configuration = timm.get_pretrained_cfg(architecture)
    options: dict[str, Any] = {}
    if size is not None and configuration is not None and configuration.fixed_input_size:
        options["img_size"] = size
    return timm.create_model(architecture, num_classes=0, **options)
