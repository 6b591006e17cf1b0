"""What a run over the photo folder did."""

from dataclasses import dataclass, field


@dataclass
class UpdateReport:
    """Paths by what became of them; `seen` files is the sum of added, changed, unchanged and unreadable."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    relabelled: list[str] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)  # path -> reason
    unchanged: int = 0

    @property
    def seen(self) -> int:
        """How many files were looked at."""
        return len(self.added) + len(self.changed) + self.unchanged + len(self.unreadable)
