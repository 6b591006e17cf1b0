"""What users say of people and photos is obeyed for ever, whatever happens to the album in between."""

import random

import pytest
from drawn_people import NAMES, draw
from guarantees import short_or_long
from test_faces_in_albums import drawn  # noqa: F401

from smoothap.album import Album, index_photos

pytestmark = pytest.mark.guarantee(24)


class Marked:
    """An album, what was said of its faces and photos, and the things that may happen to both."""

    def __init__(self, folder, model, seed):
        self.photos, self.folder, self.model, self.choose = (
            folder / "photos",
            folder / "album",
            model,
            random.Random(seed),
        )
        self.faces = {}  # what was said last of the face in a place of a photo: ("is" or "not", name), or ("none", "")
        self.kept = {}  # whether a photo was said to belong to the collection
        self.drawn = 0
        for _ in range(6):
            self.draw_another()
        self.album = index_photos(self.photos, self.folder, model=model, people=True, progress=False).album

    def draw_another(self, name=None):
        people = self.choose.sample(NAMES[:4], self.choose.choice((1, 1, 2)))
        name = name or f"{self.drawn}.png"
        draw(self.photos / name, people[0], *(f"{other}*" for other in people[1:]), seed=1000 + self.drawn)
        self.drawn += 1
        return name

    def face_of(self, key):
        photo, place = key
        faces = self.album.face_space().faces(self.album)
        return int(faces.ids[faces.of_photo(self.album.photos.id_of(photo))[place]])

    def keys(self):
        faces = self.album.face_space().faces(self.album)
        photos = ((photo.path, len(faces.of_photo(photo.id))) for photo in self.album.photos)
        return {int(self.face_of((path, place))): (path, place) for path, number in photos for place in range(number)}

    def knows(self, name):
        try:
            return bool(self.album.people.named(name))
        except ValueError:
            return False

    def a_group(self):
        groups = self.album.people.groups()
        return self.choose.choice(groups) if groups else None

    # -- what users say

    def name(self):
        if group := self.a_group():
            name, before = self.choose.choice(("Anna", "Bob", "Zoe")), group.name
            taken, keys = self.knows(name), self.keys()
            self.album.people.name(group.number, name)
            if before is not None and not taken:  # the person has another name
                self.faces = {key: (what, name if who == before else who) for key, (what, who) in self.faces.items()}
            self.faces |= {keys[face]: ("is", name) for face in group.faces}

    def wrong(self):
        group = self.a_group()
        if group and group.name and len(group.faces) > 1:
            face, keys = self.choose.choice(group.faces), self.keys()
            self.album.people.mark(group.number, wrong=[face])
            self.faces[keys[face]] = "not", group.name

    def no_face(self):
        if group := self.a_group():
            keys = self.keys()
            self.album.people.no_face(group.faces[:1])
            self.faces[keys[group.faces[0]]] = "none", ""

    def undone(self):
        faces = dict(self.faces)
        with self.album.people.step("a name by mistake"):
            self.name()
        if self.album.people.last_step == "a name by mistake":
            self.album.people.undo()
        self.faces = faces

    def collect(self):
        photo = self.choose.choice(list(self.album.photos))
        belongs = self.choose.random() < 0.6
        marks = {"right" if belongs else "wrong": [photo.id]}
        self.album.collections.mark("Luna", **marks)
        self.kept[photo.path] = belongs

    # -- what happens to the album

    def index(self):
        self.album = index_photos(self.photos, self.folder, model=self.model, progress=False).album

    def come(self):
        self.draw_another()
        self.index()

    def go(self):
        gone = self.choose.choice(sorted(self.photos.iterdir()))
        if len(list(self.photos.iterdir())) > 3:
            gone.unlink()
            self.forget(gone.name)
            self.index()

    def change(self):
        changed = self.choose.choice(sorted(self.photos.iterdir())).name
        self.draw_another(changed)
        self.forget(changed)  # its faces are others now
        self.index()

    def forget(self, photo):
        self.faces = {key: said for key, said in self.faces.items() if key[0] != photo}
        self.kept.pop(photo, None)

    def open_again(self):
        self.album = Album.open(self.folder)

    def make_again(self):
        for file in self.folder.iterdir():
            if file.is_file():
                file.unlink()
        self.album = index_photos(self.photos, self.folder, model=self.model, people=True, progress=False).album

    def happen(self):
        ways = (self.name, self.wrong, self.no_face, self.undone, self.collect, self.come, self.go, self.change,
                self.open_again, self.make_again)  # fmt: skip
        self.choose.choice(ways)()

    def is_obeyed(self):
        people = self.album.people
        for key, (what, name) in self.faces.items():
            face = self.face_of(key)
            if what == "none":
                assert all(face not in group.faces for group in people.groups(strangers=True)), key
            else:
                theirs = people.named(name).faces if self.knows(name) else ()
                assert (face in theirs) == (what == "is"), (key, what, name)
        if self.kept:
            collection = self.album.collections["Luna"]
            for path, belongs in self.kept.items():
                assert (self.album.photos.id_of(path) in collection.right) == belongs, path
                assert (self.album.photos.id_of(path) in collection.wrong) != belongs, path


@pytest.mark.parametrize("seed", range(short_or_long(3, 60)))
def test_whatever_happens_to_an_album_what_was_said_is_obeyed(tmp_path, model, seed):
    marked = Marked(tmp_path, model, seed)
    for _ in range(short_or_long(12, 25)):
        marked.happen()
        marked.is_obeyed()
    assert marked.faces or marked.kept
