"""Past embeddings as further items to rank."""

import torch

from smoothap.functional import smooth_ap
from smoothap.losses import SmoothAP
from smoothap.training._queue import EmbeddingQueue


def test_the_oldest_make_room():
    queue = EmbeddingQueue(5, 2)
    for start in (0, 3, 6):
        labels = torch.arange(start, start + 3)
        queue.add(torch.stack([labels, labels], 1).float(), labels)
    assert queue.labels.tolist() == [4, 5, 6, 7, 8]
    assert queue.embeddings[:, 0].tolist() == [4, 5, 6, 7, 8]


def test_a_batch_larger_than_the_queue_leaves_its_end():
    queue = EmbeddingQueue(2, 1)
    queue.add(torch.arange(4.0)[:, None], torch.arange(4))
    assert queue.labels.tolist() == [2, 3]


def test_what_is_remembered_has_no_graph():
    queue = EmbeddingQueue(4, 2)
    queue.add(torch.ones(2, 2, requires_grad=True) * 2, torch.zeros(2, dtype=torch.long))
    assert not queue.embeddings.requires_grad


def test_each_query_ranks_the_batch_without_itself_and_the_queue():
    torch.manual_seed(0)
    past, batch = torch.randn(7, 4), torch.randn(6, 4, requires_grad=True)
    past_labels, labels = torch.tensor([0, 1, 2, 0, 1, 2, 3]), torch.tensor([0, 0, 1, 1, 2, 2])
    queue = EmbeddingQueue(100, 4)
    queue.add(past, past_labels)
    loss = SmoothAP(0.1)(batch, labels, **queue.extend(batch, labels))
    (gradient,) = torch.autograd.grad(loss, batch)

    units = torch.nn.functional.normalize(torch.cat([batch, past]), dim=1)
    scores = units[:6] @ units.T
    scores = scores.masked_fill(torch.eye(6, 13, dtype=torch.bool), float("-inf"))
    relevant = (labels[:, None] == torch.cat([labels, past_labels])[None, :]) & ~torch.eye(6, 13, dtype=torch.bool)
    expected = 1 - smooth_ap(scores, relevant, 0.1).mean()
    (expected_gradient,) = torch.autograd.grad(expected, batch)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient, expected_gradient, rtol=1e-4, atol=1e-5)
