"""What an album learns from its collections: a projection of its vectors, trained with Smooth-AP and checked."""

from smoothap.learning.checking import Check
from smoothap.learning.from_collections import Learning, learn

__all__ = ["Check", "Learning", "learn"]
