"""Albums for the tests of the page: letters drawn in several faces and colours, seen by a model that sees pixels."""

import importlib.util
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

from smoothap.album import Album
from smoothap.album.identity import ModelIdentity
from smoothap.data.transforms import Transform

LETTERS = "ARGKQ&@8SEMZ"
FACES = ["DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSansMono", "DejaVuSerif", "DejaVuSerif-Bold"]
FACES += ["STIXGeneral", "STIXGeneralBol"]
COLOURS = ["#14324f", "#7a2048", "#1f5c3a", "#8a4b08"]
SIDE = 8


class Pixels:
    """A model without weights: a small grey picture as a vector."""

    transform, device = Transform("whole", 120), torch.device("cpu")

    def for_queries(self):
        return self

    def embed(self, images, *, progress=True):
        batch = torch.stack([self.transform.test(each) for each in images])
        return torch.from_numpy(next(iter(self.embed_batches([(batch, None)])))[0])

    def embed_batches(self, batches):
        for images, tag in batches:
            yield self.vectors_of(images), tag

    def vectors_of(self, images):
        pictures = [Image.fromarray(image.permute(1, 2, 0).numpy()) for image in images]
        small = [
            np.asarray(each.convert("L").resize((SIDE, SIDE), Image.Resampling.BOX), np.float32) for each in pictures
        ]
        vectors = np.stack(small).reshape(len(small), -1)
        vectors = vectors - vectors.mean(1, keepdims=True) + 1e-3
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


class PixelAlbum(Album):
    """An album whose model is `Pixels`."""

    def embedder(self):
        return Pixels()


MODEL = ModelIdentity("0" * 64, "pixels", SIDE * SIDE, {})


def letter(character, face, colour="#14324f", size=120):
    """A letter in the middle of a light square."""
    fonts = Path(importlib.util.find_spec("matplotlib").origin).parent / "mpl-data" / "fonts" / "ttf"
    image = Image.new("RGB", (size, size), "#fbf7ef")
    font = ImageFont.truetype(fonts / f"{face}.ttf", size * 0.72)
    ImageDraw.Draw(image).text((size / 2, size / 2), character, colour, font, anchor="mm")
    return image


def write_letters(folder, letters=LETTERS, faces=FACES):
    """One JPEG for each letter and face; their metadata."""
    folder.mkdir(parents=True, exist_ok=True)
    metadata = []
    for character in letters:
        for place, face in enumerate(faces):
            name = f"{ord(character):04x}-{face}.jpg"
            image = letter(character, face, COLOURS[place % len(COLOURS)])
            image.save(folder / name, quality=92)
            metadata.append({"path": name, "label": character, "width": image.width, "height": image.height})
    return metadata


def pixel_album(folder, letters=LETTERS, faces=FACES, labelled=True, path=None):
    """Letters in a folder as an album that takes photos: in memory, or in a folder at `path`."""
    metadata = write_letters(folder, letters, faces)
    if not labelled:
        metadata = [{**each, "label": None} for each in metadata]
    vectors = Pixels().embed([Image.open(folder / each["path"]) for each in metadata]).numpy()
    return PixelAlbum.from_arrays(vectors, metadata, path, root=folder, model=MODEL)


def before_and_after(folder, noise=(1.6, 0.5)):
    """Two albums of the same letters, made elsewhere: vectors of the classes with much noise and with little."""
    metadata = write_letters(folder)
    labels = np.unique([each["label"] for each in metadata], return_inverse=True)[1]
    draw = np.random.default_rng(0)
    centres, grain = draw.normal(size=(labels.max() + 1, 24)), draw.normal(size=(len(labels), 24))
    vectors = [centres[labels] + amount * 1.2 * grain for amount in noise]
    return {
        name: Album.from_arrays(each, metadata, root=folder)
        for name, each in zip(("before", "after"), vectors, strict=True)
    }


def empty_album():
    """An album without a photo."""
    return Album.from_arrays(np.zeros((0, 4), np.float32), [])
