"""A model as one ONNX file, which takes bytes and needs neither torch nor smoothap to run."""

import copy
import json
import warnings
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from smoothap.files import write_atomically
from smoothap.models.embedder import Embedder

TOLERANCE = 1e-4
_CHECKED_BATCHES = (1, 3)


def export_onnx(model: Embedder, path: Path | str) -> float:
    """Write `path`: "images" (n, 3, size, size) uint8 RGB -> "embeddings" (n, dimension), for any n.

    The normalisation is part of the file; its metadata hold the transform, of which resizing and cropping stay with
    the caller. The file is run by onnxruntime first, and is not written if a number differs from torch's by more than
    1e-4; returns the greatest difference.
    """
    absent = [name for name in ("onnx", "onnxscript", "onnxruntime") if find_spec(name) is None]
    if absent:
        raise ValueError(f"Export needs {', '.join(absent)}: pip install 'smoothap[export]'")
    import onnxruntime

    model, size = copy.deepcopy(model).cpu().eval(), model.transform.size
    images = [torch.randint(0, 256, (count, 3, size, size), dtype=torch.uint8) for count in _CHECKED_BATCHES]
    with torch.inference_mode():
        expected = [model(batch) for batch in images]  # now, because the export changes tensors that the model keeps
    differences: list[float] = []

    def write(file: Path) -> None:
        _export(model, images[-1], file)
        session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        for batch, vectors in zip(images, expected, strict=True):
            (exported,) = session.run(None, {"images": batch.numpy()})
            differences.append((torch.from_numpy(exported) - vectors).abs().max().item())
        if not max(differences) <= TOLERANCE:
            raise ValueError(
                f"ONNX and torch differ by {max(differences):.1e}, more than {TOLERANCE:.0e}: no file written"
            )

    write_atomically(path, write)
    return max(differences)


def _export(model: Embedder, images: Tensor, file: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter warns of its own internals
        program = torch.onnx.export(
            model,
            (images,),
            input_names=["images"],
            output_names=["embeddings"],
            dynamic_shapes=({0: torch.export.Dim("n")},),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    program.model.metadata_props["transform"] = json.dumps(model.transform.to_dict())
    program.save(str(file), external_data=False)
