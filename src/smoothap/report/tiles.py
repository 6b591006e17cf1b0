"""Ranked images as pictures: the query in a blue frame, right ones in green with a tick, wrong ones in red, a cross."""

import base64
import io
from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageOps

from smoothap.data.image_set import ImageSet
from smoothap.data.reading import UnreadableImage
from smoothap.report.class_words import class_words
from smoothap.report.markup import Markup, element
from smoothap.report.palette import LIGHT
from smoothap.report.ranking_rows import RankedRow

_COLOURS = {"query": "blue", "right": "green", "wrong": "red"}
_MARKS = {  # as lines in a square of side 16
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
    return f"data:image/webp;base64,{base64.b64encode(stream.getvalue()).decode()}"


def tile(images: ImageSet, row: int, kind: str, side: int) -> Image.Image:
    """An image in the frame and with the mark of its kind, `side` pixels with the frame: query, right or wrong."""
    return framed(thumbnail(images, row, side - 2 * _border(side)), kind, _border(side))


def framed(picture: Image.Image, kind: str, border: int) -> Image.Image:
    """A square picture within the frame of its kind, with its mark in the corner."""
    colour = LIGHT[_COLOURS[kind]]
    framed_picture = ImageOps.expand(picture, border, colour)
    if kind in _MARKS:
        side = framed_picture.width
        badge, sharp = round(max(side * 0.2, 13)), 4  # drawn larger, since lines of Pillow have rough edges
        mark = Image.new("RGB", (badge * sharp, badge * sharp), colour)
        scale = badge * sharp / 16
        points = [(x * scale, y * scale) for x, y in _MARKS[kind]]
        ImageDraw.Draw(mark).line(points, "white", round(2.2 * scale), joint="curve")
        framed_picture.paste(mark.resize((badge, badge), Image.Resampling.LANCZOS), (side - badge, side - badge))
    return framed_picture


def ranked_tiles(images: ImageSet, row: RankedRow, first: int, side: int) -> list[Image.Image]:
    """The first images of a ranking, each in the frame of right or wrong."""
    places = range(min(first, len(row.items)))
    return [tile(images, int(row.items[place]), "right" if row.right[place] else "wrong", side) for place in places]


def arranged(tiles: Sequence[Image.Image], columns: int, gap: int) -> Image.Image:
    """Tiles of one size from left to right, and in rows of so many from top to bottom."""
    side = tiles[0].width
    lines = -(-len(tiles) // columns)
    picture = Image.new("RGB", (columns * (side + gap) - gap, lines * (side + gap) - gap), "white")
    for place, each in enumerate(tiles):
        picture.paste(each, (place % columns * (side + gap), place // columns * (side + gap)))
    return picture


def _border(side: int) -> int:
    return max(3, side // 22)


def query_tile(images: ImageSet, query: int, side: int = 112) -> Markup:
    """The query as an element of HTML."""
    text = f"Query: {_words(images, query)}"
    picture = element("img", src=data_uri(thumbnail(images, query, side)), alt=text, width=side, height=side)
    return element("div", picture, class_="tile query", title=text)


def row_tiles(images: ImageSet, row: RankedRow, first: int, side: int = 80) -> Markup:
    """The first images of a ranking as a list of HTML; class, name and score are told on hover and to readers."""
    tiles: list[str] = []
    for place in range(min(first, len(row.items))):
        item, kind = int(row.items[place]), "right" if row.right[place] else "wrong"
        text = f"Rank {place + 1}, {kind}: {_words(images, item)}, cosine {row.scores[place]:.3f}"
        picture = element("img", src=data_uri(thumbnail(images, item, side)), alt=text, width=side, height=side)
        tiles.append(element("li", picture, _mark(kind), class_=f"tile {kind}", title=text))
    return element("ol", *tiles, class_="tiles")


def mark_symbols() -> Markup:
    """The tick and the cross, defined once for all tiles of a page."""
    symbols = [
        element("symbol", element("path", d=_path(points)), id=kind, viewBox="0 0 16 16")
        for kind, points in _MARKS.items()
    ]
    return element("svg", *symbols, width=0, height=0, aria_hidden="true", class_="symbols")


def _mark(kind: str) -> Markup:
    return element("svg", element("use", href=f"#{kind}"), class_="mark", aria_hidden="true")


def _path(points: tuple[tuple[float, float], ...]) -> str:
    return "M" + "L".join(f"{x} {y}" for x, y in points)


def _words(images: ImageSet, row: int) -> str:
    return f"class {class_words(str(images.class_names[images.labels[row]]))}, {images.names[row]}"
