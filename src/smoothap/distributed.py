"""Several processes under torchrun: which share of the work is mine, sums over all, and one batch out of all parts."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class Processes:
    """This process among `number` that work together."""

    rank: int = 0
    number: int = 1

    @classmethod
    def here(cls) -> "Processes":
        """Those of the default process group, or this one alone."""
        if dist.is_available() and dist.is_initialized():
            return cls(dist.get_rank(), dist.get_world_size())
        return cls()

    def has(self, piece: int) -> bool:
        """Whether the piece of work with this number is this process's."""
        return piece % self.number == self.rank

    def add_up(self, values: np.ndarray) -> None:
        """Replace the values by their sum over all processes, in place."""
        if self.number > 1:
            device = torch.device("cuda", torch.cuda.current_device()) if dist.get_backend() == "nccl" else "cpu"
            total = torch.from_numpy(values).to(device)
            dist.all_reduce(total)
            values[:] = total.cpu().numpy()

    def any(self, here: bool) -> bool:
        """Whether it is so in any of the processes."""
        votes = np.array([int(here)])
        self.add_up(votes)
        return bool(votes[0])

    def gather(self, rows: Tensor) -> Tensor:
        """The rows (n, ...) of all processes, in their order, as (sum of n, ...); processes may have different n.

        The gradient flows to this process's own rows alone. A loss of all rows, times `number`, therefore gives each
        process its part of the gradient, and the mean that data-parallel training takes is the whole; parameters of
        the loss itself see all rows in every process, and need their gradient divided by `number` again.
        """
        if self.number == 1:
            return rows
        counts = np.zeros(self.number, np.int64)
        counts[self.rank] = len(rows)
        self.add_up(counts)
        padded = rows.new_zeros((int(counts.max()), *rows.shape[1:]))
        padded[: len(rows)] = rows.detach()
        parts = [torch.empty_like(padded) for _ in range(self.number)]
        dist.all_gather(parts, padded)
        parts = [part[:count] for part, count in zip(parts, counts, strict=True)]
        parts[self.rank] = rows
        return torch.cat(parts)

    def wait(self) -> None:
        """Go on when all processes are here."""
        if self.number > 1:
            dist.barrier()


@contextmanager
def joined_processes() -> Generator[Processes]:
    """Join the processes that torchrun started, over NCCL where there is CUDA and Gloo elsewhere; or be alone."""
    if "TORCHELASTIC_RUN_ID" not in os.environ or dist.is_initialized():
        yield Processes.here()
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    if os.environ.get("GROUP_WORLD_SIZE") == "1":
        # torchrun keeps its store over restarts, and a process that finds the address of one that is dead waits for it
        # for half an hour: on one machine, where all agree on how often it restarted, each attempt has its own keys.
        store, rank, number = next(dist.rendezvous("env://"))
        store = dist.PrefixStore(f"attempt-{os.environ['TORCHELASTIC_RESTART_COUNT']}", store)
        dist.init_process_group(backend, store=store, rank=rank, world_size=number)
    else:
        dist.init_process_group(backend)
    try:
        yield Processes.here()
    finally:
        dist.destroy_process_group()
