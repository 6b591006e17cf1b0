"""The frame of every page: one file with its own colours and style, which asks for nothing from outside."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from smoothap.report.markup import Markup, element, named
from smoothap.report.palette import DARK, LIGHT

_NOTHING_FROM_OUTSIDE = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def document(title: str, *content: str, style: str | None = None) -> str:
    """A whole page of HTML around the content of its body, in the style of our reports or in the one given."""
    if style is None:
        style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    light, dark = ("".join(f"--{name}:{colour};" for name, colour in theme.items()) for theme in (LIGHT, DARK))
    colours = f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_NOTHING_FROM_OUTSIDE),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(f"{colours}\n{style}")),
    )
    return f"<!doctype html>\n{element('html', head, element('body', *content), lang='en')}\n"


def report_page(title: str, lead: Sequence[str], sections: Iterable[tuple[str, str, Markup]], command: str) -> str:
    """A page with a title, a sentence, contents, sections (id, heading, content), and the command that repeats it.

    Sections without content are left out.
    """
    shown = [section for section in sections if section[2]]
    shown.append(("command", "The command", code(command)))
    links = [element("li", element("a", heading, href=f"#{name}")) for name, heading, _ in shown]
    parts = [element("section", element("h2", heading), content, id=name) for name, heading, content in shown]
    return document(
        title,
        element("a", "Skip to the content", href="#content", class_="skip"),
        element("header", element("h1", named(title)), element("p", *lead, class_="lead")),
        element("nav", element("ul", *links), aria_label="Contents"),
        element("main", *parts, id="content"),
    )


def table(head: Iterable[str], rows: Iterable[Markup], *, caption: str = "", **attributes: str) -> Markup:
    """A table that scrolls where the page is narrow; a heading is text, "" for an empty cell, or a cell of its own."""
    headings = [
        name if isinstance(name, Markup) else element("th", name, scope="col") if name else element("td")
        for name in head
    ]
    parts = [element("caption", caption)] if caption else []
    parts += [element("thead", element("tr", *headings)), element("tbody", *rows)]
    return element("div", element("table", *parts, **attributes), class_="wide")


def code(text: str) -> Markup:
    """Text as it is typed, which scrolls where the page is narrow."""
    return element("pre", element("code", text), tabindex=0)
