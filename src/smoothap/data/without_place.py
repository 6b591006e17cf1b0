"""A photo's file without the place where it was taken: what says so is blanked, and nothing else changes, not even its
length. Dates, camera and pixels stay as they are.

Blanked are the GPS part of EXIF in any format, places in XMP, and the town and country of IPTC. A PNG may hide any of
these in compressed text, which goes as a whole. What a maker writes in a form of its own cannot be found.
"""

import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from struct import error as struct_error
from struct import unpack_from

_Patch = tuple[int, bytes]  # where in the file, and what is to be there

_GPS, _LONG, _IFD = 0x8825, 4, 13
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4}  # bytes of an EXIF type
_MOST_ENTRIES = 1_000
_NAMES = (
    rb"(?:exif:GPS\w+|photoshop:(?:City|State|Country)"
    rb"|Iptc4xmp(?:Core|Ext):(?:\w*Location\w*|\w*Country\w*|City|\w*State))"
)
_XMP = re.compile(rb"\b" + _NAMES + rb"\s*(?:=\s*\"([^\"]{0,500})\"|=\s*'([^']{0,500})'|>([^<]{1,500})<)")
_PLACES_OF_IPTC = (90, 92, 95, 100, 101)  # town, part of it, state, code and name of the country
_TEXTS = (b"zTXt", b"iTXt", b"tEXt")
_BLANK = b"blNk"  # a part of a PNG that nobody knows and everybody skips


def without_place(content: bytes) -> bytes:
    """The bytes of a photo's file, as many as they are, without the place where it was taken."""
    patches = [*_exif(content), *_iptc(content)]
    for match in _XMP.finditer(content):
        start, end = next(match.span(group) for group in (1, 2, 3) if match.group(group) is not None)
        patches.append((start, b" " * (end - start)))
    if content[:8] == b"\x89PNG\r\n\x1a\n":
        patches = list(_png(content, patches))
    return _patched(content, patches)


def _patched(content: bytes, patches: list[_Patch]) -> bytes:
    if not patches:
        return content
    changed = bytearray(content)
    for at, new in patches:
        changed[at : at + len(new)] = new
    return bytes(changed)


def _exif(content: bytes) -> Iterator[_Patch]:
    for head, order in ((b"II*\0", "<"), (b"MM\0*", ">")):
        at = content.find(head)
        while at >= 0:
            with suppress(struct_error):  # beyond the end: these bytes are no EXIF data
                yield from _gps(content, at, order)
            at = content.find(head, at + 1)


def _gps(content: bytes, base: int, order: str) -> list[_Patch]:
    """The blanks for the GPS table of the EXIF data at `base`, and for the numbers that it points at."""
    patches = list[_Patch]()
    for tag, kind, _, value in _entries(content, base, unpack_from(f"{order}I", content, base + 4)[0], order):
        if tag != _GPS or kind not in (_LONG, _IFD):
            continue
        entries = _entries(content, base, value, order)
        if not entries or any(inner > 0xFF or type_ not in _SIZES for inner, type_, _, _ in entries):
            continue
        for _, type_, count, where in entries:
            size = _SIZES[type_] * count
            if 4 < size <= len(content) - base - where:
                patches.append((base + where, bytes(size)))
        patches.append((base + value, bytes(2 + 12 * len(entries))))  # a table of nothing
    return patches


def _entries(content: bytes, base: int, table: int, order: str) -> list[tuple[int, int, int, int]]:
    """Tag, type, count and value of each entry of a table; none where there is no table."""
    number = unpack_from(f"{order}H", content, base + table)[0]
    if not 0 < number <= _MOST_ENTRIES:
        return []
    return [unpack_from(f"{order}HHII", content, base + table + 2 + 12 * entry) for entry in range(number)]


def _iptc(content: bytes) -> Iterator[_Patch]:
    name = b"Photoshop 3.0\0"
    at = content.find(name)
    while at >= 2:
        end = at - 2 + int.from_bytes(content[at - 2 : at], "big")
        place = content.find(b"8BIM\x04\x04", at, end)
        field = content.find(b"\x1c", place, end) if place >= 0 else -1
        while 0 <= field <= end - 5 and content[field] == 0x1C:
            length = int.from_bytes(content[field + 3 : field + 5], "big")
            if content[field + 1] == 2 and content[field + 2] in _PLACES_OF_IPTC and field + 5 + length <= end:
                yield field + 5, b" " * length
            field += 5 + length
        at = content.find(name, at + 1)


def _png(content: bytes, patches: list[_Patch]) -> Iterator[_Patch]:
    """The patches of a PNG, with the checksums of what they change; texts in another form are blanked whole."""
    at = 8
    while at + 12 <= len(content):
        length, kind = int.from_bytes(content[at : at + 4], "big"), content[at + 4 : at + 8]
        end = at + 8 + length
        inside = [(where, new) for where, new in patches if at + 8 <= where <= where + len(new) <= end]
        if kind in _TEXTS and end + 4 <= len(content) and _is_packed(kind, content[at + 8 : min(end, at + 200)]):
            kind, inside = _BLANK, [(at + 8, bytes(length))]
            yield at + 4, kind
        if inside and end + 4 <= len(content):
            data = _patched(content[at + 8 : end], [(where - at - 8, new) for where, new in inside])
            yield from inside
            yield end, zlib.crc32(kind + data).to_bytes(4, "big")
        at = end + 4


def _is_packed(kind: bytes, text: bytes) -> bool:
    """Whether a text is compressed, or holds EXIF data or XMP as digits."""
    name, _, rest = text.partition(b"\0")
    return kind == b"zTXt" or name.startswith(b"Raw profile") or (kind == b"iTXt" and rest[:1] == b"\x01")
