"""Figures, pages and tables that the other packages fill: rankings, curves, HTML files that need nothing else."""

__all__ = [
    "curves", "drawing", "html", "layouts", "palette", "rankings", "report", "text", "tiles",
]  # fmt: skip
