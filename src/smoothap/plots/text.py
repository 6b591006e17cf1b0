"""Text to show: tables in columns or in Markdown, and names from elsewhere made safe."""

import re
from collections.abc import Collection, Mapping, Sequence

# Characters that turn the direction of the text around them or break its line, control characters, and halves of a
# character (bytes of a file name that are not UTF-8): in a name from a data set they are shown, not obeyed.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


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
