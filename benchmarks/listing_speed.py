"""How long listing 331,000 images takes and how much memory: a tenth of VGGFace2, as empty files in 913 folders.

Each case runs in a process of its own. Guarantee: seconds, and less than 1 GB.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

IDENTITIES, IMAGES = 913, 331_000


def write_set(root: Path) -> None:
    """Empty files in a folder for each identity, the training list and the table of boxes."""
    per_identity = -(-IMAGES // IDENTITIES)
    train = root / "train"
    names = [f"n{identity:06d}/{image:04d}_01" for identity in range(IDENTITIES) for image in range(per_identity)]
    del names[IMAGES:]
    for identity in range(IDENTITIES):
        (train / f"n{identity:06d}").mkdir(parents=True)
    for name in names:
        (train / f"{name}.jpg").touch()
    (root / "bb_landmark").mkdir()
    with (root / "train_list.txt").open("w") as listing:
        listing.writelines(f"{name}.jpg\n" for name in names)
    with (root / "bb_landmark" / "loose_bb_train.csv").open("w") as boxes:
        boxes.write("NAME_ID,X,Y,W,H\n")
        boxes.writelines(f'"{name}",161,140,224,324\n' for name in names)


def list_folder(root: Path) -> int:
    """The training images as any folder of images."""
    from smoothap.data.datasets.own import labelled_by_folder

    return len(labelled_by_folder(root / "train", "synthetic"))


def list_and_split(root: Path) -> int:
    """The same, with its classes in two parts."""
    from smoothap.data.datasets.own import labelled_by_folder
    from smoothap.data.splits import split_by_class

    train, test = split_by_class(labelled_by_folder(root / "train", "synthetic"), 0.1)
    return len(train) + len(test)


def list_faces(root: Path) -> int:
    """The training images as VGGFace2: the list is compared with the files, and each has its box."""
    from smoothap.data.datasets.faces import part_of

    return len(part_of(root, "train", aligned=False))


CASES = {case.__name__: case for case in (list_folder, list_and_split, list_faces)}


def measure(case: str, root: Path) -> None:
    """Print the seconds and the peak memory of one case, imports left out of the seconds and not of the memory."""

    start = time.perf_counter()
    rows = CASES[case](root)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{case:16} {rows:,} rows in {seconds:.1f} s, at most {peak:.2f} GB ({1 / peak:.1f}x below 1 GB)", flush=True)


def main() -> None:
    """Write the synthetic set, then measure each case in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "XDG_CACHE_HOME": f"{folder}/cache"}
        for case in ("write", *CASES):
            subprocess.run([sys.executable, __file__, case, f"{folder}/set"], check=True, env=environment)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    elif sys.argv[1] == "write":
        write_set(Path(sys.argv[2]))
    else:
        measure(sys.argv[1], Path(sys.argv[2]))
