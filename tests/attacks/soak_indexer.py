"""A process that changes a served album without end, as its owner might; run by test_soak.py.

    python soak_indexer.py FOLDER SEED

FOLDER holds two models, `model` and `another`. Photos come, change and go; the model's folder is replaced and put
back; the disk is full and is not. Every version of the album that ever was is kept in `versions`, for whoever wants to
know what an answer should have been. It ends when FOLDER/stop is there, with an album that is up to date.
"""

import errno
import os
import random
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from photo_makers import photo_bytes, photo_folder

from smoothap.album import Album, prepare, update
from smoothap.album.store import Store

FOLDER = Path(sys.argv[1])
COMMITTING = Store._committing


@contextmanager
def committing_and_keeping(store):
    """Commit a change, and keep what the album is from now on."""
    with COMMITTING(store) as change:
        yield change
    if store.folder == FOLDER / "album":
        keep_version()


def keep_version():
    album = Album.open(FOLDER / "album")
    target = FOLDER / "versions" / f"{album.version}.npz"
    if not target.exists():
        temporary = target.with_suffix(".partial")
        with temporary.open("wb") as stream:
            np.savez(stream, ids=album.photos.ids, names=np.array(album.photos.paths(), str), vectors=album.vectors)
        temporary.rename(target)


def bring_up_to_date():
    Album.open(FOLDER / "album").update(labels=update.labels_by_folder, remove_missing=True, progress=False)


def photos_come_and_go(choose):
    extra = FOLDER / "photos" / "extra"
    extra.mkdir(exist_ok=True)
    for _ in range(choose.randrange(4)):
        (extra / f"{choose.randrange(40)}.png").write_bytes(photo_bytes(choose.randrange(100_000)))
    there = sorted(extra.iterdir())
    for photo in choose.sample(there, min(len(there), choose.randrange(4))):
        photo.unlink()
    bring_up_to_date()


def photos_are_taken_out(choose):
    album = Album.open(FOLDER / "album")
    ids = album.photos.ids.tolist()
    album.remove(choose.sample(ids, min(2, len(ids))))


def the_model_is_replaced(choose):
    """As by a training that writes to the same place: the album must not take in vectors of that model."""
    (FOLDER / "model").rename(FOLDER / "aside")
    (FOLDER / "another").rename(FOLDER / "model")
    try:
        photos_come_and_go(choose)  # which only works where nothing has to be embedded
    except ValueError as error:
        if "model" not in str(error):
            raise
    finally:
        (FOLDER / "model").rename(FOLDER / "another")
        (FOLDER / "aside").rename(FOLDER / "model")


def the_disk_is_full(choose):
    fsync, left = os.fsync, [choose.randrange(6)]

    def full(descriptor):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    os.fsync = full
    try:
        photos_come_and_go(choose)
    except (OSError, ValueError):
        pass
    finally:
        os.fsync = fsync


def main():
    torch.set_num_threads(1)
    prepare.BATCH, update.COMMIT_ROWS = 2, 3  # many small commits, each of which is a version
    Store._committing = committing_and_keeping
    (FOLDER / "versions").mkdir()
    Album.create(FOLDER / "album", FOLDER / "model", photo_folder(FOLDER / "photos", 16))
    bring_up_to_date()
    print("ready", flush=True)
    choose, done = random.Random(int(sys.argv[2])), Counter()
    changes = [photos_come_and_go] * 4 + [photos_are_taken_out, the_model_is_replaced, the_disk_is_full]
    while not (FOLDER / "stop").exists():
        change = choose.choice(changes)
        change(choose)
        done[change.__name__] += 1
    bring_up_to_date()
    print(", ".join(f"{name.replace('_', ' ')} {count:,} x" for name, count in done.items()), flush=True)


main()
