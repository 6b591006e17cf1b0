"""What a model outside Python costs in mAP and gains in time.

    python benchmarks/export_cost.py --photos FOLDER [--model NAME] [--size 224] [--most 1000] [--rounds 20]

FOLDER has a folder of photos for each class. An album's vectors come from the files, where a large JPEG is decoded at a
reduced size; the graph gets all pixels of the same file. "asked" is the mAP of that album asked with the graph's
vectors, "alone" that of the graph's vectors among themselves. Times are of one photo on one thread, the decoded pixels
in memory, each candidate in turn.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from side_by_side import milliseconds, ratio, take_turns

from smoothap import evaluate
from smoothap._core.progress import Progress
from smoothap.album.walk import walk
from smoothap.data.reading import read_image
from smoothap.models import Embedder
from smoothap.models.export import export_onnx


def session_of(model: Embedder, photos: list[Path], file: Path) -> onnxruntime.InferenceSession:
    """The exported model on one thread, checked on some photos."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    exported = export_onnx(model, file, photos=photos)
    print(
        f"{exported.bytes / 1e6:6.1f} MB  cosine to torch from the same pixels: smallest {exported.cosines.min():.5f}, "
        f"median {np.median(exported.cosines):.5f}"
    )
    if (files := exported.cosines_from_files) is not None:
        print(f"           from files: smallest {files.min():.4f}, median {np.median(files):.4f}")
    return onnxruntime.InferenceSession(file, options, ["CPUExecutionProvider"])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--model", default="tf_efficientnet_lite0")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--most", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(1)
    files = [options.photos / file.path for file in walk(options.photos).files]
    files = [files[place] for place in np.random.default_rng(0).permutation(len(files))[: options.most]]
    ranked = sorted(files)
    model = Embedder(options.model, None, size=options.size).eval()
    labels = np.unique([file.parent.name for file in ranked], return_inverse=True)[1]
    album = model.embed(ranked).numpy()
    himself = np.eye(len(ranked), dtype=bool)
    with tempfile.TemporaryDirectory() as folder:
        graphs = {"onnx": session_of(model, ranked[::10], Path(folder) / "model.onnx")}
        vectors = {name: np.empty_like(album) for name in graphs}
        with Progress("Graphs", len(ranked), "photos") as line:
            for place, file in enumerate(ranked):
                pixels = np.asarray(read_image(file))[None]
                for name, session in graphs.items():
                    vectors[name][place] = np.asarray(session.run(None, {"images": pixels})[0])[0]
                line.advance()
    image = read_image(ranked[0])
    pixels = np.asarray(image)[None]
    seconds = take_turns(
        {
            "torch": lambda: model.embed([image], progress=False),
            **{name: lambda session=session: session.run(None, {"images": pixels}) for name, session in graphs.items()},
        },
        options.rounds,
    )
    before = 100 * evaluate(album, labels, progress=False).mean_average_precision
    print(f"{len(ranked):,} photos of {labels.max() + 1} classes, {options.model} at {options.size} pixels")
    print(f"{'':8} {'asked':>7} {'alone':>7} {'ms':>7} {'times torch':>12}")
    print(f"{'torch':8} {before:7.2f} {before:7.2f} {milliseconds(seconds, 'torch'):7.1f} {1:12.2f}")
    for name, found in vectors.items():
        asked = evaluate(found, labels, album, labels, ignore=himself, progress=False).mean_average_precision
        alone = evaluate(found, labels, progress=False).mean_average_precision
        speed = 1 / ratio(seconds, name, "torch")
        print(f"{name:8} {100 * asked:7.2f} {100 * alone:7.2f} {milliseconds(seconds, name):7.1f} {speed:12.2f}")


if __name__ == "__main__":
    main()
