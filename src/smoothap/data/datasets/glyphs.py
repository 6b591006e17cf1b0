"""A set that costs no download: characters in the 16 faces of the fonts that matplotlib brings. A class is a character.

Characters that look the same (Latin, Greek and Cyrillic capital A) are one class; identical renderings within a class
are kept once, so no two images of a class are equal.
"""

import hashlib
import io
import unicodedata
from bisect import bisect
from collections import Counter, defaultdict
from itertools import combinations, product
from pathlib import Path
from zipfile import BadZipFile
from zlib import error as BadDeflate

import numpy as np
import PIL
from PIL import Image, ImageDraw, ImageFont

from smoothap._core.extras import font_folder
from smoothap._core.files import cache_folder, write_cache
from smoothap._core.progress import Progress
from smoothap.data.benchmark import Benchmark
from smoothap.data.image_set import ImageSet
from smoothap.data.splits import split_by_class

SIZE = 40  # pixels of a side
_EM = 30  # pixels of an em: capital letters are about 22 high
_BASELINE = 29
_FACES = 8  # a character is in at least this many of the 16 faces
_VERSION = "1"  # of the rendering; a new one when it changes, so that old caches are not read
_ARRAYS = ("pixels", "names", "labels", "class_names")  # of a cache file, in the order of `_render`
_FONTS = [
    *(f"DejaVuSans{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSansMono{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSerif{style}" for style in ("", "-Bold", "-Italic", "-BoldItalic")),
    *(f"STIXGeneral{style}" for style in ("", "Bol", "Italic", "BolIta")),
]
_BLOCKS = [  # where each begins
    *((0x0000, "Latin"), (0x0250, "phonetic"), (0x02B0, "modifier"), (0x0370, "Greek"), (0x0400, "Cyrillic")),
    *((0x0530, "Armenian"), (0x0E00, "Lao"), (0x10A0, "Georgian"), (0x1D00, "phonetic"), (0x1E00, "Latin")),
    *((0x1F00, "Greek"), (0x2000, "punctuation"), (0x2070, "numbers"), (0x20A0, "currency"), (0x2100, "letterlike")),
    *((0x2150, "numbers"), (0x2190, "arrows"), (0x2200, "mathematics"), (0x2300, "technical"), (0x2460, "numbers")),
    *((0x2500, "box drawing"), (0x25A0, "shapes"), (0x2600, "pictures"), (0x27C0, "mathematics"), (0x27F0, "arrows")),
    *((0x2800, "Braille"), (0x2900, "arrows"), (0x2980, "mathematics"), (0x2B00, "arrows"), (0x2C60, "Latin")),
    *((0x2D00, "Georgian"), (0x2E00, "punctuation"), (0xA640, "Cyrillic"), (0xA700, "modifier"), (0xA720, "Latin")),
    *((0xFFF0, "punctuation"), (0x1D400, "mathematics")),
]


def glyphs(*, seed: int = 0) -> Benchmark:
    """Half of the characters to train on and the other half to test on, by a hash of seed and name."""
    train, test = split_by_class(renderings(), 0.5, seed)
    return Benchmark("glyphs", train, {"test": test})


def renderings() -> ImageSet:
    """Every character in every face that has it, rendered in seconds the first time and then read from the cache."""
    folder = font_folder()
    if folder is None:
        raise ValueError("The glyph set needs matplotlib: pip install 'smoothap[report]'")
    fonts = [folder / f"{name}.ttf" for name in _FONTS]
    stamp = [_VERSION, PIL.__version__, *(f"{font.name} {font.stat().st_size}" for font in fonts)]
    cached = cache_folder() / f"glyphs-{hashlib.sha256(' '.join(stamp).encode()).hexdigest()[:16]}.npz"
    try:
        with cached.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            pixels, names, labels, class_names = (stored[name] for name in _ARRAYS)
    except (OSError, ValueError, KeyError, EOFError, NotImplementedError, BadZipFile, BadDeflate):
        pixels, names, labels, class_names = arrays = _render(fonts)
        content = io.BytesIO()
        np.savez_compressed(content, allow_pickle=False, **dict(zip(_ARRAYS, arrays, strict=True)))
        write_cache(cached, content.getvalue())
    group_names, groups = np.unique([block(character[0]) for character in class_names], return_inverse=True)
    return ImageSet(
        name="glyphs",
        names=names,
        labels=labels,
        class_names=class_names,
        read=lambda row, shorter_side=None: Image.fromarray(pixels[row]).convert("RGB"),
        recall_at=(1, 2, 4, 8),
        groups=groups[labels].astype(np.int64),
        group_names=group_names,
    )


def block(character: str) -> str:
    """The script of a letter or the kind of a symbol, by the Unicode block that the character is in."""
    return _BLOCKS[bisect(_BLOCKS, (ord(character), "\U0010ffff")) - 1][1]


def _render(fonts: list[Path]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pixels (n, SIZE, SIZE) uint8, names (n,), labels (n,) and the characters of each class (classes,)."""
    from fontTools.ttLib import TTFont  # comes with matplotlib

    faces_of: defaultdict[str, list[int]] = defaultdict(list)
    for face, font in enumerate(fonts):
        with TTFont(font, lazy=True) as opened_font:
            points = opened_font.getBestCmap() or {}
        for character in (chr(int(point)) for point in points):
            if unicodedata.category(character)[0] in "LNPS":  # letters, numbers, punctuation, symbols
                faces_of[character].append(face)
    characters = sorted(character for character, faces in faces_of.items() if len(faces) >= _FACES)
    opened = [ImageFont.truetype(font, _EM, layout_engine=ImageFont.Layout.BASIC) for font in fonts]
    drawn: dict[tuple[str, int], bytes] = {}
    with Progress("Rendering glyphs", len(characters), "characters") as progress:
        for character in characters:
            for face in faces_of[character]:
                drawn[character, face] = _draw(character, opened[face])
            progress.advance()
    classes = _unambiguous(_lookalikes(characters, drawn), drawn)
    pixels = np.frombuffer(b"".join(picture for _, pictures in classes for picture in pictures), np.uint8)
    names = [f"{_FONTS[face]}/{character}" for _, pictures in classes for character, face in pictures.values()]
    labels = np.repeat(np.arange(len(classes)), [len(pictures) for _, pictures in classes])
    class_names = ["".join(members) for members, _ in classes]
    return pixels.reshape(-1, SIZE, SIZE), np.array(names), labels, np.array(class_names)


def _draw(character: str, font: ImageFont.FreeTypeFont) -> bytes:
    """Black on white, centred across, on the baseline where it fits; shrunk where it is larger than the picture."""
    left, top, right, bottom = font.getbbox(character, anchor="ls")
    largest = max(right - left, bottom - top)
    if largest > SIZE - 2:
        font = font.font_variant(size=_EM * (SIZE - 3) / largest)
        left, top, right, bottom = font.getbbox(character, anchor="ls")
    baseline = max(min(_BASELINE, SIZE - 1 - bottom), 1 - top)
    picture = Image.new("L", (SIZE, SIZE), 255)
    ImageDraw.Draw(picture).text(((SIZE - left - right) // 2, baseline), character, 0, font, anchor="ls")
    return picture.tobytes()


def _lookalikes(characters: list[str], drawn: dict[tuple[str, int], bytes]) -> list[list[str]]:
    """Characters in classes: two are in one where they are drawn alike in at least half of the faces of either."""
    holders: defaultdict[tuple[int, bytes], list[str]] = defaultdict(list)
    for (character, face), picture in drawn.items():
        holders[face, picture].append(character)
    alike = Counter((one, other) for same in holders.values() for one, other in combinations(same, 2))
    faces = Counter(character for character, _ in drawn)
    class_of = {character: [character] for character in characters}
    for (one, other), count in alike.items():
        if 2 * count >= min(faces[one], faces[other]) and class_of[one] is not class_of[other]:
            joined = sorted(class_of[one] + class_of[other])
            class_of |= dict.fromkeys(joined, joined)
    return [members for character, members in class_of.items() if character == members[0]]


def _unambiguous(
    classes: list[list[str]], drawn: dict[tuple[str, int], bytes]
) -> list[tuple[list[str], dict[bytes, tuple[str, int]]]]:
    """The different pictures of each class, each with its character and face, without those that another class has.

    A Cyrillic te in italics, for example, looks like a Latin m: the picture alone does not say which it is. Classes
    with fewer than two pictures are left out.
    """
    pictures_of: list[dict[bytes, tuple[str, int]]] = []
    for members in classes:
        pictures: dict[bytes, tuple[str, int]] = {}
        for face, member in product(range(len(_FONTS)), members):
            if (member, face) in drawn:
                pictures.setdefault(drawn[member, face], (member, face))
        pictures_of.append(pictures)
    owners = Counter(picture for pictures in pictures_of for picture in pictures)
    owners[b"\xff" * (SIZE * SIZE)] = 0  # a blank picture shows no character, so no class keeps it
    unique = [{picture: pictures[picture] for picture in pictures if owners[picture] == 1} for pictures in pictures_of]
    return [(members, pictures) for members, pictures in zip(classes, unique, strict=True) if len(pictures) >= 2]
