"""A photo that is given away does not say where it was taken, and is otherwise what it was."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from smoothap.data.reading import image_head, read_image
from smoothap.data.without_place import without_place

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8).repeat(8, 0).repeat(8, 1)
XMP = b"""<x:xmpmeta><rdf:Description exif:GPSLatitude="51,30.208N" tiff:Make='Canon' photoshop:City="Berlin">
<exif:GPSLongitude>13,24.5E</exif:GPSLongitude><Iptc4xmpCore:Location>Mitte</Iptc4xmpCore:Location></x:xmpmeta>"""
SECRETS = b"51,30.208N", b"Berlin", b"13,24.5E", b"Mitte"


def exif(order="<"):
    data = Image.Exif()
    data.endian = order
    data[0x010F], data[0x0110], data[0x0112] = "Canon", "Canon EOS R6", 1
    data.get_ifd(0x8769)[0x9003] = "2024:06:01 12:30:00"
    data.get_ifd(0x8825).update({
        1: "N", 2: (51.0, 30.0, 12.48), 3: "E", 4: (13.0, 24.0, 30.5), 5: b"\0", 6: 34.25, 29: "2024:06:01",
    })  # fmt: skip
    return data


def photo(form, order="<"):
    stream, image = io.BytesIO(), Image.fromarray(PIXELS)
    if form == "HEIF":
        pytest.importorskip("pi_heif")
        writer = pytest.importorskip("pillow_heif")
        writer.from_pillow(image).save(stream, exif=exif(order).tobytes(), xmp=XMP, quality=90)
    else:
        options = {"pnginfo": text()} if form == "PNG" else {"xmp": XMP}
        image.save(stream, form, exif=exif(order), **options)
    return stream.getvalue()


def text():
    info = PngInfo()
    info.add_itxt("XML:com.adobe.xmp", XMP.decode())
    info.add_itxt("XML:com.adobe.xmp", XMP.decode(), zip=True)
    info.add_text("Raw profile type exif", b"\nexif\n 10\n4578".hex())
    info.add_text("Title", "A photo")
    return info


def places(content):
    """What Pillow finds: it shares no code with what blanks."""
    with Image.open(io.BytesIO(content)) as image:
        return image.getexif().get_ifd(0x8825)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "AVIF", "HEIF"])
def test_a_photo_of_any_format_loses_its_place_and_nothing_else(form, order):
    content = photo(form, order)
    if form != "HEIF":  # which Pillow does not open by itself
        assert places(content)[2] == pytest.approx((51, 30, 12.48))
    if form != "PNG":
        assert all(secret in content for secret in SECRETS)
    without = without_place(content)
    assert len(without) == len(content)
    assert form == "HEIF" or places(without) == {}
    assert not any(secret in without for secret in SECRETS)
    assert np.array_equal(read_image(without), read_image(content))
    assert image_head(without) == image_head(content)
    assert image_head(without).camera == "Canon EOS R6"
    assert image_head(without).taken is not None
    assert without_place(without) == without


def test_the_tables_of_a_tiff_are_those_of_exif():
    content = exif().tobytes().removeprefix(b"Exif\0\0")
    for known, number in ((content, 7), (without_place(content), 0)):
        read = Image.Exif()
        read.load(known)
        assert len(read.get_ifd(0x8825)) == number
        assert read[0x010F] == "Canon"


def test_the_numbers_of_the_place_are_gone_and_not_only_the_way_to_them():
    content = photo("JPEG")
    degrees = b"\x33\0\0\0\x01\0\0\0\x1e\0\0\0\x01\0\0\0"  # 51/1 30/1
    assert degrees in content
    assert degrees not in without_place(content)


def test_texts_of_a_png_that_could_hide_a_place_go_and_others_stay():
    content = photo("PNG")
    with Image.open(io.BytesIO(without_place(content))) as image:
        image.load()  # every checksum is right, or this raises
        assert image.text.get("Title") == "A photo"
        assert "Raw profile type exif" not in image.text
        assert "Berlin" not in str(image.text)


def test_towns_of_iptc_are_blanked():
    fields = b"".join(
        b"\x1c\x02" + bytes([number]) + len(value).to_bytes(2, "big") + value
        for number, value in ((5, b"Title"), (90, b"Berlin"), (101, b"Germany"), (116, b"Me"))
    )
    resource = b"Photoshop 3.0\0" + b"8BIM\x04\x04\0\0" + len(fields).to_bytes(4, "big") + fields
    plain = photo("JPEG")
    content = plain[:2] + b"\xff\xed" + (len(resource) + 2).to_bytes(2, "big") + resource + plain[2:]
    without = without_place(content)
    assert b"Title" in without
    assert b"Me" in without
    assert b"Germany" not in without
    assert np.array_equal(read_image(without), read_image(plain))


def test_a_photo_without_a_place_is_not_touched():
    stream = io.BytesIO()
    data = Image.Exif()
    data[0x010F] = "Canon"
    data.get_ifd(0x8769)[0x9003] = "2024:06:01 12:30:00"
    Image.fromarray(PIXELS).save(stream, "JPEG", exif=data)
    assert places(stream.getvalue()) == {}
    assert without_place(stream.getvalue()) == stream.getvalue()


@given(st.data())
def test_damaged_files_keep_their_length(data):
    content = bytearray(photo(data.draw(st.sampled_from(["JPEG", "PNG"]))))
    for _ in range(data.draw(st.integers(0, 20))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = bytes(content[: data.draw(st.integers(0, len(content)))])
    assert len(without_place(content)) == len(content)


@given(st.binary(max_size=400), st.sampled_from([b"II*\0", b"MM\0*", b"Photoshop 3.0\0", b"\x89PNG\r\n\x1a\n"]))
def test_any_bytes_are_taken(content, head):
    assert len(without_place(head + content)) == len(head + content)
