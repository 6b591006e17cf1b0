"""The weights of an iresnet50 out of an ONNX file, such as InsightFace publishes; the names there tell nothing.

An exporter folds most batch norms into the convolution before them. Such a pair is read as the folded convolution and a
batch norm that only adds the bias.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from smoothap.models.faces.iresnet import Block, IResNet

_EPSILON = 1e-5  # torch's, in every batch norm of ours


def state_of_onnx(path: Path) -> dict[str, Tensor]:
    """A state dict under our names, which are InsightFace's."""
    network, state = IResNet(), {}
    layers = _Layers(path)
    for name, layer, norm in _layers_in_order(network):
        state |= layers.next_of(name, layer, norm)
    layers.refuse_rest()
    return state


def _layers_in_order(network: IResNet) -> Iterator[tuple[str, nn.Module, str | None]]:
    """Each layer with its name, and the name of the batch norm that follows a convolution or the last layer."""
    yield "conv1", network.conv1, "bn1"
    yield "prelu", network.prelu, None
    for name, block in network.named_modules():
        if isinstance(block, Block):
            yield f"{name}.bn1", block.bn1, None
            yield f"{name}.conv1", block.conv1, f"{name}.bn2"
            yield f"{name}.prelu", block.prelu, None
            yield f"{name}.conv2", block.conv2, f"{name}.bn3"
            if isinstance(block.downsample, nn.Sequential):
                yield f"{name}.downsample.0", block.downsample[0], f"{name}.downsample.1"
    yield "bn2", network.bn2, None
    yield "fc", network.fc, "features"


class _Layers:
    """The layers of an ONNX file, handed out in the order of its graph: the next one of a kind and shape."""

    def __init__(self, path: Path) -> None:
        import onnx

        self._path = path
        try:
            self._graph = onnx.load(path).graph
        except Exception as error:  # a stranger's bytes may make the reader raise anything
            raise ValueError(f"{path} is not a whole ONNX file: fetch it again") from error
        self._arrays = {array.name: array for array in self._graph.initializer}
        for node in self._graph.node:
            values = [each.t for each in node.attribute if node.op_type == "Constant" and each.name == "value"]
            if values:
                self._arrays[node.output[0]] = values[0]
            elif node.op_type in ("Identity", "Reshape", "Unsqueeze") and node.input[0] in self._arrays:
                self._arrays[node.output[0]] = self._arrays[node.input[0]]  # the same numbers under another name
        waiting = [node for node in self._graph.node if node.op_type in ("Conv", "PRelu", "BatchNormalization", "Gemm")]
        products = {node.output[0] for node in waiting if node.op_type in ("Conv", "Gemm")}
        norms = [node for node in waiting if node.op_type == "BatchNormalization"]
        self._norm_after = {node.input[0]: node for node in norms if node.input[0] in products}
        self._waiting = [node for node in waiting if node.input[0] not in self._norm_after]

    def next_of(self, name: str, layer: nn.Module, norm: str | None) -> dict[str, Tensor]:
        """The numbers of the next layer of this kind and shape, and of the batch norm after it, by our names."""
        if isinstance(layer, nn.BatchNorm2d):
            return self._norm(name, self._take("BatchNormalization", layer.weight.shape, name))
        if isinstance(layer, nn.PReLU):
            node = self._take("PRelu", layer.weight.shape, name)
            return {f"{name}.weight": self._tensor(node.input[1]).flatten()}
        assert isinstance(layer, nn.Conv2d | nn.Linear)
        node = self._take("Conv" if isinstance(layer, nn.Conv2d) else "Gemm", layer.weight.shape, name)
        weight, bias = self._weight(node), self._tensor(node.input[2]) if len(node.input) > 2 else None
        state = {f"{name}.weight": weight}
        assert norm is not None
        if isinstance(layer, nn.Linear):
            state[f"{name}.bias"], bias = torch.zeros(len(weight)) if bias is None else bias, None
        if node.output[0] in self._norm_after:
            if bias is not None:
                raise ValueError(f"{self._path} does not fit iresnet50: a bias before the batch norm {norm}")
            return state | self._norm(norm, self._norm_after[node.output[0]])
        return state | _only_adds(norm, torch.zeros(len(weight)) if bias is None else bias)

    def refuse_rest(self) -> None:
        """An error where layers are left over: then it is another network."""
        if self._waiting:
            kinds = ", ".join(sorted({node.op_type for node in self._waiting}))
            raise ValueError(f"{self._path} does not fit iresnet50: {len(self._waiting)} layers more ({kinds})")

    def _take(self, kind: str, shape: torch.Size, name: str) -> Any:
        for place, node in enumerate(self._waiting):
            if node.op_type == kind and self._weight(node).shape.numel() == shape.numel():
                return self._waiting.pop(place)
        raise ValueError(f"{self._path} does not fit iresnet50: no {kind} of {tuple(shape)} for {name}")

    def _weight(self, node: Any) -> Tensor:
        weight = self._tensor(node.input[1])
        transposed = any(each.name == "transB" and each.i for each in node.attribute)
        return weight if node.op_type != "Gemm" or transposed else weight.T.contiguous()

    def _norm(self, name: str, node: Any) -> dict[str, Tensor]:
        scale, bias, mean, variance = (self._tensor(each) for each in node.input[1:5])
        epsilon = next((each.f for each in node.attribute if each.name == "epsilon"), _EPSILON)
        return _norm_state(name, scale, bias, mean, variance + (epsilon - _EPSILON))

    def _tensor(self, name: str) -> Tensor:
        from onnx import numpy_helper

        if name not in self._arrays:
            raise ValueError(f"{self._path} does not fit iresnet50: the weight {name} is computed, not stored")
        return torch.from_numpy(numpy_helper.to_array(self._arrays[name]).copy()).float()


def _only_adds(name: str, bias: Tensor) -> dict[str, Tensor]:
    ones, zeros = torch.ones_like(bias), torch.zeros_like(bias)
    return _norm_state(name, ones, bias, zeros, ones - _EPSILON)


def _norm_state(name: str, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor) -> dict[str, Tensor]:
    parts = {"weight": scale, "bias": bias, "running_mean": mean, "running_var": variance}
    return {f"{name}.{part}": values for part, values in parts.items()}
