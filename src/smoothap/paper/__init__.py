"""The paper's analyses, a module for each with its numbers and its figure; `all` puts every one of them on a page."""

__all__ = [
    "ablation", "all", "analysis", "classes", "cost", "indicator", "operating_region", "paper_rows", "queries",
    "tightness", "triplet_example",
]  # fmt: skip
