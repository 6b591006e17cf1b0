"""A model as one ONNX file, which takes the pixels of a photo and needs neither torch nor smoothap to run."""

import copy
import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from PIL import Image

from smoothap._core.files import write_atomically
from smoothap._core.progress import Progress
from smoothap.data.reading import UnreadableImage, as_rgb, read_image
from smoothap.models.embedder import Embedder

_LEAST_COSINE = 0.9999  # to torch's vector of any photo; with less, no file is written
_ALL = 1 << 40
Photos = Sequence[Path | str | Image.Image]
_SHAPES = ((64, 64), (97, 64), (64, 150), (480, 640), (640, 480), (31, 50), (300, 900))  # height, width


@dataclass(frozen=True, eq=False)
class Exported:
    """A file, and how near its vectors are to torch's.

    cosines (n,): of each photo, from the same decoded pixels. cosines_from_files (n,): to the vector that an album has
    of the file, which decodes a large JPEG at a reduced size; None without files. seconds: for one photo, the median.
    """

    path: Path
    bytes: int
    cosines: np.ndarray
    cosines_from_files: np.ndarray | None
    seconds: float


def export_onnx(
    model: Embedder,
    path: Path | str,
    *,
    preprocessing: bool = True,
    photos: Photos = (),
    progress: bool = True,
) -> Exported:
    """Write `path`: "images" (n, height, width, 3) uint8 RGB of any size -> "embeddings" (n, dimension) of length 1.

        exported = export_onnx(Embedder.load("runs/mine/model"), "model.onnx", photos=["a.jpg", "b.jpg"])
        print(exported.cosines.min())

    Without `preprocessing`, "images" are (n, 3, size, size), and resizing and cropping are left to the caller; the
    metadata of every file say how, as `transform` (JSON) and `sentence`. The file is run by onnxruntime on the photos,
    or on made-up images without any, and is not written if a vector is too far from torch's. A photo that cannot be
    read is left out. For fewer bits, give the file to onnxruntime's own tools.
    """
    _check_extra()
    model = copy.deepcopy(model).cpu().eval()
    images = list(photos) or _made_up_images()
    results: list[Exported] = []

    def write(file: Path) -> None:
        with Progress("Exporting", len(images), "photos checked", shown=progress) as line:
            content = _onnx_file(model, preprocessing)
            file.write_bytes(content)
            results.append(_checked(model, content, Path(path), images, preprocessing, line))
        if not (least := results[0].cosines.min()) >= _LEAST_COSINE:
            raise ValueError(
                f"ONNX and torch differ: the smallest cosine of {len(images)} photos is {least:.4f}, less than "
                f"{_LEAST_COSINE}: no file written; report it, with the model."
            )

    write_atomically(path, write)
    return results[0]


def _check_extra() -> None:
    absent = [name for name in ("onnx", "onnxscript", "onnxruntime") if find_spec(name) is None]
    if absent:
        raise ValueError(f"Export needs {', '.join(absent)}: pip install 'smoothap[export]'")


def _onnx_file(model: Embedder, preprocessing: bool) -> bytes:
    """The bytes of the file: the network, and what comes before it."""
    import onnx

    from smoothap.models.onnx_preprocessing import preprocessing_model

    network = _network(model)
    if preprocessing:
        before = preprocessing_model(model.transform, network.ir_version)
        network = onnx.compose.merge_models(before, network, io_map=[("pixels", "images")])
    network.doc_string = "Photos to vectors of length 1, whose cosine says how alike two photos are. Made by smoothap."
    takes = "of any size" if preprocessing else "already resized and cropped"
    metadata = {
        "transform": json.dumps(model.transform.to_dict()),
        "sentence": f"Takes RGB {takes}. {model.transform.sentence()}",
        "preprocessing": "in the graph" if preprocessing else "left to you",
    }
    onnx.helper.set_model_props(network, metadata)
    onnx.checker.check_model(network)
    return network.SerializeToString()


def _network(model: Embedder) -> Any:
    """The network from bytes (n, 3, size, size), with its normalisation, as ONNX."""
    from onnxscript.optimizer import optimize

    from smoothap.models.onnx_preprocessing import OPSET

    images = torch.zeros(3, 3, model.transform.size, model.transform.size, dtype=torch.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter warns of its own internals
        program = torch.onnx.export(
            copy.deepcopy(model),  # it changes tensors that the model keeps
            (images,),
            input_names=["images"],
            output_names=["embeddings"],
            dynamic_shapes=({0: torch.export.Dim("n")},),
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    # With limits for large weights: the products that folded batch norms leave become constants.
    optimize(program.model, input_size_limit=_ALL, output_size_limit=_ALL)
    return program.model_proto


def _checked(
    model: Embedder,
    content: bytes,
    path: Path,
    images: Photos,
    preprocessing: bool,
    line: Progress,
) -> Exported:
    """Run the file on each image, alone and as a batch of two, and compare with torch."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # Its threads would wait for the next image at full speed, and keep the cores from torch and from others.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    cosines, from_files, seconds = list[float](), list[float](), list[float]()
    for image, decoded in _decoded(images):
        view = model.transform.test(decoded)
        pixels = np.asarray(decoded) if preprocessing else view.numpy()
        begun = perf_counter()
        alone = np.asarray(session.run(None, {"images": pixels[None]})[0])
        seconds.append(perf_counter() - begun)
        twice = np.asarray(session.run(None, {"images": np.stack([pixels, pixels])})[0])
        with torch.inference_mode():
            expected = model(view[None])[0].numpy()
        # Not divided by lengths: a vector that is not of length 1 is wrong too.
        found = (float(vector @ expected) for vector in (*alone, *twice))
        cosines.append(min(value if value <= 1.0001 else -1.0 for value in found))
        if not isinstance(image, Image.Image):
            from_files.append(float(alone[0] @ model.embed([image], progress=False)[0].numpy()))
        line.advance()
    files = np.array(from_files) if from_files else None
    return Exported(path, len(content), np.array(cosines), files, float(np.median(seconds)))


def _decoded(photos: Photos) -> Iterator[tuple[Path | str | Image.Image, Image.Image]]:
    """Each photo that can be read, and its pixels, all of them."""
    read, reason = 0, ""
    for photo in photos:
        try:
            decoded = as_rgb(photo) if isinstance(photo, Image.Image) else read_image(photo)
        except UnreadableImage as error:
            reason = str(error)
            continue
        read += 1
        yield photo, decoded
    if photos and not read:
        raise ValueError(f"None of the {len(photos)} photos can be read, such as {reason}: give others.")


def _made_up_images() -> list[Image.Image]:
    """Smooth colours with some noise, in every shape: large and small, wide and tall."""
    random, images = np.random.default_rng(0), list[Image.Image]()
    for height, width in _SHAPES:
        colours = Image.fromarray(random.integers(0, 256, (5, 7, 3), dtype=np.uint8))
        smooth = np.asarray(colours.resize((width, height), Image.Resampling.BICUBIC), np.int16)
        noisy = smooth + random.integers(-20, 21, smooth.shape)
        images.append(Image.fromarray(noisy.clip(0, 255).astype(np.uint8)))
    return images
