"""Faces in a photo: where they are, their eyes, noses and mouths, by YuNet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch.nn.functional import interpolate

from smoothap.models.faces.files import YUNET, any_size, opened, read_weights, session

MOST = 500  # faces of one photo
SIDE = 800  # pixels of the longer side of the picture that is looked at; it finds faces of 16 and more of them
ENOUGH = 480  # pixels of the shorter side at which a photo may be decoded
MIN_SCORE = 0.6
_STRIDES = (8, 16, 32)
_UPRIGHT, _LARGE = 0.91, 64**2  # a face that is less certain and has more pixels is turned, to see whether it is one
_TURNED = 8  # of the faces of a photo at most
_TURNS = (90, 270, 180, 45, 315)  # degrees
_CLOSE = 192  # pixels of the part that is turned
_CLEARLY = 0.02  # by which a face that was turned has to be more certain
_OVERLAP = 0.3  # of two boxes that are one face: their intersection over their union
_HELD, _SAME_PLACE = 0.5, 0.2  # share of a face in a box that is drawn around it; or overlap of the two
SAME_FACE = 0.5  # the same of a box that was drawn, or found by another network
Box = tuple[float, float, float, float]  # x, y, width, height, in pixels of an upright photo


class Face(NamedTuple):
    """A face: the box (x, y, width, height), the five points (5, 2), in pixels, and how certain it is, from 0 to 1."""

    box: Box
    points: np.ndarray
    score: float

    @property
    def area(self) -> float:
        """Of the box."""
        return self.box[2] * self.box[3]


class FaceDetector:
    """Finds the faces in photos; several threads may ask at once."""

    def __init__(self, weights: Path | str | None = None) -> None:
        self.sha256 = YUNET.sha256
        network = any_size(opened(read_weights(YUNET, weights), YUNET.name), (1, 3, "height", "width"))
        self._session = session(network)
        self._names = [output.name for output in self._session.get_outputs()]

    def find(self, picture: Image.Image, *, side: int = SIDE, min_score: float = MIN_SCORE) -> list[Face]:
        """The faces of an upright RGB picture, the most certain first, at most 500 of them."""
        small = _at_most(picture, side)
        boxes, scores, points = self._decoded(small, min_score)
        best = _apart(boxes, scores)[:MOST]
        across, down = picture.width / small.shape[2], picture.height / small.shape[1]
        faces = [
            Face(
                tuple((boxes[row] * [across, down, across, down]).tolist()), points[row] * [across, down],
                float(scores[row]),
            )
            for row in best
        ]  # fmt: skip
        doubtful = [place for place, face in enumerate(faces) if face.score < _UPRIGHT and face.area > _LARGE]
        for place in doubtful[:_TURNED]:
            faces[place] = self._upright(picture, faces[place])
        return faces

    def _upright(self, picture: Image.Image, face: Face) -> Face:
        """A face that may lie on its side or be upside down, with the points that are found once it is turned.

        The network finds such faces, less certainly, and puts their points where those of an upright face would be.
        """
        (x, y, width, height), best = face.box, face
        middle, step = np.array([x + width / 2, y + height / 2]), 2 * max(width, height) / _CLOSE
        for turn in _TURNS:
            cosine, sine = np.cos(np.deg2rad(turn)) * step, np.sin(np.deg2rad(turn)) * step
            back = np.array([[cosine, -sine], [sine, cosine]])  # from a pixel of the part to its place in the picture
            start = middle - back @ [_CLOSE / 2, _CLOSE / 2]
            numbers = (cosine, -sine, float(start[0]), sine, cosine, float(start[1]))
            part = picture.transform((_CLOSE, _CLOSE), Image.Transform.AFFINE, numbers, Image.Resampling.BILINEAR)
            boxes, scores, points = self._decoded(_channels(part), best.score + _CLEARLY)
            inside = np.abs(boxes[:, :2] + boxes[:, 2:] / 2 - _CLOSE / 2).max(axis=1, initial=0) < _CLOSE / 8
            if inside.any():
                row = int(np.where(inside, scores, 0).argmax())
                best = face._replace(points=points[row] @ back.T + start, score=float(scores[row]))
        return best

    def _decoded(self, picture: np.ndarray, min_score: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Boxes (n, 4), scores (n,) and points (n, 5, 2) of all that may be a face in RGB, many times each."""
        height, width = (-(-side // 32) * 32 for side in picture.shape[1:])
        pixels = np.zeros((1, 3, height, width), np.float32)
        pixels[0, :, : picture.shape[1], : picture.shape[2]] = picture[::-1]  # BGR
        given = dict(zip(self._names, self._session.run(None, {"input": pixels}), strict=True))
        parts = [(np.empty((0, 4)), np.empty(0), np.empty((0, 5, 2)))]
        for stride in _STRIDES:
            of_class, of_object, box, point = (given[f"{name}_{stride}"][0] for name in ("cls", "obj", "bbox", "kps"))
            score = np.sqrt(np.clip(of_class[:, 0], 0, 1) * np.clip(of_object[:, 0], 0, 1))
            cells = np.flatnonzero(score >= min_score)
            if not len(cells):
                continue
            corner = np.stack([cells % (width // stride), cells // (width // stride)], axis=1)
            sizes = np.exp(np.minimum(box[cells, 2:], 10.0)) * stride
            middle = (corner + box[cells, :2]) * stride
            places = (point[cells].reshape(-1, 5, 2) + corner[:, None]) * stride
            parts.append((np.concatenate([middle - sizes / 2, sizes], axis=1), score[cells], places))
        boxes, scores, points = (np.concatenate(part).astype(np.float64) for part in zip(*parts, strict=True))
        return boxes, scores, points


def _channels(picture: Image.Image) -> np.ndarray:
    """The pixels of an RGB picture, (3, height, width) uint8."""
    return np.array(picture).transpose(2, 0, 1)


def _at_most(picture: Image.Image, side: int) -> np.ndarray:
    """The pixels of a picture, made smaller where its longer side is longer than that, as Pillow does it.

    Averages over boxes are faster, and lose faces.
    """
    pixels, scale = _channels(picture), side / max(picture.size)
    if scale >= 1:
        return pixels
    size = (max(1, round(picture.height * scale)), max(1, round(picture.width * scale)))
    return interpolate(torch.from_numpy(pixels)[None], size, mode="bilinear", antialias=True)[0].numpy()


def overlap(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Of a box (4,) and each of others (n, 4): the area of the intersection over that of the union, (n,)."""
    low = np.maximum(box[:2], others[:, :2])
    high = np.minimum(box[:2] + box[2:], others[:, :2] + others[:, 2:])
    both = np.prod(np.maximum(high - low, 0), axis=1)
    return both / np.maximum(box[2] * box[3] + others[:, 2] * others[:, 3] - both, 1e-12)


def drawn_around(box: np.ndarray, faces: np.ndarray) -> int | None:
    """Which of the faces (n, 4) a box (4,) is meant for, tight around it or with much beside it; None: for none.

    A face is meant that the box holds half of, or is about the same as; of several, the one that fills most of it.
    """
    low = np.maximum(box[:2], faces[:, :2])
    high = np.minimum(box[:2] + box[2:], faces[:, :2] + faces[:, 2:])
    held = np.prod(np.maximum(high - low, 0), axis=1) / np.maximum(faces[:, 2] * faces[:, 3], 1e-12)
    shares = overlap(box, faces)
    meant = np.where((held >= _HELD) | (shares >= _SAME_PLACE), shares, 0.0)
    return int(meant.argmax()) if meant.any() else None


def missing(boxes: Sequence[tuple[float, ...]], found: np.ndarray) -> list[tuple[float, ...]]:
    """Those boxes at whose place there is none among those found (n, 4)."""
    return [box for box in boxes if overlap(np.array(box, np.float64), found).max(initial=0.0) < SAME_FACE]


def _apart(boxes: np.ndarray, scores: np.ndarray) -> list[int]:
    """Rows of boxes (n, 4) that do not overlap, the highest of scores (n,) first."""
    order, best = np.argsort(-scores, kind="stable"), list[int]()
    while len(order) and len(best) < MOST:
        best.append(int(order[0]))
        order = order[1:][overlap(boxes[order[0]], boxes[order[1:]]) <= _OVERLAP]
    return best
