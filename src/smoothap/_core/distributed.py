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
            # A group that a user made may know the accelerator alone, as one of NCCL does.
            knows_cpu = "cpu:" in dist.get_backend_config()
            total = torch.from_numpy(values).to("cpu" if knows_cpu else torch.accelerator.current_accelerator())
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


def backends() -> str:
    """What the processes talk through: Gloo for the CPU, and for the accelerator what torch has for it."""
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if accelerator is None:
        return "cpu:gloo"
    return f"cpu:gloo,{accelerator.type}:{dist.get_default_backend_for_device(accelerator)}"


@contextmanager
def joined_processes() -> Generator[Processes]:
    """Join the processes that torchrun started, each with an accelerator of its own where there are several."""
    if "TORCHELASTIC_RUN_ID" not in os.environ or dist.is_initialized():
        yield Processes.here()
        return
    if torch.accelerator.device_count() > 1:
        torch.get_device_module().set_device(int(os.environ["LOCAL_RANK"]))
    backend = backends()
    if os.environ.get("GROUP_WORLD_SIZE") == "1":
        # torchrun keeps its store when it restarts the processes. One that found the address of a dead process there
        # would wait for it for half an hour, so each attempt has keys of its own. Only processes of one machine are
        # sure to agree on the number of the attempt.
        store, rank, number = next(dist.rendezvous("env://"))
        store = dist.PrefixStore(f"attempt-{os.environ['TORCHELASTIC_RESTART_COUNT']}", store)
        dist.init_process_group(backend, store=store, rank=rank, world_size=number)
    else:
        dist.init_process_group(backend)
    try:
        yield Processes.here()
    finally:
        dist.destroy_process_group()
