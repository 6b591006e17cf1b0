"""Ranked images as pictures: the query framed in blue, right ones in green, wrong ones in red."""

import io
from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageOps

from smoothap.data.image_set import ImageSet
from smoothap.data.reading import UnreadableImage
from smoothap.plots.html import data_address
from smoothap.plots.palette import LIGHT
from smoothap.plots.rankings import RankedRow

DOTS_PER_INCH = 160  # as `save_figure` writes them
FRAMES = {"query": "blue", "right": "green", "wrong": "red"}
MARKS = {  # as lines in a square of side 16
    "right": ((4, 8.5), (7, 11.5), (12, 5)),
    "wrong": ((5, 5), (11, 11), (8, 8), (11, 5), (5, 11)),
}


def thumbnail(images: ImageSet, row: int, side: int) -> Image.Image:
    """An image within a white square; one that cannot be read is crossed out."""
    square = Image.new("RGB", (side, side), "white")
    try:
        picture = ImageOps.contain(images.read(row, side), (side, side), Image.Resampling.LANCZOS)
    except UnreadableImage:
        ImageDraw.Draw(square).line((0, 0, side, side), LIGHT["line"], 2)
        ImageDraw.Draw(square).line((0, side, side, 0), LIGHT["line"], 2)
        return square
    square.paste(picture, ((side - picture.width) // 2, (side - picture.height) // 2))
    return square


def data_uri(picture: Image.Image) -> str:
    """The picture as an address that holds the picture itself."""
    stream = io.BytesIO()
    picture.save(stream, "WEBP", quality=85)
    return data_address(stream.getvalue(), "webp")


def tile(images: ImageSet, row: int, kind: str, side: int) -> Image.Image:
    """An image in the frame and with the mark of its kind, `side` pixels with the frame: query, right or wrong."""
    return framed(thumbnail(images, row, side - 2 * _border(side)), kind, _border(side))


def framed(picture: Image.Image, kind: str, border: int) -> Image.Image:
    """A square picture within the frame of its kind, with its mark in the corner."""
    colour = LIGHT[FRAMES[kind]]
    framed_picture = ImageOps.expand(picture, border, colour)
    if kind in MARKS:
        side = framed_picture.width
        badge, sharp = round(max(side * 0.2, 13)), 4  # drawn larger, since lines of Pillow have rough edges
        mark = Image.new("RGB", (badge * sharp, badge * sharp), colour)
        scale = badge * sharp / 16
        points = [(x * scale, y * scale) for x, y in MARKS[kind]]
        ImageDraw.Draw(mark).line(points, "white", round(2.2 * scale), joint="curve")
        framed_picture.paste(mark.resize((badge, badge), Image.Resampling.LANCZOS), (side - badge, side - badge))
    return framed_picture


def ranked_tiles(images: ImageSet, row: RankedRow, first: int, side: int) -> list[Image.Image]:
    """The first images of a ranking, each in the frame of right or wrong."""
    places = range(min(first, len(row.items)))
    return [tile(images, int(row.items[place]), "right" if row.right[place] else "wrong", side) for place in places]


def arranged(tiles: Sequence[Image.Image], columns: int, gap: int) -> Image.Image:
    """Tiles of one size from left to right, and in rows of that many from top to bottom."""
    side = tiles[0].width
    lines = -(-len(tiles) // columns)
    picture = Image.new("RGB", (columns * (side + gap) - gap, lines * (side + gap) - gap), "white")
    for place, image in enumerate(tiles):
        picture.paste(image, (place % columns * (side + gap), place // columns * (side + gap)))
    return picture


def _border(side: int) -> int:
    return max(3, side // 22)
