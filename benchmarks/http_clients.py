"""Clients that keep a server busy, in a process of their own: `python benchmarks/http_clients.py PORT CLIENTS SECONDS`.

Standard input has a line of JSON for each request to choose from: {"path": ..., "body": (in base64), "type": ...}. Each
client has one connection and sends a request when it has the answer to the one before; one that is refused (503) waits
for a tenth of a second. Standard output gets {"seconds": [...], "refused": [...], "wrong": ..., "processor": ...}.
"""

import asyncio
import base64
import json
import sys
import time
from typing import Any

import numpy as np

PAUSE = 0.1  # seconds after a refusal


async def client(
    port: int, requests: list[bytes], random: np.random.Generator, end: float, found: dict[str, Any]
) -> None:
    """Ask until the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    while time.perf_counter() < end:
        begun = time.perf_counter()
        writer.write(requests[int(random.integers(len(requests)))])
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)
        status, taken = int(head[9:12]), time.perf_counter() - begun
        if status == 200:
            found["seconds"].append(taken)
        elif status == 503:
            found["refused"].append(taken)
            await asyncio.sleep(PAUSE)
        else:
            found["wrong"] += 1
        if b"connection: close" in head.lower():
            writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    writer.close()


async def main(port: int, clients: int, seconds: float) -> None:
    """Run all clients, and print what they saw."""
    requests = []
    for line in sys.stdin:
        said = json.loads(line)
        body = base64.b64decode(said["body"])
        head = f"POST {said['path']} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: {said['type']}\r\n"
        requests.append(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    found: dict[str, Any] = {"seconds": [], "refused": [], "wrong": 0}
    begun, end = time.process_time(), time.perf_counter() + seconds
    randoms = np.random.default_rng(0).spawn(clients)
    await asyncio.gather(*(client(port, requests, random, end, found) for random in randoms))
    print(json.dumps({**found, "processor": time.process_time() - begun}))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
