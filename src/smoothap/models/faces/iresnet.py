"""ArcFace's improved ResNet-50 for faces: aligned crops of 112 x 112, 512 dimensions.

The names of the layers are those of InsightFace's published state dict (`iresnet50`), so that it loads as it is.
"""

from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

_BLOCKS = (3, 4, 14, 3)
_CHANNELS = (64, 128, 256, 512)
_SIZE = 112


class Block(nn.Module):
    """Two convolutions, normalised before, between and after; the second one takes the stride."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(channels_in)
        self.conv1 = nn.Conv2d(channels_in, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.prelu = nn.PReLU(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride=stride, padding=1, bias=False)
        self.bn3 = nn.BatchNorm2d(channels)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride=stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, features: Tensor) -> Tensor:
        inner = self.prelu(self.bn2(self.conv1(self.bn1(features))))
        return torch.add(self.bn3(self.conv2(inner)), self.downsample(features))


class IResNet(nn.Module):
    """Faces (n, 3, 112, 112), RGB in -1 ... 1 -> features (n, 512)."""

    head_hidden_size = 512  # what timm calls the number of features
    pretrained_cfg: ClassVar[dict[str, Any]] = {
        "input_size": (3, _SIZE, _SIZE),
        "mean": (0.5, 0.5, 0.5),
        "std": (0.5, 0.5, 0.5),
        "transform": "whole",  # the crops are aligned already
    }

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, _CHANNELS[0], 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(_CHANNELS[0])
        self.prelu = nn.PReLU(_CHANNELS[0])
        self.layer1 = _stage(_CHANNELS[0], _CHANNELS[0], _BLOCKS[0])
        self.layer2 = _stage(_CHANNELS[0], _CHANNELS[1], _BLOCKS[1])
        self.layer3 = _stage(_CHANNELS[1], _CHANNELS[2], _BLOCKS[2])
        self.layer4 = _stage(_CHANNELS[2], _CHANNELS[3], _BLOCKS[3])
        self.bn2 = nn.BatchNorm2d(_CHANNELS[3])
        self.fc = nn.Linear(_CHANNELS[3] * (_SIZE // 16) ** 2, self.head_hidden_size)
        self.features = nn.BatchNorm1d(self.head_hidden_size)
        self.features.weight.requires_grad = False  # as published: 1, never trained
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.normal_(module.weight, std=0.1)

    def forward(self, images: Tensor) -> Tensor:
        if images.shape[-2:] != (_SIZE, _SIZE):
            raise ValueError(f"iresnet50 takes faces of {_SIZE} x {_SIZE}, got {tuple(images.shape)}")
        features = self.prelu(self.bn1(self.conv1(images)))
        features = self.layer4(self.layer3(self.layer2(self.layer1(features))))
        return cast("Tensor", self.features(self.fc(torch.flatten(self.bn2(features), 1))))


def _stage(channels_in: int, channels: int, blocks: int) -> nn.Sequential:
    return nn.Sequential(
        Block(channels_in, channels, stride=2), *(Block(channels, channels, stride=1) for _ in range(blocks - 1))
    )
