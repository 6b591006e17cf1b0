"""The results of one evaluation: they print as a table, and save and load as JSON."""

import json
import math
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Report:
    """Exact metrics over the full ranking, as fractions of 1."""

    mean_average_precision: float
    recall: dict[int, float]  # K -> share of the queries with a hit among the first K
    precision: dict[int, float]  # K -> mean share of positives among the first K
    map_at_r: float
    r_precision: float
    class_mean_average_precision: float  # every class counts the same
    queries: int  # that have a positive
    skipped: int  # that have none, and are left out
    average_precision: np.ndarray = field(repr=False)  # (all queries,), NaN where skipped
    first_hit_rank: np.ndarray = field(repr=False)  # (all queries,), 0 where skipped
    copies: int = 0  # queries that have an exact copy of themselves among their items

    def __str__(self) -> str:
        rows = [
            ("mAP", self.mean_average_precision),
            *((f"Recall@{k}", value) for k, value in self.recall.items()),
            *((f"Precision@{k}", value) for k, value in self.precision.items()),
            ("mAP@R", self.map_at_r),
            ("R-precision", self.r_precision),
            ("mAP, mean over classes", self.class_mean_average_precision),
        ]
        lines = [f"{name:<24}{100 * value:8.2f} %" for name, value in rows]
        lines.append(f"{'queries':<24}{self.queries:8,}")
        if self.skipped:
            lines.append(f"{'without a positive':<24}{self.skipped:8,}")
        if self.copies:
            lines.append(self.about_copies())
        return "\n".join(lines)

    def main_metrics(self) -> dict[str, float]:
        """mAP, the mean Average Precision, and Recall@K, the share of the queries with a hit among the first K."""
        return {"mAP": self.mean_average_precision, **{f"Recall@{k}": value for k, value in self.recall.items()}}

    def about_copies(self) -> str:
        """A sentence on the queries that have exact copies; nothing where there are none."""
        return copies_warning(self.copies, self.queries + self.skipped)

    def summary(self) -> dict[str, Any]:
        """The metrics without the arrays of each query."""
        return {key: value for key, value in asdict(self).items() if not isinstance(value, np.ndarray)}

    def to_json(self) -> str:
        """Everything, the values of each query included."""
        everything = self.summary() | {
            "average_precision": self.average_precision.tolist(),
            "first_hit_rank": self.first_hit_rank.tolist(),
        }
        # JSON has no NaN, which Python writes all the same: read it back as null
        return json.dumps(json.loads(json.dumps(everything), parse_constant=lambda _: None), indent=1)

    def save(self, path: Path | str) -> None:
        """Write the report as JSON."""
        Path(path).write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: Path | str) -> "Report":
        """Read what `save` wrote."""
        expected = {column.name for column in fields(cls)}
        try:
            # reports did not always have the number of copies
            values: dict[str, Any] = {"copies": 0} | json.loads(Path(path).read_text(encoding="utf-8"))
            if set(values) != expected:
                raise ValueError(f"it has {sorted(values)}")
            values |= {name: math.nan for name, value in values.items() if value is None}
            for name in ("recall", "precision"):
                values[name] = {int(k): math.nan if value is None else value for k, value in values[name].items()}
            values["average_precision"] = np.array(values["average_precision"], np.float64)  # NaN for null
            values["first_hit_rank"] = np.array(values["first_hit_rank"], np.int64)
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise ValueError(f"{path} is not a saved report: it should hold {sorted(expected)}") from error
        return cls(**values)


def copies_warning(copies: int, queries: int) -> str:
    """What to say where some queries have exact copies; nothing where none has."""
    if not copies:
        return ""
    return (
        f"Warning: {copies:,} of {queries:,} queries have an exact copy of themselves among what is ranked for them, "
        "so these numbers say less about new images. smoothap data check finds copies."
    )
