"""Names of classes that can be read: code points with their Unicode names, and letters only where a font has them."""

import re
import unicodedata
from functools import cache

from matplotlib.font_manager import findfont, get_font

_CODE_POINTS = re.compile(r"U\+[0-9A-F]{4,6}(-U\+[0-9A-F]{4,6})*")
_JOINERS = {0x200D, 0xFE0E, 0xFE0F}  # zero width joiner, variation selectors
_REGIONS = range(0x1F1E6, 0x1F200)  # letters that make flags, in pairs
_TAGS = range(0xE0020, 0xE0080)  # the letters of the flags of England, Scotland and Wales; the last one ends them


def class_words(name: str) -> str:
    """A class in words: "U+1F600" or a single letter has its Unicode name beside it, everything else is as it is.

    >>> class_words("U+1F600"), class_words("U+1F1E9-U+1F1EA"), class_words("é"), class_words("mug_final/17")
    ('U+1F600 grinning face', 'U+1F1E9-U+1F1EA flag DE', 'é latin small letter e with acute', 'mug_final/17')
    """
    if len(name) == 1 and not name.isascii():
        return f"{name} {unicodedata.name(name, '').lower()}".rstrip()
    if not _CODE_POINTS.fullmatch(name):
        return name
    meaning = code_point_words([int(point.removeprefix("U+"), 16) for point in name.split("-")])
    return f"{name} {meaning}" if meaning else name


def figure_words(name: str, longest: int = 32, explained: bool = True) -> str:
    """A class in letters that matplotlib's font has, shortened: others have their Unicode name in their place.

    Code points are left out where their name is known; unless `explained`, a letter that can be drawn is alone.
    """
    if _CODE_POINTS.fullmatch(name):
        words = class_words(name).removeprefix(f"{name} ")
    elif any(not _has_glyph(letter) for letter in name):
        words = code_point_words([ord(letter) for letter in name]) or ascii(name)[1:-1]
    else:
        words = class_words(name) if explained else name
    return words if len(words) <= longest else f"{words[: longest - 1].rstrip()}…"


def code_point_words(points: list[int]) -> str:
    """The Unicode names of a sequence, without what only joins them; a flag by its letters."""
    letters = [point for point in points if point in _REGIONS]
    tags = [point for point in points if point in _TAGS]
    words = ["flag " + "".join(chr(ord("A") + point - _REGIONS.start) for point in letters)] if letters else []
    plain = [point for point in points if point not in _JOINERS and point not in _REGIONS and point not in _TAGS]
    words += [unicodedata.name(chr(point), f"U+{point:04X}").lower() for point in plain]
    if tags:
        words.append("".join(chr(point - 0xE0000) for point in tags if point != _TAGS[-1]).upper())
    return ", ".join(words)


@cache
def _has_glyph(letter: str) -> bool:
    return letter.isprintable() and bool(get_font(findfont("DejaVu Sans")).get_char_index(ord(letter)))
