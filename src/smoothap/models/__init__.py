"""Networks that turn images into unit vectors, and where their weights come from."""

from smoothap.models.embedder import Embedder, open_model

__all__ = ["Embedder", "open_model"]
