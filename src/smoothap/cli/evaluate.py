"""`smoothap evaluate`."""

from pathlib import Path


def evaluate(*, embeddings: Path, labels: Path) -> None:
    """Exact retrieval figures."""
    print(embeddings, labels)
