"""The results of one evaluation: they print as a table, and save and load as JSON."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from smoothap.metrics.bootstrap import Difference, Interval, class_intervals

_FLOATS = ("average_precision", "average_precision_at_r", "precision_at_r", "ndcg_of_queries")
_WHOLE_NUMBERS = ("first_hit_rank", "classes", "positives_at_k")


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
    copies: int  # queries that have an exact copy of themselves among their items
    classes: np.ndarray = field(repr=False)  # (all queries,), in order of appearance
    average_precision_at_r: np.ndarray = field(repr=False)  # (all queries,), NaN where skipped
    precision_at_r: np.ndarray = field(repr=False)  # (all queries,), NaN where skipped
    positives_at_k: np.ndarray = field(repr=False)  # (all queries, K), among the first K
    ndcg: float | None = None  # of the whole ranking, where relevance was graded
    ndcg_of_queries: np.ndarray | None = field(default=None, repr=False)  # (all queries,), NaN where nothing counts

    def __str__(self) -> str:
        return self._table([f"{_title(metric):<24}{100 * self._value(metric):8.2f} %" for metric in self.metrics()])

    def with_intervals(self) -> str:
        """The same table with ± half of the 95% interval over classes."""
        intervals = self.intervals(self.metrics())
        rows = [(_title(metric), interval) for metric, interval in intervals.items()]
        return self._table([f"{name:<24}{100 * each.value:8.2f} ± {100 * each.margin:.2f} %" for name, each in rows])

    def _table(self, lines: list[str]) -> str:
        lines.append(f"{'queries':<24}{self.queries:8,}")
        if self.skipped:
            lines.append(f"{'without a positive':<24}{self.skipped:8,}")
        if self.copies:
            lines.append(self.about_copies())
        return "\n".join(lines)

    def _value(self, metric: str) -> float:
        name, at, k = metric.partition("_at_")
        return getattr(self, name)[int(k)] if at and k.isdigit() else getattr(self, metric)

    def metrics(self) -> list[str]:
        """The names by which `interval` and `compare` know the metrics, such as "recall_at_1"."""
        at_k = [f"{name}_at_{k}" for name in ("recall", "precision") for k in self.recall]
        graded = [] if self.ndcg is None else ["ndcg"]
        return ["mean_average_precision", *at_k, *graded, "map_at_r", "r_precision", "class_mean_average_precision"]

    def interval(self, metric: str = "mean_average_precision", *, level: float = 0.95, seed: int = 0) -> Interval:
        """A metric with its bootstrap interval over classes.

        >>> from smoothap import evaluate
        >>> report = evaluate(np.eye(3).repeat(2, 0), [0, 0, 1, 1, 2, 2], recall_at=(1,))
        >>> str(report.interval("recall_at_1"))
        '100.0 ± 0.0'
        """
        return self.intervals([metric], level=level, seed=seed)[metric]

    def intervals(self, metrics: Sequence[str], *, level: float = 0.95, seed: int = 0) -> dict[str, Interval]:
        """Several metrics with their intervals, in all of which the same classes are drawn."""
        sums = [self._by_class(metric) for metric in metrics]
        found = class_intervals(sums, level=level, seed=seed)
        # every metric is a share: the studentised interval of few classes knows nothing of that
        within = [Interval(each.value, *np.clip([each.low, each.high], 0, 1).tolist()) for each in found]
        return dict(zip(metrics, within, strict=True))

    def compare(
        self, other: "Report", metric: str = "mean_average_precision", *, level: float = 0.95, seed: int = 0
    ) -> Difference:
        """How much better this report is than another on the same queries, in pairs."""
        if len(self.average_precision) != len(other.average_precision) or not np.array_equal(
            self.classes, other.classes
        ):
            raise ValueError("The two reports are not about the same queries in the same order: evaluate the same set.")
        mine, theirs = (report._of_queries(metric) for report in (self, other))
        counted = np.ones(len(mine), bool) if metric == "ndcg" else self._counted & other._counted
        differences = np.where(counted, mine - theirs, np.nan)
        (interval,) = class_intervals([self._summed(metric, differences)], level=level, seed=seed)
        paired = differences[~np.isnan(differences)]
        won, lost = (float(np.mean(side)) if len(side) else math.nan for side in (paired > 0, paired < 0))
        return Difference(*interval, won, lost)

    @property
    def _counted(self) -> np.ndarray:
        return self.first_hit_rank > 0

    def _of_queries(self, metric: str) -> np.ndarray:
        """The metric of each query, (all queries,)."""
        known = {
            "mean_average_precision": self.average_precision,
            "class_mean_average_precision": self.average_precision,
            "map_at_r": self.average_precision_at_r,
            "r_precision": self.precision_at_r,
        }
        if self.ndcg_of_queries is not None:
            known["ndcg"] = self.ndcg_of_queries
        for column, k in enumerate(self.recall):
            known[f"recall_at_{k}"] = (self.first_hit_rank <= k).astype(np.float64)
            known[f"precision_at_{k}"] = self.positives_at_k[:, column] / k
        if metric not in known:
            raise ValueError(f"There is no metric {metric!r} in this report; it has {', '.join(self.metrics())}.")
        return known[metric]

    def _by_class(self, metric: str) -> tuple[np.ndarray, np.ndarray]:
        values = self._of_queries(metric)  # gains count for nDCG, also where nothing is of the query's own class
        return self._summed(metric, values if metric == "ndcg" else np.where(self._counted, values, np.nan))

    def _summed(self, metric: str, of_queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Over each class that has queries: the sum of the metric and its weight, both (classes,)."""
        counted = ~np.isnan(of_queries)
        sizes = np.bincount(self.classes[counted])
        sums, sizes = np.bincount(self.classes[counted], of_queries[counted])[sizes > 0], sizes[sizes > 0]
        if metric == "class_mean_average_precision":
            return sums / sizes, np.ones(len(sizes))
        return sums, sizes.astype(np.float64)

    def main_metrics(self) -> dict[str, str]:
        """The names of mAP, the mean Average Precision, and of Recall@K, the share of the queries with a hit in K."""
        return {_title(metric): metric for metric in self.metrics() if metric[:6] in ("mean_a", "recall")}

    def about_copies(self) -> str:
        """A sentence on the queries that have exact copies; nothing where there are none."""
        return copies_warning(self.copies, self.queries + self.skipped)

    def summary(self) -> dict[str, Any]:
        """The metrics without the arrays of each query."""
        return {key: value for key, value in asdict(self).items() if not isinstance(value, np.ndarray)}

    def to_json(self) -> str:
        """Everything, the values of each query included."""
        everything = {
            column.name: value.tolist() if isinstance(value := getattr(self, column.name), np.ndarray) else value
            for column in fields(self)
        }
        # JSON has no NaN, which Python writes all the same: read it back as null
        return json.dumps(json.loads(json.dumps(everything), parse_constant=lambda _: None), indent=1)

    def save(self, path: Path | str) -> None:
        """Write the report as JSON."""
        Path(path).write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: Path | str) -> "Report":
        """Read what `save` wrote."""
        return cls._from_dict(_read_json(path), path)

    @classmethod
    def load_all(cls, path: Path | str) -> "dict[str, Report]":
        """Read what `smoothap evaluate --out` wrote: reports by the names of their tests; a single one has no name."""
        content = _read_json(path)
        if not isinstance(content, dict):
            raise ValueError(f"{path} is not a saved report: it should be an object, not {type(content).__name__}")
        several = {"": content} if "queries" in content else content
        return {name: cls._from_dict(values, path) for name, values in several.items()}

    @classmethod
    def _from_dict(cls, content: Any, path: Path | str) -> "Report":
        expected = {column.name for column in fields(cls)}
        try:
            if set(content) != expected:
                raise ValueError(f"it has {sorted(content)}")
            values: dict[str, Any] = {name: math.nan if value is None else value for name, value in content.items()}
            for name in ("recall", "precision"):
                values[name] = {int(k): math.nan if value is None else value for k, value in values[name].items()}
            if content["ndcg_of_queries"] is None:
                values["ndcg"] = None
            queries = len(content["average_precision"])
            for name in (*_FLOATS, *_WHOLE_NUMBERS):
                array = np.array(content[name], np.float64 if name in _FLOATS else np.int64)  # NaN for null
                shape = (queries, len(values["recall"])) if name == "positives_at_k" else (queries,)
                is_left_out = name == "ndcg_of_queries" and content[name] is None
                if array.shape != shape and not is_left_out:
                    raise ValueError(f"{name} is not of shape {shape}")
                values[name] = None if is_left_out else array
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"{path} is not a saved report: it should hold {sorted(expected)}") from error
        return cls(**values)


def _read_json(path: Path | str) -> Any:
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a saved report: {str(error)[:200]}") from error


def _title(metric: str) -> str:
    """The name of a metric as the table has it."""
    titles = {
        "mean_average_precision": "mAP",
        "map_at_r": "mAP@R",
        "r_precision": "R-precision",
        "ndcg": "nDCG",
        "class_mean_average_precision": "mAP, mean over classes",
    }
    return titles.get(metric) or metric.capitalize().replace("_at_", "@")


def copies_warning(copies: int, queries: int) -> str:
    """What to say where some queries have exact copies; nothing where none has."""
    if not copies:
        return ""
    return (
        f"Warning: {copies:,} of {queries:,} queries have an exact copy of themselves among what is ranked for them, "
        "so these numbers say less about new images. smoothap data check finds copies."
    )
