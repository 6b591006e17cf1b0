"""HTML from Python: whatever is not markup already is text from somewhere, and is escaped."""

import html
import re

# Characters that turn the direction of the text around them, control characters, and halves of a character (bytes of a
# file name that are not UTF-8): in a name from a data set they are shown, not obeyed.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_WITHOUT_END = {"img", "meta", "use"}


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """The text as content or as the value of an attribute; markup stays as it is."""
    if isinstance(text, Markup):
        return text
    return Markup(html.escape(visible(text)))


def visible(text: str) -> str:
    """The text with everything that would steer what shows it spelled out, as in `\\u202e`."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def element(tag: str, *content: str, **attributes: str | int) -> Markup:
    """One element with its content; `class_` stands for class and `aria_label` for aria-label.

    >>> element("p", "1 < 2", element("b", "!"), class_="note")
    '<p class="note">1 &lt; 2<b>!</b></p>'
    """
    names = (name.rstrip("_").replace("_", "-") for name in attributes)
    values = (escaped(str(value)) for value in attributes.values())
    pairs = "".join(f' {name}="{value}"' for name, value in zip(names, values, strict=True))
    opening = f"<{tag}{pairs}>"
    if tag in _WITHOUT_END:
        return Markup(opening)
    return Markup(f"{opening}{joined(*content)}</{tag}>")


def joined(*parts: str) -> Markup:
    """Parts one after the other, each escaped unless it is markup."""
    return Markup("".join(escaped(part) for part in parts))


def named(text: str) -> Markup:
    """A name from the data, whose own direction of writing does not reach the text around it."""
    return element("bdi", text)
