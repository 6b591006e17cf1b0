"""Embeddings of past batches as a larger retrieval set (cross-batch memory), for Smooth-AP too."""

import torch
from torch import Tensor


class EmbeddingQueue:
    """The latest `size` embeddings with their labels; the oldest make room for new ones."""

    def __init__(self, size: int, dimension: int, device: torch.device | str = "cpu") -> None:
        self.size = size
        self.embeddings = torch.empty(0, dimension, device=device)  # oldest first
        self.labels = torch.empty(0, dtype=torch.long, device=device)

    def __len__(self) -> int:
        return len(self.labels)

    def add(self, embeddings: Tensor, labels: Tensor) -> None:
        """Append a batch: embeddings (b, d), labels (b,)."""
        self.embeddings = torch.cat([self.embeddings, embeddings.detach()])[-self.size :]
        self.labels = torch.cat([self.labels, labels])[-self.size :]

    def extend(self, embeddings: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """The retrieval set of a batch and of what is remembered, as arguments of a loss.

        embeddings (b, d), labels (b,) -> ref_emb (b + n, d), ref_labels (b + n,), self_index (b,): each query's own
        row.
        """
        return {
            "ref_emb": torch.cat([embeddings, self.embeddings]),
            "ref_labels": torch.cat([labels, self.labels]),
            "self_index": torch.arange(len(labels), device=labels.device),
        }
