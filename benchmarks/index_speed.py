"""Indexing over the backbone's own forward: how much reading, hashing, thumbnails and writing cost (aim: at most 10%).

    python benchmarks/index_speed.py --photos FOLDER [--model tf_efficientnet_lite0] [--size 224] [--most 300]

The forward runs on the same prepared views, held in memory, in batches of the same size. Both take turns.
"""

import argparse
import shutil
import tempfile
from pathlib import Path

import torch
from side_by_side import ratio, take_turns

from smoothap.memory import freed_memory_kept
from smoothap.search import Album
from smoothap.search.identity import load_model
from smoothap.search.preparing import PreparedPhoto, prepared_in_order
from smoothap.search.updating import BATCH
from smoothap.search.walking import walk


def main() -> None:
    """Print photos a second of both, and the share that is lost."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--model", default="tf_efficientnet_lite0")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--most", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    model = load_model(options.model if Path(options.model).is_dir() else f"{options.model}@{options.size}").eval()
    files = walk(options.photos).files
    files = files[:: max(1, len(files) // options.most)][: options.most]
    outcomes = prepared_in_order(options.photos, ((file, None) for file in files), model.transform)
    prepared = [outcome for outcome in outcomes if isinstance(outcome, PreparedPhoto)]
    views = torch.stack([photo.view for photo in prepared if photo.view is not None])

    def forward() -> None:
        with torch.inference_mode(), freed_memory_kept():  # as indexing does
            for start in range(0, len(views), BATCH):
                model(views[start : start + BATCH])

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "album"

        def index() -> None:
            shutil.rmtree(place, ignore_errors=True)
            album = Album.create(place, model, options.photos)
            album.add([file.path for file in files], progress=False)

        seconds = take_turns({"forward": forward, "index": index}, rounds=options.rounds)
    lost = 1 - 1 / ratio(seconds, "index", "forward")
    rates = {name: len(views) / sorted(times)[len(times) // 2] for name, times in seconds.items()}
    threads = torch.get_num_threads()
    print(f"{len(views):,} photos, {options.model} at {model.transform.size} px, {threads} threads")
    print(f"forward {rates['forward']:.1f}/s, index {rates['index']:.1f}/s: {lost:.1%} lost (aim: at most 10%)")


if __name__ == "__main__":
    main()
