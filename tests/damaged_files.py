"""Damage for text that others wrote: bytes flipped and cut, lines and cells moved, values of json of another kind."""

import json

from hypothesis import strategies as st

# What has broken readers before, or might: no text, no number, too much of either, other alphabets, other line ends.
ODD = [
    "", " ", "nan", "-inf", "1e400", "-1", "9" * 30, "9" * 5_000, "0x1", "1,5", '"', '"a', "'", "a\tb", "\0", "\r",
    "\n", "../../etc/passwd", "/etc/passwd", "a" * 300, "a" * 5_000, "é", "\ufeff", "\u202e", "=1+1", "#", "\\", ",,,",
]  # fmt: skip


@st.composite
def damaged_text(draw, whole: bytes) -> bytes:
    """Bytes that begin as a valid file and are no longer quite that, or never were one."""
    kind = draw(st.sampled_from(["bytes", "flips", "cut", "lines", "cells"]))
    if kind == "bytes":
        return draw(st.binary(max_size=200))
    if kind == "cut":
        return whole[: draw(st.integers(0, len(whole)))]
    if kind == "flips":
        content = bytearray(whole)
        for _ in range(draw(st.integers(1, 6))):
            content[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
        return bytes(content)
    lines = whole.decode().splitlines()
    if kind == "lines":
        return "\n".join(draw(st.lists(st.sampled_from([*lines, *ODD]), max_size=len(lines) + 2))).encode()
    place = draw(st.integers(0, len(lines) - 1))
    separator = "," if "," in lines[place] else " "
    cells = lines[place].split(separator)
    cells[draw(st.integers(0, len(cells) - 1))] = draw(st.sampled_from(ODD) | st.text(max_size=10))
    lines[place] = separator.join(cells)
    return "\n".join(lines).encode(errors="surrogatepass")


ODD_VALUES = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, -1, 1, 2**31, 2**63, 10**400, 0.5, -0.0, 1e308, [], {}, "", "x", [[]], {"a": 1}])
    | st.text(max_size=8)
    | st.lists(st.integers(-3, 3) | st.text(max_size=3), max_size=3)
)


@st.composite
def changed_json(draw, whole: object) -> object:
    """The document with one value, at any depth, gone or of another kind."""
    if isinstance(whole, dict) and whole and draw(st.integers(0, 3)):
        name = draw(st.sampled_from(sorted(whole)))
        if not draw(st.integers(0, 4)):
            return {key: value for key, value in whole.items() if key != name}
        return {**whole, name: draw(changed_json(whole[name]))}
    if isinstance(whole, list) and whole and draw(st.integers(0, 3)):
        place = draw(st.integers(0, len(whole) - 1))
        return [*whole[:place], draw(changed_json(whole[place])), *whole[place + 1 :]]
    return draw(ODD_VALUES)


def damaged_json(whole: bytes) -> st.SearchStrategy[bytes]:
    """A json file whose text is damaged, or which is well-formed and says something else."""
    document = json.loads(whole)
    deep = st.sampled_from([b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5_000, b"NaN", b"\xff\xfe{}"])
    return damaged_text(whole) | changed_json(document).map(lambda value: json.dumps(value).encode()) | deep
