from dataclasses import replace

import numpy as np
from PIL import Image

from smoothap.data.reading import UnreadableImage
from smoothap.plots.palette import LIGHT
from smoothap.plots.rankings import rank
from smoothap.plots.tiles import arranged, framed, ranked_tiles, thumbnail, tile


def colour(name: str) -> tuple[int, ...]:
    return tuple(int(LIGHT[name][place : place + 2], 16) for place in (1, 3, 5))


def test_tiles_have_the_query_in_blue_and_each_image_in_its_colour_and_its_place(toy_set, vectors):
    images = toy_set()
    row = rank(images, vectors(images.labels, 0.7), 0)
    side, gap = 48, 4
    tiles = [tile(images, row.query, "query", side), *ranked_tiles(images, row, 6, side)]
    picture = arranged(tiles, 3, gap)
    assert picture.size == (3 * side + 2 * gap, 3 * side + 2 * gap)
    corners = [((side + gap) * (place % 3), (side + gap) * (place // 3)) for place in range(7)]
    expected = ["blue", *("green" if right else "red" for right in row.right[:6])]
    assert [picture.getpixel(corner) for corner in corners] == [colour(name) for name in expected]
    for (left, top), item in zip(corners, [row.query, *row.items[:6]], strict=True):
        middle = picture.getpixel((left + side // 2, top + side // 2))
        assert middle == images.read(int(item)).getpixel((0, 0))
    assert picture.getpixel((2 * (side + gap) + 5, 2 * (side + gap) + 5)) == (255, 255, 255)  # no eighth tile


def test_right_and_wrong_differ_also_without_colour():
    grey = [
        np.asarray(framed(Image.new("RGB", (80, 80), "white"), kind, 4)).min(2) > 250 for kind in ("right", "wrong")
    ]
    assert not np.array_equal(*grey)


def test_an_image_is_shown_whole_and_one_that_cannot_be_read_as_a_cross(toy_set):
    images = toy_set()
    whole = thumbnail(images, 0, 48)
    assert whole.size == (48, 48)
    assert whole.getpixel((24, 2)) == (255, 255, 255)  # 24 x 16 within the square
    assert whole.getpixel((2, 24)) == images.read(0).getpixel((0, 0))

    def read(row: int, shorter_side: int) -> Image.Image:
        raise UnreadableImage(str(row), "truncated")

    broken = thumbnail(replace(images, read=read), 0, 48)
    assert broken.getpixel((24, 24)) == colour("line")
