"""Load is survived. Many clients, mixed, for a while: no 5xx but 503, and memory does not grow."""

import json
import random
import threading
import time

import pytest
from attackers import ask, photo_bytes, upload
from guarantees import short_or_long

pytestmark = pytest.mark.alone

CLIENTS = short_or_long(12, 50)
SECONDS = short_or_long(3, 600)


def visit(port, draw, photo):
    """One request of any kind: (status, whether it may fail)."""
    kind, number = draw.random(), draw.randrange(96)
    headers = {"content-type": "application/json"}
    if kind < 0.35:
        return ask(port, "GET", f"/api/v1/albums/letters/photos/{number}/{draw.choice(['thumbnail', 'image'])}")[0]
    if kind < 0.65:
        question = {"id": number, "offset": draw.randrange(60), "right": [draw.randrange(96)]}
        return ask(port, "POST", "/api/v1/albums/letters/search", json.dumps(question), headers)[0]
    if kind < 0.8:
        return upload(port, "/api/v1/albums/letters/search/photo", photo)[0]
    if kind < 0.9:
        return upload(port, "/api/v1/albums/letters/search/photo", photo[: draw.randrange(len(photo))])[0]
    if kind < 0.95:
        return ask(port, "POST", "/api/v1/albums/letters/search.csv", json.dumps({"id": number}), headers)[0]
    return ask(port, "GET", f"/api/v1/albums/letters/photos/{draw.randrange(200)}")[0]


def run_for(server, seconds, clients):
    statuses, end, lock = {}, time.monotonic() + seconds, threading.Lock()

    def client(seed):
        draw, photo = random.Random(seed), photo_bytes(random.Random(seed).choice("ARGK"))
        while time.monotonic() < end:
            status = visit(server.port, draw, photo)
            with lock:
                statuses[status] = statuses.get(status, 0) + 1

    crowd = [threading.Thread(target=client, args=(seed,)) for seed in range(clients)]
    for each in crowd:
        each.start()
    for each in crowd:
        each.join()
    return statuses


@pytest.mark.guarantee(18)
def test_many_mixed_clients_are_answered_and_memory_does_not_grow(server, measured):
    run_for(server, max(3, SECONDS / 10), CLIENTS)  # threads, caches and pools come into being
    before = server.memory()
    statuses = run_for(server, SECONDS, CLIENTS)
    growth = server.memory() / before - 1
    told = ", ".join(f"{count:,} x {status}" for status, count in sorted(statuses.items()))
    measured(f"{CLIENTS} clients for {SECONDS} s: {told}; memory {growth:+.1%}")
    assert set(statuses) <= {200, 404, 422, 503}, statuses
    assert statuses[200] > 20
    assert growth < 0.05
