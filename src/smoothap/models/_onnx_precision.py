"""An ONNX model in fewer bits: float16, or int8 whose ranges are read off photos."""

import logging
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

_HEAVY = ("Conv", "Gemm", "MatMul")  # what takes the time of a network
_LIGHT = ("Add", "Relu", "Clip")  # what stands between those; an activation sets the range of the layer before it


def in_float16(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its weights and activations in float16; it gives float32, and normalises pixels in it."""
    from onnxruntime.transformers.float16 import DEFAULT_OP_BLOCK_LIST, convert_float_to_float16
    from onnxruntime.transformers.onnx_model import OnnxModel

    converted = convert_float_to_float16(
        model, keep_io_types=True, op_block_list=DEFAULT_OP_BLOCK_LIST, node_block_list=_outer_nodes(model)
    )
    # A tensor that two nodes in float32 take is cast twice under one name, and casts stand at the end.
    outputs: set[str] = set()
    for node in list(converted.graph.node):
        if outputs.issuperset(node.output):
            converted.graph.node.remove(node)
        outputs.update(node.output)
    OnnxModel(converted).topological_sort()
    _normalise(converted)
    return converted


def _normalise(model: onnx.ModelProto) -> None:
    """Bring the vectors back to length 1: what was rounded to float16 on its way is off by some ten-thousandths."""
    graph, rounded = model.graph, "embeddings_rounded"
    for node in graph.node:
        node.output[:] = [rounded if name == "embeddings" else name for name in node.output]
    graph.initializer.append(numpy_helper.from_array(np.array([1], np.int64), "embeddings_axis"))
    graph.node.append(helper.make_node("ReduceL2", [rounded, "embeddings_axis"], ["embeddings_length"], keepdims=1))
    graph.node.append(helper.make_node("Div", [rounded, "embeddings_length"], ["embeddings"]))


def in_int8(model: onnx.ModelProto, views: Iterable[np.ndarray]) -> onnx.ModelProto:
    """The model in int8, by the ranges that its activations have on views (1, 3, size, size) uint8.

    Weights have 7 bits of the 8, so that sums fit on processors without VNNI, and a scale for each channel.
    """
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.left: Iterator[dict[str, Any]] = ({"images": view} for view in views)

        def get_next(self) -> Any:
            return next(self.left, None)

    with tempfile.TemporaryDirectory() as folder, _quiet_logger():
        file = Path(folder) / "model.onnx"
        quantize_static(
            model, file, Reader(), quant_format=QuantFormat.QDQ, op_types_to_quantize=[*_HEAVY, *_LIGHT],
            per_channel=True, reduce_range=True, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
            nodes_to_exclude=_outer_nodes(model),
        )  # fmt: skip
        return onnx.load(file)


def _outer_nodes(model: onnx.ModelProto) -> list[str]:
    """The nodes before the first layer and those behind the last: what normalises pixels and vectors."""
    nodes = list(model.graph.node)
    for place, node in enumerate(nodes):
        node.name = node.name or f"node_{place}"
    heavy = [place for place, node in enumerate(nodes) if node.op_type in _HEAVY]
    return [node.name for node in (*nodes[: heavy[0]], *nodes[heavy[-1] + 1 :])]


class _quiet_logger:  # noqa: N801 (a context)
    """No advice on the root logger about how else the model could have been prepared."""

    def __enter__(self) -> None:
        self._level = logging.getLogger().level
        logging.getLogger().setLevel(logging.ERROR)

    def __exit__(self, *_: object) -> None:
        logging.getLogger().setLevel(self._level)
