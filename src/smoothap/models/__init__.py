"""Networks that turn images into unit vectors, and where their weights come from."""

from smoothap.torchvision_guard import ensure_torchvision

ensure_torchvision()  # before any module of this room imports timm, which imports torchvision

from smoothap.models.embedder import Embedder, open_model  # noqa: E402

__all__ = ["Embedder", "open_model"]
