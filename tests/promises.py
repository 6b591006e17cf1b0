"""The promises of docs/promises.md: which tests show each, in a short form and, under `make torture`, in a long one.

A test says `@pytest.mark.promise(9)`, takes its counts from `short_or_long(4, 50)` and may say what it measured:
`measured("50 of 50 kills")`. `conftest.py` collects that; `tools/torture.py` prints the table and writes the page.
"""

import os
from typing import NamedTuple

TORTURE = bool(os.environ.get("SMOOTHAP_TORTURE"))


class Promise(NamedTuple):
    promise: str
    proof: str
    aim: str


PROMISES = {
    1: Promise("gradients are right", "gradcheck in float64 for every loss and call form, tau 0.1 and 0.01", "all"),
    2: Promise(
        "the loss is right",
        "hypothesis against a loop written from the equations: ties, singletons, one class, all equal, shuffled",
        "1,000 cases in test, 50,000 in torture, within 1e-10",
    ),
    3: Promise(
        "metrics are exact",
        "scikit-learn and brute force: negative scores, ties, any block size, any thread count",
        "10,000 cases within 1e-12",
    ),
    4: Promise(
        "low precision is safe",
        "float16 and bfloat16 against the float64 gradient",
        "cosine at least 0.999, always finite",
    ),
    5: Promise("bad numbers are never silent", "NaN, Inf and zero rows at each entry", "an error that names the row"),
    6: Promise("tests bite", "hand-made faults in loss, metrics, sampler, loop and search", "40 of 40 caught"),
    7: Promise(
        "several processes equal one",
        "2, 3 and 4 gloo processes, uneven classes",
        "loss and gradient within 1e-10",
    ),
    8: Promise(
        "the same seed gives the same weights, on one machine with one number of threads",
        "twice, with 0 and with 2 workers",
        "bit-equal over 200 steps",
    ),
    9: Promise(
        "resume is exact, on one machine",
        "kill -9 at random steps, resumed with other threads set; other images and a second process are refused",
        "50 kills, bit-equal at the end",
    ),
    10: Promise(
        "a save is old or new, never broken",
        "a file layer that tears unsynced writes; full disk; read-only folder",
        "200 runs",
    ),
    11: Promise(
        "an album survives",
        "kill -9 during index, add, remove, learn and undo",
        "50 kills: opens, hashes match, finishes",
    ),
    12: Promise(
        "corruption is found",
        "flip a byte in weights, checkpoint, vectors, manifest",
        "1,000 of 1,000 refused with a sentence",
    ),
    13: Promise(
        "no image is lost in silence",
        "10,000 files, 500 of them bad in 15 ways",
        "indexed + reported = 10,000, memory bounded",
    ),
    14: Promise(
        "data never runs code",
        "pickle payloads as weights, checkpoint, album and set; a foreign .pth only with weights_only on torch >= 2.10",
        "0 run",
    ),
    15: Promise(
        "uploads are bounded",
        "chunked 1 GB, false length, slow sender, 1,000 at once",
        "413 / 408 / 503, nothing left on disk",
    ),
    16: Promise(
        "bombs and hostile files are refused",
        "50 hostile images, decoded under a time and memory limit",
        "4xx, memory + at most 200 MB",
    ),
    17: Promise(
        "no way out of the album",
        "200 traversal payloads, hostile file names, foreign hosts, cross-site posts",
        "0 escapes",
    ),
    18: Promise("load is survived", "50 clients for 10 minutes, mixed", "no 5xx but 503, memory growth below 5%"),
    19: Promise(
        "private by default",
        "loopback only, EXIF and location stripped, uploads not kept, no request to another host",
        "0 bytes",
    ),
    20: Promise("dependencies are known", "pip-audit on the pinned set, licences listed", "no known high"),
    21: Promise(
        "the same numbers on every processor",
        "one constant for the world; ranks against the definition of a score in plain Python; the tests of exactness, "
        "loss and resume with the instruction sets of older processors and other libraries' code paths",
        "every setting, bit for bit",
    ),
    22: Promise(
        "a served album may change",
        "serve under mixed and hanging clients while index adds and removes photos, the model's folder is replaced and "
        "the disk fills and empties",
        "one hour: every answer is of one version, nothing leaks, the album equals one made from nothing",
    ),
    23: Promise(
        "a training survives what happens in an hour",
        "SIGTERM, SIGKILL, a full disk, killed data workers and a second process in the same folder, at random moments",
        "one hour; weights, checkpoint, metrics and reports equal to the undisturbed run, nothing left behind",
    ),
}


def short_or_long(short: int, long: int) -> int:
    """How often a test does its thing: the first under `make test`, the second under `make torture`."""
    return long if TORTURE else short
