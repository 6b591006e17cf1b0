"""Photos that wait for the network go through it together, in as many lanes as the device has use for."""

import copy
import threading
import time

import numpy as np
import pytest
import torch
from page_albums import Pixels, letter

from smoothap.server.batching import Batching
from smoothap.server.served_album import ServedAlbum


class Undecoded:
    """A decoder of photos that are images already."""

    def decode(self, photo, *, box, view):
        return view.test_view(photo)

    def warm_up(self):
        pass


def test_photos_that_wait_for_the_network_go_through_it_together():
    first_is_in, go_on, sizes = threading.Event(), threading.Event(), []

    def slow(questions):
        sizes.append(len(questions))
        first_is_in.set()
        assert go_on.wait(30)
        return [10 * question for question in questions]

    counted = []
    together, results = Batching(counted.append), {}
    threads = [threading.Thread(target=lambda n=n: results.update({n: together.ask(slow, n)})) for n in range(21)]
    threads[0].start()
    assert first_is_in.wait(30)
    for thread in threads[1:]:
        thread.start()
    end = time.monotonic() + 30
    while len(together._waiting) < 20 and time.monotonic() < end:
        time.sleep(0.01)
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert sizes == counted == [1, 8, 8, 4]
    assert results == {n: 10 * n for n in range(21)}


def test_lanes_share_what_waits_and_keep_to_one_core_each():
    both_are_in, sizes, threads_used = threading.Barrier(2), [], []

    def slow(questions):
        both_are_in.wait(30)  # which one lane alone would never get past
        sizes.append(len(questions))
        threads_used.append(torch.get_num_threads())
        return questions

    before = torch.get_num_threads()
    together, results = Batching(lanes=2), {}
    threads = [threading.Thread(target=lambda n=n: results.update({n: together.ask(slow, n)})) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == {0: 0, 1: 1}
    assert (sizes, threads_used) == ([1, 1], [1, 1])
    assert torch.get_num_threads() == before


def test_a_model_on_a_gpu_has_one_lane_and_one_on_the_cpu_as_many_as_there_are_threads(album, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)

    class Placed(Pixels):
        def __init__(self, device):
            self.device = torch.device(device)

    lanes = {}
    for device in ("cpu", "cuda"):
        placed = copy.copy(album)
        placed.embedder = lambda device=device: Placed(device)
        served = ServedAlbum(placed, "letters", Undecoded(), batching := Batching())
        served.query(letter("A", "DejaVuSans"))
        lanes[device] = batching.lanes
    assert lanes == {"cpu": 3, "cuda": 1}


def test_photos_that_are_asked_with_at_the_same_time_are_one_batch_for_the_model(album):
    first_is_in, go_on, sizes = threading.Event(), threading.Event(), []

    class Slow(Pixels):
        def vectors_of(self, images):
            sizes.append(len(images))
            first_is_in.set()
            assert go_on.wait(30)
            return super().vectors_of(images)

    slow = copy.copy(album)
    slow.embedder = Slow
    served = ServedAlbum(slow, "letters", Undecoded())
    images = [letter(character, "DejaVuSans") for character in "ARGKQ"]
    found = {}
    threads = [threading.Thread(target=lambda n=n: found.update({n: served.query(images[n])[0]})) for n in range(5)]
    threads[0].start()
    assert first_is_in.wait(30)
    for thread in threads[1:]:
        thread.start()
    end = time.monotonic() + 30
    while len(served._batching._waiting) < 4 and time.monotonic() < end:
        time.sleep(0.01)
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert sizes == [1, 4]
    for number, image in enumerate(images):
        np.testing.assert_array_equal(found[number], Pixels().embed([image])[0])


def test_a_server_that_is_ready_has_used_its_network_once_and_counted_nothing(album):
    sizes, counted = [], []

    class Compiling(Pixels):
        def vectors_of(self, images):
            sizes.append(len(images))
            return super().vectors_of(images)

    compiling = copy.copy(album)
    compiling.embedder = Compiling
    assert ServedAlbum(compiling, "letters", Undecoded(), Batching(counted.append)).warm_up() == ""
    assert (sizes, counted) == ([1], [])


def test_a_network_that_does_not_fit_its_device_is_said_and_not_waited_for(album):
    class TooLarge(Pixels):
        def vectors_of(self, images):
            raise torch.OutOfMemoryError("no room")

    large = copy.copy(album)
    large.embedder = TooLarge
    assert ServedAlbum(large, "letters", Undecoded()).warm_up() == "The model of letters cannot be used: no room"


def test_a_batch_that_fails_fails_for_each_of_its_photos_and_for_no_other():
    def breaks(questions):
        raise ValueError("no memory")

    together = Batching()
    with pytest.raises(ValueError, match="no memory"):
        together.ask(breaks, None)
    assert together.ask(lambda questions: questions, 7) == 7
