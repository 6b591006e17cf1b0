"""Tiny sets in the formats of the paper's five, with which each recipe can be run."""

from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import savemat

from smoothap.data.datasets.counts import PAPER, Counts

_MARKS = "14,15,26,15,20,20,15,28,25,28"  # eyes, nose and corners of the mouth in an image of 40 x 40


def picture(path: Path, label: int, number: int, side: int = 40) -> None:
    """An image of noise in the colour of its class."""
    random = np.random.default_rng((label, number))
    colour = np.random.default_rng(label).integers(40, 216, 3)
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.clip(colour + random.normal(0, 30, (side, side, 3)), 0, 255).astype(np.uint8)
    Image.fromarray(pixels).save(path, "JPEG")


def expect_little(monkeypatch) -> None:
    """Take the tiny sets for whole copies."""
    for part in PAPER:
        monkeypatch.setitem(PAPER, part, Counts(0, 1))


def write_sop(root: Path) -> Path:
    """Three super-categories of 4 articles to train on and one of 4 to test on, 4 photos of each."""
    row = 0
    for part, groups in (("train", ("bicycle", "chair", "lamp")), ("test", ("sofa",))):
        lines = ["image_id class_id super_class_id path"]
        for group, name in enumerate(groups):
            for article in range(4):
                label = 4 * group + article + (100 if part == "test" else 1)
                for number in range(4):
                    row += 1
                    path = f"{name}_final/{label}_{number}.JPG"
                    picture(root / path, label, number)
                    lines.append(f"{row} {label} {group + 1} {path}")
        (root / f"Ebay_{part}.txt").write_text("\n".join(lines) + "\n")
    return root


def write_cars(root: Path) -> Path:
    """Eight makes of the first 98 to train on and four of the others to test on, 4 photos of each."""
    rows, number = [], 0
    for label in (*range(1, 9), *range(99, 103)):
        for photo in range(4):
            number += 1
            path = f"car_ims/{number:06}.jpg"
            picture(root / path, label, photo)
            rows.append((path, label))
    kinds = [("relative_im_path", object), ("class", object)]
    names = np.array([f"Make {label}" for label in range(1, 197)], dtype=object)
    savemat(root / "cars_annos.mat", {"annotations": np.array(rows, dtype=kinds), "class_names": names})
    return root


def write_vehicle_id(root: Path) -> Path:
    """Eight vehicles to train on, and three lists of three to test on."""
    lists = root / "train_test_split"
    lists.mkdir(parents=True)
    image = 0
    for name, vehicles in (
        ("train_list", range(8)),
        ("test_list_800", range(20, 23)),
        ("test_list_1600", range(30, 33)),
        ("test_list_2400", range(40, 43)),
    ):
        lines = []
        for vehicle in vehicles:
            for number in range(4):
                image += 1
                picture(root / f"image/{image:07d}.jpg", vehicle, number)
                lines.append(f"{image:07d} {vehicle}")
        (lists / f"{name}.txt").write_text("\n".join(lines) + "\n")
    return root


def write_inaturalist(root: Path) -> Path:
    """Eight species to train on and three to test on, by the published split files."""
    for part, species in (("train", range(8)), ("test", range(20, 23))):
        paths = [f"train_val2018/Aves/{name}/{name}{number}.jpg" for name in species for number in range(4)]
        for path in paths:
            picture(root / path, int(path.split("/")[2]), int(path[-5]))
        (root / f"Inaturalist_{part}_set1.txt").write_text("\n".join(paths) + "\n")
    return root


def write_vggface2(root: Path, people: int = 6) -> Path:
    """People to train on and two to test on, 4 photos of each, with boxes and landmarks."""
    tables = root / "bb_landmark"
    tables.mkdir(parents=True)
    points = ",".join(f"P{point}{axis}" for point in range(1, 6) for axis in "XY")
    for part, numbers in (("train", range(people)), ("test", range(900, 902))):
        stems = [f"n{person:06d}/{number:04d}_01" for person in numbers for number in range(4)]
        for stem in stems:
            picture(root / part / f"{stem}.jpg", int(stem[1:7]), int(stem[8:12]))
        (root / f"{part}_list.txt").write_text("".join(f"{stem}.jpg\n" for stem in stems))
        boxes, marks = ("".join(f'"{stem}",{row}\n' for stem in stems) for row in ("8,8,24,24", _MARKS))
        (tables / f"loose_bb_{part}.csv").write_text("NAME_ID,X,Y,W,H\n" + boxes)
        (tables / f"loose_landmark_{part}.csv").write_text(f"NAME_ID,{points}\n{marks}")
    return root


def write_ijbc(root: Path) -> Path:
    """Two subjects, each with four photos and a video of two frames, as NIST gives them."""
    rows = ["SUBJECT_ID,FILENAME,SIGHTING_ID,FACE_X,FACE_Y,FACE_WIDTH,FACE_HEIGHT"]
    for subject in (1, 2):
        names = [f"img/{subject}{number}.jpg" for number in range(4)]
        names += [f"frames/{subject}9_{frame}.jpg" for frame in range(2)]
        for number, name in enumerate(names):
            picture(root / "images" / name, subject, number)
            rows.append(f"{subject},{name},{name.split('/')[1][:2]},8,8,24,24")
    (root / "protocols").mkdir()
    (root / "protocols" / "ijbc_metadata.csv").write_text("\n".join(rows) + "\n")
    return root


def write_ijbc_aligned(root: Path) -> Path:
    """Two subjects of five photos each, as InsightFace gives them, one template a subject."""
    meta = root / "meta"
    meta.mkdir(parents=True)
    faces = [(2 * number + subject, subject) for number in range(5) for subject in (1, 2)]
    for face, subject in faces:
        picture(root / f"loose_crop/{face}.jpg", subject, face)
    (meta / "ijbc_face_tid_mid.txt").write_text("".join(f"{face}.jpg {subject} {face}\n" for face, subject in faces))
    marks = _MARKS.replace(",", " ")
    (meta / "ijbc_name_5pts_score.txt").write_text("".join(f"{face}.jpg {marks} 0.99\n" for face, _ in faces))
    header = "TEMPLATE_ID,SUBJECT_ID,FILENAME,SIGHTING_ID\n"
    for name, row in (("gallery_G1", "1,1,img/1.jpg,1"), ("gallery_G2", "2,2,img/2.jpg,2"), ("probe_mixed", "")):
        (meta / f"ijbc_1N_{name}.csv").write_text(header + (row or "1,1,img/1.jpg,1") + "\n")
    return root
