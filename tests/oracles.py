"""Slow, plain loops written from the paper's equations, and brute-force rankings, for the fast code to agree with."""

import math
from collections.abc import Iterator

import numpy as np
import sklearn
import torch
from sklearn.metrics import average_precision_score
from torch import Tensor


def smooth_ap_of_sets(scores: Tensor, positives: list[int], negatives: list[int], tau: float) -> Tensor:
    """The equation between Eq. 6 and 7 for one query, term by term. scores (items,)

    Where no gradient is asked for the terms are plain numbers of Python, which are many times faster.
    """
    terms = scores if scores.requires_grad else scores.tolist()
    total = 0.0
    for i in positives:
        among_positives = 1.0
        for j in positives:
            if j != i:
                among_positives = among_positives + _sigmoid((terms[j] - terms[i]) / tau)
        negatives_above = 0.0
        for j in negatives:
            negatives_above = negatives_above + _sigmoid((terms[j] - terms[i]) / tau)
        total = total + among_positives / (among_positives + negatives_above)
    return scores.new_zeros(()) + total / len(positives)


def queries_of(embeddings: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, list[int], list[int]]]:
    """Of each query that has a positive: its cosines with all rows, its positives and its negatives."""
    units = embeddings / embeddings.norm(dim=1, keepdim=True)
    for q in range(len(labels)):
        others = [j for j in range(len(labels)) if j != q]
        positives = [j for j in others if labels[j] == labels[q]]
        if positives:
            yield units @ units[q], positives, [j for j in others if labels[j] != labels[q]]


def _sigmoid(value: Tensor | float) -> Tensor | float:
    return torch.sigmoid(value) if isinstance(value, Tensor) else (1 + math.tanh(value / 2)) / 2


def smooth_ap_losses(
    embeddings: Tensor,
    labels: Tensor,
    tau: float,
    include_query: bool = False,
    ref_emb: Tensor | None = None,
    ref_labels: Tensor | None = None,
    self_index: Tensor | None = None,
) -> Tensor:
    """1 - AP of each query by the loop; 0 for a query without a positive. (queries,)"""
    if ref_emb is None or ref_labels is None:
        ref_emb, ref_labels = embeddings, labels
        self_index = torch.full_like(labels, -1) if include_query else torch.arange(len(labels))
    if self_index is None:
        self_index = torch.full_like(labels, -1)
    queries = embeddings / embeddings.norm(dim=1, keepdim=True)
    items = ref_emb / ref_emb.norm(dim=1, keepdim=True)
    losses = []
    self_index, names, item_names = self_index.tolist(), labels.tolist(), ref_labels.tolist()
    for q in range(len(labels)):
        members = [j for j in range(len(items)) if j != self_index[q]]
        positives = [j for j in members if item_names[j] == names[q]]
        negatives = [j for j in members if item_names[j] != names[q]]
        if positives:
            losses.append(1 - smooth_ap_of_sets(items @ queries[q], positives, negatives, tau))
        else:
            losses.append(embeddings.new_zeros(()))
    return torch.stack(losses)


def authors_loss(embeddings: Tensor, samples_per_class: int, tau: float) -> Tensor:
    """What the authors' released code computes: B x B x B, equal classes in order, the query among its positives."""
    units = embeddings / embeddings.norm(dim=1, keepdim=True)
    batch = len(units)
    scores = units @ units.T
    differences = (scores[:, None, :] - scores[:, :, None]) / tau
    terms = torch.sigmoid(differences) * (1 - torch.eye(batch, dtype=units.dtype))
    rank = 1 + terms.sum(2)
    total = units.new_zeros(())
    for start in range(0, batch, samples_per_class):
        members = slice(start, start + samples_per_class)
        among = 1 + terms[members, members, members].sum(2)
        total = total + (among / rank[members, members]).sum() / samples_per_class
    return 1 - total / batch


def brute_force(
    queries: np.ndarray, labels: np.ndarray, gallery: np.ndarray | None = None, gallery_labels: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Every metric of every query by comparing all scores with all positives, AP by scikit-learn."""
    items, item_labels = (queries, labels) if gallery is None else (gallery, gallery_labels)
    scores = queries @ items.T
    metrics = {
        name: np.full(len(queries), np.nan) for name in ("average_precision", "map_at_r", "r_precision", "precision_5")
    }
    metrics["first_hit_rank"] = np.zeros(len(queries), int)
    for q in range(len(queries)):
        kept = np.ones(len(items), bool)
        if gallery is None:
            kept[q] = False
        row, relevant = scores[q][kept], (item_labels == labels[q])[kept]
        if not relevant.any():
            continue
        positive = row[relevant]
        rank = np.array([(row >= score).sum() for score in positive])
        precision = np.array([(positive >= score).sum() for score in positive]) / rank
        size = len(positive)
        with sklearn.config_context(skip_parameter_validation=True):  # half of its time
            metrics["average_precision"][q] = average_precision_score(relevant, row)
        metrics["first_hit_rank"][q] = 1 + (row[~relevant] >= positive.max()).sum()
        metrics["r_precision"][q] = (rank <= size).mean()
        metrics["map_at_r"][q] = precision[rank <= size].sum() / size
        metrics["precision_5"][q] = (rank <= 5).sum() / 5
    return metrics


def average_precision_of(units: np.ndarray, labels: np.ndarray, query: int, kept: np.ndarray) -> float:
    """AP of one query among the items that are kept, by scikit-learn; NaN without a positive."""
    others = kept.copy()
    others[query] = False
    relevant = labels[others] == labels[query]
    return average_precision_score(relevant, units[others] @ units[query]) if relevant.any() else math.nan


def defined_score(left: np.ndarray, right: np.ndarray) -> float:
    """The score of two rows as metrics/cosine.py defines it, one plain Python number at a time."""
    x, y = _given(left), _given(right)
    return _sum_by_halves(x, y) / (math.sqrt(_sum_by_halves(x, x)) * math.sqrt(_sum_by_halves(y, y)))


def _given(row: np.ndarray) -> list[float]:
    numbers = [float(value) for value in row]
    if row.dtype != np.float64:
        return numbers
    _, exponent = math.frexp(max(abs(value) for value in numbers))
    return [math.ldexp(value, -min(max(exponent, -1000), 1000)) for value in numbers]


def _sum_by_halves(x: list[float], y: list[float]) -> float:
    terms = [a * b for a, b in zip(x, y, strict=True)]
    terms += [0.0] * ((1 << (len(terms) - 1).bit_length()) - len(terms))
    while len(terms) > 1:
        half = len(terms) // 2
        terms = [terms[i] + terms[half + i] for i in range(half)]
    return terms[0]


def ranking_by_definition(embeddings: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """AP and the rank of the first hit of every row among all others, from `defined_score`. (n,), (n,)"""
    precisions, first_hits = np.full(len(labels), np.nan), np.zeros(len(labels), int)
    for q in range(len(labels)):
        scores = {i: defined_score(embeddings[q], embeddings[i]) for i in range(len(labels)) if i != q}
        positives = [i for i in scores if labels[i] == labels[q]]
        if positives:
            rank = {i: sum(score >= scores[i] for score in scores.values()) for i in positives}
            among = {i: sum(scores[j] >= scores[i] for j in positives) for i in positives}
            best = max(scores[i] for i in positives)
            precisions[q] = sum(among[i] / rank[i] for i in positives) / len(positives)
            first_hits[q] = 1 + sum(s >= best for i, s in scores.items() if labels[i] != labels[q])
    return precisions, first_hits
