"""A process that changes an album over and over and is killed at random moments; run by test_album_kills.py.

    python album_victim.py FOLDER KILLS SEED

The library is loaded once; each victim is a fork that works until it is killed. After each kill the album is opened and
checked. One line of JSON says what was seen.
"""

import json
import os
import random
import signal
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import torch
from drawn_people import drawn_finder
from photo_makers import photo_bytes, photo_folder, tiny_model

from smoothap.album import Album, Learnt, Projection, prepare, update
from smoothap.models import Embedder
from smoothap.models.faces.people import PeopleFinder


def work(folder: Path, model: Embedder, seed: int, ready: int) -> None:
    """Bring the album up to date while the photos change, add some, remove some, without end."""
    choose = random.Random(seed)
    album = Album.open(folder / "album", model=model)
    os.write(ready, b"!")
    while True:
        for _ in range(3):
            photo = folder / "photos" / f"new{choose.randrange(30)}.png"
            photo.with_suffix(".tmp").write_bytes(photo_bytes(choose.randrange(10_000)))
            photo.with_suffix(".tmp").replace(
                photo
            )  # not torn: a torn photo is unreadable, and the album keeps the last
        if choose.random() < 0.5:
            victims = sorted((folder / "photos").glob("new*.png"))
            choose.choice(victims).unlink()
        album.update(labels=update.labels_by_folder, progress=False)
        album.describe_regions(size=64, progress=False)
        ids = [photo.id for photo in album.photos]
        album.remove(choose.sample(ids, min(2, len(ids))))
        album.add(sorted((folder / "photos").rglob("*.png"))[:6], progress=False)
        if album.learnt is None:
            weight = np.random.default_rng(choose.randrange(1000)).normal(size=(5, 8)).astype(np.float32)
            album.learn(Projection(weight, np.zeros(5, np.float32)), Learnt(5, 5, 20, (0.2, 0.1, 0.3)), None)
        else:
            album.unlearn()
        album.collections.add("dog", album.photos.ids[:2].tolist())
        album.collections.undo()


def was_interrupted(folder: Path) -> bool:
    """Whether a kill left a journal, files that do not count, or bytes behind those that do."""
    album = folder / "album"
    if list(album.rglob("*-journal")) or list(album.rglob(".*.partial")):
        return True
    with closing(sqlite3.connect(album / "album.db")) as connection:
        counted = dict(connection.execute("SELECT file, sum(length) FROM block GROUP BY file"))
    there = {file.name: file.stat().st_size for file in album.glob("*-*")}
    return any(size != counted.get(name) for name, size in there.items())


def check(folder: Path, owners: dict[int, str]) -> int:
    """Open the album and look at every byte; ids never change their photo. Returns how many photos it holds."""
    album = Album.open(folder / "album")
    album.verify()
    for photo in album.photos:
        owner = owners.setdefault(photo.id, photo.path)
        assert owner == photo.path, f"id {photo.id} was {owner} and is {photo.path}"
        assert album.thumbnail(photo.id)
    assert np.array_equal(album.vectors, album.projected(album.model_vectors()[1]))
    assert len(album) == 0 or abs((album.vectors[:].astype(float) ** 2).sum(axis=1) - 1).max() < 1e-4
    assert set(album.collections.all()) <= {"dog"}
    assert len(set(album.photos.paths())) == len(album)
    check_people(folder / "album")
    return len(album)


def check_people(album: Path) -> None:
    """No face is left of a photo that is gone, or of what a photo was before it changed."""
    with closing(sqlite3.connect(album / "album.db")) as connection:
        contents = dict(connection.execute("SELECT id, sha256 FROM photo WHERE removed IS NULL"))
    with closing(sqlite3.connect(album / "people" / "people.db")) as connection:
        seen = dict(connection.execute("SELECT photo, sha256 FROM seen"))
        owners = {photo for (photo,) in connection.execute("SELECT DISTINCT photo FROM face")}
    assert owners <= set(seen)
    assert all(contents.get(photo) == content for photo, content in seen.items())


def main() -> None:
    folder, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    prepare.BATCH, update.COMMIT_ROWS = 2, 2  # many small commits, so that kills meet them
    model = tiny_model(folder / "model")
    embedder = Embedder.load(model)
    photo_folder(folder / "photos", 12)
    PeopleFinder.open = staticmethod(drawn_finder)
    Album.create(folder / "album", model, folder / "photos").look_for_people()
    choose, owners = random.Random(seed), {}
    interrupted = 0  # kills in the middle of a change
    for kill in range(20 * kills):
        if kill >= kills and interrupted:  # on a fast machine the first few may all meet an album at rest
            break
        waiting, ready = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                work(folder, embedder, seed * 1000 + kill, ready)
            finally:
                os._exit(1)  # only reached when the work fails
        os.read(waiting, 1)
        time.sleep(choose.uniform(0, 0.7))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        os.close(waiting)
        os.close(ready)
        assert os.WIFSIGNALED(status), "the work failed before it was killed"
        interrupted += was_interrupted(folder)
        check(folder, owners)
    album = Album.open(folder / "album")
    if album.learnt is not None:
        album.unlearn()
    album.update(labels=update.labels_by_folder, progress=False)
    album.describe_regions(size=64, progress=False)
    assert album.region_space().regions(album).missing == 0
    check(folder, owners)
    fresh = Album.create(folder / "fresh", model, folder / "photos")
    fresh.update(labels=update.labels_by_folder, progress=False)
    vectors = {photo.path: vector for photo, vector in zip(fresh.photos, fresh.vectors, strict=True)}
    assert set(album.photos.paths()) == set(vectors)
    worst = max(
        abs(vector - vectors[photo.path]).max() for photo, vector in zip(album.photos, album.vectors, strict=True)
    )
    leftover = [file.name for pattern in (".*.partial", "*-journal") for file in (folder / "album").rglob(pattern)]
    print(json.dumps({"photos": len(album), "worst": float(worst), "interrupted": interrupted, "leftover": leftover}))


main()
