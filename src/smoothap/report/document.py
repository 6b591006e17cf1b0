"""The frame of every page: one file with its own colours and style, which asks for nothing from outside."""

from pathlib import Path

from smoothap.report.markup import Markup, element
from smoothap.report.palette import DARK, LIGHT

_NOTHING_FROM_OUTSIDE = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def document(title: str, *content: str, style: str | None = None) -> str:
    """A whole page of HTML around the content of its body, in the style of our reports or in the one given."""
    if style is None:
        style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    return f"<!doctype html>\n{element('html', _head(title, style), element('body', *content), lang='en')}\n"


def _head(title: str, style: str) -> Markup:
    light, dark = ("".join(f"--{name}:{colour};" for name, colour in each.items()) for each in (LIGHT, DARK))
    colours = f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_NOTHING_FROM_OUTSIDE),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(f"{colours}\n{style}")),
    )
