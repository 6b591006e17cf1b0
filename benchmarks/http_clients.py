"""Clients that keep a server busy, in a process of their own.

    python benchmarks/http_clients.py PORT CLIENTS SECONDS PROCESS

Standard input has a line of JSON for each request to choose from: {"path": ..., "body": (in base64), "type": ...}. Each
client has one connection and sends a request when it has the answer to the one before; one that is refused (503) waits
for a tenth of a second. Once the queues are full, what they see is counted for SECONDS, during all of which they ask.
Standard output gets JSON with "seconds", "refused", "wrong", "processor", "server" and "elapsed":
how long answers and refusals took, how many were neither, and of the time in which that was counted the processor
seconds of the clients, those of PROCESS with all that it started, and the seconds by the clock.
"""

import asyncio
import base64
import json
import sys
import time
from typing import Any

import numpy as np
import psutil

PAUSE = 0.1  # seconds after a refusal
QUEUES_FILL = 2.0  # seconds, of which nothing is counted


async def client(port: int, requests: list[bytes], random: np.random.Generator, found: dict[str, Any]) -> None:
    """Ask until nobody listens any more."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    while True:
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


def processor_time(process: psutil.Process) -> float:
    """Seconds that a process and those it started have taken."""
    return sum(sum(each.cpu_times()[:2]) for each in (process, *process.children(recursive=True)))


async def main(port: int, clients: int, seconds: float, process: psutil.Process) -> None:
    """Run all clients, and print what they saw."""
    requests = []
    for line in sys.stdin:
        said = json.loads(line)
        body = base64.b64decode(said["body"])
        head = f"POST {said['path']} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: {said['type']}\r\n"
        requests.append(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    found: dict[str, Any] = {}
    randoms = np.random.default_rng(0).spawn(clients)
    asking = [asyncio.create_task(client(port, requests, random, found)) for random in randoms]
    for length in (QUEUES_FILL, seconds):
        found.update(seconds=[], refused=[], wrong=0)
        before = time.process_time(), processor_time(process), time.perf_counter()
        await asyncio.wait(asking, timeout=length)
    after = time.process_time(), processor_time(process), time.perf_counter()
    for each in asking:
        if each.done():  # a connection was lost
            each.result()
    found["processor"], found["server"], found["elapsed"] = (
        end - begin for begin, end in zip(before, after, strict=True)
    )
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), psutil.Process(int(sys.argv[4]))))
