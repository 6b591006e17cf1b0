"""Photos as phones write them: HEIC and AVIF, upright, with the date and the camera, and nothing of where."""

import io
import sys
from datetime import datetime

import numpy as np
import pytest
from PIL import Image

from smoothap.data import reading
from smoothap.data.reading import SUFFIXES, ImageHead, UnreadableImage, image_head, read_image

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def quarters():
    image = Image.new("RGB", (64, 48), WHITE)
    for place, colour in {(0, 0): RED, (32, 0): GREEN, (0, 24): BLUE}.items():
        image.paste(colour, (*place, place[0] + 32, place[1] + 24))
    return image


def exif_of(maker="Apple", model="iPhone 15 Pro", original="2024:06:01 12:30:05", orientation=1, **dates):
    exif = Image.Exif()
    for tag, value in {0x010F: maker, 0x0110: model, 0x0132: dates.get("written")}.items():
        if value is not None:
            exif[tag] = value
    exif[0x0112] = orientation
    for tag, value in {0x9003: original, 0x9004: dates.get("digitised")}.items():
        if value is not None:
            exif.get_ifd(0x8769)[tag] = value
    exif.get_ifd(0x8825)[1], exif.get_ifd(0x8825)[2] = "N", (52.0, 31.0, 12.0)  # a place
    return exif


def heic(image, exif=None):
    pytest.importorskip("pi_heif")
    writer, stream = pytest.importorskip("pillow_heif"), io.BytesIO()
    writer.from_pillow(image).save(stream, quality=90, exif=None if exif is None else exif.tobytes())
    return stream.getvalue()


def encoded(form, exif):
    if form == "HEIC":
        return heic(quarters(), exif)
    stream = io.BytesIO()
    quarters().save(stream, form, exif=exif)
    return stream.getvalue()


def assert_quarters(image):
    assert (image.mode, image.size) == ("RGB", (64, 48))
    for place, colour in {(8, 8): RED, (56, 8): GREEN, (8, 40): BLUE, (56, 40): WHITE}.items():
        assert np.abs(np.subtract(image.getpixel(place), colour)).max() < 30


@pytest.mark.parametrize("form", ["HEIC", "AVIF", "JPEG", "PNG", "WEBP"])
def test_the_head_says_when_and_by_which_camera(form, monkeypatch):
    content = encoded(form, exif_of())
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda image: pytest.fail("decoded"))
    assert image_head(content) == ImageHead(64, 48, datetime(2024, 6, 1, 12, 30, 5), "Apple iPhone 15 Pro")


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_heic_photo_is_read_upright(orientation):
    turned = {1: (64, 48), 6: (48, 64)}
    content = heic(quarters(), exif_of(orientation=orientation))
    head, image = image_head(content), read_image(content)
    assert (head.width, head.height) == image.size == turned.get(orientation, image.size)
    corners = [image.getpixel(place) for place in ((6, 6), (image.width - 6, 6), (6, image.height - 6))]
    stream = io.BytesIO()
    quarters().save(stream, "PNG", exif=exif_of(orientation=orientation))
    upright = read_image(stream.getvalue())
    assert upright.size == image.size
    for corner, place in zip(corners, ((6, 6), (upright.width - 6, 6), (6, upright.height - 6)), strict=True):
        assert np.abs(np.subtract(corner, upright.getpixel(place))).max() < 30


def test_heic_and_avif_are_read(tmp_path):
    assert {".heic", ".heif", ".avif"} <= set(SUFFIXES)
    assert_quarters(read_image(encoded("AVIF", exif_of())))
    (tmp_path / "IMG_0001.HEIC").write_bytes(heic(quarters(), exif_of()))
    assert_quarters(read_image(tmp_path / "IMG_0001.HEIC"))
    with pytest.raises(UnreadableImage):
        read_image(heic(quarters())[:400])


def test_without_its_decoder_a_heic_photo_is_refused_with_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "pi_heif", None)
    monkeypatch.setattr(reading, "_load_heif", reading._load_heif.__wrapped__)  # which forgets that it was loaded
    head = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic"
    with pytest.raises(UnreadableImage, match=r"needs pi-heif: pip install 'smoothap\[heic\]'"):
        read_image(head + bytes(100))
    assert image_head(encoded("PNG", exif_of())).width == 64


@pytest.mark.parametrize(
    ("words", "camera"),
    [
        (("Canon", "Canon EOS 5D"), "Canon EOS 5D"),
        (("NIKON CORPORATION", "NIKON D90"), "NIKON D90"),
        (("Apple", None), "Apple"),
        ((None, "Pixel 8"), "Pixel 8"),
        ((None, None), ""),
        (("  Sony \0", "A\x1b[31mB\nC"), "Sony A [31mB C"),
        (("M" * 500, "N"), "M" * 100),
    ],
)
def test_a_camera_is_named_once_and_in_plain_text(words, camera):
    assert image_head(encoded("JPEG", exif_of(*words))).camera == camera


def test_the_date_is_that_of_the_shot_or_else_the_next_best():
    day = datetime(2001, 2, 3, 4, 5, 6)
    for dates in (
        {"original": "2001:02:03 04:05:06", "digitised": "2011:01:01 00:00:00", "written": "2012:01:01 00:00:00"},
        {"original": "0000:00:00 00:00:00", "digitised": "2001:02:03 04:05:06\0", "written": "2012:01:01 00:00:00"},
        {"original": None, "written": "2001:02:03 04:05:06"},
    ):
        assert image_head(encoded("JPEG", exif_of(**dates))).taken == day
    for none in (None, "", "yesterday", "2001:13:41 99:99:99"):
        assert image_head(encoded("JPEG", exif_of(original=none))).taken is None
