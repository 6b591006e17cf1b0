"""Visitors who ask and never read, and crowds of one address: they are cut off, and nobody else is kept waiting."""

import contextlib
import json
import socket
import time
from functools import partial

import numpy as np
import pytest
from attackers import ask, comes, head, status_of
from page_server import served

from smoothap.album import Album
from smoothap.server.limits import Limits, visitor_address

pytestmark = pytest.mark.guarantee(15)
LIST, QUESTION = "/api/albums/0/search.csv", json.dumps({"photo": 0})
ASKING = head(LIST, Content_Type="application/json", Content_Length=len(QUESTION)) + QUESTION.encode()
SENDING = head(LIST, Content_Type="application/json", Content_Length=100)


@pytest.fixture(scope="module")
def album():
    """An album whose list to download has 5 MB: more than the system takes over for a visitor."""
    vectors = np.random.default_rng(0).standard_normal((6_000, 4)).astype(np.float32)
    return Album.from_arrays(vectors, {"path": [f"{row:0800d}.jpg" for row in range(len(vectors))]})


@contextlib.contextmanager
def crowd(port, number, content, source="127.0.0.1", buffer=4096):
    """Connections that send this and then neither send nor read anything."""
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(number):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
            connection.settimeout(20)
            connection.bind((source, 0))
            connection.connect(("127.0.0.1", port))
            connection.sendall(content)
            connections.append(connection)
        yield connections


def is_cut_off(connection):
    """Whether the server has ended the connection, from which nothing was read."""
    try:
        connection.send(b"x", socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return False


def test_visitors_who_do_not_read_keep_no_place_from_others(album):
    limits = Limits(requests=8, per_address=1_000, seconds_to_read=60)
    with served({"album": album}, limits=limits) as port, crowd(port, 12, 3 * ASKING):
        assert comes(lambda: ask(port, "GET", "/api/albums")[0] == 200)  # once their answers are worked out
        for _ in range(20):
            assert ask(port, "GET", "/api/albums")[0] == 200


def test_a_visitor_who_does_not_read_is_cut_off(album):
    with served({"album": album}, limits=Limits(seconds_to_read=1)) as port:
        with crowd(port, 3, ASKING) as hanging:
            assert all(comes(partial(is_cut_off, connection)) for connection in hanging)
        assert ask(port, "POST", LIST, QUESTION, {"content-type": "application/json"})[0] == 200


def test_a_slow_visitor_who_does_read_gets_everything(album):
    limits = Limits(seconds_to_read=5)
    with served({"album": album}, limits=limits) as port, crowd(port, 1, ASKING, buffer=1 << 18) as (connection,):
        answer, began = b"", time.monotonic()
        while b"\r\n\r\n" not in answer:
            answer += connection.recv(4096)
        length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        body = len(answer.partition(b"\r\n\r\n")[2])
        while body < length:
            time.sleep(0.4 if time.monotonic() - began < 7 else 0)
            part = connection.recv(1 << 16)
            assert part, f"cut off after {body:,} bytes"
            body += len(part)
    assert body == length > 4_000_000


def test_answers_that_nobody_takes_are_bounded(album):
    limits = Limits(unread_bytes=12_000_000, seconds_to_read=60)
    with served({"album": album}, limits=limits) as port, crowd(port, 2, ASKING):
        assert comes(lambda: ask(port, "POST", LIST, QUESTION, {"content-type": "application/json"})[0] == 503)
        assert ask(port, "GET", "/api/albums")[0] == 200


def test_one_address_cannot_take_all_places(album):
    limits = Limits(per_address=6)
    with served({"album": album}, limits=limits) as port, crowd(port, 6, SENDING, "127.0.0.2"):
        time.sleep(0.3)
        with crowd(port, 1, ASKING, "127.0.0.2") as (refused,):
            assert status_of(refused) == 503
        assert ask(port, "GET", "/api/albums")[0] == 200


def test_fifty_browsers_of_one_address_can_work(album):
    with served({"album": album}) as port, crowd(port, 300, SENDING):
        for _ in range(50):
            assert ask(port, "GET", "/api/albums")[0] == 200


def test_a_trusted_proxy_tells_whom_a_request_comes_from_and_others_do_not(album):
    from_one = SENDING.replace(b"\r\n\r\n", b"\r\nX-Forwarded-For: 1.2.3.4, 198.51.100.1\r\n\r\n")

    def statuses(proxies):
        with served({"album": album}, limits=Limits(per_address=4), proxies=proxies) as port, crowd(port, 4, from_one):
            time.sleep(0.3)
            addresses = ["198.51.100.1", "5.6.7.8, 198.51.100.1", "198.51.100.2", "198.51.100.1, 198.51.100.2"]
            return [ask(port, "GET", "/api/albums", headers={"x-forwarded-for": told})[0] for told in addresses]

    assert statuses(frozenset({"127.0.0.1"})) == [503, 503, 200, 200]
    assert statuses(frozenset()) == [503] * 4  # all come from the one proxy, whatever it says


def test_an_address_is_a_network_where_visitors_have_many():
    def address(client, forwarded="", proxies=()):
        headers = [(b"x-forwarded-for", forwarded.encode())] if forwarded else []
        return visitor_address({"client": (client, 1), "headers": headers}, frozenset(proxies))

    assert address("2001:db8::1") == address("2001:db8::ffff:2") != address("2001:db8:0:1::1")
    assert address("::ffff:192.0.2.1") == address("192.0.2.1") != address("192.0.2.2")
    assert address("10.0.0.1", "a, 10.0.0.2", ["10.0.0.1", "10.0.0.2"]) == "a"
    assert address("10.0.0.1", "", ["10.0.0.1"]) == "10.0.0.1"
