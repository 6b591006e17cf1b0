"""Two passes in little memory give the gradients of one."""

import copy

import pytest
import torch
from torch import nn

from smoothap.functional import smooth_ap
from smoothap.losses import SmoothAP
from smoothap.models import Embedder
from smoothap.training.gradients import EmbeddingMemory, cached_gradient

LABELS = torch.tensor([0, 0, 0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4, 4, 4, 5, 5])


class WithDropout(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(48, 32), nn.Dropout(0.5), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 8)
        )

    def forward(self, images):
        return nn.functional.normalize(self.layers(images), dim=1)


def send_back(embeddings):
    loss = SmoothAP(0.05)(embeddings, LABELS)
    loss.backward()
    return loss.detach()


def one_pass(embed, images):
    embeddings = embed(images)
    return send_back(embeddings), embeddings.detach()


def gradients(model):
    return {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("micro_batch_size", [1, 4, 7, 20, 21])
def test_gradients_equal_those_of_one_pass(micro_batch_size):
    torch.manual_seed(0)
    model = Embedder("test_resnet", 16, size=24, pretrained=False)
    twin = copy.deepcopy(model)
    images = torch.randint(0, 256, (len(LABELS), 3, 24, 24), dtype=torch.uint8)
    loss, embeddings = one_pass(model, images)
    again, embedded = cached_gradient(twin, twin, images, send_back, micro_batch_size)
    torch.testing.assert_close(again, loss, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(embedded, embeddings, rtol=1e-5, atol=1e-6)
    for name, gradient in gradients(model).items():
        scale = gradient.abs().max()
        assert (gradients(twin)[name] - gradient).abs().max() <= 1e-5 * scale.clamp(min=1), name


def test_dropout_draws_the_same_numbers_in_both_passes():
    """The oracle holds all pieces' graphs at once, and draws as the first of the two passes does."""
    torch.manual_seed(0)
    model = WithDropout().double()
    twin = copy.deepcopy(model)
    images = torch.randn(len(LABELS), 3, 4, 4, dtype=torch.float64)
    torch.manual_seed(1)
    loss, _ = one_pass(lambda whole: torch.cat([model(piece) for piece in whole.split(5)]), images)
    after_one = torch.rand(3)
    torch.manual_seed(1)
    again, _ = cached_gradient(twin, twin, images, send_back, 5)
    assert torch.equal(torch.rand(3), after_one)
    torch.testing.assert_close(again, loss, rtol=0, atol=1e-12)
    for name, gradient in gradients(model).items():
        torch.testing.assert_close(gradients(twin)[name], gradient, rtol=0, atol=1e-12)


def test_batch_norm_that_is_not_frozen_is_refused():
    model = Embedder("test_resnet", 16, size=24, pretrained=False, freeze_batch_norm=False)
    images = torch.zeros(len(LABELS), 3, 24, 24, dtype=torch.uint8)
    with pytest.raises(ValueError, match=r"batch-norm layer 'backbone\.\S+' takes its statistics from the batch"):
        cached_gradient(model, model, images, send_back, 4)


def test_batch_norm_without_statistics_is_refused():
    model = nn.Sequential(nn.BatchNorm2d(3, track_running_stats=False), nn.Flatten()).eval()
    with pytest.raises(ValueError, match="takes its statistics from the batch"):
        cached_gradient(model, model, torch.zeros(len(LABELS), 3, 4, 4), send_back, 4)


def test_only_one_piece_is_embedded_at_a_time_and_only_the_second_pass_keeps_a_graph():
    torch.manual_seed(0)
    model, seen = WithDropout(), []

    def embed(images):
        seen.append((len(images), torch.is_grad_enabled()))
        return model(images)

    cached_gradient(model, embed, torch.randn(len(LABELS), 3, 4, 4), send_back, 10)
    assert seen == [(10, False), (10, False), (1, False), (10, True), (10, True), (1, True)]


def test_the_oldest_make_room():
    memory = EmbeddingMemory(5, 2)
    for start in (0, 3, 6):
        labels = torch.arange(start, start + 3)
        memory.add(torch.stack([labels, labels], 1).float(), labels)
    assert memory.labels.tolist() == [4, 5, 6, 7, 8]
    assert memory.embeddings[:, 0].tolist() == [4, 5, 6, 7, 8]


def test_what_is_remembered_has_no_graph():
    memory = EmbeddingMemory(4, 2)
    memory.add(torch.ones(2, 2, requires_grad=True) * 2, torch.zeros(2, dtype=torch.long))
    assert not memory.embeddings.requires_grad


def test_each_query_ranks_the_batch_without_itself_and_the_queue():
    torch.manual_seed(0)
    past, batch = torch.randn(7, 4), torch.randn(6, 4, requires_grad=True)
    past_labels, labels = torch.tensor([0, 1, 2, 0, 1, 2, 3]), torch.tensor([0, 0, 1, 1, 2, 2])
    memory = EmbeddingMemory(100, 4)
    memory.add(past, past_labels)
    loss = SmoothAP(0.1)(batch, labels, **memory.extend(batch, labels))
    (gradient,) = torch.autograd.grad(loss, batch)

    units = torch.nn.functional.normalize(torch.cat([batch, past]), dim=1)
    scores = units[:6] @ units.T
    scores = scores.masked_fill(torch.eye(6, 13, dtype=torch.bool), float("-inf"))
    relevant = (labels[:, None] == torch.cat([labels, past_labels])[None, :]) & ~torch.eye(6, 13, dtype=torch.bool)
    expected = 1 - smooth_ap(scores, relevant, 0.1).mean()
    (expected_gradient,) = torch.autograd.grad(expected, batch)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient, expected_gradient, rtol=1e-4, atol=1e-5)
