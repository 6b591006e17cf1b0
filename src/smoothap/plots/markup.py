"""Text from elsewhere, made safe to show."""

import re

# Characters that turn the direction of the text around them or break its line, control characters, and halves of a
# character (bytes of a file name that are not UTF-8): in a name from a data set they are shown, not obeyed.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """The text with everything that would steer what shows it spelled out, as in `\\u202e`."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
