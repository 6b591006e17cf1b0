"""Freed memory stays with the process while a piece of work lasts, and goes back to the system afterwards."""

import os
import platform
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(
        platform.libc_ver()[0] != "glibc", reason="only glibc gives large blocks back at once and can be told not to"
    ),
]

COUNT_FAULTS = """
import resource
from pathlib import Path
import torch
from smoothap._core.memory import freed_memory_kept

BLOCK = 40 * 2**20  # bytes: more than glibc would ever keep by itself

def faults_of_ten_blocks():
    for _ in range(15):  # the first few find their place
        torch.ones(BLOCK // 4)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(BLOCK // 4)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

outside = faults_of_ten_blocks()
with freed_memory_kept():
    with freed_memory_kept():
        inside = faults_of_ten_blocks()
    still = faults_of_ten_blocks()
    held = resident()
given_back = held - resident()
print(outside, inside, still, given_back > BLOCK // 2)
"""

COUNT_ARENAS = """
import ctypes, sys, threading
from smoothap._core.memory import share_freed_memory

if sys.argv[2] == "shared":
    share_freed_memory()
together, library = threading.Barrier(12), ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p

def allocate():
    together.wait()
    for _ in range(100):
        library.malloc(1000)
    together.wait()  # an arena is free for another thread once its own has ended

threads = [threading.Thread(target=allocate) for _ in range(12)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
library.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(library.fopen(sys.argv[1].encode(), b"w"))
library.malloc_info(0, file)
library.fclose(file)
"""


def run(**variables: str) -> list[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    command = [sys.executable, "-c", COUNT_FAULTS]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**environment, **variables})
    return done.stdout.split()


def test_blocks_are_used_again_inside_and_given_back_afterwards() -> None:
    *faults, given_back = run()
    outside, inside, still = map(int, faults)
    assert outside > 1000
    assert inside < outside / 10
    assert still < outside / 10  # leaving the inner one does not end the outer one
    assert given_back == "True"


def test_settings_chosen_by_the_user_are_left_alone() -> None:
    outside, inside, *_ = map(int, run(MALLOC_ARENA_MAX="2")[:3])
    assert inside > outside / 2


def test_threads_of_a_server_share_two_arenas(tmp_path):
    counts = {}
    for kind in ("shared", "own"):
        file = tmp_path / kind
        subprocess.run([sys.executable, "-c", COUNT_ARENAS, str(file), kind], check=True)
        counts[kind] = file.read_text().count("<heap nr=")
    assert counts["shared"] <= 2
    assert counts["own"] > 4
