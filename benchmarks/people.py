"""How well people are found: a folder for each person, any set of photos.

    python benchmarks/people.py FOLDER [--model FILE] [--weights FOLDER] [--most 1000] [--quick]

Each photo is a query for all others of its person, by its largest face. Then the faces are grouped; a user who knows
everybody names, merges and splits until all are right, a click for each. The same with faces of 48 to 24 pixels, with
photos that are turned, and with two to six people pasted into one photo. At last, photos a second with people and
without, by the seconds of all cores. The last line has the mAP by face.
"""

import argparse
import os
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the smoothap command has it: waiting costs no processor time

import numpy as np
from PIL import Image

from smoothap.album import Album
from smoothap.album.faces import FaceRecord, FaceStore
from smoothap.album.ingest import index_photos
from smoothap.album.learning import learn
from smoothap.album.people import People
from smoothap.data.reading import read_image
from smoothap.metrics import evaluate
from smoothap.models.faces.detection import Face
from smoothap.models.faces.people import Box, PeopleFinder

SIZES = (48, 32, 24)  # pixels across a face
TURNS = (10, 20, 30, 45, 90)  # degrees
CANVAS = (960, 720)
LOOKED_FOR = 0.95  # share of a person's photos


class Portrait(NamedTuple):
    """A photo with the face that it is about, and whose it is."""

    picture: Image.Image
    face: Face
    person: int
    name: str


class Seen(NamedTuple):
    """What was found in photos: whose face was looked for in each, its vector (zeros: not found), all boxes."""

    people: np.ndarray
    vectors: np.ndarray

    @property
    def found(self) -> np.ndarray:
        return np.asarray(self.vectors.any(axis=1))


def scores(seen: Seen) -> tuple[float, float, float]:
    """mAP of the faces that were found, mAP if those that were not count as lost, and how many photos to look at."""
    here = seen.vectors[seen.found]
    report = evaluate(here, seen.people[seen.found], progress=False)
    products = seen.vectors @ seen.vectors.T  # 0 for what was not found: behind all that are alike
    precisions, looks = [], []
    for row in np.flatnonzero(seen.found):
        order = np.argsort(-np.where(np.arange(len(products)) == row, -np.inf, products[row]), kind="stable")[:-1]
        right = np.flatnonzero(seen.people[order] == seen.people[row]) + 1
        if len(right):
            precisions.append(np.mean(np.arange(1, len(right) + 1) / right))
            looks.append(right[int(np.ceil(LOOKED_FOR * len(right))) - 1] / len(right))
    lost = 1 - seen.found.mean()
    return 100 * report.mean_average_precision, 100 * float(np.mean(precisions)) * (1 - lost), float(np.median(looks))


def see(finder: PeopleFinder, pictures: list[Image.Image], places: list[Box], people: list[int]) -> Seen:
    """Look for faces in pictures: the one that counts has its middle in the place where the face is."""
    vectors = np.zeros((len(pictures), finder.dimension), np.float32)
    for start in range(0, len(pictures), 32):
        found = [finder.find(picture) for picture in pictures[start : start + 32]]
        for row, (one, these) in enumerate(zip(found, finder.vectors(found), strict=True), start=start):
            x, y, width, height = places[row]
            for (left, top, across, down), vector in zip(one.boxes, these, strict=True):
                aside, apart = left + across / 2 - x - width / 2, top + down / 2 - y - height / 2
                if abs(aside) < width / 2 and abs(apart) < height / 2:
                    vectors[row] = vector
                    break
    return Seen(np.array(people), vectors)


def pasted(random: np.random.Generator, portraits: list[Portrait], side: int) -> tuple[Image.Image, list[Box]]:
    """A photo of soft colours with people pasted into it side by side, and where their faces are."""
    patches = Image.fromarray(random.integers(60, 200, (9, 12, 3), dtype=np.uint8))
    canvas, boxes = patches.resize(CANVAS, Image.Resampling.BICUBIC), []
    column = CANVAS[0] // len(portraits)
    for place, (picture, face, _, _) in enumerate(portraits):
        x, y, width, height = face.box
        scale = side / width
        start = max(0, int(x - width * 0.6)), max(0, int(y - height * 0.6))
        end = min(picture.width, int(x + width * 1.6)), min(picture.height, int(y + height * 1.6))
        part = picture.crop((*start, *end))
        size = (max(1, round(part.width * scale)), max(1, round(part.height * scale)))
        part = part.resize(size, Image.Resampling.LANCZOS, reducing_gap=2)
        left = place * column + int(random.integers(0, max(1, column - part.width)))
        top = int(random.integers(0, CANVAS[1] - part.height))
        canvas.paste(part, (left, top))
        boxes.append((left + (x - start[0]) * scale, top + (y - start[1]) * scale, side, height * scale))
    return canvas, boxes


def bcubed(groups: list[set[int]], people: dict[int, int]) -> tuple[float, float]:
    """Precision and recall of groups of faces, each face counted once: of its group, and of its person."""
    sizes = Counter(people.values())
    precision = recall = 0.0
    for group in groups:
        known = [people[face] for face in group if face in people]
        for person, number in Counter(known).items():
            precision += number * number / len(known)
            recall += number * number / sizes[person]
    return precision / len(people), recall / len(people)


def clicks(groups: list[set[int]], people: dict[int, int]) -> int:
    """What a user does who knows everybody: takes wrong faces out, one click each, and says whose each group is."""
    wrong: list[int] = []
    named = 0
    for group in groups:
        known = Counter(people[face] for face in group if face in people)
        if known:
            (owner, _), named = known.most_common(1)[0], named + 1
            wrong += [face for face in group if face in people and people[face] != owner]
    return named + 2 * len(wrong)  # a click to take it out, and one to say whose it is


def grouped(seen: Seen, photos: np.ndarray) -> tuple[float, float, int, int]:
    """BCubed precision and recall, how many groups there are, and the clicks until all are named right."""
    rows = np.flatnonzero(seen.found)
    with tempfile.TemporaryDirectory() as folder:
        paths = [{"path": str(photo)} for photo in range(int(photos.max()) + 1)]
        album = Album.from_arrays(np.eye(len(paths), 2) + 1, paths, Path(folder) / "album")
        store = FaceStore(Path(folder) / "album", create=True)
        dimension = seen.vectors.shape[1]
        network = {"detector": "", "recogniser": "", "name": "", "dimension": dimension}
        store.use(album.store.settings().uid, network, {"model": None, "weights": None})
        of_photo: dict[int, list[FaceRecord]] = defaultdict(list)
        order: list[int] = []
        for photo in sorted(set(photos.tolist())):
            for row in rows[photos[rows] == photo].tolist():
                of_photo[photo].append(FaceRecord((10.0 * row, 0.0, 9.0, 9.0), 1.0, seen.vectors[row]))
                order.append(row)
        store.put({photo: (b"", faces) for photo, faces in of_photo.items()})
        groups = [set(group.faces) for group in People(album).groups()]
    people = {face: int(seen.people[row]) for face, row in enumerate(order)}
    return *bcubed(groups, people), len(groups), clicks(groups, people)


def show(title: str, seen: Seen, photos: np.ndarray | None = None) -> float:
    """Print a line, and give the mAP."""
    mean, whole, looks = scores(seen)
    precision, recall, groups, clicked = grouped(seen, np.arange(len(seen.people)) if photos is None else photos)
    f1 = 2 * precision * recall / (precision + recall)
    print(
        f"{title:<26} found {100 * seen.found.mean():6.2f} %  mAP {mean:6.2f}  with those not found {whole:6.2f}  "
        f"looks {looks:5.2f}  BCubed {precision:.4f} {recall:.4f} F1 {f1:.4f}  "
        f"{groups} groups of {len(set(seen.people.tolist()))}, {clicked} clicks",
        flush=True,
    )
    return mean


def speed(folder: Path, model: Path | None, weights: Path | None) -> None:
    """What indexing takes with people and without, on 0.3 and 12 megapixels; not counted is what one photo takes.

    That is to load the networks, once for all photos. The large ones are noisy, as a camera's are: their files have
    about 4 MB, where the same photos without noise would have less than 1 and take a third of the time to decode.
    """
    photos = sorted(file for file in folder.rglob("*") if file.suffix.lower() in (".jpg", ".jpeg", ".png"))
    for megapixels, most in ((None, 256), (12, 48)):
        with tempfile.TemporaryDirectory() as place:
            chosen = photos[:: max(1, len(photos) // most)][:most]
            for number, photo in enumerate(chosen):
                picture = read_image(photo)
                if megapixels is not None:
                    scale = (megapixels * 1e6 / (picture.width * picture.height)) ** 0.5
                    picture = picture.resize((round(picture.width * scale), round(picture.height * scale)))
                    noise = 8 * np.random.default_rng(number).standard_normal((picture.height, picture.width, 1))
                    picture = Image.fromarray((np.asarray(picture) + noise).clip(0, 255).astype(np.uint8))
                for name in ("photos", "one")[: 2 if number == 0 else 1]:
                    (Path(place) / name).mkdir(exist_ok=True)
                    picture.save(Path(place) / name / f"{number}.jpg", quality=90)
            taken = {(people, name): list[float]() for people in (True, False) for name in ("photos", "one")}
            for turn in range(12):
                people, name, start = bool(turn % 2), ("photos", "one")[turn // 2 % 2], time.process_time()
                index_photos(
                    Path(place) / name, Path(place) / f"album{turn}", people=people,
                    face_model=model if people else None, face_weights=weights if people else None, progress=False,
                )  # fmt: skip
                taken[people, name].append(time.process_time() - start)
        without, with_people = (min(taken[people, "photos"]) - min(taken[people, "one"]) for people in (False, True))
        size = "as they are" if megapixels is None else f"at {megapixels} megapixels"
        print(
            f"Indexing {len(chosen)} photos {size}: {1e3 * without / (len(chosen) - 1):.1f} ms of a core each "
            f"without people, {1e3 * with_people / (len(chosen) - 1):.1f} with: "
            f"{without / with_people:.2f} of the speed",
            flush=True,
        )


def main() -> None:
    """Measure, and print."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--model", type=Path)
    arguments.add_argument("--weights", type=Path)
    arguments.add_argument("--most", type=int, default=1000, help="photos for the harder versions")
    arguments.add_argument("--quick", action="store_true", help="the plain photos alone")
    arguments.add_argument("--speed", action="store_true", help="the speed of indexing alone")
    arguments.add_argument("--no-speed", action="store_true", help="all but that")
    options = arguments.parse_args()
    if options.speed:
        speed(options.folder, options.model, options.weights)
        return
    finder, random = PeopleFinder.open(options.model, options.weights), np.random.default_rng(0)
    folders = sorted(folder for folder in options.folder.iterdir() if folder.is_dir())
    files = [
        (person, file) for person, folder in enumerate(folders) for file in sorted(folder.iterdir()) if file.is_file()
    ]
    pictures, portraits, vectors = [], [], np.zeros((len(files), finder.dimension), np.float32)
    for row, (person, file) in enumerate(files):
        picture = read_image(file)
        found = finder.find(picture)
        if found.faces:
            largest = max(range(len(found.faces)), key=lambda place: found.faces[place].area)
            vectors[row] = finder.vectors([found])[0][largest]
            if len(pictures) < options.most:
                pictures.append(picture)
                portraits.append(Portrait(picture, found.faces[largest], person, file.name))
    everyone = Seen(np.array([person for person, _ in files]), vectors)
    mean = show(f"{len(files)} photos", everyone)
    if not options.quick:
        harder(finder, random, portraits)
        if not options.no_speed:
            speed(options.folder, options.model, options.weights)
    print(f"mAP by face: {mean:.2f} ({int(everyone.found.sum())} of {len(files)} photos with a face)")


def taught(title: str, seen: Seen) -> None:
    """What an album of these faces would learn from the names of all of them, by its own cross-validation."""
    vectors, people = seen.vectors[seen.found], seen.people[seen.found]
    with tempfile.TemporaryDirectory() as place:
        metadata = [{"path": f"{row}.jpg", "label": None} for row in range(len(vectors))]
        album = Album.from_arrays(vectors, metadata, Path(place) / "album")
        for person in np.unique(people).tolist():
            album.collections.mark(str(person), right=np.flatnonzero(people == person).tolist())
        print(f"Learning from {title}: {learn(album, check_only=True, progress=False).reason}", flush=True)


def companies(random: np.random.Generator, people: list[int], number: int) -> list[list[int]]:
    """Portraits put together by chance, that many in each photo, nobody twice in one."""
    waiting, made = random.permutation(len(people)).tolist(), []
    while waiting:
        chosen: list[int] = []
        for row in waiting:
            if len(chosen) < number and people[row] not in {people[other] for other in chosen}:
                chosen.append(row)
        waiting = [row for row in waiting if row not in chosen]
        made.append(chosen)
    return made


def harder(finder: PeopleFinder, random: np.random.Generator, portraits: list[Portrait]) -> None:
    """Small faces, turned photos, several people in one photo."""
    people = [portrait.person for portrait in portraits]
    for side in SIZES:
        made = [pasted(random, [portrait], side) for portrait in portraits]
        seen = see(finder, [one for one, _ in made], [boxes[0] for _, boxes in made], people)
        show(f"faces of {side} pixels", seen)
        taught(f"faces of {side} pixels", seen)
    for turn in TURNS:
        turned, boxes = [], []
        for picture, face, _, _ in portraits:
            turned.append(picture.rotate(turn, Image.Resampling.BICUBIC, expand=True))
            x, y, width, height = face.box
            aside, apart = x + width / 2 - picture.width / 2, y + height / 2 - picture.height / 2
            cosine, sine = np.cos(np.deg2rad(turn)), np.sin(np.deg2rad(turn))
            across = aside * cosine + apart * sine + turned[-1].width / 2
            down = -aside * sine + apart * cosine + turned[-1].height / 2
            boxes.append((across - width / 2, down - height / 2, width, height))
        seen = see(finder, turned, boxes, people)
        show(f"turned by {turn} degrees", seen)
        taught(f"photos turned by {turn} degrees", seen)
    for number in (2, 4, 6):
        several, photos, parts = companies(random, people, number), [], []
        for photo, rows in enumerate(several):
            chosen = [portraits[row] for row in rows]
            picture, boxes = pasted(random, chosen, 70)
            parts.append(see(finder, [picture] * len(rows), list(boxes), [one.person for one in chosen]))
            photos += [photo] * len(rows)
        whole = Seen(np.concatenate([one.people for one in parts]), np.concatenate([one.vectors for one in parts]))
        show(f"{number} people in a photo", whole, np.array(photos))


if __name__ == "__main__":
    main()
