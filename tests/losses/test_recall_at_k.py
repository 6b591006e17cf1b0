import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import queries_of

from smoothap import RecallAtK


def recall_losses(embeddings, labels, ks, tau1, tau2):
    """1 - smoothed Recall@k, averaged over k, of each query with a positive, term by term."""
    losses = []
    for scores, positives, negatives in queries_of(embeddings, labels):
        ranks = []
        for i in positives:
            others = [j for j in positives + negatives if j != i]
            ranks.append(1 + sum(1 / (1 + torch.exp(-(scores[j] - scores[i]) / tau2)) for j in others))
        recalls = []
        for k, tau in zip(ks, tau1, strict=True):
            hits_within = sum(1 / (1 + torch.exp(-torch.as_tensor(k - rank) / tau)) for rank in ranks)
            recalls.append(torch.minimum(hits_within, torch.tensor(float(k))) / min(k, len(positives)))
        losses.append(1 - sum(recalls) / len(ks))
    return torch.stack(losses) if losses else embeddings.sum(1) * 0


@given(
    seed=st.integers(0, 2**31),
    rows=st.integers(3, 10),
    classes=st.integers(1, 4),
    settings=st.sampled_from([((1, 2, 4, 8), (1.0,) * 4, 0.01), ((1,), (0.3,), 0.2), ((2, 5), (2.0, 5.0), 0.1)]),
)
def test_value_and_gradient_are_the_definition_term_by_term(seed, rows, classes, settings):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, classes, (rows,), generator=generator)
    embeddings = torch.randn(rows, 4, generator=generator, dtype=torch.float64).requires_grad_()
    ours = RecallAtK(*settings)(embeddings, labels)
    expected = recall_losses(embeddings, labels, *settings).mean()
    assert abs(ours - expected).item() <= 1e-10
    gradients = [torch.autograd.grad(loss, embeddings)[0] for loss in (ours, expected)]
    assert (gradients[0] - gradients[1]).abs().max() <= 1e-8


def test_more_positives_than_places_are_cut_at_k_and_push_no_further():
    """Nine positives of about equal score share rank 5: a smoothed sum of about 8.6 within 8 places counts as 8."""
    embeddings = torch.randn(10, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    loss = RecallAtK(k=(8,), tau2=10.0)(embeddings, torch.zeros(10, dtype=torch.long))
    assert loss.item() == pytest.approx(0, abs=1e-6)
    loss.backward()
    assert (embeddings.grad == 0).all()


def hits(embeddings, labels, k):
    """How many of the k best of each query are positives, the query left out. (queries,)"""
    units = embeddings / embeddings.norm(dim=1, keepdim=True)
    scores = (units @ units.T).fill_diagonal_(-2)
    return (labels[scores.topk(k, 1).indices] == labels[:, None]).sum(1)


@pytest.mark.parametrize("k", [2, 3, 6])
def test_cold_sigmoids_give_the_exact_recall(k):
    """A positive at rank k is on the edge and counts one half."""
    generator = torch.Generator().manual_seed(k)
    embeddings = torch.randn(60, 4, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, 12, (60,), generator=generator)
    positives = (labels[:, None] == labels).sum(1) - 1
    mean_hits = (hits(embeddings, labels, k) + hits(embeddings, labels, k - 1)) / 2
    expected = (mean_hits / positives.clamp(max=k))[positives > 0].mean()
    loss = RecallAtK(k=(k,), tau1=1e-3, tau2=1e-7)(embeddings, labels)
    assert loss.item() == pytest.approx(1 - expected.item(), abs=1e-6)


@pytest.mark.parametrize(
    "settings", [{"k": ()}, {"k": (0,)}, {"k": (1.5,)}, {"k": (True,)}, {"tau1": (1.0,)}, {"tau1": 0.0}, {"tau2": -1.0}]
)
def test_settings_that_make_no_sense_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        RecallAtK(**settings)
