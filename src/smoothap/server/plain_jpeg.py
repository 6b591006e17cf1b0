"""Whether a JPEG has pixels and nothing else: then it can be served as it is, without being decoded."""

_PLAIN = {0xE0, 0xDB, 0xC0, 0xC2, 0xC4, 0xDD}  # JFIF's own head, tables, frame, restart interval
_FRAMES = {0xC0, 0xC2}
_SCAN, _END = 0xDA, 0xD9
_LARGEST_SIDE = 1024


def is_plain_jpeg(content: bytes) -> bool:
    """Whether the file is a small JPEG without EXIF, comments, profiles, or anything before or behind the picture."""
    if content[:2] != b"\xff\xd8":
        return False
    place, framed = 2, False
    while place + 4 <= len(content) and content[place] == 0xFF:
        kind, length = content[place + 1], int.from_bytes(content[place + 2 : place + 4], "big")
        if kind == _SCAN:
            return framed and _ends_with_picture(content, place + 2 + length)
        if (
            kind not in _PLAIN or length < 2 or (kind == 0xE0 and length != 16)
        ):  # a JFIF head with a thumbnail is longer
            return False
        if kind in _FRAMES:
            height, width = (int.from_bytes(content[at : at + 2], "big") for at in (place + 5, place + 7))
            if framed or not (0 < width <= _LARGEST_SIDE and 0 < height <= _LARGEST_SIDE):
                return False
            framed = True
        place += 2 + length
    return False


def _ends_with_picture(content: bytes, place: int) -> bool:
    """Whether from here on there are scans, with their tables, until the very end of the file."""
    while (marker := content.find(b"\xff", place)) >= 0 and marker + 1 < len(content):
        kind = content[marker + 1]
        if kind == _END:
            return marker + 2 == len(content)
        if kind == 0 or 0xD0 <= kind <= 0xD7:  # a byte of the picture, or a restart
            place = marker + 2
        elif kind in (0xC4, _SCAN):  # of a progressive one
            place = marker + 2 + int.from_bytes(content[marker + 2 : marker + 4], "big")
        else:
            return False
    return False
