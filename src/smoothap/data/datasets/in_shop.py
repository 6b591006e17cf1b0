"""In-Shop Clothes Retrieval (DeepFashion): photos of a shop's clothes, a class is an article, a group is its kind.

On disk: `list_eval_partition.txt` (or `Eval/list_eval_partition.txt`: the number of images, a header, then image_name
item_id evaluation_status) and the images in `img` or `Img/img`. Queries look for their article in a gallery apart.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from smoothap.data.benchmark import Benchmark
from smoothap.data.datasets.counts import Counts, published_split
from smoothap.data.datasets.listing import find_file, find_listed, set_of_files
from smoothap.data.tables import is_equal, read_rows, replaced

PUBLISHED = {"train": Counts(25_882, 3_997), "test": Counts(26_830, 3_985)}  # 14,218 queries, 12,612 in the gallery
RECALL_AT = (1, 10, 20, 30)
_STATES = ("train", "query", "gallery")


def in_shop(root: Path, *, published: dict[str, Counts] = PUBLISHED) -> Benchmark:
    """The published lists of training images, queries and gallery; Recall@1, 10, 20, 30."""
    listing = find_file(root, "list_eval_partition.txt", "Eval/list_eval_partition.txt")
    paths, articles, states = read_rows(listing, 3, skip=2)
    folder = root / "Img" if (root / "Img").is_dir() else root
    files = find_listed(folder, paths, listing)
    files, articles, states = (column.filter(files.is_valid()) for column in (files, articles, states))
    chosen = {state: is_equal(states, state) for state in _STATES}
    if (others := len(states) - sum(int(rows.sum()) for rows in chosen.values())) > 0:
        raise ValueError(f"{listing} has {others:,} lines that end in none of {', '.join(_STATES)}: fetch it again.")
    groups = replaced(replaced(files, "^.*img/"), "/id_.*$")
    images = set_of_files("in-shop", folder, files, articles, RECALL_AT, groups=groups)
    train = images.rows(np.flatnonzero(chosen["train"]), "in-shop train")
    marked = replace(images, is_query=chosen["query"], is_gallery=chosen["gallery"])
    test = marked.rows(np.flatnonzero(~chosen["train"]), "in-shop test")
    return published_split("in-shop", {"train": train, "test": test}, published)
