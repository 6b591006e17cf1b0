"""The faces of photos with their vectors: a detector and a recogniser together, as albums use them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from smoothap.models.faces.detection import ENOUGH, Face, FaceDetector
from smoothap.models.faces.recognition import FaceRecogniser, open_recogniser

_CUT_OUT = 32  # faces of a photo that wait as crops; of more, the photo waits itself, which is smaller
_TURNS = (Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_270, Image.Transpose.ROTATE_180)


@dataclass(frozen=True, eq=False)
class FoundFaces:
    """The faces of a photo, in its own pixels, and the pictures of them for the recogniser."""

    faces: list[Face]
    crops: list[Image.Image]
    picture: Image.Image | None = None  # instead of the crops


class PeopleFinder:
    """Finds faces in photos and gives the vector of each; `identity` says by which networks."""

    def __init__(self, detector: FaceDetector, recogniser: FaceRecogniser) -> None:
        self._detector, self._recogniser = detector, recogniser
        self.dimension = recogniser.dimension
        self.identity = {
            "detector": detector.sha256, "recogniser": recogniser.sha256, "name": recogniser.name,
            "dimension": recogniser.dimension,
        }  # fmt: skip

    enough_pixels = ENOUGH

    @classmethod
    def open(cls, model: Path | str | None = None, weights: Path | str | None = None) -> PeopleFinder:
        """YuNet and SFace from the installed package or a folder `weights`; or the user's `model` instead of SFace."""
        return cls(FaceDetector(weights), open_recogniser(model, weights))

    def find(self, picture: Image.Image) -> FoundFaces:
        """The faces of an upright picture, the most certain first."""
        faces = self._detector.find(picture)
        if len(faces) > _CUT_OUT:
            return FoundFaces(faces, [], picture)
        return FoundFaces(faces, [self._recogniser.crop(picture, face) for face in faces])

    def find_turned(self, picture: Image.Image) -> tuple[Image.Image, FoundFaces]:
        """The same for one that may lie on its side, and the picture as it was turned for that."""
        found = self.find(picture)
        for turn in _TURNS:
            if found.faces:
                break
            turned = picture.transpose(turn)
            if (here := self.find(turned)).faces:
                return turned, here
        return picture, found

    def vectors(self, found: Sequence[FoundFaces]) -> list[np.ndarray]:
        """The vectors (k, d) of the faces of each photo, of length 1; the faces of all go through the network together.

        A face without a direction, which no network gave so far, has a vector of zeros.
        """
        together = self._recogniser.vectors([crop for one in found for crop in one.crops])
        ends = np.cumsum([len(one.crops) for one in found])
        result = []
        for one, end in zip(found, ends.tolist(), strict=True):
            vectors = together[end - len(one.crops) : end] if one.picture is None else self._of_crowd(one)
            length = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
            usable = np.isfinite(length) & (length > 0)
            result.append(np.where(usable, vectors / np.where(usable, length, 1), 0).astype(np.float32))
        return result

    def _of_crowd(self, found: FoundFaces) -> np.ndarray:
        assert found.picture is not None
        parts = []
        for start in range(0, len(found.faces), _CUT_OUT):
            some = found.faces[start : start + _CUT_OUT]
            parts.append(self._recogniser.vectors([self._recogniser.crop(found.picture, face) for face in some]))
        return np.concatenate(parts)
