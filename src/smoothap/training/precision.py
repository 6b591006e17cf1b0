"""16 bits for the network, only where they do not undo the loss.

Smooth-AP ranks scores whose differences matter from about tau on. A network that computes in 16 bits gives embeddings
that are a little off, and so are the differences of their scores: by about 0.001 in float16 and 0.01 in bfloat16
(docs/training.md has numbers). A loss says in `tolerated_noise` by how much they may be off, as a standard deviation.
"""

import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler, OptState

from smoothap._core.devices import has_float64
from smoothap._core.precision import float32_networks
from smoothap.training.config import TrainingConfig

FLOAT16_NOISE = 0.001  # of score differences, as measured; bfloat16 has ten times that


def network_precision(config: TrainingConfig, loss: nn.Module, device: torch.device) -> torch.dtype:
    """The float that the network computes in; "auto" is float16 on a GPU when the loss tolerates it, else float32."""
    if config.precision != "auto":
        return torch.float32 if config.precision == "tf32" else getattr(torch, config.precision)
    bears: float | None = getattr(loss, "tolerated_noise", None)
    return torch.float16 if device.type != "cpu" and bears is not None and bears >= FLOAT16_NOISE else torch.float32


def loss_scaler(dtype: torch.dtype, device: torch.device) -> GradScaler:
    """What keeps gradients of float16 from vanishing, by a factor on the loss; without effect for other floats."""
    scaler = GradScaler if has_float64(device) else _ScalerWithoutFloat64
    return scaler(device.type, enabled=dtype == torch.float16)


class _ScalerWithoutFloat64(GradScaler):
    """torch's takes the reciprocal of the factor in float64. It is a power of two, so that float32 is exact as well."""

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        if not self.is_enabled():
            return
        assert self._scale is not None
        state = self._per_optimizer_states[id(optimizer)]
        infinite = torch.zeros((), device=self._scale.device)
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, self._scale.reciprocal(), infinite, False)
        state["stage"] = OptState.UNSCALED


def score_noise(exact: Tensor, rounded: Tensor) -> float:
    """How far off the differences between the scores of a query are, as a standard deviation.

    exact, rounded (n, d): the embeddings of the same images, in float32 and in fewer bits.
    """
    exact, rounded = (torch.nn.functional.normalize(rows.detach().float().cpu()) for rows in (exact, rounded))
    error = rounded @ rounded.T - exact @ exact.T
    count = len(error)
    if count < 3:
        return 0.0
    others = error[~torch.eye(count, dtype=torch.bool)].view(count, count - 1)
    return float((2 * others.var(1).mean()).sqrt())  # a difference has the noise of two scores


def warn_of_noise(
    embed: Callable[[Tensor, torch.dtype], Tensor], images: Tensor, dtype: torch.dtype, loss: nn.Module, *, tf32: bool
) -> None:
    """Embed one batch both ways, and warn if fewer bits blur what the loss looks at."""
    bears: float | None = getattr(loss, "tolerated_noise", None)
    if (dtype == torch.float32 and not tf32) or bears is None:
        return
    with torch.no_grad():
        rounded = embed(images, dtype)
        with float32_networks():
            noise = score_noise(embed(images, torch.float32), rounded)
    if not noise <= bears:
        name = "tf32" if tf32 else str(dtype).removeprefix("torch.")
        warnings.warn(
            f"In {name} this network's score differences are off by {noise:.4f}, and the loss bears {bears:.4f}: ranks "
            "that it tries to mend are lost in rounding. Train with --precision float32, or with a larger tau.",
            stacklevel=3,
        )
