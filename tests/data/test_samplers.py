"""What batches guarantee, over sets of every shape."""

from collections import Counter
from enum import Enum
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothap.data._class_stream import GOLDEN, mix
from smoothap.data.samplers import BalancedBatches, PairBatches, WholeClassPairs

quick = settings(deadline=None, max_examples=60)


def shuffled_labels(sizes, seed=0, gap=3):
    """Class k has sizes[k] images; the labels come in any order and need not be 0 ... classes - 1."""
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)) * gap, sizes))


@st.composite
def balanced(draw):
    sizes = draw(st.lists(st.integers(1, 11), min_size=1, max_size=14))
    samples_per_class = draw(st.integers(1, 5))
    classes_per_batch = draw(st.integers(1, len(sizes)))
    settings = {
        "batch_size": classes_per_batch * samples_per_class,
        "samples_per_class": samples_per_class,
        "seed": draw(st.integers(0, 99)),
    }
    return shuffled_labels(sizes), settings | {"rounds": draw(st.sampled_from([None, 1, 3]))}


@st.composite
def paired(draw):
    samples_per_class, half = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    groups = draw(st.lists(st.lists(st.integers(1, 11), min_size=half, max_size=7), min_size=2, max_size=4))
    labels = shuffled_labels([size for sizes in groups for size in sizes], gap=1)
    group_of_class = np.repeat(np.arange(len(groups)) * 5, [len(sizes) for sizes in groups])
    settings = {
        "batch_size": 2 * half * samples_per_class,
        "samples_per_class": samples_per_class,
        "seed": draw(st.integers(0, 99)),
    }
    return labels, group_of_class[labels], settings | {"batches_per_pair": draw(st.integers(1, 5))}


def drawn_rows(batches, epoch, first_step=0):
    return [[draw.row for draw in step] for step in batches.draws(epoch, first_step)]


def assert_batches_are_right(rows, labels, batch_size, samples_per_class):
    for batch in rows:
        counts = Counter(labels[batch].tolist())
        assert set(counts.values()) == {samples_per_class}
        assert len(counts) == batch_size // samples_per_class


def assert_every_image_comes_before_one_repeats(rows, labels, samples_per_class):
    """Follow what each class hands out over time, `samples_per_class` at a time."""
    stream = np.concatenate(rows)
    for label in np.unique(labels):
        images = np.flatnonzero(labels == label)
        handed_out = stream[labels[stream] == label].reshape(-1, samples_per_class)
        for handful in handed_out:
            repeats = Counter(handful.tolist()).values()
            assert len(repeats) == min(samples_per_class, len(images))
            assert max(repeats) - min(repeats) <= 1
        in_a_cycle = -(-len(images) // samples_per_class)
        for start in range(0, len(handed_out), in_a_cycle):
            cycle = handed_out[start : start + in_a_cycle].ravel()
            new = min(len(cycle), len(images))
            assert len(set(cycle[:new].tolist())) == new


@quick
@given(balanced())
def test_balanced_batches_hold_exactly_so_many_images_of_different_classes(case):
    labels, settings = case
    batches = BalancedBatches(labels, **settings)
    for epoch in (0, 1, 17):
        rows = drawn_rows(batches, epoch)
        assert len(rows) == len(batches)
        assert_batches_are_right(rows, labels, settings["batch_size"], settings["samples_per_class"])


@quick
@given(balanced())
def test_every_class_comes_up_equally_often_in_an_epoch_and_over_epochs(case):
    labels, settings = case
    batches = BalancedBatches(labels, **settings)
    total = Counter()
    for epoch in range(4):
        visits = Counter(labels[np.concatenate(drawn_rows(batches, epoch))].tolist())
        total += visits
        classes, in_a_batch = len(set(labels.tolist())), settings["batch_size"] // settings["samples_per_class"]
        once_more = settings["samples_per_class"] if classes % in_a_batch else 0
        for counts in (visits, total):
            assert len(counts) == classes
            assert max(counts.values()) - min(counts.values()) <= once_more


@quick
@given(balanced())
def test_every_image_of_a_class_comes_before_one_repeats_over_epochs_too(case):
    labels, settings = case
    batches = BalancedBatches(labels, **settings)
    rows = [batch for epoch in range(5) for batch in drawn_rows(batches, epoch)]
    assert_every_image_comes_before_one_repeats(rows, labels, settings["samples_per_class"])


def test_by_size_a_class_comes_up_once_for_every_handful_it_has_and_small_ones_are_left_out():
    labels = shuffled_labels([3, 4, 8, 8, 12, 16])
    batches = BalancedBatches(labels, 8, 4, by_size=True, rounds=1)
    for epoch in range(3):
        rows = drawn_rows(batches, epoch)
        assert_batches_are_right(rows, labels, 8, 4)
        visits = Counter((labels[np.concatenate(rows)] // 3).tolist())
        assert visits == {1: 4, 2: 8, 3: 8, 4: 12, 5: 16}
        assert len(set(np.concatenate(rows).tolist())) == 48  # and so every image once


def test_filled_a_small_class_repeats_its_images_instead_of_being_left_out():
    labels = shuffled_labels([3, 4, 8, 8, 12, 9])
    rows = np.concatenate(drawn_rows(BalancedBatches(labels, 8, 4, by_size=True, fill=True, rounds=1), 0))
    assert Counter((labels[rows] // 3).tolist()) == {0: 4, 1: 4, 2: 8, 3: 8, 4: 12, 5: 12}


def test_whole_classes_follow_each_other_in_the_halves_of_a_pair():
    """FastAP's train_hard.m by hand: a cursor over the images of a group, class after class, around its end."""
    sizes = [5, 3, 7, 2, 4, 6, 3, 8, 5]
    labels = np.repeat(np.arange(9), sizes)
    groups = labels // 3
    batches = WholeClassPairs(labels, groups, 16, seed=3)
    assert len(batches) == 3 * 5
    orders = set()
    for epoch in range(2):
        rows = drawn_rows(batches, epoch)
        pairs = [tuple(dict.fromkeys(groups[batch].tolist())) for batch in rows]
        assert sorted(set(pairs)) == [(0, 1), (0, 2), (1, 2)]
        assert all(len(set(pairs[place : place + 5])) == 1 for place in (0, 5, 10))  # 5 of a pair in a row
        for group in range(3):
            stream = [row for batch in rows for row in batch if groups[row] == group]
            images = int((groups == group).sum())
            once = stream[:images]
            assert sorted(once) == np.flatnonzero(groups == group).tolist()
            assert stream == [once[place % images] for place in range(len(stream))]
            classes = labels[once]
            assert len(np.flatnonzero(np.diff(classes))) == 2  # each class in one piece
            orders.add(tuple(dict.fromkeys(classes.tolist())))
    assert len(orders) > 3


@quick
@given(paired())
def test_paired_batches_hold_exactly_so_many_images_of_different_classes_half_from_each_group(case):
    labels, groups, settings = case
    batches = PairBatches(labels, groups, **settings)
    everything = []
    for epoch in range(3):
        rows = drawn_rows(batches, epoch)
        everything += rows
        assert len(rows) == len(batches)
        assert_batches_are_right(rows, labels, settings["batch_size"], settings["samples_per_class"])
        pairs = Counter()
        for batch in rows:
            halves = Counter(groups[batch].tolist())
            assert set(halves.values()) == {settings["batch_size"] // 2}
            pairs[tuple(sorted(halves))] += 1
        every_pair = combinations(np.unique(groups).tolist(), 2)
        assert pairs == dict.fromkeys(every_pair, settings["batches_per_pair"])
    assert_every_image_comes_before_one_repeats(everything, labels, settings["samples_per_class"])


def test_in_a_group_classes_come_up_by_their_handfuls_and_every_image_is_used():
    sizes = [12, 12, 9, 4, 4, 3, 2, 1] * 2  # 3, 3, 3, 1, 1, 1, 1, 1 handfuls of 4, which make 7 halves of 2
    labels = shuffled_labels(sizes, gap=1)
    batches = PairBatches(labels, labels // 8, batch_size=16, batches_per_pair=7)
    rows = np.concatenate(drawn_rows(batches, 0))
    visits = np.bincount(labels[rows]) / 4
    assert visits.tolist() == [3, 3, 3, 1, 1, 1, 1, 1] * 2
    assert len(set(rows.tolist())) == len(labels)


def test_the_order_of_pairs_changes_from_epoch_to_epoch():
    labels = np.repeat(np.arange(12), 4)
    groups = labels // 3
    batches = PairBatches(labels, groups, batch_size=16, batches_per_pair=2)
    orders = {tuple(tuple(sorted(set(groups[batch].tolist()))) for batch in drawn_rows(batches, e)) for e in range(4)}
    assert len(orders) == 4


def test_groups_too_small_for_half_a_batch_are_put_together():
    labels = np.repeat(np.arange(12), 4)
    groups = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3])[labels]  # 5, 4, 2, 1 classes; half a batch holds 3
    batches = PairBatches(labels, groups, batch_size=24, batches_per_pair=4)
    assert len(batches) == 3 * 4
    assert set(np.concatenate(drawn_rows(batches, 0)).tolist()) == set(range(48))
    together = [set(groups[batch].tolist()) for batch in drawn_rows(batches, 0)]
    assert {frozenset(names) for names in together} == {frozenset(s) for s in ({0, 1}, {0, 2, 3}, {1, 2, 3})}


def test_classes_and_groups_may_be_names():
    labels, groups = np.arange(64) // 4, np.arange(64) // 16
    names, group_names = np.array([f"c{label:02}" for label in labels]), np.array(list("abcd"))[groups]
    for make in (PairBatches, WholeClassPairs):
        assert np.array_equal(make(names, group_names, 16).rows(0), make(labels, groups, 16).rows(0))


def both_kinds(ranks=1, rank=0, seed=0):
    labels = shuffled_labels([5, 7, 2, 9, 4, 4, 1, 6, 8, 3], gap=1)
    share = {"batch_size": 24, "samples_per_class": 3, "ranks": ranks, "rank": rank, "seed": seed}
    return BalancedBatches(labels, **share), PairBatches(labels, labels // 5, **share)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_the_shares_of_all_ranks_are_the_batch_of_one(kind, ranks):
    alone = list(both_kinds()[kind].draws(3))
    shares = [list(both_kinds(ranks, rank)[kind].draws(3)) for rank in range(ranks)]
    for step, batch in enumerate(alone):
        assert [draw for share in shares for draw in share[step]] == batch
        assert {len(share[step]) for share in shares} == {24 // ranks}


@pytest.mark.parametrize("kind", [0, 1])
def test_starting_in_the_middle_gives_what_an_uninterrupted_run_gives(kind):
    batches = both_kinds()[kind]
    for epoch in (0, 2, 301):
        whole = list(batches.draws(epoch))
        for first_step in range(len(whole) + 1):
            assert list(both_kinds()[kind].draws(epoch, first_step)) == whole[first_step:]


@pytest.mark.parametrize("kind", [0, 1])
def test_seeds_and_epochs_change_the_batches_and_nothing_else_does(kind):
    first = drawn_rows(both_kinds(seed=5)[kind], 0)
    np.random.seed(3)
    assert drawn_rows(both_kinds(seed=5)[kind], 0) == first
    assert drawn_rows(both_kinds(seed=6)[kind], 0) != first
    assert drawn_rows(both_kinds(seed=5)[kind], 1) != first


@pytest.mark.parametrize("kind", [0, 1])
def test_no_two_draws_share_the_seed_of_their_view(kind):
    batches = both_kinds()[kind]
    seeds = [draw.seed for epoch in range(3) for step in batches.draws(epoch) for draw in step]
    assert len(set(seeds)) == len(seeds)
    assert seeds[: len(seeds) // 3] == [(0, 0, position) for position in range(len(seeds) // 3)]


def test_classes_mix_over_the_epochs():
    """Any two of 20 classes meet in a batch of 5 with probability 4 / 19."""
    labels = np.repeat(np.arange(20), 8)
    batches = BalancedBatches(labels, batch_size=10, samples_per_class=2, rounds=1)
    met = np.zeros((20, 20))
    for epoch in range(500):
        for batch in batches.rows(epoch):
            present = np.unique(labels[batch])
            met[np.ix_(present, present)] += 1
    share = met[np.triu_indices(20, 1)] / 500
    assert abs(share.mean() - 4 / 19) < 1e-9
    assert share.min() > 0.12
    assert share.max() < 0.30


def test_images_of_a_class_mix_over_the_cycles():
    labels = np.repeat(np.arange(2), 8)
    batches = BalancedBatches(labels, batch_size=4, samples_per_class=2, rounds=4)
    met = np.zeros((16, 16))
    for epoch in range(500):
        for batch in batches.rows(epoch):
            for pair in batch.reshape(2, 2):
                met[pair.min(), pair.max()] += 1
    share = met[:8, :8][np.triu_indices(8, 1)] / 500
    assert abs(share.mean() - 1 / 7) < 1e-9
    assert share.min() > 0.07
    assert share.max() < 0.22


def test_the_turns_of_a_class_are_spread_over_the_epoch():
    sizes = [12] + [4] * 25  # 3 handfuls and 25 make 14 halves of 2
    labels = np.concatenate([shuffled_labels(sizes, gap=1), 26 + shuffled_labels(sizes, gap=1)])
    batches = PairBatches(labels, labels // 26, batch_size=16, batches_per_pair=14)
    side_by_side = 0
    for epoch in range(200):
        turns = [step for step, batch in enumerate(drawn_rows(batches, epoch)) if 0 in labels[batch]]
        assert len(turns) == 3
        side_by_side += turns[2] - turns[0] == 2
    assert side_by_side < 30  # by chance 12 x 6 / (14 x 13 x 12), or 7


LABELS = np.repeat(np.arange(10), 5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BalancedBatches(LABELS, 48), "needs 12 classes, and the set has 10: take a batch size of at most 40$"),
        (lambda: BalancedBatches(LABELS, 30), "30 does not divide into parts of 4 images.*: take 28"),
        (lambda: BalancedBatches(LABELS, 2), "2 does not divide into parts of 4 images.*: take 4"),
        (lambda: BalancedBatches(LABELS, 20, ranks=3), "20 does not divide over 3 processes"),
        (lambda: BalancedBatches(LABELS, 20, ranks=2, rank=2), "this is number 2"),
        (lambda: BalancedBatches(LABELS, 20, samples_per_class=0), "does not divide"),
        (lambda: PairBatches(LABELS, None, 16), "no groups to pair.*balanced"),
        (lambda: PairBatches(LABELS, LABELS // 5, 20), "does not divide into parts of 8"),
        (lambda: PairBatches(LABELS, LABELS // 5, 48), "two groups of at least 6 classes.*10 classes in 2 groups"),
        (lambda: PairBatches(LABELS, LABELS * 0, 16), "10 classes in 1 groups"),
        (lambda: WholeClassPairs(LABELS, None, 20), "no groups to pair.*balanced"),
        (lambda: WholeClassPairs(LABELS, LABELS * 0, 20), "no groups to pair.*balanced"),
        (lambda: PairBatches(LABELS[:, None], LABELS // 5, 16), r"labels has shape \(\d+, 1\)"),
    ],
)
def test_what_cannot_be_is_an_error_with_cause_and_remedy(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_an_image_with_several_labels_comes_up_for_each_of_them():
    marks = np.zeros((12, 4), np.uint8)
    marks[np.arange(12), np.arange(12) % 3] = 1
    marks[0:6:2, 3] = 1  # a fourth class of images that have another label too
    batches = BalancedBatches(marks, 8, 2, rounds=6)
    for batch in batches.rows(0):
        assert all(marks[batch, column].sum() >= 2 for column in range(4))


MAKERS = {
    "balanced": lambda labels: BalancedBatches(labels, 20),
    "pairs": lambda labels: PairBatches(labels, LABELS // 5, 16),
    "whole classes": lambda labels: WholeClassPairs(labels, LABELS // 5, 16),
}


@pytest.mark.parametrize("sampler", MAKERS)
@pytest.mark.parametrize("kind", ["NaN", "masked", "None"])
def test_an_image_without_a_label_is_refused_and_is_no_class(sampler, kind):
    labels = {
        "NaN": np.where(np.arange(len(LABELS)) == 7, np.nan, LABELS),
        "masked": np.ma.masked_array(LABELS, np.arange(len(LABELS)) == 7),
        "None": np.array([None if row == 7 else str(label) for row, label in enumerate(LABELS)]),
    }
    with pytest.raises(ValueError, match="labels has none in row 7: give one to each image"):
        MAKERS[sampler](labels[kind])


@pytest.mark.parametrize("sampler", MAKERS)
def test_names_are_classes_as_numbers_are(sampler):
    animal = Enum("Animal", {f"KIND_{label}": f"{label}" for label in range(10)}, type=str)
    wanted = MAKERS[sampler](LABELS).rows(0)
    for labels in (LABELS.astype(str), LABELS.astype(str).astype(object), [animal(str(label)) for label in LABELS]):
        assert np.array_equal(MAKERS[sampler](labels).rows(0), wanted)


def test_the_numbers_that_shuffle_are_those_of_splitmix64():
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]  # its first three, of the seed 0
    with np.errstate(over="ignore"):
        assert mix(np.arange(1, 4, dtype=np.uint64) * GOLDEN).tolist() == published
