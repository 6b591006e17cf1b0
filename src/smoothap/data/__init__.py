"""Sets of images: a file for each benchmark, safe reading, transforms, and batches to train and to test on.

The modules below are for everybody; the others are how these work.
"""

__all__ = [
    *("benchmark", "check", "counts", "dataset", "image_set", "reading", "samplers", "sheet", "splits", "transforms"),
    *("cars", "cub", "emoji", "folder", "glyphs", "ijbc", "in_shop", "inaturalist", "sop", "table", "vehicle_id"),
    "vggface2",
]
