"""VGGFace2: photos of famous people, a class is a person. Boxes and landmarks come from the set's own files.

On disk: `train/n000002/0001_01.jpg`, `test/...`, the lists `train_list.txt` and `test_list.txt`, `identity_meta.csv`,
and `bb_landmark/loose_{bb,landmark}_{train,test}.csv`.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image

from smoothap.data.benchmark import Benchmark
from smoothap.data.columns import as_names, label_by, positions, read_lines, read_table, replaced
from smoothap.data.counts import Counts, compare_counts, missing_files
from smoothap.data.faces import read_aligned, read_box
from smoothap.data.foreign import as_numbers, read_text
from smoothap.data.image_set import ImageSet
from smoothap.data.manifest import find_file, find_listed, image_files

PAPER = {"train": Counts(3_310_000, 8_631), "test": Counts(169_396, 500)}
RELEASE = {"train": Counts(3_141_890, 8_631)}
_BOX = ("X", "Y", "W", "H")
_POINTS = ("P1X", "P1Y", "P2X", "P2Y", "P3X", "P3Y", "P4X", "P4Y", "P5X", "P5Y")


def vggface2(root: Path, *, aligned: bool = False, paper: dict[str, Counts] = PAPER) -> Benchmark:
    """The published split; mAP. Crops to the box extended by 1.3 for SENet-50, or aligned 112 x 112 for ArcFace."""
    train, test = (part_of(root, part, aligned) for part in ("train", "test"))
    warnings = [
        *compare_counts(train, paper["train"], RELEASE["train"] if paper is PAPER else None),
        *compare_counts(test, paper["test"]),
    ]
    return Benchmark("vggface2-aligned" if aligned else "vggface2", train, {"test": test}, warnings=tuple(warnings))


def part_of(root: Path, part: str, aligned: bool) -> ImageSet:
    """The training or the test images, each cropped to its face when it is read."""
    folder = root / part
    files = image_files(folder)
    listing = root / f"{part}_list.txt"
    if listing.is_file():
        files = find_listed(str(listing), files, read_lines(listing), f"Unpack the images into {folder}.")
    kind, columns = ("landmark", _POINTS) if aligned else ("bb", _BOX)
    numbers = _numbers_for(files, find_file(root, f"bb_landmark/loose_{kind}_{part}.csv"), columns)

    read_face = read_aligned if aligned else read_box

    def read(index: int) -> Image.Image:
        return read_face(folder / files[index].as_py(), numbers[index])

    labels, identities = label_by(replaced(files, "/.*$"))
    people = names_of_people(root / "identity_meta.csv")
    return ImageSet(
        name=f"vggface2 {part}",
        names=as_names(files),
        labels=labels,
        class_names=np.array([f"{each} {people[each]}" if each in people else each for each in identities]),
        read=read,
        recall_at=(1, 5, 10),
    )


def _numbers_for(files: pa.Array, table: Path, columns: tuple[str, ...]) -> np.ndarray:
    """The row of a table of boxes or landmarks for each file: (n, columns) float32."""
    content = read_table(table, ("NAME_ID", *columns))
    rows = positions(replaced(files, r"\.[^./]*$"), content["NAME_ID"])
    if rows.null_count:
        missing = files.filter(rows.is_null()).to_pylist()
        raise missing_files(f"{table}, which gives the faces", missing, len(files), "Download the table again.")
    return as_numbers(table, {name: content[name] for name in columns})[rows.to_numpy()]


def names_of_people(table: Path) -> dict[str, str]:
    """The name of each identity, or none where the table is missing.

    Rows read `n000002, "A_Name", 315, 0, f,`: spaces lead, a comma trails, and a name may hold a comma itself.
    """
    if not table.is_file():
        return {}
    people: dict[str, str] = {}
    for line in read_text(table).splitlines()[1:]:
        cells = [cell.strip() for cell in line.strip().rstrip(",").split(",")]
        if len(cells) >= 5:
            people[cells[0]] = ",".join(cells[1:-3]).strip('"')
    return people
