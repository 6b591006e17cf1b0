"""Text to show: tables in columns or in Markdown, names from elsewhere made safe, names of classes that can be read."""

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from functools import cache

# Characters that turn the direction of the text around them or break its line, control characters, and halves of a
# character (bytes of a file name that are not UTF-8): in a name from a data set they are shown, not obeyed.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_CODE_POINTS = re.compile(r"U\+[0-9A-F]{4,6}(-U\+[0-9A-F]{4,6})*")
_JOINERS = {0x200D, 0xFE0E, 0xFE0F}  # zero width joiner, variation selectors
_REGIONS = range(0x1F1E6, 0x1F200)  # letters that make flags, in pairs
_TAGS = range(0xE0020, 0xE0080)  # the letters of the flags of England, Scotland and Wales; the last one ends them


def visible(text: str) -> str:
    """The text with everything that would steer what shows it spelled out, as in `\\u202e`."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def text_table(
    rows: Sequence[Mapping[str, object]], *, text: Collection[str] | None = None, markdown: bool = False
) -> str:
    """Rows of plain values by the names of their columns; a dash where there is none.

    Columns of numbers are to the right: those that hold no string, or all but `text` where that is given.
    """
    columns = numeric_columns(rows) if text is None else {name: name not in text for row in rows for name in row}
    lines = [list(columns), *([cell(row.get(name)) for name in columns] for row in rows)]
    if markdown:
        lines = [[words.replace("|", "\\|") for words in line] for line in lines]
    widths = [max(map(len, texts)) for texts in zip(*lines, strict=True)]
    sides = [f"{'>' if numeric else '<'}{width}" for width, numeric in zip(widths, columns.values(), strict=True)]
    aligned = [[f"{words:{side}}" for words, side in zip(line, sides, strict=True)] for line in lines]
    if not markdown:
        return "\n".join("  ".join(line).rstrip() for line in aligned)
    marks = ["-" * (width - 1) + (":" if right else "-") for width, right in zip(widths, columns.values(), strict=True)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (aligned[0], marks, *aligned[1:]))


def numeric_columns(rows: Sequence[Mapping[str, object]]) -> dict[str, bool]:
    """The columns of all rows in their order, and whether each holds numbers alone."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: all(not isinstance(row.get(name), str) for row in rows) for name in names}


def cell(value: object) -> str:
    """A plain value as text, a number to four digits."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


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
    from matplotlib.font_manager import findfont, get_font  # which tables alone do without

    return letter.isprintable() and bool(get_font(findfont("DejaVu Sans")).get_char_index(ord(letter)))
