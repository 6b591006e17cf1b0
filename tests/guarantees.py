"""The guarantees of docs/guarantees.md: which tests show each, in a short form, and in a long one by `make test-long`.

A test says `@pytest.mark.guarantee(9)`, takes its counts from `short_or_long(4, 50)` and may say what it measured:
`measured("50 of 50 kills")`. `conftest.py` collects that; `tools/long_tests.py` prints the table and writes the page.
"""

import os
from typing import NamedTuple

LONG = bool(os.environ.get("SMOOTHAP_LONG"))


class Guarantee(NamedTuple):
    guarantee: str
    proof: str
    aim: str
    covers: tuple[str, ...] = ()  # packages of smoothap, with what they take from _core, or files: what a result is of


_LOSS = "functional", "losses"
_TRAINING = *_LOSS, "data", "models", "training"

GUARANTEES = {
    1: Guarantee(
        "gradients are right",
        "gradcheck in float64 for every loss and call form, tau 0.1 and 0.01",
        "all",
        covers=_LOSS,
    ),
    2: Guarantee(
        "the loss is right",
        "hypothesis against a loop written from the equations: ties, singletons, one class, all equal, shuffled",
        "1,000 cases in test, 50,000 in long tests, within 1e-10",
        covers=_LOSS,
    ),
    3: Guarantee(
        "metrics are exact",
        "scikit-learn and brute force: negative scores, ties, any block size, any thread count",
        "10,000 cases within 1e-12",
        covers=("functional", "metrics"),
    ),
    4: Guarantee(
        "low precision is safe",
        "float16 and bfloat16 against the float64 gradient",
        "cosine at least 0.999, always finite",
        covers=_LOSS,
    ),
    5: Guarantee(
        "bad numbers are never silent",
        "NaN, Inf and zero rows at each entry",
        "an error that names the row",
        covers=("losses", "metrics", "training", "album"),
    ),
    6: Guarantee(
        "tests bite",
        "small faults in losses, metrics, samplers and the store, a sample of each",
        "all but equivalent ones",
        covers=(
            *_LOSS,
            "metrics",
            *(f"src/smoothap/data/{name}.py" for name in ("samplers", "_class_stream")),
            *(f"src/smoothap/album/{name}.py" for name in ("store", "settings", "growing", "database", "postings")),
        ),
    ),
    7: Guarantee(
        "several processes equal one",
        "2, 3 and 4 gloo processes, uneven classes",
        "loss and gradient within 1e-10",
        covers=(*_LOSS, "training"),
    ),
    8: Guarantee(
        "the same seed gives the same weights, on one machine with one number of threads",
        "twice, with 0 and with 2 workers",
        "bit-equal over 200 steps",
        covers=_TRAINING,
    ),
    9: Guarantee(
        "resume is exact, on one machine",
        "kill -9 at random steps, resumed with other threads set; other images and a second process are refused",
        "50 kills, bit-equal at the end",
        covers=_TRAINING,
    ),
    10: Guarantee(
        "a save is old or new, never broken",
        "a file layer that tears unsynced writes; full disk; read-only folder",
        "200 runs",
        covers=("models", "training", "album"),
    ),
    11: Guarantee(
        "an album survives",
        "kill -9 during index, add, remove, learn and undo",
        "50 kills: opens, hashes match, finishes",
        covers=("album"),
    ),
    12: Guarantee(
        "corruption is found",
        "flip a byte in weights, checkpoint and every file of an album, and compare all that can be asked",
        "every one is refused when opened, refused when what it touches is read, or changes no answer; verify finds it",
        covers=("models", "training", "album"),
    ),
    13: Guarantee(
        "no image is lost in silence",
        "10,000 files, 500 of them bad in 15 ways",
        "indexed + reported = 10,000, memory bounded",
        covers=("album", "data"),
    ),
    14: Guarantee(
        "data never runs code",
        "pickle payloads as weights, checkpoint, album and set; a foreign .pth only with weights_only on torch >= 2.10",
        "0 run",
        covers=("models", "training", "album", "data"),
    ),
    15: Guarantee(
        "uploads are bounded",
        "chunked 1 GB, false length, slow sender, 1,000 at once",
        "413 / 408 / 503, nothing left on disk",
        covers=("server",),
    ),
    16: Guarantee(
        "bombs and hostile files are refused",
        "50 hostile images, decoded under a time and memory limit",
        "4xx, memory + at most 200 MB",
        covers=("server", "data"),
    ),
    17: Guarantee(
        "no way out of the album",
        "200 traversal payloads, hostile file names, foreign hosts, cross-site posts",
        "0 escapes",
        covers=("server", "album"),
    ),
    18: Guarantee(
        "load is survived",
        "50 clients for 10 minutes, mixed",
        "no 5xx but 503, memory growth below 5%",
        covers=("server",),
    ),
    19: Guarantee(
        "private by default",
        "loopback only, EXIF stripped, originals with their place and copies into a folder only where the page was "
        "started for this computer alone, uploads not kept, no request to another host",
        "0 bytes",
        covers=("server", "album"),
    ),
    20: Guarantee(
        "dependencies are known",
        "pip-audit on the pinned set, licences listed",
        "no known high",
        covers=("constraints.txt", "pyproject.toml"),
    ),
    21: Guarantee(
        "the same numbers on every processor",
        "one constant for the world; ranks against the definition of a score in plain Python; the tests of exactness, "
        "loss and resume with the instruction sets of older processors and other libraries' code paths",
        "every setting, bit for bit",
        covers=(*_TRAINING, "metrics"),
    ),
    22: Guarantee(
        "a served album may change",
        "serve under mixed and hanging clients while index adds and removes photos, the model's folder is replaced and "
        "the disk fills and empties",
        "half an hour: every answer is of one version, nothing leaks, the album equals one made from nothing",
        covers=("server", "album", "metrics"),
    ),
    23: Guarantee(
        "a training survives what happens in half an hour",
        "SIGTERM, SIGKILL, a full disk, killed data workers and a second process in the same folder, at random moments",
        "half an hour; weights, checkpoint, metrics and reports equal to the undisturbed run, nothing left behind",
        covers=_TRAINING,
    ),
    24: Guarantee(
        "a mark is obeyed for ever",
        "names, splits, strangers and faces that are none, kept and wrong photos, at random among photos that come, "
        "change and go, undone steps, learning and albums that are opened again",
        "60 albums of 25 steps: each answer follows all that was said",
        covers=("album",),
    ),
    25: Guarantee(
        "no photo is marked that was not seen",
        "the page in Chromium, in windows of several sizes and at random places of the list",
        "60 times: what is marked at once is what is whole on the screen",
        covers=("server",),
    ),
    26: Guarantee(
        "forgotten faces leave no bytes",
        "vectors and names are searched for in all files of the album after forgetting, removing and changing photos",
        "0 bytes",
        covers=("album", "server"),
    ),
    27: Guarantee(
        "the same ranking on every processor",
        "plain rankings and those by neighbourhood, of the same vectors, with the code of three other processors, "
        "compiled and plain",
        "every score and place, bit for bit",
        covers=("album", "metrics"),
    ),
}


def short_or_long(short: int, long: int) -> int:
    """How often a test does its thing: the first under `make test`, the second under `make test-long`."""
    return long if LONG else short
