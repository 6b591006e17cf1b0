"""Shared by all tests: both ways through the core, counts that are short unless a longer run is asked for, promises."""

import json
import os
from collections import defaultdict
from pathlib import Path

import pytest
import torch
from core_paths import core_path_is
from hypothesis import settings
from milvus_servers import milvus, milvus_server  # noqa: F401 (fixtures)
from promises import PROMISES, TORTURE
from second_device import MISSING, set_up

if "PYTEST_XDIST_WORKER" in os.environ:  # the workers share the cores; a test that needs more threads says so
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))

if not MISSING:
    set_up()  # before the first backward pass, when autograd counts the devices; unseen until a test asks for it

settings.register_profile("test", deadline=None, derandomize=True, max_examples=100)
settings.register_profile("torture", deadline=None, max_examples=1_000)
settings.load_profile("torture" if TORTURE else "test")


@pytest.fixture(params=["fused", "plain"])
def core_path(request, monkeypatch):
    """Run the test with the compiled kernels and without."""
    with core_path_is(request.param, monkeypatch):
        yield request.param


@pytest.fixture
def measured(record_property):
    """Say in a few words what a promise's test measured: `measured("50 of 50 kills")`."""
    return lambda words: record_property("measured", words)


# Where tools/torture.py waits for the outcomes, and of which promises: FILE:1,2,3
_file, _, _wanted = os.environ.get("SMOOTHAP_PROMISES", "").rpartition(":")
_outcomes: defaultdict[int, list[dict[str, object]]] = defaultdict(list)


def pytest_collection_modifyitems(config, items):
    for item in items:
        numbers = {marker.args[0] for marker in item.iter_markers("promise")}
        assert numbers <= set(PROMISES), f"{item.nodeid}: there is no such promise"
        item.user_properties += [("promise", number) for number in numbers]
    if _file:
        wanted = {("promise", int(number)) for number in _wanted.split(",")}
        others = [item for item in items if wanted.isdisjoint(item.user_properties)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]


def pytest_runtest_logreport(report):
    if _file and (report.when == "call" or report.outcome != "passed"):
        measured = [value for name, value in report.user_properties if name == "measured"]
        for number in {value for name, value in report.user_properties if name == "promise"}:
            _outcomes[number].append(
                {"test": report.nodeid, "outcome": report.outcome, "measured": measured, "seconds": report.duration}
            )
        Path(_file).write_text(json.dumps(_outcomes), encoding="utf-8")
