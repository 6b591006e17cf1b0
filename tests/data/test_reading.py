"""The reader on every odd kind of file: it gives upright RGB, or `UnreadableImage` with a reason."""

import errno
import io
import os
import time
import warnings
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile, ImageOps

from smoothap.data.reading import UnreadableImage, image_head, read_image

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def quarters(width=64, height=48):
    """Red and green above, blue and white below: no two orientations look the same."""
    image = Image.new("RGB", (width, height), WHITE)
    image.paste(RED, (0, 0, width // 2, height // 2))
    image.paste(GREEN, (width // 2, 0, width, height // 2))
    image.paste(BLUE, (0, height // 2, width // 2, height))
    return image


def encoded(image, format="PNG", **options):
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def noise(width, height):
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8))


def difference(image, other):
    assert image.size == other.size
    return np.abs(np.asarray(image).astype(int) - np.asarray(other.convert("RGB")).astype(int)).max()


@pytest.mark.parametrize("format", ["PNG", "BMP", "TIFF", "PPM", "GIF", "WEBP", "JPEG", "JPEG2000", "AVIF"])
def test_every_usual_format_is_read_whatever_the_file_is_called(format, tmp_path):
    if format == "AVIF" and "AVIF" not in Image.registered_extensions().values():
        pytest.skip("this Pillow reads no AVIF")
    options = {"lossless": True} if format == "WEBP" else {"quality": 95} if format in ("JPEG", "AVIF") else {}
    path = tmp_path / "picture.txt"
    path.write_bytes(encoded(quarters(), format, **options))
    image = read_image(path)
    assert image.mode == "RGB"
    for place, colour in {(8, 8): RED, (56, 8): GREEN, (8, 40): BLUE, (56, 40): WHITE}.items():
        assert np.abs(np.subtract(image.getpixel(place), colour)).max() < 12


def test_a_path_a_string_bytes_and_an_open_file_give_the_same_image(tmp_path):
    content = encoded(quarters())
    path = tmp_path / "a.png"
    path.write_bytes(content)
    stream = io.BytesIO(content)
    images = [read_image(source) for source in (path, str(path), content, stream)]
    assert all(difference(image, quarters()) == 0 for image in images)
    assert not stream.closed


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("format", ["JPEG", "PNG", "TIFF", "WEBP"])
def test_the_image_is_upright_whatever_its_exif_orientation(orientation, format):
    exif = Image.Exif()
    exif[0x0112] = orientation
    content = encoded(quarters(), format, exif=exif)
    with Image.open(io.BytesIO(content)) as stored:
        upright = ImageOps.exif_transpose(stored)
        assert difference(read_image(content), upright) <= 2


def test_a_box_counts_from_the_upright_image_and_is_cut_at_its_edge():
    exif = Image.Exif()
    exif[0x0112] = 6
    content = encoded(quarters(64, 48), exif=exif)  # upright: 48 wide, 64 high; blue, red above white, green
    assert difference(read_image(content, box=(0, 0, 24, 32)), Image.new("RGB", (24, 32), BLUE)) == 0
    assert difference(read_image(content, box=(24, 32, 900, 900)), Image.new("RGB", (24, 32), GREEN)) == 0
    assert read_image(content, box=(-10, -20, 20, 30)).size == (10, 10)
    with pytest.raises(UnreadableImage, match="outside"):
        read_image(content, box=(48, 0, 5, 5))


def test_cmyk_becomes_rgb():
    for format in ("JPEG", "TIFF"):
        assert difference(read_image(encoded(quarters().convert("CMYK"), format)), quarters()) <= 40


def test_sixteen_bits_keep_their_upper_eight():
    values = np.linspace(0, 65535, 64 * 48).reshape(48, 64)
    for kind, format in ((np.uint16, "PNG"), (np.uint16, "TIFF"), (np.int32, "TIFF")):
        grey = np.asarray(read_image(encoded(Image.fromarray(values.astype(kind)), format)))
        assert np.abs(grey[:, :, 0] - values / 256).max() <= 1


def test_fractions_are_stretched_and_what_is_no_number_is_unreadable():
    values = np.linspace(-3, 7, 64 * 48, dtype=np.float32).reshape(48, 64)
    grey = np.asarray(read_image(encoded(Image.fromarray(values), "TIFF")))[:, :, 0]
    assert (grey.min(), grey.max()) == (0, 255)
    assert np.abs(grey - (values + 3) * 25.5).max() <= 1
    assert np.asarray(read_image(encoded(Image.fromarray(values * 0), "TIFF"))).max() == 0
    values[5, 5] = np.nan
    with pytest.raises(UnreadableImage, match="finite"):
        read_image(encoded(Image.fromarray(values), "TIFF"))


def test_transparency_is_white():
    clear = quarters().convert("RGBA")
    clear.putalpha(Image.new("L", clear.size, 0))
    half = quarters().convert("RGBA")
    half.putalpha(Image.new("L", half.size, 128))
    palette = quarters().convert("P", palette=Image.Palette.ADAPTIVE, colors=4)
    white = Image.new("RGB", clear.size, WHITE)
    assert difference(read_image(encoded(clear)), white) == 0
    assert difference(read_image(encoded(clear, "WEBP", lossless=True)), white) == 0
    assert np.abs(np.subtract(read_image(encoded(half)).getpixel((8, 8)), (255, 127, 127))).max() <= 1
    assert difference(read_image(encoded(palette)), quarters()) == 0
    assert difference(read_image(encoded(palette, transparency=bytes(4))), white) == 0
    assert difference(read_image(encoded(clear.convert("LA"))), white) == 0
    blue_is_clear = read_image(encoded(quarters(), transparency=BLUE))
    assert (blue_is_clear.getpixel((8, 40)), blue_is_clear.getpixel((8, 8))) == (WHITE, RED)


@pytest.mark.parametrize("format", ["GIF", "PNG", "WEBP", "TIFF", "MPO"])
def test_of_an_animation_the_first_frame_is_read(format):
    others = [Image.new("RGB", (64, 48), colour) for colour in (BLUE, GREEN)]
    content = encoded(quarters(), format, save_all=True, append_images=others)
    assert np.abs(np.subtract(read_image(content).getpixel((8, 8)), RED)).max() < 12


@pytest.mark.parametrize("format", ["JPEG", "PNG", "TIFF", "BMP", "GIF", "WEBP"])
def test_a_truncated_image_is_unreadable(format):
    content = encoded(noise(64, 48), format)
    with pytest.raises(UnreadableImage):
        read_image(content[: len(content) * 2 // 3])


def test_what_is_not_an_image_is_named_with_its_reason(tmp_path):
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "text.jpg").write_text("hello")
    (tmp_path / "folder.jpg").mkdir()
    (tmp_path / "loop.jpg").symlink_to(tmp_path / "loop.jpg")
    (tmp_path / "lost.jpg").symlink_to(tmp_path / "nowhere.jpg")
    reasons = {
        "empty.jpg": "empty",
        "text.jpg": "not an image",
        "folder.jpg": "directory",
        "loop.jpg": "symbolic links",
        "lost.jpg": "no such file",
        "absent.jpg": "no such file",
        "a\0b.jpg": "null",
        "x" * 300: "too long",
    }
    for name, reason in reasons.items():
        with pytest.raises(UnreadableImage, match=reason) as caught:
            read_image(tmp_path / name)
        assert caught.value.name == str(tmp_path / name)
        assert str(caught.value) == f"{caught.value.name}: {caught.value.reason}"


def test_a_postscript_file_starts_no_interpreter():
    with pytest.raises(UnreadableImage, match="known format"):
        read_image(encoded(quarters(), "EPS"))


def test_a_pipe_or_a_device_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    for path in (tmp_path / "pipe.jpg", "/dev/zero", "/dev/null"):
        start = time.monotonic()
        with pytest.raises(UnreadableImage, match="not a regular file"):
            read_image(path)
        assert time.monotonic() - start < 1


def test_a_file_without_permission_is_unreadable(tmp_path, monkeypatch):
    path = tmp_path / "secret.png"
    path.write_bytes(encoded(quarters()))

    def refuse(*_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "open", refuse)  # root may read everything, so the system is made to refuse
    with pytest.raises(UnreadableImage, match="permission"):
        read_image(path)


@pytest.mark.parametrize("side", [12_000, 20_000])
def test_a_decompression_bomb_is_refused_before_it_is_decoded(side, monkeypatch):
    bomb = encoded(Image.new("1", (side, side)))
    assert len(bomb) < 200_000
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda image: pytest.fail("decoded"))
    with pytest.raises(UnreadableImage, match="pixels"):
        read_image(bomb)


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP", "TIFF"])
def test_the_size_of_an_image_is_read_without_its_pixels(format, monkeypatch):
    exif = Image.Exif()
    exif[0x0112] = 6  # is on its side
    upright, on_its_side = io.BytesIO(), io.BytesIO()
    quarters(64, 48).save(upright, format)
    quarters(64, 48).save(on_its_side, format, exif=exif)
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda image: pytest.fail("decoded"))
    heads = image_head(upright.getvalue()), image_head(on_its_side.getvalue())
    assert [(head.width, head.height) for head in heads] == [(64, 48), (48, 64)]


def test_pillows_warnings_do_not_leak_and_those_of_others_do():
    broken_exif = encoded(quarters(), "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\xff broken")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        filters = list(warnings.filters)
        assert read_image(broken_exif).size == (64, 48)
        with pytest.raises(UnreadableImage):
            read_image(encoded(Image.new("1", (11_000, 10_000))))
        assert warnings.filters == filters
        warnings.warn("mine", UserWarning, stacklevel=1)
    assert [str(warning.message) for warning in caught] == ["mine"]


@pytest.mark.parametrize("format", ["PNG", "WEBP", "JPEG"])
@pytest.mark.parametrize("exif", [b"garbage", b"Exif\0\0MM\0*"])
def test_broken_exif_data_is_no_reason_to_lose_the_image(format, exif):
    assert read_image(encoded(quarters(), format, exif=exif)).size == (64, 48)


@pytest.mark.parametrize(("hint", "size"), [(None, (640, 480)), (480, (640, 480)), (240, (320, 240)), (60, (80, 60))])
def test_a_jpeg_may_come_smaller_but_not_below_the_shorter_side_that_is_asked_for(hint, size):
    content = encoded(quarters(640, 480), "JPEG", quality=95)
    small = read_image(content, shorter_side=hint)
    assert small.size == size
    assert np.abs(np.subtract(small.getpixel((size[0] // 4, size[1] // 4)), RED)).max() < 12


SEEDS = [encoded(noise(40, 30), format) for format in ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "JPEG2000")]


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(SEEDS), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=8), st.floats(0, 1))
def test_damaged_bytes_give_an_image_or_a_reason_and_nothing_else(content, changes, kept):
    damaged = bytearray(content)
    for place, value in changes:
        damaged[int(place**3 * (len(damaged) - 1))] = value  # headers are hit most
    if kept > 0.5:
        damaged = damaged[: int(kept * len(damaged))]
    with suppress(UnreadableImage):
        assert read_image(bytes(damaged), pixel_limit=10_000_000).mode == "RGB"


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "LA", "L", "1", "P", "I;16", "JPEG"])
def test_more_pixels_than_are_wanted_come_back_fewer_and_show_the_same(mode):
    """For those who must be careful with memory; a palette or a mask is not averaged as if it were a colour."""
    draw = np.random.default_rng(0).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    image = Image.fromarray(draw).resize((320, 240), Image.Resampling.NEAREST)
    if mode == "I;16":
        image = Image.fromarray(np.asarray(image.convert("L")).astype(np.uint16) << 8)
    elif mode == "P":
        image = image.quantize(200)
    elif mode in ("RGBA", "LA"):
        image.putalpha(Image.fromarray(draw[:, :, 0]).resize((320, 240), Image.Resampling.NEAREST))
        image = image.convert(mode)
    elif mode != "JPEG":
        image = image.convert(mode)
    stream = io.BytesIO()
    image.save(stream, "JPEG" if mode == "JPEG" else "PNG")
    whole, small = read_image(stream.getvalue()), read_image(stream.getvalue(), most_pixels=320 * 240 // 4)
    assert (whole.size, small.size) == ((320, 240), (160, 120))
    expected = np.asarray(whole.reduce(2), np.float64)
    assert np.abs(np.asarray(small) - expected).mean() < (6 if mode == "JPEG" else 1)
