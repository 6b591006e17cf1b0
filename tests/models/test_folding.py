"""Batch norm inside the convolution before it: the same vectors, the same gradients, the same names."""

import copy

import pytest
import torch
from torch import Tensor, nn

from smoothap.models import Embedder
from smoothap.models.cpu.folding import fold_batch_norm
from smoothap.models.weights import build_backbone


def with_statistics(network: nn.Module) -> nn.Module:
    """In float64, with batch norms that do something: fresh ones neither shift nor stretch."""
    torch.manual_seed(0)
    for module in network.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.8, 1.2)
            nn.init.uniform_(module.weight, 0.8, 1.2)
            nn.init.normal_(module.bias, 0, 0.1)
    return network.double()


def output_and_gradients(network: nn.Module, images: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    network.zero_grad()
    output = network(images)
    output.square().sum().backward()
    return output, {name: each.grad for name, each in network.named_parameters() if each.grad is not None}


@pytest.mark.parametrize(
    ("architecture", "size", "pairs", "norms"),
    [
        ("tf_efficientnet_lite0", 32, 49, 49),
        (
            "tf_mobilenetv3_small_minimal_100",
            32,
            34,
            34,
        ),  # padded like TensorFlow's, batch norm and activation in one layer
        ("resnet18", 32, 20, 20),
        pytest.param("legacy_seresnet50", 64, 53, 53, marks=pytest.mark.slow),
        ("resnetv2_50", 32, 32, 49),  # its other batch norms are before a convolution
        pytest.param("iresnet50", 112, 53, 79, marks=pytest.mark.slow),  # here too
        ("densenet121", 32, 59, 121),  # and here many convolutions have several users
    ],
)
def test_the_folded_network_gives_the_same_vectors_and_gradients(
    architecture: str, size: int, pairs: int, norms: int
) -> None:
    plain = with_statistics(build_backbone(architecture, size, pretrained=False))
    folded = copy.deepcopy(plain)
    assert fold_batch_norm(folded, size) == pairs
    assert sum(isinstance(each, nn.BatchNorm2d) for each in folded.modules()) == norms - architecture.count("iresnet")
    images = torch.randn(1, 3, size, size, dtype=torch.float64)
    expected, expected_gradients = output_and_gradients(plain.eval(), images)
    for network in (folded.eval(), copy.deepcopy(folded)):
        output, gradients = output_and_gradients(network, images)
        torch.testing.assert_close(output, expected, rtol=1e-9, atol=1e-9)
        assert gradients.keys() == expected_gradients.keys()
        for name, gradient in gradients.items():
            bound = 1e-9 * float(expected_gradients[name].abs().max() + 1)
            torch.testing.assert_close(gradient, expected_gradients[name], rtol=1e-9, atol=bound)


def test_in_training_mode_a_folded_network_still_takes_statistics_from_the_batch() -> None:
    plain = with_statistics(build_backbone("resnet18", 32, pretrained=False))
    folded = copy.deepcopy(plain)
    fold_batch_norm(folded, 32)
    images = torch.randn(4, 3, 32, 32, dtype=torch.float64)
    torch.testing.assert_close(folded.train()(images), plain.train()(images))
    torch.testing.assert_close(dict(folded.named_buffers()), dict(plain.named_buffers()))


class Branching(nn.Module):
    """A convolution whose output is used twice, one that is called twice, and one with a bias and a norm of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.shared, self.first = nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)
        self.again, self.second = nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4)
        self.alone, self.third = nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect"), nn.BatchNorm2d(4)
        self.bare, self.unlearnt = nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4, affine=False)

    def forward(self, images: Tensor) -> Tensor:
        shared = self.shared(images)
        features = self.first(shared) + shared
        features = self.second(self.again(self.again(features)))
        features = self.third(self.alone(features))
        return self.unlearnt(self.bare(features)).mean((2, 3))


def test_only_a_convolution_that_feeds_one_batch_norm_and_nothing_else_is_folded() -> None:
    plain = Branching().double()
    for norm in (plain.first, plain.second, plain.third):
        with_statistics(norm)
    folded = copy.deepcopy(plain)
    assert fold_batch_norm(folded, 8) == 1
    images = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    expected, expected_gradients = output_and_gradients(plain.eval(), images)
    output, gradients = output_and_gradients(folded.eval(), images)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(gradients, expected_gradients)


def test_an_image_too_small_for_the_network_leaves_it_as_it_is() -> None:
    class Demanding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution, self.norm = nn.Conv2d(3, 4, 9), nn.BatchNorm2d(4)

        def forward(self, images: Tensor) -> Tensor:
            return self.norm(self.convolution(images)).mean((2, 3))

    network = Demanding()
    assert fold_batch_norm(network, 4) == 0
    assert network.training
    assert fold_batch_norm(network, 16) == 1


def test_a_model_for_queries_gives_the_same_vectors_also_after_its_weights_have_changed() -> None:
    model = Embedder("tf_efficientnet_lite0", 8, size=32, pretrained=False)
    images, queries = torch.randn(2, 3, 32, 32), copy.deepcopy(model).for_queries().eval()
    assert queries.state_dict().keys() == model.state_dict().keys()
    for _ in range(2):
        with torch.inference_mode():
            torch.testing.assert_close(queries(images), model.eval()(images), rtol=0, atol=0)
            torch.testing.assert_close(queries(images), model(images), rtol=0, atol=0)  # by what was kept
        with_statistics(model)
        queries.load_state_dict(model.float().state_dict())
    model(images).sum().backward()
    queries(images).sum().backward()
    for mine, other in zip(queries.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=0, atol=0)
