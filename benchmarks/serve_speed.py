"""Load on one server: queries by id, by vector and by photo a second, beside the plainest server one would write.

    python benchmarks/serve_speed.py [--photos 100000] [--clients 1 8 50] [--seconds 10] [--size 224]
                                     [--megapixels 0.3] [--model tf_efficientnet_lite0] [--dimension 512] [--rounds 1]

Vectors are random, the photos that are asked with are drawn, and the network has random weights: none of this changes
the time. Clients are a process of their own, and its processor time is taken off what the machine has to give. "of the
parts" is the photos a second over what decoding and the network alone would allow, with every core busy all the time.
The rival, benchmarks/plain_server.py, answers the same requests in the same run, in turns with ours.
"""

import argparse
import base64
import contextlib
import io
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the smoothap command has it: waiting costs no processor time

import numpy as np
from PIL import Image

from smoothap.data.reading import read_image
from smoothap.models import Embedder
from smoothap.search import Album
from smoothap.web._served_album import ServedAlbum
from smoothap.web._v1_answers import answer
from smoothap.web._v1_schemas import Question

HERE = Path(__file__).parent
AIM = 0.9
KINDS = ("id", "vector", "photo")


def drawn_photos(number: int, megapixels: float) -> list[bytes]:
    """JPEGs of soft shapes with some grain, all different."""
    random, photos = np.random.default_rng(0), []
    width, height = round((megapixels * 1e6 * 4 / 3) ** 0.5), round((megapixels * 1e6 * 3 / 4) ** 0.5)
    grain = random.normal(0, 6, (height, width, 1))
    for _ in range(number):
        shapes = Image.fromarray(random.integers(0, 256, (12, 16, 3), dtype=np.uint8))
        pixels = np.asarray(shapes.resize((width, height), Image.Resampling.BICUBIC)) + grain
        stream = io.BytesIO()
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(stream, "JPEG", quality=90)
        photos.append(stream.getvalue())
    return photos


def requests(kind: str, rival: bool, photos: list[bytes], vectors: np.ndarray) -> list[dict[str, str]]:
    """What clients choose from."""
    found = []
    for number in range(64):
        path, body, form = "/api/v1/albums/album/search?k=20", b"", "application/octet-stream"
        if kind == "id":
            path += f"&id={number * 97 % len(vectors)}"
        elif kind == "photo":
            body = photos[number % len(photos)]
        else:
            vector = vectors[number].tolist()
            body, form = json.dumps(vector if rival else {"vector": vector}).encode(), "application/json"
        if rival:
            path = path.replace("/api/v1/albums/album/search", f"/{kind}")
        found.append({"path": path, "body": base64.b64encode(body).decode(), "type": form})
    return found


@contextlib.contextmanager
def running(command: list[str], port: int, ready: str) -> Generator[None]:
    """A server that answers until the end of the block."""
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 300
        while True:
            with contextlib.suppress(OSError), urlopen(f"http://127.0.0.1:{port}{ready}") as answered:
                if answered.status == 200:
                    break
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{command[0]} did not start.")
            time.sleep(0.2)
        yield
    finally:
        process.terminate()
        process.wait()


def load(port: int, clients: int, seconds: float, asked: list[dict[str, str]]) -> dict[str, Any]:
    """What so many clients see of the server."""
    done = subprocess.run(
        [sys.executable, HERE / "http_clients.py", str(port), str(clients), str(seconds)],
        input="\n".join(map(json.dumps, asked)), capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def processor_seconds(work: Callable[[], object], repeats: int) -> float:
    """What some work takes of all cores together, each time."""
    work()
    begun = time.process_time()
    for _ in range(repeats):
        work()
    return (time.process_time() - begun) / repeats


def parts(model: Embedder, album: Album, photos: list[bytes]) -> dict[str, float]:
    """Processor seconds that each part of an answer takes, of one photo."""
    images = [read_image(photo, shorter_side=1024) for photo in photos[:16]]
    served = ServedAlbum(album, "album", None)  # ty: ignore[invalid-argument-type]  # which decodes nothing here
    vector = np.array(album.vectors[3])
    found = answer(served, Question(), vector)
    return {
        "decode": processor_seconds(lambda: [read_image(photo, shorter_side=1024) for photo in photos[:16]], 3) / 16,
        "network": processor_seconds(lambda: model.embed(images, progress=False), 3) / 16,
        "search": processor_seconds(lambda: album.search(vector, k=20), 10),
        "JSON": processor_seconds(lambda: found.model_dump_json(), 100),
    }


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def main() -> None:
    """Print the table and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=int, default=100_000)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 50])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--megapixels", type=float, default=0.3)
    parser.add_argument("--model", default="tf_efficientnet_lite0")
    parser.add_argument("--dimension", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    photos = drawn_photos(32, options.megapixels)
    vectors = np.random.default_rng(0).normal(size=(options.photos, options.dimension)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        model = Embedder(options.model, options.dimension, size=options.size, pretrained=False).eval()
        model.save(place / "model")
        metadata = {"path": [f"{row:06}.jpg" for row in range(len(vectors))]}
        album = Album.from_arrays(vectors, metadata, place / "album", model=place / "model")
        np.save(place / "vectors.npy", vectors)
        costs = parts(model, album, photos)
        print(" ".join(f"{name} {1000 * seconds:.2f} ms" for name, seconds in costs.items()), "of one core, each")
        ours, theirs = free_port(), free_port()
        serve = ["-m", "smoothap", "serve", str(place / "album"), "--port", str(ours), "--model", str(place / "model")]
        plain = [
            str(HERE / "plain_server.py"),
            str(place / "vectors.npy"),
            str(theirs),
            options.model,
            str(options.size),
        ]
        with running(serve, ours, "/ready"), running(plain, theirs, "/openapi.json"):
            print(f"{'':8} clients   server  a second   p50 ms   p99 ms    503  503 p99")
            for kind in KINDS:
                for clients in options.clients:
                    _measure(kind, clients, options, {"ours": ours, "plain": theirs}, photos, vectors, costs, cores)
            with urlopen(f"http://127.0.0.1:{ours}/metrics") as answered:
                batches = dict(
                    re.findall(r"^smoothap_embedded_(\w+)_total (\S+)$", answered.read().decode(), re.MULTILINE)
                )
        print(f"{float(batches['photos']) / float(batches['batches']):.1f} photos went through the network together")


def _measure(
    kind: str,
    clients: int,
    options: argparse.Namespace,
    ports: dict[str, int],
    photos: list[bytes],
    vectors: np.ndarray,
    costs: dict[str, float],
    cores: int,
) -> None:
    """Print the lines of both servers for one kind of query and so many clients, who take turns."""
    seen: dict[str, list[dict[str, Any]]] = {name: [] for name in ports}
    for _ in range(options.rounds):
        for name, port in ports.items():
            asked = requests(kind, name == "plain", photos, vectors)
            load(port, clients, 1, asked)
            seen[name].append(load(port, clients, options.seconds, asked))
    rates = {}
    for name, rounds in seen.items():
        seconds = np.concatenate([each["seconds"] for each in rounds]) if rounds else np.zeros(0)
        refused = np.concatenate([each["refused"] for each in rounds])
        rates[name] = len(seconds) / options.seconds / len(rounds)
        p50, p99 = (1000 * np.quantile(seconds, share) if len(seconds) else np.nan for share in (0.5, 0.99))
        late = f"{1000 * np.quantile(refused, 0.99):8.1f}" if len(refused) else f"{'':8}"
        wrong = sum(each["wrong"] for each in rounds)
        line = f"{kind:8} {clients:7} {name:>8} {rates[name]:9.1f} {p50:8.1f} {p99:8.1f} {len(refused):6} {late}"
        if name == "ours" and kind == "photo":
            mine = np.mean([each["processor"] for each in rounds]) / options.seconds
            share = rates[name] * (costs["decode"] + costs["network"]) / (cores - mine)
            line += f"  {share:.0%} of the parts (aim: {AIM:.0%} at saturation)"
        print(line + (f"  {wrong} WRONG" if wrong else ""), flush=True)
    print(f"{'':25}ours / plain: {rates['ours'] / max(rates['plain'], 1e-9):.2f}", flush=True)


if __name__ == "__main__":
    main()
