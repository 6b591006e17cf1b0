"""Load on one server: queries by id, by vector and by photo a second, beside the plainest server one would write.

    python benchmarks/serve_speed.py [--kinds id vector photo] [--clients 1 8 50] [--seconds 8] [--photos 100000]
                                     [--size 224] [--megapixels 0.3] [--model tf_efficientnet_lite0] [--dimension 512]
                                     [--processes 1 2] [--plain-threads 1] [--rounds 1] [--folder FOLDER]

Vectors are random, the photos that are asked with are drawn, and the network has random weights: none of this changes
the time. Clients are a process of their own, and its processor time is taken off what the machine has to give. "of the
parts" is the photos a second over what decoding and the network alone would allow, with every core busy all the time
and the network at its best: full batches, one on each core. "of its time" is how much of the server's own processor
time those two take, which other programs disturb less. "cpu ms" is that time for each answer. Ours is measured once
for each number of --processes. The baseline, benchmarks/plain_server.py, answers the same requests in the same run, in
turns with ours. --folder keeps what was prepared for the next run, so that each kind can be measured in a run of its
own.
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
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any
from urllib.request import urlopen

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the smoothap command has it: waiting costs no processor time

import numpy as np
import psutil
import torch
from PIL import Image

from smoothap._core.memory import freed_memory_kept
from smoothap._core.threads import one_thread
from smoothap.album import Album
from smoothap.data.reading import read_image
from smoothap.models import Embedder
from smoothap.server.schemas import SearchOptions
from smoothap.server.searching import Asked, answer
from smoothap.server.served_album import ServedAlbum

HERE = Path(__file__).parent
AIM = 0.9
BATCH = 8  # photos: the most that the server puts through the network together
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


def requests(kind: str, baseline: bool, photos: list[bytes], vectors: np.ndarray) -> list[dict[str, str]]:
    """What clients choose from."""
    found = []
    for number in range(64):
        path, body, form = "/api/v1/albums/album/search", b"", "application/json"
        if baseline:
            path = f"/{kind}?k=20"
        if kind == "id":
            identity = number * 97 % len(vectors)
            path, body = (f"{path}&id={identity}", b"") if baseline else (path, json.dumps({"id": identity}).encode())
        elif kind == "photo" and baseline:
            body, form = photos[number % len(photos)], "application/octet-stream"
        elif kind == "photo":
            path, form = f"{path}/photo", "multipart/form-data; boundary=photo"
            body = b'--photo\r\nContent-Disposition: form-data; name="image"; filename="a.jpg"\r\n\r\n'
            body += photos[number % len(photos)] + b"\r\n--photo--\r\n"
        else:
            vector = vectors[number].tolist()
            body = json.dumps(vector if baseline else {"vector": vector}).encode()
        found.append({"path": path, "body": base64.b64encode(body).decode(), "type": form})
    return found


@contextlib.contextmanager
def running(command: list[str], port: int, ready: str) -> Generator[psutil.Process]:
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
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


def load(
    port: int, clients: int, seconds: float, process: psutil.Process, asked: list[dict[str, str]]
) -> dict[str, Any]:
    """What that many clients see of the server, whose process that is."""
    done = subprocess.run(
        [sys.executable, HERE / "http_clients.py", *map(str, (port, clients, seconds, process.pid))],
        input="\n".join(map(json.dumps, asked)), capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def processor_seconds(work: Callable[[], object], repeats: int) -> float:
    """What some work takes of all cores together, each time: the median."""
    work()
    taken = []
    for _ in range(repeats):
        begun = time.process_time()
        work()
        taken.append(time.process_time() - begun)
    return float(np.median(taken))


def parts(model: Embedder, album: Album, photos: list[bytes], cores: int) -> dict[str, float]:
    """Processor seconds that each part of an answer takes, of one photo."""
    transform, photos = model.for_queries().transform, photos[:BATCH]

    def views() -> torch.Tensor:
        enough = transform.enough_pixels(train=False)
        return torch.stack([transform.test(read_image(photo, shorter_side=enough)) for photo in photos])

    served = ServedAlbum(album, "album", None)  # ty: ignore[invalid-argument-type]  # which decodes nothing here
    vector, batch = np.array(album.vectors[3]), views()
    found = answer(served, SearchOptions(), Asked(vector))

    def embed() -> None:
        with one_thread():
            list(model.embed_batches([(batch, None)]))

    with ThreadPoolExecutor(cores) as lanes, freed_memory_kept():
        each = processor_seconds(lambda: wait([lanes.submit(embed) for _ in range(cores)]), 9) / cores
    return {
        "decode": processor_seconds(views, 9) / BATCH,
        "network": each / BATCH,
        "search": processor_seconds(lambda: answer(served, SearchOptions(), Asked(vector)), 20),
        "JSON": processor_seconds(lambda: [found.model_dump_json() for _ in range(100)], 3) / 100,
    }


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def prepared(place: Path, options: argparse.Namespace) -> tuple[Embedder, Album, np.ndarray]:
    """A model, an album of random vectors, and those vectors, made in a folder or found there."""
    if not (place / "vectors.npy").exists():
        vectors = np.random.default_rng(0).normal(size=(options.photos, options.dimension)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        Embedder(options.model, options.dimension, size=options.size, pretrained=False).save(place / "model")
        metadata = {"path": [f"{row:06}.jpg" for row in range(len(vectors))]}
        Album.from_arrays(vectors, metadata, place / "album", model=place / "model").link()  # as smoothap index does
        np.save(place / "vectors.npy", vectors)
    return Embedder.load(place / "model"), Album.open(place / "album"), np.load(place / "vectors.npy", mmap_mode="r")


def main() -> None:
    """Print the table and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 50])
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--photos", type=int, default=100_000)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--megapixels", type=float, default=0.3)
    parser.add_argument("--model", default="tf_efficientnet_lite0")
    parser.add_argument("--dimension", type=int, default=512)
    parser.add_argument("--processes", type=int, nargs="+", help="of our server; by default 1, and one for each core")
    parser.add_argument("--plain-threads", type=int, default=1, help="of torch and FAISS in the plain server")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    photos = drawn_photos(32, options.megapixels)
    with tempfile.TemporaryDirectory() as temporary:
        place = options.folder or Path(temporary)
        place.mkdir(exist_ok=True)
        model, album, vectors = prepared(place, options)
        costs = parts(model, album, photos, cores)
        print(" ".join(f"{name} {1000 * seconds:.2f} ms" for name, seconds in costs.items()), "of one core, each")
        with contextlib.ExitStack() as stack:
            servers = {}
            for number in options.processes or sorted({1, cores}):
                port = free_port()
                serve = ["-m", "smoothap", "serve", str(place / "album"), "--model", str(place / "model")]
                serve += ["--port", str(port), "--processes", str(number)]
                servers[f"ours x{number}"] = port, stack.enter_context(running(serve, port, "/ready"))
            plain = [str(HERE / "plain_server.py"), str(place / "vectors.npy"), str(port := free_port()), options.model]
            plain += [str(options.size), str(options.plain_threads)]
            servers["plain"] = port, stack.enter_context(running(plain, port, "/openapi.json"))
            print(f"{'':8} clients   server  a second  cpu ms   p50 ms   p99 ms    503  503 p99")
            for kind in options.kinds:
                for clients in options.clients:
                    _measure(kind, clients, options, servers, photos, vectors, costs, cores)
            for name, (port, _) in servers.items():
                if name != "plain" and "photo" in options.kinds:
                    print(f"{name}: {photos_in_a_batch(port):.1f} photos went through the network together")


def photos_in_a_batch(port: int) -> float:
    """How many photos have gone through the network together, as the server's metrics have it."""
    with urlopen(f"http://127.0.0.1:{port}/metrics") as answered:
        text = answered.read().decode()
    counts = dict(re.findall(r"^smoothap_embedded_(\w+)_total (\S+)$", text, re.MULTILINE))
    return float(counts["photos"]) / float(counts["batches"])


def _measure(
    kind: str,
    clients: int,
    options: argparse.Namespace,
    servers: dict[str, tuple[int, psutil.Process]],
    photos: list[bytes],
    vectors: np.ndarray,
    costs: dict[str, float],
    cores: int,
) -> None:
    """Print the lines of all servers for one kind of query and that many clients, who take turns."""
    seen: dict[str, list[dict[str, Any]]] = {name: [] for name in servers}
    for _ in range(options.rounds):
        for name, (port, process) in servers.items():
            asked = requests(kind, name == "plain", photos, vectors)
            seen[name].append(load(port, clients, options.seconds, process, asked))
    rates = {}
    for name, rounds in seen.items():
        seconds = np.concatenate([each["seconds"] for each in rounds])
        refused = np.concatenate([each["refused"] for each in rounds])
        elapsed = sum(each["elapsed"] for each in rounds)
        rates[name] = len(seconds) / elapsed
        p50, p99 = (1000 * np.quantile(seconds, share) if len(seconds) else np.nan for share in (0.5, 0.99))
        late = f"{1000 * np.quantile(refused, 0.99):8.1f}" if len(refused) else f"{'':8}"
        wrong, taken, mine = (sum(each[what] for each in rounds) for what in ("wrong", "server", "processor"))
        each_answer = taken / max(len(seconds), 1)
        line = f"{kind:8} {clients:7} {name:>8} {rates[name]:9.1f} {1000 * each_answer:7.1f} {p50:8.1f} {p99:8.1f}"
        line += f" {len(refused):6} {late}"
        if kind == "photo":
            needed = costs["decode"] + costs["network"]
            share = rates[name] * needed / (cores - mine / elapsed)
            line += f"  {share:.0%} of the parts (aim: {AIM:.0%} at saturation), {needed / each_answer:.0%} of its time"
        print(line + (f"  {wrong} WRONG" if wrong else ""), flush=True)
    ratios = ", ".join(f"{rate / max(rates['plain'], 1e-9):.2f}" for name, rate in rates.items() if name != "plain")
    print(f"{'':25}ours / plain: {ratios}", flush=True)


if __name__ == "__main__":
    main()
