"""People that tests can draw: a person is a colour, a face a square of it, and the networks see nothing else."""

import itertools

import numpy as np
from PIL import Image

from smoothap.models.faces.detection import Face
from smoothap.models.faces.people import PeopleFinder

CELL, SIDE = 40, 24  # pixels from one place for a face to the next, and of a face
NAMES = ("Anna", "Bob", "Chris", "Dana", "Emil", "Fay", "Gus")
COLOURS = dict(
    zip(NAMES, [colour for colour in itertools.product((50, 200), repeat=3) if max(colour) > 50], strict=True)
)


def draw(path, *people, seed=0, size=(200, 120), noise=14):
    """A photo of people, from left to right; a name with a * is of a smaller face."""
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 8, (size[1], size[0], 3)).astype(np.uint8)
    for place, name in enumerate(people):
        side = SIDE // 2 if name.endswith("*") else SIDE
        colour = np.array(COLOURS[name.strip("*")]) + random.integers(-noise, noise + 1, 3)
        pixels[8 : 8 + side, place * CELL + 8 : place * CELL + 8 + side] = colour
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return path


class Squares:
    """A detector that finds the squares of a drawn photo."""

    sha256 = "squares"

    def find(self, picture):
        grey = np.asarray(picture.convert("L"))
        faces = []
        for x in range(0, picture.width - 8, CELL):
            for y in range(0, picture.height - 8, CELL):
                cell = grey[y : y + CELL, x : x + CELL] > 25
                rows, columns = np.flatnonzero(cell.any(axis=1)), np.flatnonzero(cell.any(axis=0))
                if len(rows):
                    box = (x + columns[0], y + rows[0], np.ptp(columns) + 1, np.ptp(rows) + 1)
                    box = tuple(float(value) for value in box)
                    faces.append(Face(box, np.tile(box[:2], (5, 1)), 0.9))
        return faces


class Colours:
    """A recogniser to which a face is its colour."""

    name, dimension = "colours", 4

    def __init__(self, sha256="colours"):
        self.sha256 = sha256

    def crop(self, picture, face):
        x, y, width, height = face.box
        return picture.crop((int(x), int(y), int(x + width), int(y + height)))

    def vectors(self, crops):
        means = [np.asarray(crop, np.float32).mean((0, 1)) - 125 for crop in crops]
        return np.array([[*mean, 7.0] for mean in means], np.float32).reshape(-1, 4)


def drawn_finder(model=None, weights=None):
    """Instead of `PeopleFinder.open`."""
    return PeopleFinder(Squares(), Colours("colours" if model is None else str(model)))


PARTY = [("Anna",), ("Anna",), ("Anna", "Bob*"), ("Bob", "Anna*"), ("Bob",), ("Bob", "Chris*"), ("Anna",), (),
         ("Chris", "Dana*"), ("Anna", "Dana*")]  # fmt: skip


def party_album(folder):
    """An album for the page: Anna in six photos, Bob in four, Chris and Dana in two; photo 7 is of nobody."""
    from page_albums import MODEL, PixelAlbum, Pixels

    paths = [draw(folder / "photos" / f"{number}.png", *these, seed=number) for number, these in enumerate(PARTY)]
    metadata = [{"path": path.name, "label": None, "width": 200, "height": 120} for path in paths]
    vectors = Pixels().embed([Image.open(path) for path in paths]).numpy()
    PixelAlbum.from_arrays(vectors, metadata, folder / "album", root=folder / "photos", model=MODEL)
    album = PixelAlbum.open(folder / "album")
    album.update(progress=False)
    album.look_for_people()
    album.find_people(progress=False)
    return album
