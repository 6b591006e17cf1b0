"""Networks by their timm names. Importing timm takes seconds, so this module is imported when one is wanted."""

from difflib import get_close_matches
from typing import Any

from torch import nn

from smoothap._core.extras import ensure_torchvision

ensure_torchvision()
import timm  # noqa: E402


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
