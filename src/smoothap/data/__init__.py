"""Sets of images: `datasets` has a file for each; safe reading, transforms, and batches to train and to test on.

The modules below are for everybody; the others are how these work.
"""

__all__ = [
    *("benchmark", "check", "dataset", "datasets", "image_set", "reading", "samplers", "sheet", "splits", "tables"),
    "transforms",
]
