"""Shared by all tests: both ways through the core, short counts unless a long run is asked for, guarantees."""

import json
import os
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
import torch
from core_paths import core_path_is
from guarantees import GUARANTEES, LONG
from hypothesis import settings
from milvus_servers import milvus, milvus_server  # noqa: F401 (fixtures)
from second_device import MISSING, set_up

if "PYTEST_XDIST_WORKER" in os.environ:  # the workers share the cores; a test that needs more threads says so
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))

if not MISSING:
    set_up()  # before the first backward pass, when autograd counts the devices; unseen until a test asks for it

settings.register_profile("test", deadline=None, derandomize=True, max_examples=100)
settings.register_profile("long tests", deadline=None, max_examples=1_000)
settings.load_profile("long tests" if LONG else "test")


@pytest.fixture(params=["fused", "plain"])
def core_path(request, monkeypatch):
    """Run the test with the compiled kernels and without."""
    with core_path_is(request.param, monkeypatch):
        yield request.param


@pytest.fixture
def measured(record_property):
    """Say in a few words what a guarantee's test measured: `measured("50 of 50 kills")`."""
    return lambda words: record_property("measured", words)


# Where tools/long_tests.py waits for the outcomes, and of which guarantees: FILE:1,2,3
_file, _, _wanted = os.environ.get("SMOOTHAP_GUARANTEES", "").rpartition(":")
_outcomes: defaultdict[int, list[dict[str, object]]] = defaultdict(list)


@cache
def has_alone(file):
    """Whether no two tests of this file and others like it may run at once."""
    return any(word in file.read_text(encoding="utf-8") for word in ("mark.alone", "milvus_servers"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """A file stays on one worker, which makes what its tests share once; so do all files that must not meet."""
    from xdist.scheduler import LoadFileScheduling

    class OneWorker(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return "alone" if has_alone(config.rootpath / file) else file

    return OneWorker(config, log)


def pytest_collection_modifyitems(config, items):
    items.sort(key=lambda item: not has_alone(item.path))  # they take longest, and are begun first
    for item in items:
        numbers = {marker.args[0] for marker in item.iter_markers("guarantee")}
        assert numbers <= set(GUARANTEES), f"{item.nodeid}: there is no such guarantee"
        item.user_properties += [("guarantee", number) for number in numbers]
    if _file:
        wanted = {("guarantee", int(number)) for number in _wanted.split(",")}
        others = [item for item in items if wanted.isdisjoint(item.user_properties)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]


def pytest_runtest_logreport(report):
    if _file and (report.when == "call" or report.outcome != "passed"):
        measured = [value for name, value in report.user_properties if name == "measured"]
        for number in {value for name, value in report.user_properties if name == "guarantee"}:
            _outcomes[number].append(
                {"test": report.nodeid, "outcome": report.outcome, "measured": measured, "seconds": report.duration}
            )
        Path(_file).write_text(json.dumps(_outcomes), encoding="utf-8")
