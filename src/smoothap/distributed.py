"""Several processes under torchrun: which share of the work is mine, and sums over all."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist


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
