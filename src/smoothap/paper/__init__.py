"""The paper's analyses, a module for each with its numbers and its figure; `all` makes every one of them."""

__all__ = [
    "ablation", "all", "analysis", "batch", "classes", "cost", "indicator", "operating_region",
    "page", "queries", "tightness", "triplet_example",
]  # fmt: skip
