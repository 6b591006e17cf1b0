"""Networks that turn images into unit vectors, and where their weights come from."""

import os

from smoothap.models.embedder import Embedder, open_model

__all__ = ["Embedder", "open_model"]

# Read when onnxruntime is loaded, which otherwise sends its makers what is run with it.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
