"""Promise 18: load is survived. Many clients, mixed, for a while: no 5xx but 503, and memory does not grow."""

import json
import os
import random
import threading
import time

import pytest
from attackers import TORTURE, ask, photo_bytes

CLIENTS = 50 if TORTURE else 12
SECONDS = int(os.environ.get("SMOOTHAP_TORTURE_SECONDS", "600")) if TORTURE else 5


def visit(port, draw, photo):
    """One request of any kind: (status, whether it may fail)."""
    kind, number = draw.random(), draw.randrange(96)
    headers = {"content-type": "application/json"}
    if kind < 0.35:
        return ask(port, "GET", f"/api/albums/0/photos/{number}/{draw.choice(['thumbnail', 'image'])}")[0]
    if kind < 0.65:
        question = {"photo": number, "offset": draw.randrange(60), "right": [draw.randrange(96)]}
        return ask(port, "POST", "/api/albums/0/search", json.dumps(question), headers)[0]
    if kind < 0.8:
        return ask(port, "POST", "/api/albums/0/embed", photo)[0]
    if kind < 0.9:
        return ask(port, "POST", "/api/albums/0/embed", photo[: draw.randrange(len(photo))])[0]
    if kind < 0.95:
        return ask(port, "POST", "/api/albums/0/search.csv", json.dumps({"photo": number}), headers)[0]
    return ask(port, "GET", f"/api/albums/{draw.randrange(3)}/photos/{draw.randrange(200)}")[0]


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


@pytest.mark.skipif(not TORTURE, reason="takes ten minutes: SMOOTHAP_TORTURE=1")
def test_ten_minutes_of_fifty_clients(server):
    check(server)


def test_a_short_rush_is_survived(server):
    if TORTURE:
        pytest.skip("the long form runs")
    check(server)


def check(server):
    run_for(server, max(3, SECONDS / 10), CLIENTS)  # threads, caches and pools come into being
    before = server.memory()
    statuses = run_for(server, SECONDS, CLIENTS)
    growth = server.memory() / before - 1
    print(f"{sum(statuses.values())} requests of {CLIENTS} clients in {SECONDS} s: {statuses}, memory {growth:+.1%}")
    assert set(statuses) <= {200, 404, 422, 503}, statuses
    assert statuses[200] > 20
    assert growth < 0.05
