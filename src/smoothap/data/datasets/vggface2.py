"""VGGFace2: photos of famous people, a class is a person. Boxes and landmarks come from the set's own files.

On disk: `train/n000002/0001_01.jpg`, `test/...`, the lists `train_list.txt` and `test_list.txt`, `identity_meta.csv`,
and `bb_landmark/loose_{bb,landmark}_{train,test}.csv`.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from smoothap.data.benchmark import Benchmark
from smoothap.data.datasets.counts import Counts, published_split
from smoothap.data.datasets.faces import places_of_faces, read_aligned, read_box
from smoothap.data.datasets.listing import find_file, find_listed, image_files, set_of_files
from smoothap.data.image_set import ImageSet
from smoothap.data.tables import read_lines, read_table, replaced

PAPER = {"train": Counts(3_310_000, 8_631), "test": Counts(169_396, 500)}
RELEASE = {"train": Counts(3_141_890, 8_631)}
_BOX = ("X", "Y", "W", "H")
_POINTS = ("P1X", "P1Y", "P2X", "P2Y", "P3X", "P3Y", "P4X", "P4Y", "P5X", "P5Y")


def vggface2(root: Path, *, aligned: bool = False, paper: dict[str, Counts] = PAPER) -> Benchmark:
    """The published split; mAP. Crops to the box extended by 1.3 for SENet-50, or aligned 112 x 112 for ArcFace."""
    parts = {part: part_of(root, part, aligned) for part in PAPER}
    return published_split("vggface2-aligned" if aligned else "vggface2", parts, paper, RELEASE)


def part_of(root: Path, part: str, aligned: bool) -> ImageSet:
    """The training or the test images, each cropped to its face when it is read."""
    folder = root / part
    listing = root / f"{part}_list.txt"
    listed = read_lines(listing) if listing.is_file() else None
    files = image_files(folder) if listed is None else find_listed(folder, listed, listing).drop_null()
    kind, crop, columns = ("landmark", read_aligned, _POINTS) if aligned else ("bb", read_box, _BOX)
    table = find_file(root, f"bb_landmark/loose_{kind}_{part}.csv")
    content = read_table(table, ("NAME_ID", *columns))
    names = replaced(files, r"\.[^./]*$")
    places = places_of_faces(names, table, content["NAME_ID"], {name: content[name] for name in columns})
    faces, people = (crop, places), replaced(files, "/.*$")
    images = set_of_files(f"vggface2 {part}", folder, files, people, (1, 5, 10), faces=faces)
    names_of = names_of_people(root / "identity_meta.csv")
    class_names = [f"{name} {names_of.get(name, '')}".rstrip() for name in images.class_names]
    return replace(images, class_names=np.array(class_names))


def names_of_people(table: Path) -> dict[str, str]:
    """The name of each identity, or none where the table is missing.

    Rows read `n000002, "A_Name", 315, 0, f,`: spaces lead, a comma trails, and a name may hold a comma itself.
    """
    if not table.is_file():
        return {}
    people: dict[str, str] = {}
    for line in read_lines(table).to_pylist()[1:]:
        cells = [cell.strip() for cell in line.rstrip(",").split(",")]
        if len(cells) >= 5:
            people[cells[0]] = ",".join(cells[1:-3]).strip('"')
    return people
