"""The published sets of faces, and their crops by the boxes and landmarks that a set's own files give.

Nothing here detects a face.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image

from smoothap.data.benchmark import Benchmark
from smoothap.data.datasets.counts import compare_counts, published_split
from smoothap.data.datasets.listing import find_file, find_listed, image_files, missing_files, set_of_files
from smoothap.data.image_set import ImageSet
from smoothap.data.reading import UnreadableImage, read_image
from smoothap.data.tables import as_numbers, is_equal, label_by, positions, read_lines, read_rows, read_table, replaced

ALIGNED_SIZE = 112
_FARTHEST = 1e6  # pixels: whatever lies farther out is no place in an image
# Where ArcFace wants the eyes, the nose and the corners of the mouth, as x and y in a crop of 112 x 112.
ARCFACE_POINTS = np.array(
    [[38.2946, 51.6963], [73.5318, 51.5014], [56.0252, 71.7366], [41.5493, 92.3655], [70.7299, 92.2041]]
)

_BOX = ("X", "Y", "W", "H")  # the columns of VGGFace2's tables
_POINTS = tuple(f"P{point}{axis}" for point in range(1, 6) for axis in "XY")
_IJBC_BOX = ("FACE_X", "FACE_Y", "FACE_WIDTH", "FACE_HEIGHT")  # those of IJB-C's
_IJBC_FACE = ("SUBJECT_ID", "FILENAME", "SIGHTING_ID")
_PROTOCOLS = ("ijbc_1N_gallery_G1.csv", "ijbc_1N_gallery_G2.csv", "ijbc_1N_probe_mixed.csv")
_FEWEST = 5  # instances of an identity of IJB-C


def places_of_faces(files: pa.Array, table: Path, keys: pa.Array, columns: dict[str, pa.Array]) -> np.ndarray:
    """The numbers (n, columns) float32 in the row of the table whose key is the file's name."""
    rows = positions(files, keys)
    if rows.null_count:
        missing = files.filter(rows.is_null()).to_pylist()
        raise missing_files(f"{table}, which gives the faces", missing, len(files), "Download the table again.")
    return as_numbers(table, columns)[rows.to_numpy()]


def read_box(path: Path, box: np.ndarray, factor: float = 1.3) -> Image.Image:
    """The face's box (x, y, width, height) extended about its centre by a factor and cut at the image's edges."""
    x, y, width, height = (float(value) for value in box)
    if not np.isfinite(box).all() or np.abs(box).max() > _FARTHEST:
        raise UnreadableImage(str(path), f"its face is said to be at {x:g}, {y:g}, {width:g} x {height:g}")
    left, top = round(x - (factor - 1) / 2 * width), round(y - (factor - 1) / 2 * height)
    return read_image(path, box=(left, top, round(factor * width), round(factor * height)))


def read_aligned(path: Path, points: np.ndarray) -> Image.Image:
    """The face aligned by its five points (10,), x and y of each: 112 x 112."""
    if not np.isfinite(points).all() or np.abs(points).max() > _FARTHEST:
        raise UnreadableImage(str(path), "its landmarks are said to be outside of any image")
    return align(read_image(path), points)


def align(image: Image.Image, points: np.ndarray) -> Image.Image:
    """The face turned, scaled and moved so that its five points (5, 2) are where ArcFace wants them: 112 x 112."""
    back = similarity(ARCFACE_POINTS, points.reshape(5, 2))  # from a pixel of the crop to its place in the image
    size = (ALIGNED_SIZE, ALIGNED_SIZE)
    return image.transform(size, Image.Transform.AFFINE, tuple(back.ravel()), Image.Resampling.BILINEAR)


def similarity(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The rotation, scale and shift that bring source (n, 2) closest to target (n, 2): (2, 3), by least squares.

    A similarity of the plane is a product with one complex number and a sum with another.
    """
    start, end = source @ np.array([1, 1j]), target @ np.array([1, 1j])
    centred = start - start.mean()
    turn = np.vdot(centred, end - end.mean()) / np.vdot(centred, centred)
    shift = end.mean() - turn * start.mean()
    return np.array([[turn.real, -turn.imag, shift.real], [turn.imag, turn.real, shift.imag]])


def vggface2(root: Path, *, aligned: bool = False) -> Benchmark:
    """VGGFace2: photos of famous people, a class is a person; the published split, mAP.

    Crops to the box extended by 1.3 for SENet-50, or aligned 112 x 112 for ArcFace. On disk:
    `train/n000002/0001_01.jpg`, `test/...`, the lists `train_list.txt` and `test_list.txt`, `identity_meta.csv`, and
    `bb_landmark/loose_{bb,landmark}_{train,test}.csv`.
    """
    parts = {part: part_of(root, part, aligned) for part in ("train", "test")}
    return published_split("vggface2-aligned" if aligned else "vggface2", parts)


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


def ijbc(root: Path, *, aligned: bool = False) -> Benchmark:
    """IJB-C: faces in photos and videos, a class is a person, an instance is a photo or a whole video; a test alone.

    Identities with at least 5 instances; mAP over instances, each the mean of its frames' vectors. Crops to the box
    extended by 1.3 (in InsightFace's copy the loose crop as it is, a test called "loose crops"), or aligned 112 x 112
    by the landmarks of InsightFace's copy. On disk, as NIST gave it: `images/{img,frames}/` and
    `protocols/ijbc_metadata.csv`, or the galleries and the probes `ijbc_1N_*.csv`, anywhere below `protocols`. As
    InsightFace gives it: `loose_crop/1.jpg`, `meta/ijbc_face_tid_mid.txt`, `meta/ijbc_name_5pts_score.txt`, and the
    same galleries and probes, which say whose a template is.
    """
    from_insightface = (root / "meta" / "ijbc_face_tid_mid.txt").is_file()
    if aligned and not from_insightface:
        raise ValueError(
            f"{root} has no landmarks (meta/ijbc_name_5pts_score.txt): aligned crops need InsightFace's copy of IJB-C; "
            "ijbc:PATH crops to the boxes instead."
        )
    listing, everyone = _insightface(root) if from_insightface else _nist(root)
    faces = everyone.filter(pa.array(~is_equal(everyone["SUBJECT_ID"].combine_chunks(), "")))
    images = _image_set(root / ("loose_crop" if from_insightface else "images"), faces, listing, aligned)
    kept = _with_enough_instances(images)
    warnings = compare_counts(images, strict=False)  # the paper's counts are those of all subjects
    if nameless := len(everyone) - len(faces):
        warnings.append(f"ijbc: {nameless:,} faces whose subject is unknown were left out.")
    if few := images.classes - kept.classes:
        warnings.append(f"ijbc: {few:,} identities with fewer than {_FEWEST} instances were left out, as in the paper.")
    test = "loose crops" if from_insightface and not aligned else "test"  # not those of the paper's SENet-50
    return Benchmark("ijbc-aligned" if aligned else "ijbc", None, {test: kept}, warnings=tuple(warnings))


def _nist(root: Path) -> tuple[Path, pa.Table]:
    """The table that lists the faces, and of each its subject (empty where none is known), file, sighting and box."""
    tables = _protocol_files(root, "ijbc_metadata.csv") or [
        table for name in _PROTOCOLS for table in _protocol_files(root, name)
    ]
    if not tables:
        raise FileNotFoundError(
            f"There is no ijbc_metadata.csv below {root / 'protocols'} and no meta/ijbc_face_tid_mid.txt: give the "
            "folder of NIST's or InsightFace's copy of IJB-C."
        )
    columns = [*_IJBC_FACE, *_IJBC_BOX]
    contents = [read_table(table, tuple(columns)) for table in tables]
    faces = pa.concat_tables([pa.table({name: content[name] for name in columns}) for content in contents])
    faces = faces.set_column(0, _IJBC_FACE[0], _subjects(faces[_IJBC_FACE[0]].combine_chunks()))
    return tables[0], faces.group_by(columns, use_threads=False).aggregate([])  # a face may be in several protocols


def _insightface(root: Path) -> tuple[Path, pa.Table]:
    """The list of the faces, and of each its subject (empty where its template has none), file and sighting."""
    listing = find_file(root, "meta/ijbc_face_tid_mid.txt")
    files, templates, sightings = read_rows(listing, 3)
    subject_of: dict[str, str] = {}
    for name in _PROTOCOLS:
        tables = _protocol_files(root, name)
        if not tables:
            raise FileNotFoundError(f"There is no {name} below {root}: it says whose face a template shows.")
        content = read_table(tables[0], ("TEMPLATE_ID", "SUBJECT_ID"))
        pairs = zip(content["TEMPLATE_ID"].to_pylist(), _subjects(content["SUBJECT_ID"]).to_pylist(), strict=True)
        subject_of |= {template: subject for template, subject in pairs if subject}
    subjects = pa.array([subject_of.get(template, "") for template in templates.to_pylist()], pa.string())
    return listing, pa.table([subjects, files, sightings], _IJBC_FACE)


def _subjects(column: pa.Array) -> pa.Array:
    """Subjects without what a spreadsheet makes of them, empty where none is known."""
    return replaced(column, r"(?i)^nan$|\.0$")


def _image_set(folder: Path, faces: pa.Table, listing: Path, aligned: bool) -> ImageSet:
    """The faces in `folder`; an instance is a sighting of one subject, since a group photo is one of several."""
    files = find_listed(folder, faces["FILENAME"].combine_chunks(), listing)
    faces, files = faces.filter(files.is_valid()), files.drop_null()
    subjects, listed, sightings = (faces[name].combine_chunks() for name in _IJBC_FACE)
    crops = None
    if aligned:
        table = find_file(folder.parent, "meta/ijbc_name_5pts_score.txt")
        keys, *points, _ = read_rows(table, 12)
        columns = {f"cell {place}": column for place, column in enumerate(points, start=2)}
        crops = read_aligned, places_of_faces(listed, table, keys, columns)
    elif _IJBC_BOX[0] in faces.column_names:
        crops = read_box, as_numbers(listing, {name: faces[name].combine_chunks() for name in _IJBC_BOX})
    images = set_of_files("ijbc test", folder, files, subjects, (1, 5, 10), faces=crops)
    pairs = np.stack([images.labels, label_by(sightings)[0]], axis=1)
    _, instances = np.unique(pairs, axis=0, return_inverse=True)
    return replace(images, instances=instances.reshape(-1).astype(np.int64))


def _with_enough_instances(images: ImageSet) -> ImageSet:
    """The identities that have at least 5 instances."""
    assert images.instances is not None
    _, first = np.unique(images.instances, return_index=True)
    samples_per_class = np.bincount(images.labels[first], minlength=images.classes)
    kept = np.flatnonzero(samples_per_class[images.labels] >= _FEWEST)
    if not len(kept):
        raise ValueError(f"{images.name}: no identity has {_FEWEST} instances or more.")
    return images.rows(kept)


def _protocol_files(root: Path, name: str) -> list[Path]:
    return sorted(path for folder in ("protocols", "meta") for path in (root / folder).rglob(name))
