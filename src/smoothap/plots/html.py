"""Pages as single HTML files that load nothing from outside; a template is beside the module that fills it."""

import base64
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from smoothap._core.files import write_atomically
from smoothap.plots.palette import DARK, LIGHT
from smoothap.plots.text import cell, visible


def percent(share: float) -> str:
    """A share of 1 as a percentage with one digit."""
    return f"{100 * share:.1f}%"


def points(share: float) -> str:
    """A difference of two shares of 1 in points of a percentage, with its sign."""
    return f"{100 * share:+.1f}".replace("-", "−")


def data_address(content: bytes, kind: str) -> str:
    """A picture as an address that holds the picture itself, such as of the kind png."""
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def escaped(value: object) -> Markup:
    """A value as content or as an attribute of HTML; markup stays as it is."""
    return value if isinstance(value, Markup) else escape(visible(str(value)))


_PAGES = Environment(
    loader=FileSystemLoader(Path(__file__).parents[1]), autoescape=True, finalize=escaped, undefined=StrictUndefined,
    trim_blocks=True, lstrip_blocks=True,
)  # fmt: skip
_PAGES.filters.update(percent=percent, points=points, cell=cell)


def write_page(path: Path, template: str, **content: Any) -> Path:
    """Write a page; the template is a path below `smoothap`, such as plots/report.html."""
    css = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    light, dark = ("".join(f"--{name}:{colour};" for name, colour in theme.items()) for theme in (LIGHT, DARK))
    style = f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
    page = _PAGES.get_template(template).render(style=Markup(style), css=Markup(css), **content)
    return write_atomically(path, f"{page}\n")
