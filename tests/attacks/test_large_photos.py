"""Photos as large as phones make them are taken in any format, in bounded memory, and a part of one is that part."""

import base64
import io

import httpx2
import numpy as np
import psutil
import pytest
from page_albums import MODEL, PixelAlbum, Pixels
from page_server import served
from PIL import Image

from smoothap.data.reading import UnreadableImage
from smoothap.server.decoder import Decoder
from smoothap.server.settings import Limits

FORMATS = {
    "JPEG": {"quality": 85},
    "progressive JPEG": {"quality": 85, "progressive": True},
    "PNG": {"compress_level": 1},
    "WEBP": {"quality": 60, "method": 0},
    "AVIF": {"quality": 50, "speed": 10},
    "TIFF": {"compression": "tiff_lzw"},
    "HEIF": {"quality": 40},
}
SLOW = pytest.mark.slow  # to encode
BOX = (0.55, 0.1, 0.12, 0.16)


def photo(width, height):
    """A photo with something else in each part of it."""
    coarse = Image.fromarray(np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8))
    return coarse.resize((width, height), Image.Resampling.BICUBIC)


def encoded(image, name):
    stream = io.BytesIO()
    if name == "HEIF":
        pytest.importorskip("pi_heif")
        pytest.importorskip("pillow_heif").from_pillow(image).save(stream, **FORMATS[name])
    else:
        image.save(stream, name.split()[-1], **FORMATS[name])
    return stream.getvalue()


def part_of(image):
    left, top, width, height = BOX
    edges = (left * image.width, top * image.height, (left + width) * image.width, (top + height) * image.height)
    return image.crop([round(edge) for edge in edges])


@pytest.fixture(scope="module")
def decoder():
    decoder = Decoder(Limits(decode_seconds=60))
    yield decoder
    decoder.close()


def assert_part(decoder, image, content):
    part = decoder.decode(content, box=BOX)
    alike = (Pixels().embed([part]) @ Pixels().embed([part_of(image)]).T).item()
    assert alike > 0.995
    assert min(part.size) >= 200
    whole = decoder.decode(content)
    assert max(whole.size) == 1024


@pytest.fixture(scope="module")
def twelve():
    return photo(4032, 3024)


@pytest.mark.parametrize(
    "name", [name if name in ("JPEG", "WEBP") else pytest.param(name, marks=SLOW) for name in FORMATS]
)
def test_twelve_megapixels_of_any_format_are_taken_and_a_part_is_that_part(decoder, twelve, name):
    assert_part(decoder, twelve, encoded(twelve, name))


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_fifty_megapixels_of_any_format_are_taken_and_a_part_is_that_part(decoder, name):
    image = photo(8192, 6144)
    assert_part(decoder, image, encoded(image, name))


def test_a_photo_that_stands_on_its_side_is_cut_as_it_is_seen(decoder):
    exif = Image.Exif()
    exif[0x0112] = 6
    upright = photo(4800, 3600)
    stream = io.BytesIO()
    upright.transpose(Image.Transpose.ROTATE_90).save(stream, "JPEG", exif=exif)
    assert_part(decoder, upright, stream.getvalue())


def test_after_memory_ran_out_the_next_photo_is_read_by_a_fresh_process():
    decoder = Decoder(Limits(decode_megabytes=60, most_decode_megabytes=60, decode_seconds=60))
    try:
        small = encoded(photo(900, 700), "PNG")
        assert decoder.decode(small).size == (900, 700)
        before = decoder._process.pid
        with pytest.raises(UnreadableImage, match="more memory than is allowed"):
            decoder.decode(encoded(photo(6000, 4000), "PNG"))
        assert decoder.decode(small).size == (900, 700)
        assert decoder._process.pid != before
    finally:
        decoder.close()


def test_a_text_after_a_large_photo_is_no_photo_and_takes_no_memory(decoder, monkeypatch):
    """What a photo left behind in the decoder's process is not the fault of the next file."""
    decoder.decode(encoded(photo(64, 64), "PNG"))
    before, answer = decoder._process.pid, decoder._answer
    short = [({"error": "it needs more memory than is allowed: make it smaller", "exhausted": True}, b"")]
    monkeypatch.setattr(decoder, "_answer", lambda *asked: short.pop() if short else answer(*asked))
    with pytest.raises(UnreadableImage, match="not an image"):
        decoder.decode(b"a text, honestly")
    assert decoder._process.pid != before


@pytest.mark.slow
def test_a_text_after_a_heic_photo_of_twelve_megapixels_is_no_photo(decoder, twelve):
    content = encoded(twelve, "HEIF")
    for _ in range(2):
        decoder.decode(content)
        with pytest.raises(UnreadableImage, match="not an image"):
            decoder.decode(b"a text, honestly")


def test_memory_is_bounded_by_what_the_photo_says_it_holds(decoder, twelve):
    decoder.decode(encoded(photo(64, 64), "PNG"))
    process = psutil.Process(decoder._process.pid)
    soft, hard = process.rlimit(psutil.RLIMIT_AS)
    assert hard - soft > 900_000_000
    decoder.decode(encoded(twelve, "WEBP"))
    assert 180_000_000 < process.rlimit(psutil.RLIMIT_AS)[0] - soft < 260_000_000


@pytest.mark.parametrize("damage", ["gone", "torn", "too large"])
def test_a_part_is_never_taken_of_the_thumbnail(tmp_path, damage):
    image = photo(1200, 900)
    (tmp_path / "a.png").write_bytes(encoded(image, "PNG"))
    album = PixelAlbum.from_arrays(np.eye(1, 64), [{"path": "a.png"}], root=tmp_path, model=MODEL)
    thumbnail = encoded(image.resize((256, 192)), "JPEG")
    album.thumbnail = lambda identity: thumbnail
    limits = Limits(pixels=100_000 if damage == "too large" else 100_000_000)
    with served({"album": album}, limits=limits) as port:
        album = f"http://127.0.0.1:{port}/api/v1/albums/album"
        address, question = f"{album}/photos/0", {"id": 0, "box": list(BOX)}
        if damage == "gone":
            (tmp_path / "a.png").unlink()
        elif damage == "torn":
            (tmp_path / "a.png").write_bytes(encoded(image, "PNG")[:2000])
        answer = httpx2.post(f"{album}/search", json=question)
        assert answer.status_code == 422
        assert "a.png cannot be read" in answer.json()["detail"]
        assert httpx2.get(f"{address}/thumbnail").status_code == 200
        assert httpx2.get(f"{address}/image").status_code == 200


def test_a_part_of_one_of_the_albums_large_photos_is_that_part(tmp_path, twelve):
    (tmp_path / "a.webp").write_bytes(encoded(twelve, "WEBP"))
    album = PixelAlbum.from_arrays(np.eye(1, 64), [{"path": "a.webp"}], root=tmp_path, model=MODEL)
    with served({"album": album}, limits=Limits(decode_seconds=60)) as port:
        address = f"http://127.0.0.1:{port}/api/v1/albums/album/search"
        answer = httpx2.post(address, json={"id": 0, "box": list(BOX)}, timeout=60).json()["query"]
    vector = np.frombuffer(base64.b64decode(answer["vector"]), "<f4")
    assert vector @ Pixels().embed([part_of(twelve)])[0].numpy() > 0.995
