"""One query on a page, as in the paper's Figure 1: its precision-recall curves at the left, its ranked rows beside."""

from smoothap.data.image_set import ImageSet
from smoothap.report.class_words import class_words
from smoothap.report.curves import precision_recall_figure
from smoothap.report.document import table
from smoothap.report.drawing import inline_svg
from smoothap.report.markup import Markup, element, named
from smoothap.report.ranking_rows import RankedRow
from smoothap.report.tiles import query_tile, row_tiles

SHOWN = 12  # images of a ranked row


def query_card(images: ImageSet, before: RankedRow, after: RankedRow) -> Markup:
    """The ranked rows of one query before and after, with |P|, AP, the curves, and the scores as a table."""
    name = class_words(str(images.class_names[images.labels[before.query]]))
    change = f"AP {percent(before.average_precision)} → {percent(after.average_precision)}"
    heading = element("h4", named(name), " ", element("span", f"{change}, |P| = {before.positives:,}", class_="change"))
    curves = inline_svg(precision_recall_figure(before, after), f"Precision-recall curves before and after: {change}")
    return element(
        "article",
        heading,
        element("div", curves, class_="curve"),
        element("div", query_tile(images, before.query), element("span", "query"), class_="query-image"),
        element("div", _row(images, "Before", before), _row(images, "After", after), class_="rows"),
        _details(images, before, after),
        class_="card",
    )


def percent(share: float) -> str:
    """A share of 1 as a percentage with one digit."""
    return f"{100 * share:.1f}%"


def _row(images: ImageSet, title: str, row: RankedRow) -> Markup:
    first = min(SHOWN, len(row.items))
    text = (
        f"AP {percent(row.average_precision)}, {row.right_among(first)} of {row.positives:,} right ones among the "
        f"first {first}, all by rank {row.last_right:,}"
    )
    line = element("span", class_=f"line {title.lower()}")
    return element(
        "section", element("p", line, element("b", title), " ", text), row_tiles(images, row, SHOWN), class_="ranked"
    )


def _details(images: ImageSet, before: RankedRow, after: RankedRow) -> Markup:
    """What hovering tells, for keyboards and touch screens."""
    tables = _table(images, "Before", before), _table(images, "After", after)
    return element("details", element("summary", "Classes and scores"), element("div", *tables, class_="large"))


def _table(images: ImageSet, caption: str, row: RankedRow) -> Markup:
    lines: list[Markup] = []
    for place in range(min(SHOWN, len(row.items))):
        item, kind = int(row.items[place]), "right" if row.right[place] else "wrong"
        class_name, name = class_words(str(images.class_names[images.labels[item]])), str(images.names[item])
        cells = [
            element("th", f"{place + 1}", scope="row"),
            element("td", kind, class_=kind),
            element("td", named(class_name), " ", element("small", named(name))),
            element("td", f"{row.scores[place]:.3f}", class_="number"),
        ]
        lines.append(element("tr", *cells))
    return table(("Rank", "", "Class, image", "Cosine"), lines, caption=caption)
