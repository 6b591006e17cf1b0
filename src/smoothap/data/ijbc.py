"""IJB-C: faces in photos and videos, a class is a person, an instance is a photo or a whole video. For testing only.

On disk, as NIST gives it: `images/{img,frames}/` and `protocols/ijbc_metadata.csv`, or the galleries and the probes
`ijbc_1N_*.csv`, anywhere below `protocols`. As InsightFace gives it: `loose_crop/1.jpg`,
`meta/ijbc_face_tid_mid.txt`, `meta/ijbc_name_5pts_score.txt`, and the same galleries and probes, which say whose a
template is.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image

from smoothap.data.benchmark import Benchmark
from smoothap.data.columns import as_names, label_by, one_chunk, positions, read_rows, read_table, replaced
from smoothap.data.counts import Counts, compare_counts, missing_files
from smoothap.data.faces import read_aligned, read_box
from smoothap.data.foreign import as_numbers
from smoothap.data.image_set import ImageSet
from smoothap.data.manifest import find_file, find_listed, image_files
from smoothap.data.reading import read_image

PAPER = Counts(148_824, 3_531)
_FEWEST = 5  # instances of an identity
_BOX = ("FACE_X", "FACE_Y", "FACE_WIDTH", "FACE_HEIGHT")
_PROTOCOLS = ("ijbc_1N_gallery_G1.csv", "ijbc_1N_gallery_G2.csv", "ijbc_1N_probe_mixed.csv")


def ijbc(root: Path, *, aligned: bool = False, paper: Counts = PAPER) -> Benchmark:
    """Identities with at least 5 instances; mAP over instances, each the mean of its frames' vectors.

    Crops to the box extended by 1.3 (in InsightFace's copy the loose crop as it is), or aligned 112 x 112 by the
    landmarks of InsightFace's copy.
    """
    from_insightface = (root / "meta" / "ijbc_face_tid_mid.txt").is_file()
    if aligned and not from_insightface:
        raise ValueError(
            f"{root} has no landmarks (meta/ijbc_name_5pts_score.txt): aligned crops need InsightFace's copy of IJB-C; "
            "ijbc:PATH crops to the boxes instead."
        )
    everyone, nameless = _insightface(root, aligned) if from_insightface else _nist(root)
    images = with_enough_instances(everyone)
    warnings = compare_counts(images, paper, strict=False)
    if nameless:
        warnings.append(f"ijbc: {nameless:,} faces whose subject is unknown were left out.")
    if images.classes < everyone.classes:
        few = everyone.classes - images.classes
        warnings.append(f"ijbc: {few:,} identities with fewer than {_FEWEST} instances were left out, as in the paper.")
    return Benchmark("ijbc-aligned" if aligned else "ijbc", None, {"test": images}, warnings=tuple(warnings))


def with_enough_instances(images: ImageSet, fewest: int = _FEWEST) -> ImageSet:
    """The identities that have at least this many instances."""
    assert images.instances is not None
    _, first = np.unique(images.instances, return_index=True)
    per_class = np.bincount(images.labels[first], minlength=images.classes)
    kept = np.flatnonzero(per_class[images.labels] >= fewest)
    if not len(kept):
        raise ValueError(f"{images.name}: no identity has {fewest} instances or more.")
    return images.rows(kept)


def _nist(root: Path) -> tuple[ImageSet, int]:
    """Every face with a known subject, and how many have none."""
    wanted = ("SUBJECT_ID", "FILENAME", "SIGHTING_ID", *_BOX)
    tables = _protocol_files(root, "ijbc_metadata.csv") or [
        table for name in _PROTOCOLS for table in _protocol_files(root, name)
    ]
    if not tables:
        raise FileNotFoundError(
            f"There is no ijbc_metadata.csv below {root / 'protocols'} and no meta/ijbc_face_tid_mid.txt: give the "
            "folder of NIST's or InsightFace's copy of IJB-C."
        )
    contents = [read_table(table, wanted) for table in tables]
    rows = pa.concat_tables([pa.table({name: content[name] for name in wanted}) for content in contents])
    rows = rows.group_by(list(wanted), use_threads=False).aggregate([])  # a face may stand in several protocols
    subject = replaced(one_chunk(rows["SUBJECT_ID"]), r"\.0$")
    known = np.array([each.lower() not in ("", "nan") for each in subject.to_pylist()], bool)
    nameless = int((~known).sum())
    rows, subject = rows.filter(pa.array(known, pa.bool_())), subject.filter(pa.array(known, pa.bool_()))
    boxes = as_numbers(tables[0], {name: one_chunk(rows[name]) for name in _BOX})
    folder = root / "images"
    listed = one_chunk(rows["FILENAME"])
    files = find_listed(str(tables[0]), image_files(folder), listed, f"Unpack the images into {folder}.")

    def read(index: int) -> Image.Image:
        return read_box(folder / files[index].as_py(), boxes[index])

    return _image_set(files, subject, one_chunk(rows["SIGHTING_ID"]), read), nameless


def _insightface(root: Path, aligned: bool) -> tuple[ImageSet, int]:
    """Every face whose template belongs to a known subject, and how many belong to none."""
    listing = find_file(root, "meta/ijbc_face_tid_mid.txt")
    listed, templates, media = read_rows(listing, 3)
    subject_of = _subjects_of_templates(root)
    subjects = [subject_of.get(template, "nan") for template in templates.to_pylist()]
    known = pa.array([subject != "nan" for subject in subjects], pa.bool_())
    subject = pa.array(subjects, pa.string()).filter(known)
    listed, media = listed.filter(known), media.filter(known)
    folder = root / "loose_crop"
    files = find_listed(str(listing), image_files(folder), listed, f"Unpack the images into {folder}.")
    points = _landmarks(root, listed) if aligned else None

    def read(index: int) -> Image.Image:
        path = folder / files[index].as_py()
        return read_image(path) if points is None else read_aligned(path, points[index])

    return _image_set(files, subject, media, read), len(subjects) - len(subject)


def _subjects_of_templates(root: Path) -> dict[str, str]:
    subject_of: dict[str, str] = {}
    for name in _PROTOCOLS:
        tables = _protocol_files(root, name)
        if not tables:
            raise FileNotFoundError(f"There is no {name} below {root}: it says whose face a template shows.")
        content = read_table(tables[0], ("TEMPLATE_ID", "SUBJECT_ID"))
        subjects = replaced(content["SUBJECT_ID"], r"\.0$").to_pylist()
        pairs = zip(content["TEMPLATE_ID"].to_pylist(), subjects, strict=True)
        subject_of |= {template: subject for template, subject in pairs if subject.lower() not in ("", "nan")}
    return subject_of


def _landmarks(root: Path, listed: pa.Array) -> np.ndarray:
    """Five points for each listed face: (n, 10) float32."""
    table = find_file(root, "meta/ijbc_name_5pts_score.txt")
    name, *numbers, _ = read_rows(table, 12)
    rows = positions(listed, name)
    if rows.null_count:
        missing = listed.filter(rows.is_null()).to_pylist()
        raise missing_files(f"{table}, which gives the landmarks", missing, len(listed), "Download the table again.")
    columns = {f"cell {place}": column for place, column in enumerate(numbers, start=2)}
    return as_numbers(table, columns)[rows.to_numpy()]


def _image_set(files: pa.Array, subject: pa.Array, sighting: pa.Array, read: Callable[[int], Image.Image]) -> ImageSet:
    labels, class_names = label_by(subject)
    sightings, _ = label_by(sighting)
    pairs = np.stack([labels, sightings], axis=1)  # a group photo is one sighting of several subjects
    _, instances = np.unique(pairs, axis=0, return_inverse=True)
    return ImageSet(
        name="ijbc test",
        names=as_names(files),
        labels=labels,
        class_names=class_names,
        read=read,
        recall_at=(1, 5, 10),
        instances=instances.reshape(-1).astype(np.int64),
    )


def _protocol_files(root: Path, name: str) -> list[Path]:
    return sorted(path for folder in ("protocols", "meta") for path in (root / folder).rglob(name))
