"""A contact sheet: a row for each of some classes, to see at a glance what a benchmark holds."""

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps

from smoothap._core.extras import font_folder
from smoothap.data.benchmark import Benchmark
from smoothap.data.image_set import ImageSet
from smoothap.data.reading import UnreadableImage

_CELL, _GAP, _MARGIN, _CAPTION, _HEADING, _SPACE = 96, 10, 36, 190, 58, 16
_INK, _SOFT, _LINE, _PAPER = "#1c2430", "#6b7686", "#dfe3e8", "#f7f8fa"


def contact_sheet(benchmark: Benchmark, classes: int = 6, columns: int = 8) -> Image.Image:
    """Some classes of the training images and of the first test, evenly spaced, with a few images of each."""
    sets = benchmark.sets[: 1 if benchmark.train is None else 2]
    # Labels spaced evenly over the classes.
    rows = [np.linspace(0, images.classes - 1, min(classes, images.classes)).round().astype(int) for images in sets]
    width = 2 * _MARGIN + _CAPTION + columns * (_CELL + _GAP) - _GAP
    height = 2 * _MARGIN + 44 - _SPACE - _GAP + sum(_HEADING + len(chosen) * (_CELL + _GAP) + _SPACE for chosen in rows)
    sheet = Image.new("RGB", (width, height), _PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text((_MARGIN, _MARGIN - 6), benchmark.name, _INK, _font(26, bold=True))
    top = _MARGIN + 44
    for images, chosen in zip(sets, rows, strict=True):
        draw.line((_MARGIN, top, width - _MARGIN, top), _LINE, 1)
        counts = f"{len(images):,} images of {images.classes:,} classes"
        draw.text((_MARGIN, top + 18), images.name, _INK, _font(16, bold=True))
        draw.text((width - _MARGIN, top + 18), counts, _SOFT, _font(15), anchor="ra")
        top += _HEADING
        for label in chosen:
            _draw_class(sheet, images, int(label), top, columns)
            top += _CELL + _GAP
        top += _SPACE
    return sheet


def _draw_class(sheet: Image.Image, images: ImageSet, label: int, top: int, columns: int) -> None:
    draw = ImageDraw.Draw(sheet)
    rows = np.flatnonzero(images.labels == label)
    middle = top + _CELL // 2
    draw.text((_MARGIN, middle - 4), _shortened(str(images.class_names[label])), _INK, _font(14), anchor="ls")
    plural = "" if len(rows) == 1 else "s"
    draw.text((_MARGIN, middle + 16), f"{len(rows):,} image{plural}", _SOFT, _font(12), anchor="ls")
    for column, row in enumerate(rows[:columns]):
        left = _MARGIN + _CAPTION + column * (_CELL + _GAP)
        frame = (left, top, left + _CELL - 1, top + _CELL - 1)
        draw.rounded_rectangle(frame, 6, "white", _LINE)
        try:
            picture = ImageOps.contain(images.read(int(row)), (_CELL - 8, _CELL - 8), Image.Resampling.LANCZOS)
        except UnreadableImage:
            draw.text((left + _CELL // 2, middle), "unreadable", _SOFT, _font(12), anchor="mm")
            continue
        sheet.paste(picture, (left + (_CELL - picture.width) // 2, top + (_CELL - picture.height) // 2))


def _shortened(text: str) -> str:
    """The text as far as it fits beside the images, its end rather than its beginning."""
    shown = text = " ".join(text.split())  # a line break cannot be drawn
    while _font(14).getlength(shown) > _CAPTION - 16:
        text = text[1:]
        shown = f"…{text}"
    return shown


def _font(size: int, bold: bool = False) -> "ImageFont.FreeTypeFont | ImageFont.ImageFont":
    """DejaVu, which has most scripts, where matplotlib is installed; else Pillow's own."""
    fonts = font_folder()
    if fonts is None:
        return ImageFont.load_default(size)
    return ImageFont.truetype(fonts / f"DejaVuSans{'-Bold' if bold else ''}.ttf", size)
