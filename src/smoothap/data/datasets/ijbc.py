"""IJB-C: faces in photos and videos, a class is a person, an instance is a photo or a whole video. For testing only.

On disk, as NIST gives it: `images/{img,frames}/` and `protocols/ijbc_metadata.csv`, or the galleries and the probes
`ijbc_1N_*.csv`, anywhere below `protocols`. As InsightFace gives it: `loose_crop/1.jpg`,
`meta/ijbc_face_tid_mid.txt`, `meta/ijbc_name_5pts_score.txt`, and the same galleries and probes, which say whose a
template is.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from smoothap.data.benchmark import Benchmark
from smoothap.data.datasets.counts import Counts, compare_counts
from smoothap.data.datasets.faces import places_of_faces, read_aligned, read_box
from smoothap.data.datasets.listing import find_file, find_listed, set_of_files
from smoothap.data.image_set import ImageSet
from smoothap.data.tables import as_numbers, is_equal, label_by, read_rows, read_table, replaced

PAPER = Counts(148_824, 3_531)
_FEWEST = 5  # instances of an identity
_BOX = ("FACE_X", "FACE_Y", "FACE_WIDTH", "FACE_HEIGHT")
_FACE = ("SUBJECT_ID", "FILENAME", "SIGHTING_ID")
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
    listing, everyone = _insightface(root) if from_insightface else _nist(root)
    faces = everyone.filter(pa.array(~is_equal(everyone["SUBJECT_ID"].combine_chunks(), "")))
    images = _image_set(root / ("loose_crop" if from_insightface else "images"), faces, listing, aligned)
    kept = _with_enough_instances(images)
    warnings = compare_counts(kept, paper, strict=False)
    if nameless := len(everyone) - len(faces):
        warnings.append(f"ijbc: {nameless:,} faces whose subject is unknown were left out.")
    if few := images.classes - kept.classes:
        warnings.append(f"ijbc: {few:,} identities with fewer than {_FEWEST} instances were left out, as in the paper.")
    return Benchmark("ijbc-aligned" if aligned else "ijbc", None, {"test": kept}, warnings=tuple(warnings))


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
    columns = [*_FACE, *_BOX]
    contents = [read_table(table, tuple(columns)) for table in tables]
    faces = pa.concat_tables([pa.table({name: content[name] for name in columns}) for content in contents])
    faces = faces.set_column(0, _FACE[0], _subjects(faces[_FACE[0]].combine_chunks()))
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
    return listing, pa.table([subjects, files, sightings], _FACE)


def _subjects(column: pa.Array) -> pa.Array:
    """Subjects without what a spreadsheet makes of them, empty where none is known."""
    return replaced(column, r"(?i)^nan$|\.0$")


def _image_set(folder: Path, faces: pa.Table, listing: Path, aligned: bool) -> ImageSet:
    """The faces in `folder`; an instance is a sighting of one subject, since a group photo is one of several."""
    files = find_listed(folder, faces["FILENAME"].combine_chunks(), listing)
    faces, files = faces.filter(files.is_valid()), files.drop_null()
    subjects, listed, sightings = (faces[name].combine_chunks() for name in _FACE)
    crops = None
    if aligned:
        table = find_file(folder.parent, "meta/ijbc_name_5pts_score.txt")
        keys, *points, _ = read_rows(table, 12)
        columns = {f"cell {place}": column for place, column in enumerate(points, start=2)}
        crops = read_aligned, places_of_faces(listed, table, keys, columns)
    elif _BOX[0] in faces.column_names:
        crops = read_box, as_numbers(listing, {name: faces[name].combine_chunks() for name in _BOX})
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
