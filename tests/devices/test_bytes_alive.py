"""The memory of a loss and of a training step on a GPU: bytes of all tensors alive, counted on the second device."""

import pytest
import torch

from smoothap import SmoothAP
from smoothap.models import Embedder
from smoothap.training.gradients import cached_gradient

PER_CLASS, FLOAT = 4, 4
MOST_SCORES, MOST_QUERIES, MOST_TERMS = 1 << 22, 512, 1 << 21  # at once, in the loss


def bytes_of_the_loss(batch, dimension):
    """What docs/loss.md says: rows and their gradient, two blocks of scores, and the sigmoids of a few queries."""
    block = min(MOST_QUERIES, max(16, MOST_SCORES // batch), batch) * batch
    terms = min(MOST_TERMS, block * PER_CLASS)
    kept = 3 if block * PER_CLASS > MOST_TERMS else 2  # values, slopes, and the slopes of the queries before them
    return FLOAT * (2 * batch * dimension + 2 * block + kept * terms)


def peak(device, work):
    """The bytes that were alive at once during the work, beyond those before it."""
    before = device.live_bytes
    device.begin()
    work()
    return device.peak_bytes - before


def labels_of(batch):
    return torch.arange(batch) // PER_CLASS


@pytest.mark.parametrize(("batch", "dimension"), [(384, 512), (9_216, 16)])
def test_the_loss_takes_the_memory_that_the_formula_says(second, batch, dimension, measured):
    embeddings = torch.randn(batch, dimension).to(second.place).requires_grad_()
    labels = labels_of(batch).to(second.place)
    counted, expected = (
        peak(second, lambda: SmoothAP()(embeddings, labels).backward()),
        bytes_of_the_loss(batch, dimension),
    )
    measured(f"loss of {batch:,} x {dimension}: {counted / 1e6:.1f} MB")
    assert expected <= counted <= 1.03 * expected  # beside it there are labels and counts


def test_two_passes_take_the_memory_of_one_piece(second, measured):
    piece, side, dimension = 16, 32, 16
    torch.manual_seed(0)
    model = Embedder("test_resnet", dimension, size=side, pretrained=False).to(second.place).train()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)

    def step(batch):
        images = torch.randint(0, 256, (batch, 3, side, side), dtype=torch.uint8)
        labels = labels_of(batch).to(second.place)

        def send_back(embeddings):
            value = SmoothAP()(embeddings, labels)
            value.backward()
            return value.detach()

        def embed(pixels):
            return model(pixels.to(second.place))

        if batch == piece:
            return peak(second, lambda: send_back(embed(images)))
        return peak(second, lambda: cached_gradient(model, embed, images, send_back, piece))

    one_piece, batches = step(piece), (128, 256)
    counted = {batch: step(batch) for batch in batches}
    measured(f"one pass of {piece}: {one_piece:,} bytes; two passes: {counted}")
    for batch in batches:  # the embeddings of the batch, those of its pieces, and their gradient
        assert counted[batch] <= one_piece + 3 * FLOAT * batch * dimension
