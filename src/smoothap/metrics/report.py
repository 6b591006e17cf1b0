"""The figures of one evaluation: they print as a table, and save and load as JSON."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Report:
    """Exact figures over the full ranking, as fractions of 1."""

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
        return "\n".join(lines)

    def summary(self) -> dict[str, Any]:
        """The figures without the arrays of each query."""
        return {key: value for key, value in asdict(self).items() if not isinstance(value, np.ndarray)}

    def to_json(self) -> str:
        """Everything, the values of each query included."""
        everything = self.summary() | {
            "average_precision": [None if math.isnan(each) else each for each in self.average_precision.tolist()],
            "first_hit_rank": self.first_hit_rank.tolist(),
        }
        return json.dumps(_without_nan(everything), indent=1)

    def save(self, path: Path | str) -> None:
        """Write the report as JSON."""
        Path(path).write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: Path | str) -> "Report":
        """Read what `save` wrote."""
        expected = {each.name for each in fields(cls)}
        try:
            values = json.loads(Path(path).read_text(encoding="utf-8"))
            if set(values) != expected:
                raise ValueError(f"it has {sorted(values)}")
            for name in ("recall", "precision"):
                values[name] = {int(k): _number(value) for k, value in values[name].items()}
            values["average_precision"] = np.array([_number(each) for each in values["average_precision"]])
            values["first_hit_rank"] = np.array(values["first_hit_rank"], np.int64)
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise ValueError(f"{path} is not a saved report: it should hold {sorted(expected)}") from error
        plain: dict[str, Any] = {key: math.nan if value is None else value for key, value in values.items()}
        return cls(**plain)


def make_report(
    average_precision: np.ndarray,
    first_hit_rank: np.ndarray,
    precision_at_r: np.ndarray,
    r_precision: np.ndarray,
    precision: np.ndarray,
    classes: np.ndarray,
    recall_at: Sequence[int],
) -> Report:
    """Means over the queries that have a positive. All (queries,), precision (queries, len(recall_at))."""
    asked = first_hit_rank > 0
    number = int(asked.sum())

    def mean(values: np.ndarray) -> float:
        return _exact_mean(values[asked])

    sums = np.bincount(classes[asked], weights=average_precision[asked])
    sizes = np.bincount(classes[asked])
    return Report(
        mean_average_precision=mean(average_precision),
        recall={k: mean(first_hit_rank <= k) for k in recall_at},
        precision={k: mean(precision[:, place]) for place, k in enumerate(recall_at)},
        map_at_r=mean(precision_at_r),
        r_precision=mean(r_precision),
        class_mean_average_precision=_exact_mean(sums[sizes > 0] / sizes[sizes > 0]),
        queries=number,
        skipped=len(asked) - number,
        average_precision=average_precision,
        first_hit_rank=first_hit_rank,
    )


def _exact_mean(values: np.ndarray) -> float:
    """The mean, the same for any order of the values."""
    return math.fsum(values.tolist()) / len(values) if len(values) else math.nan


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _without_nan(each) for key, each in value.items()}
    return None if isinstance(value, float) and math.isnan(value) else value
