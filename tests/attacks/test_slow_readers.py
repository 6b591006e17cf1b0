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
from smoothap.server.settings import Limits

pytestmark = pytest.mark.guarantee(15)
LIST, QUESTION = "/api/v1/albums/album/search.csv", json.dumps({"id": 0})
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
    limits = Limits(requests=8, seconds_to_read=60)
    with served({"album": album}, limits=limits) as port, crowd(port, 12, 3 * ASKING):
        # Once their answers are worked out.
        assert comes(lambda: all(ask(port, "GET", "/api/v1/albums")[0] == 200 for _ in range(20)))


def test_a_visitor_who_does_not_read_is_cut_off(album):
    with served({"album": album}, limits=Limits(seconds_to_read=1)) as port:
        with crowd(port, 3, ASKING) as hanging:
            assert all(comes(partial(is_cut_off, connection)) for connection in hanging)
        assert ask(port, "POST", LIST, QUESTION, {"content-type": "application/json"})[0] == 200


def test_a_slow_visitor_who_does_read_gets_everything(album):
    limits = Limits(seconds_to_read=2)
    with served({"album": album}, limits=limits) as port, crowd(port, 1, ASKING, buffer=1 << 18) as (connection,):
        answer, began = bytearray(), time.monotonic()
        while not answer.endswith(b"\r\n0\r\n\r\n"):
            time.sleep(0.3 if time.monotonic() - began < 2.8 else 0)
            part = connection.recv(1 << 16)
            assert part, f"cut off after {len(answer):,} bytes"
            answer += part
    assert len(answer) > 4_000_000


def test_fifty_browsers_of_one_address_can_work(album):
    with served({"album": album}) as port, crowd(port, 300, SENDING):
        for _ in range(50):
            assert ask(port, "GET", "/api/v1/albums")[0] == 200


def test_a_request_that_takes_too_long_is_given_up_and_the_stream_of_events_is_not(album, monkeypatch):
    monkeypatch.setattr("smoothap.server.routes.search.answer", lambda *_: time.sleep(3))
    limits = Limits(seconds_to_send=0.5, seconds_to_answer=0.5, seconds_of_events=2.5)
    with served({"album": album}, limits=limits) as port:
        began = time.monotonic()
        status, answer = ask(port, "POST", LIST[:-4], QUESTION, {"content-type": "application/json"})
        assert (status, "takes too long" in json.loads(answer)["detail"]) == (503, True)
        assert time.monotonic() - began < 2.5
        began = time.monotonic()
        status, told = ask(port, "GET", "/api/v1/events")
        assert (status, told.startswith(b"data: ")) == (200, True)
        assert 2 < time.monotonic() - began < 10


def test_streams_of_events_are_bounded_and_take_no_place_from_others(album):
    limits = Limits(streams=3, requests=3)
    asking = b"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with served({"album": album}, limits=limits) as port, crowd(port, 3, asking) as streams:
        assert all(status_of(each) == 200 for each in streams)
        assert ask(port, "GET", "/api/v1/events")[0] == 503
        for _ in range(5):
            assert ask(port, "GET", "/api/v1/albums")[0] == 200


def test_of_streams_that_are_asked_for_at_once_no_more_begin_than_there_is_room_for(album):
    asking = b"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with served({"album": album}, limits=Limits(streams=3)) as port, crowd(port, 12, asking) as streams:
        assert sorted(status_of(each) for each in streams) == [200] * 3 + [503] * 9
        assert ask(port, "GET", "/api/v1/albums")[0] == 200
    with served({"album": album}, limits=Limits(streams=3)) as port:
        for _ in range(3):  # a stream that its reader left makes room
            with crowd(port, 3, asking) as streams:
                assert all(status_of(each) == 200 for each in streams)
            time.sleep(1.5)
