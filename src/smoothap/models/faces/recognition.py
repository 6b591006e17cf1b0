"""From faces to vectors that tell people apart: by SFace, or by a network that the user brings."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from smoothap.data.datasets.faces import ALIGNED_SIZE, align
from smoothap.models.faces.detection import Face
from smoothap.models.faces.files import SFACE, any_size, opened, read_weights, session

if TYPE_CHECKING:
    from smoothap.models.embedder import Embedder

_AT_ONCE = 8  # faces: the maps of more are larger than the caches of a core
_LOOSE = 1.3  # by how much SENet-50 wants the box of a face extended
_BRING = (
    "bring an ONNX file that takes aligned faces (n, 3, 112, 112) and gives a vector for each, the folder of a model "
    "that smoothap train wrote, or the weights of an iresnet50 or of SENet-50"
)


@dataclass(frozen=True, eq=False)
class Recogniser:
    """A network that gives the vectors of faces: `embed` takes crops of this side, and gives them of any length."""

    name: str
    sha256: str
    dimension: int
    side: int
    embed: Callable[[Sequence[Image.Image]], np.ndarray]

    def crop(self, picture: Image.Image, face: Face) -> Image.Image:
        """The face as the network takes it: aligned by its five points, or for SENet-50 in a loose box."""
        if self.side == ALIGNED_SIZE:
            return aligned(picture, face)
        x, y, width, height = face.box
        more = (_LOOSE - 1) / 2
        corners = (x - more * width, y - more * height, x + (1 + more) * width, y + (1 + more) * height)
        return picture.transform((self.side, self.side), Image.Transform.EXTENT, corners, Image.Resampling.BILINEAR)

    def vectors(self, crops: Sequence[Image.Image]) -> np.ndarray:
        """The vectors (n, dimension) of cropped faces, not yet of length 1."""
        return self.embed(crops) if crops else np.empty((0, self.dimension), np.float32)


def open_recogniser(model: Path | str | None = None, weights: Path | str | None = None) -> Recogniser:
    """SFace from the installed package or from `weights`, a folder; or the network that `model` is, see `_BRING`."""
    if model is None:
        from smoothap.models.faces.sface import DIMENSION, SFace

        network = SFace(opened(read_weights(SFACE, weights), SFACE.name))
        return Recogniser("SFace", SFACE.sha256, DIMENSION, ALIGNED_SIZE, _some_at_once(network.embed))
    model = Path(model)
    if model.suffix == ".onnx" and model.is_file():
        return _of_onnx(model)
    if model.is_dir():
        from smoothap.models.embedder import Embedder

        return _of_model(str(model), Embedder.load(model))
    if not model.is_file():
        raise FileNotFoundError(f"There is no face network at {model}: {_BRING}.")
    return _of_model(str(model), _of_state(model))


def _some_at_once(network: Callable[[np.ndarray], np.ndarray]) -> Callable[[Sequence[Image.Image]], np.ndarray]:
    """What gives crops to a network as arrays (n, 3, side, side) of 0 ... 255."""

    def embed(crops: Sequence[Image.Image]) -> np.ndarray:
        some = (crops[start : start + _AT_ONCE] for start in range(0, len(crops), _AT_ONCE))
        arrays = (np.stack([np.asarray(crop) for crop in part]).transpose(0, 3, 1, 2) for part in some)
        return np.concatenate([network(np.ascontiguousarray(array, np.float32)) for array in arrays])

    return embed


def _of_model(name: str, model: Embedder) -> Recogniser:
    """A network of ours, such as IResNet for aligned faces or SENet-50 for loose boxes."""
    from safetensors.torch import save

    state = {key: value.detach().cpu().contiguous() for key, value in model.eval().state_dict().items()}

    def embed(crops: Sequence[Image.Image]) -> np.ndarray:
        return model.embed(list(crops), batch_size=_AT_ONCE, progress=False).numpy()

    return Recogniser(name, hashlib.sha256(save(state)).hexdigest(), model.dimension, model.transform.size, embed)


def aligned(picture: Image.Image, face: Face) -> Image.Image:
    """The face by its five points, 112 x 112; one that is much larger is made smaller first, without jagged edges."""
    x, y, width, height = face.box
    shrink = int(min(width, height) // (2 * ALIGNED_SIZE))
    if shrink <= 1:
        return align(picture, face.points)
    # What is around the face is enough: the points of a face are inside of its box, or near to it.
    left, top = max(0, int(x - width / 2)), max(0, int(y - height / 2))
    right, bottom = min(picture.width, int(x + 1.5 * width) + 1), min(picture.height, int(y + 1.5 * height) + 1)
    if right - left < shrink or bottom - top < shrink:
        return align(picture, face.points)
    part = picture.crop((left, top, right, bottom)).reduce(shrink)
    return align(part, (face.points - [left, top]) / shrink)


def _of_onnx(file: Path) -> Recogniser:
    """Any network with the right input: RGB of -1 ... 1, as ArcFace takes it, or of 0 ... 255 if it scales itself."""
    content = file.read_bytes()
    model = opened(content, str(file))
    first = {node.op_type for node in model.graph.node[:2]}
    scales_itself = bool(first & {"Sub", "Add"} and first & {"Mul", "Div"})
    shapes = [[each.dim_value for each in one.type.tensor_type.shape.dim] for one in model.graph.input]
    if len(shapes) != 1 or shapes[0][1:] != [3, ALIGNED_SIZE, ALIGNED_SIZE]:
        raise ValueError(f"{file} takes input of {shapes}, not (n, 3, {ALIGNED_SIZE}, {ALIGNED_SIZE}): {_BRING}.")
    running = session(any_size(model, ("faces", 3, ALIGNED_SIZE, ALIGNED_SIZE)), threads=0)
    name = running.get_inputs()[0].name

    def embed(faces: np.ndarray) -> np.ndarray:
        return running.run(None, {name: faces if scales_itself else (faces - 127.5) / 127.5})[0]

    try:
        given = embed(np.zeros((2, 3, ALIGNED_SIZE, ALIGNED_SIZE), np.float32))
    except Exception as error:  # whatever a stranger's network does with two faces
        raise ValueError(f"{file} cannot be run on several faces at once ({error}): {_BRING}.") from error
    if given.ndim != 2 or len(given) != 2 or given.dtype != np.float32:
        raise ValueError(f"{file} gives {given.dtype} of shape {given.shape} for two faces, not two vectors: {_BRING}.")
    sha256 = hashlib.sha256(content).hexdigest()
    return Recogniser(file.name, sha256, given.shape[1], ALIGNED_SIZE, _some_at_once(embed))


def _of_state(file: Path) -> Embedder:
    """SENet-50 or iresnet50, whichever the weights are of."""
    from smoothap.models.embedder import Embedder
    from smoothap.models.faces.senet import vggface2_senet50
    from smoothap.models.weights import read_state

    names = read_state(file)
    if any(name.startswith(("conv2_1_", "layer1.0.conv4", "layer1.0.se")) for name in names):
        reduction = names.get("feat_extract.weight")
        return vggface2_senet50(file, 2048 if reduction is None else len(reduction))
    try:
        return Embedder("iresnet50", None, pretrained=file)
    except ValueError as error:
        raise ValueError(f"{error}. For people, {_BRING}.") from error
