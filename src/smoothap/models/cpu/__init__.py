"""Half of the time on a CPU, with the same names, parameters and results: `accelerate` is the switch.

- `folding`: a frozen batch norm becomes part of the convolution before it.
- `convolution`: a convolution and its activation in one step, and faster gradients where torch's are slow.
- `depthwise`: depthwise convolutions by compiled loops (`kernels`).

docs/architecture.md has the whole explanation. On other devices, in other float types, under autocast and in
torch.compile all layers compute as torch does.
"""

from functools import partial

from torch import Tensor, nn

from smoothap.models.cpu.convolution import SamePadding, convolve_layer, is_convolution, kernels
from smoothap.models.cpu.folding import NormAndActivation, fold_batch_norm, keep_folded

__all__ = ["NormAndActivation", "SamePadding", "accelerate", "keep_folded", "kernels"]


def accelerate(backbone: nn.Module, size: int) -> None:
    """Let a network for images (n, 3, size, size) compute its layers in the faster ways of this package."""
    fold_batch_norm(backbone, size)
    for layer in backbone.modules():
        if is_convolution(layer) and "forward" not in vars(layer):
            layer.forward = partial(_forward, layer)  # ty: ignore[invalid-assignment]


def _forward(layer: nn.Conv2d, images: Tensor) -> Tensor:
    return convolve_layer(layer, images, layer.weight, layer.bias)
