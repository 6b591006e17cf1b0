"""Large batches on small memory: the gradient of a batch whose activations would not fit, in two passes.

First all images are embedded without a graph, and the loss gives its gradient with respect to the embeddings. Then the
images are embedded again, a piece at a time, each piece with its part of that gradient. Only one piece's activations
are ever held; the price is a second forward pass.
"""

from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from smoothap._core.devices import rng_states, set_rng_states

Embed = Callable[[Tensor], Tensor]  # images (n, 3, h, w) -> embeddings (n, d)
Backward = Callable[[Tensor], Tensor]  # embeddings (b, d) -> the loss, whose gradient it has sent back


def two_pass(
    model: nn.Module, embed: Embed, images: Tensor, backward: Backward, micro_batch_size: int
) -> tuple[Tensor, Tensor]:
    """The loss and the embeddings (b, d) of a batch, holding one piece's activations at a time.

    The gradients are, to rounding, those of `backward(embed(images))`. `embed` runs `model`, whose batch-norm
    statistics must be frozen. Dropout draws the same numbers in both passes.
    """
    refuse_batch_statistics(model)
    pieces = images.split(micro_batch_size)
    place = next(model.parameters()).device
    drawn_from, embedded = [], []
    with torch.no_grad():
        for piece in pieces:
            drawn_from.append(rng_states(place))
            embedded.append(embed(piece))
    embeddings = torch.cat(embedded).requires_grad_()
    loss = backward(embeddings)
    assert embeddings.grad is not None
    rng_states_afterwards = rng_states(place)
    gradients = embeddings.grad.split(micro_batch_size)
    for piece, gradient, states in zip(pieces, gradients, drawn_from, strict=True):
        # Several processes exchange their gradients once, when the last piece has added its own.
        waits = isinstance(model, DistributedDataParallel) and piece is not pieces[-1]
        with model.no_sync() if waits else nullcontext():
            set_rng_states(place, states)
            embed(piece).backward(gradient)
    set_rng_states(place, rng_states_afterwards)
    return loss, embeddings.detach()


def refuse_batch_statistics(model: nn.Module) -> None:
    """An error where a batch-norm layer would normalise by the statistics of a piece in the place of the batch."""
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and (module.training or module.running_mean is None):
            raise ValueError(
                f"The batch-norm layer {name!r} takes its statistics from the batch, which two passes cut into pieces: "
                "freeze them (freeze_batch_norm=True), or leave micro_batch_size out"
            )
