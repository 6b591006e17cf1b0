"""An album brought up to date on Ray: the same parts as several processes compute, by actors on any machines.

Each actor holds the model and computes parts, one after another: it reads, decodes, embeds and counts in by itself, and
says how many photos there were. The photos, the album and its model are in folders, or at addresses, that all machines
reach by the same names.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from importlib import import_module
from typing import Any

from smoothap._core.progress import Progress
from smoothap.album._parallel_indexing import finish
from smoothap.album._part_work import PartWork

AUTO = "auto"
_TRIES = 5  # of a part whose actor was lost; its photos may be what takes it down


def compute_on_ray(work: PartWork, address: str, *, progress: bool) -> dict[str, int]:
    """Compute all parts by actors of a cluster; how many photos were added, changed and so on.

    `address` is that of the cluster, "auto" for the one of this machine, or "local" to start one for this call. Lost
    actors are started again, and the driver may be killed: the next run does what is missing.
    """
    ray = _ray()
    if not ray.is_initialized():
        options = {"_node_ip_address": "127.0.0.1"} if address == "local" else {"address": address}
        ray.init(**options, include_dashboard=False, log_to_driver=False, configure_logging=False)
    resources = ray.cluster_resources()
    on_gpu = resources.get("GPU", 0) >= 1
    actors = max(1, int(resources.get("GPU" if on_gpu else "CPU", 1)))
    work = replace(work, device=None if on_gpu else "cpu")
    counts: Counter[str] = Counter()
    with Progress("Indexing on Ray", work.of, "parts", shown=progress) as line:
        for part in _computed(ray, work, actors, on_gpu):
            counts.update(part)  # which adds
            line.advance()
    finish(work)
    return dict(counts)


class _PartActor:
    """The model of an album, in a process of Ray's."""

    def __init__(self, work: PartWork, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        self._work = work

    def compute(self, number: int) -> dict[str, int]:
        """Compute one part; nothing but counts goes back."""
        return self._work.compute(number).counts()


def _computed(ray: Any, work: PartWork, actors: int, on_gpu: bool) -> Any:
    """The counts of each part as it is done; a part whose actor is lost is given to a new one."""
    # A share of a core each, so that others on the cluster are not kept waiting for ever.
    needs = {"num_gpus": 1, "num_cpus": 0.5} if on_gpu else {"num_cpus": 0.9}
    actor = ray.remote(**needs)(_PartActor)

    def started() -> Any:
        return actor.remote(work, 1)

    waiting, tries = list(range(work.of, 0, -1)), Counter[int]()
    running: dict[Any, tuple[Any, int]] = {}
    for _ in range(min(actors, work.of)):
        one, number = started(), waiting.pop()
        running[one.compute.remote(number)] = one, number
    while running:
        (done,), _ = ray.wait(list(running), num_returns=1)
        one, number = running.pop(done)
        try:
            counts = ray.get(done)
        except ray.exceptions.RayActorError as error:
            tries[number] += 1
            if tries[number] == _TRIES:
                raise RuntimeError(
                    f"Part {number}/{work.of} took down {_TRIES} actors, perhaps for want of memory. What was done is "
                    "kept: give the actors more memory, and run this again."
                ) from error
            one = started()
            waiting.append(number)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from error
        else:
            yield counts
        if waiting:
            number = waiting.pop()
            running[one.compute.remote(number)] = one, number


def _ray() -> Any:
    try:
        return import_module("ray")
    except ModuleNotFoundError as missing:
        raise ValueError("--ray needs Ray: pip install 'smoothap[ray]'") from missing
