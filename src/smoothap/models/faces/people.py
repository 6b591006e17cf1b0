"""The faces of photos with their vectors: a detector and a recogniser together, as albums use them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from smoothap.models.faces.detection import ENOUGH, Box, Face, FaceDetector, drawn_around, missing, overlap
from smoothap.models.faces.recognition import Recogniser, open_recogniser

_CUT_OUT = 32  # faces of a photo that wait as crops; of more, the photo waits itself, which is smaller
_CLOSE = 400  # pixels of a part that is looked at again, larger
# Where the eyes, the nose and the corners of the mouth are in the box of a face, as a rule.
_USUAL_POINTS = np.array([[0.31, 0.4], [0.69, 0.4], [0.5, 0.6], [0.35, 0.77], [0.65, 0.77]])
_TURNS = (Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_270, Image.Transpose.ROTATE_180)


@dataclass(frozen=True, eq=False)
class FoundFaces:
    """The faces of a picture, their boxes in the photo that it is of, and what the recogniser takes of each."""

    faces: list[Face]
    boxes: list[Box]
    crops: list[Image.Image]
    picture: Image.Image | None = None  # instead of the crops


class PeopleFinder:
    """Finds faces in photos and gives the vector of each; `identity` says by which networks."""

    def __init__(self, detector: FaceDetector, recogniser: Recogniser) -> None:
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

    def find(self, picture: Image.Image, size: tuple[int, int] | None = None, drawn: Sequence[Box] = ()) -> FoundFaces:
        """The faces of an upright picture, the most certain first; boxes are in pixels of its photo at `size`.

        `drawn` are boxes in that photo which users drew: there is a face in each, whatever the network says.
        """
        faces = self._detector.find(picture)
        across, down = (1.0, 1.0) if size is None else (size[0] / picture.width, size[1] / picture.height)
        boxes = [_inside(face.box, picture.size, (across, down)) for face in faces]
        for x, y, width, height in missing(drawn, np.array(boxes).reshape(-1, 4)):
            drawn_here = x / across, y / down, max(1.0, width / across), max(1.0, height / down)
            (face,) = self.in_box(picture, drawn_here).faces
            faces, boxes = [*faces, face], [*boxes, (x, y, width, height)]
        if len(faces) > _CUT_OUT:
            return FoundFaces(faces, boxes, [], picture)
        return FoundFaces(faces, boxes, [self._recogniser.crop(picture, face) for face in faces])

    def find_turned(self, picture: Image.Image) -> FoundFaces:
        """The same for a picture that may lie on its side; boxes are then in the picture as it was turned."""
        found = self.find(picture)
        for turn in _TURNS:
            if not found.faces:
                found = self.find(picture.transpose(turn))
        return found

    def in_box(self, picture: Image.Image, box: Box) -> FoundFaces:
        """The face in a part of a picture: the one that is found there, or else the whole part, as a user drew it."""
        drawn = np.array(box, np.float64)
        if not (min(drawn[2:]) >= 1 and overlap(drawn, np.array([[0, 0, *picture.size]], np.float64))[0] > 0):
            raise ValueError(f"The box {box} is not in the picture of {picture.width} x {picture.height} pixels.")
        faces = self._detector.find(picture)
        if not faces:  # closer
            left, top = (int(max(0, drawn[at] - drawn[2 + at])) for at in (0, 1))
            right, bottom = (int(min(picture.size[at], drawn[at] + 2 * drawn[2 + at])) for at in (0, 1))
            part = picture.crop((left, top, right, bottom))
            grown = max(1.0, _CLOSE / max(part.size))
            part = part.resize((round(part.width * grown), round(part.height * grown)), Image.Resampling.BICUBIC)
            faces = [
                Face((x / grown + left, y / grown + top, width / grown, height / grown),
                     points / grown + [left, top], score)
                for (x, y, width, height), points, score in self._detector.find(part)
            ]  # fmt: skip
        meant = drawn_around(drawn, np.array([face.box for face in faces]).reshape(-1, 4))
        chosen = Face(box, drawn[:2] + _USUAL_POINTS * drawn[2:], 0.0) if meant is None else faces[meant]
        return FoundFaces([chosen], [chosen.box], [self._recogniser.crop(picture, chosen)])

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


def _inside(box: Box, size: tuple[int, int], scale: tuple[float, float]) -> Box:
    """A box as far as it is in a picture of this size, scaled across and down."""
    left, top = max(0.0, box[0]), max(0.0, box[1])
    right, bottom = min(float(size[0]), box[0] + box[2]), min(float(size[1]), box[1] + box[3])
    (across, down), (width, height) = scale, (max(0.0, right - left), max(0.0, bottom - top))
    return left * across, top * down, width * across, height * down
