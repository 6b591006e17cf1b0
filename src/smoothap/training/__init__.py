"""Fine-tuning a network by its ranking: the loop, its settings, and the test at its end."""

__all__ = ["checkpoint", "evaluation", "log", "loop", "recipe", "settings"]
