"""Figures, pages and tables that the other rooms fill: ranked rows, curves, HTML files that need nothing else."""

__all__ = [
    "before_after", "choice", "class_words", "document", "drawing", "hits_page", "layouts", "markup", "page", "palette",
    "ranking_rows", "text_table", "tiles",
]  # fmt: skip
