"""The gradient of one batch: over all processes, with remembered embeddings to rank among, and in micro-batches.

Micro-batches (gradient caching) let a batch be larger than the memory. First all images are embedded without a graph,
and the loss gives its gradient with respect to the embeddings. Then the images are embedded again, a micro-batch at a
time, each with its part of that gradient. Only one micro-batch's activations are ever held; the price is a second
forward pass.
"""

from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from smoothap._core.devices import rng_states, set_rng_states
from smoothap._core.distributed import Processes

Embed = Callable[[Tensor], Tensor]  # images (n, 3, h, w) -> embeddings (n, d)
Backward = Callable[[Tensor], Tensor]  # embeddings (b, d) -> the loss, whose gradient it has sent back


class EmbeddingMemory:
    """The latest `size` embeddings with their labels (cross-batch memory); the oldest make room for new ones."""

    def __init__(self, size: int, dimension: int, device: torch.device | str = "cpu") -> None:
        self.size = size
        self.embeddings = torch.empty(0, dimension, device=device)  # oldest first
        self.labels = torch.empty(0, dtype=torch.long, device=device)

    def __len__(self) -> int:
        return len(self.labels)

    def add(self, embeddings: Tensor, labels: Tensor) -> None:
        """Append a batch: embeddings (b, d), labels (b,)."""
        self.embeddings = torch.cat([self.embeddings, embeddings.detach()])[-self.size :]
        self.labels = torch.cat([self.labels, labels] if len(self.labels) else [labels])[-self.size :]

    def extend(self, embeddings: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """The retrieval set of a batch and of what is remembered, as arguments of a loss.

        embeddings (b, d), labels (b,) -> ref_emb (b + n, d), ref_labels (b + n,), self_index (b,): each query's own
        row.
        """
        return {
            "ref_emb": torch.cat([embeddings, self.embeddings]),
            "ref_labels": torch.cat([labels, self.labels]),
            "self_index": torch.arange(len(labels), device=labels.device),
        }


def loss_backward(
    loss: nn.Module,
    labels: Tensor,
    embeddings: Tensor,
    *,
    processes: Processes,
    memory: EmbeddingMemory | None = None,
    scaler: torch.amp.GradScaler | None = None,
) -> Tensor:
    """The loss of the batch of all processes, with the memory as further items to rank; sends its gradient back.

    embeddings (b, d) of this process, labels (processes * b,) of all.
    """
    everyone = processes.gather(embeddings)
    further = memory.extend(everyone, labels) if memory is not None and len(memory) else {}
    value = loss(everyone, labels, **further)
    scaled = value * processes.number  # `Processes.gather` says why
    (scaled if scaler is None else scaler.scale(scaled)).backward()
    for parameter in loss.parameters():
        if parameter.grad is not None:
            parameter.grad /= processes.number
    return value.detach()


def cached_gradient(
    model: nn.Module, embed: Embed, images: Tensor, backward: Backward, micro_batch_size: int
) -> tuple[Tensor, Tensor]:
    """The loss and the embeddings (b, d) of a batch, holding the activations of one micro-batch at a time.

    The gradients are, to rounding, those of `backward(embed(images))`. `embed` runs `model`, whose batch-norm
    statistics must be frozen. Dropout draws the same numbers in both passes.
    """
    refuse_batch_statistics(model)
    micro_batches = images.split(micro_batch_size)
    place = next(model.parameters()).device
    drawn_from, embedded = [], []
    with torch.no_grad():
        for micro_batch in micro_batches:
            drawn_from.append(rng_states(place))
            embedded.append(embed(micro_batch))
    embeddings = torch.cat(embedded).requires_grad_()
    loss = backward(embeddings)
    assert embeddings.grad is not None
    rng_states_afterwards = rng_states(place)
    gradients = embeddings.grad.split(micro_batch_size)
    for micro_batch, gradient, states in zip(micro_batches, gradients, drawn_from, strict=True):
        # Several processes exchange their gradients once, when the last micro-batch has added its own.
        waits = isinstance(model, DistributedDataParallel) and micro_batch is not micro_batches[-1]
        with model.no_sync() if waits else nullcontext():
            set_rng_states(place, states)
            embed(micro_batch).backward(gradient)
    set_rng_states(place, rng_states_afterwards)
    return loss, embeddings.detach()


def refuse_batch_statistics(model: nn.Module) -> None:
    """An error where a batch-norm layer would normalise by the statistics of a micro-batch, not of the batch."""
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and (module.training or module.running_mean is None):
            raise ValueError(
                f"The batch-norm layer {name!r} takes its statistics from the batch, which is cut into micro-batches: "
                "freeze them (freeze_batch_norm=True), or leave micro_batch_size out"
            )
