"""The analyses of queries and classes: what they tell is what a plain count over the vectors finds."""

import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from sklearn.metrics import average_precision_score

from smoothap.data.image_set import ImageSet
from smoothap.paper.classes import classes, size_groups
from smoothap.paper.queries import find_query, queries
from smoothap.plots.rankings import BeforeAfter, ClassChange, pick_queries
from smoothap.plots.text import class_words
from smoothap.training.evaluation import Embedded, evaluate_embedded

SIZES = [2, 3, 4, 6, 9, 12]


@pytest.fixture
def toys():
    """Classes of different sizes, and vectors in which they lie closer before than after."""
    labels = np.repeat(np.arange(len(SIZES)), SIZES)
    images = ImageSet(
        name="toys",
        names=[f"{label}/{row}.png" for row, label in enumerate(labels)],
        labels=labels,
        class_names=["U+1F600", "b", "c", "d", "e", "f"],
        read=lambda row, _=None: Image.new("RGB", (16, 16), (40 * int(labels[row]), 100, row)),
    )
    generator = np.random.default_rng(0)
    centres, noise = generator.normal(size=(len(SIZES), 8)), generator.normal(size=(len(labels), 8))
    before, after = (apart * centres[labels] + noise for apart in (0.3, 0.9))
    return images, before, after


def compare_vectors(images, before, after):
    reports = [evaluate_embedded(Embedded(vectors, np.arange(len(images))), images) for vectors in (before, after)]
    return BeforeAfter(images, before, after, *reports)


def plain_ap(images, embeddings, query):
    units = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    others = np.arange(len(units)) != query
    return average_precision_score((images.labels == images.labels[query])[others], (units @ units[query])[others])


@pytest.mark.parametrize("layout", ["rows", "column", "grid", "columns"])
def test_the_numbers_are_the_ranks_of_the_full_ranking(toys, layout, tmp_path):
    images, before, after = toys
    analysis = queries(compare_vectors(*toys), layout=layout, number=3, seed=2)
    analysis.save(tmp_path, "again")
    told = analysis.numbers["queries"]
    assert len(told) == len(analysis.table) == 3
    for each in told:
        query = list(images.names).index(each["query"])
        for name, embeddings in (("before", before), ("after", after)):
            units = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
            scores = units @ units[query]
            better = [
                1 + sum(scores[other] > scores[item] for other in range(len(images)) if other != query)
                for item in range(len(images))
                if item != query and images.labels[item] == images.labels[query]
            ]
            assert each[name]["ranks of the right images"] == sorted(better)
            assert each[name]["AP"] == pytest.approx(plain_ap(images, embeddings, query))
        assert each["|P|"] == SIZES[images.labels[query]] - 1
    assert json.loads((tmp_path / f"queries-{layout}.json").read_text())["command"] == "again"
    assert (tmp_path / f"queries-{layout}.png").exists()


def test_queries_are_found_by_image_or_class_and_a_wrong_name_is_answered_with_a_near_one(toys):
    images, asked = toys[0], np.arange(len(toys[0]))
    assert find_query(images, "2/7.png", asked) == 7
    assert find_query(images, "c", asked) == 5
    assert find_query(images, "c", asked[6:]) == 6
    with pytest.raises(ValueError, match=r"called '2/7.jpg'. Did you mean '2/7.png'"):
        find_query(images, "2/7.jpg", asked)
    with pytest.raises(ValueError, match=r"called 'something else'. An image is called like '0/0.png'\.$"):
        find_query(images, "something else", asked)
    named = queries(compare_vectors(*toys), query=["d", "2/7.png"])
    assert [each["query"] for each in named.table] == ["3/9.png", "2/7.png"]
    assert "asked for by name" in named.agreement


def test_a_query_with_nothing_to_find_is_refused(toys):
    images, before, after = toys
    rows = np.arange(1, len(images))  # the first class has one image left
    compared = compare_vectors(images.rows(rows), before[rows], after[rows])
    with pytest.raises(ValueError, match="no other image of its class"):
        queries(compared, query=["0/1.png"])
    shown = queries(compared, number=12, first=2).numbers["queries"]
    assert "0/1.png" not in [each["query"] for each in shown]


def test_chosen_queries_are_those_that_gained_lost_or_changed_most():
    before = np.array([0.5, 0.5, 0.5, np.nan, 0.5, 0.5])
    after = np.array([0.9, 0.6, 0.0, 0.5, 0.4, 0.8])
    labels = np.arange(6)
    assert pick_queries(before, after, labels, "gained", 3) == [0, 5, 1]
    assert pick_queries(before, after, labels, "lost", 2) == [2, 4]
    assert pick_queries(before, after, labels, "changed", 3) == [2, 0, 5]
    assert pick_queries(before, after, np.array([0, 1, 2, 3, 4, 0]), "gained", 2) == [0, 1]  # a class once
    drawn = {tuple(pick_queries(before, after, labels, "random", 2, seed)) for seed in range(20)}
    assert len(drawn) > 5
    assert not any(3 in each for each in drawn)


def test_classes_have_the_mean_ap_of_their_queries_and_the_most_gained_stands_first(toys):
    images, before, after = toys
    analysis = classes(compare_vectors(*toys), number=2, pairs=3)
    told = analysis.numbers["by class, most gained first"]
    means = {
        name: [
            np.mean([plain_ap(images, embeddings, query) for query in np.flatnonzero(images.labels == label)])
            for label in range(len(SIZES))
        ]
        for name, embeddings in (("AP before", before), ("AP after", after))
    }
    order = np.argsort(np.subtract(means["AP before"], means["AP after"]))
    assert told["class"] == [class_words(images.class_names[label]) for label in order]
    for name, values in means.items():
        assert told[name] == pytest.approx([values[label] for label in order], abs=1e-5)
    assert [row[""] for row in analysis.table] == ["gained most"] * 2  # no class lost
    lost = classes(compare_vectors(images, after, before), number=2).table
    assert [row[""] for row in lost] == ["lost most"] * 2
    assert all(row["change"] < 0 for row in lost)
    assert set(analysis.figures) == {"changes", "confusions", "sizes"}
    assert len(analysis.numbers["confusions"]) == 3


def test_sizes_are_grouped_by_doubling_and_every_class_counts_the_same():
    sizes = np.arange(2, 22)
    changes = [ClassChange(label, int(sizes[label]), label / 100, label / 50) for label in range(20)]
    groups = size_groups(changes, sizes)
    assert [(each["images from"], each["to"], each["classes"]) for each in groups] == [
        (2, 2, 1), (3, 4, 2), (5, 8, 4), (9, 16, 8), (17, 21, 5),
    ]  # fmt: skip
    assert groups[1]["AP before"] == pytest.approx(0.015)
    assert groups[1]["AP after"] == pytest.approx(0.03)
    assert [each["to"] for each in size_groups(changes[:3], sizes)] == [2, 3, 4]


def test_a_gallery_is_ranked_and_only_queries_are_asked(toys):
    images, before, after = toys
    is_query = np.arange(len(images)) % 2 == 0
    compared = compare_vectors(replace(images, is_query=is_query, is_gallery=~is_query), before, after)
    analysis = queries(compared, number=5, first=4)
    rows = {name: row for row, name in enumerate(images.names)}
    for each in analysis.numbers["queries"]:
        assert is_query[rows[each["query"]]]
        assert not any(is_query[rows[name]] for name in each["after"]["first images"])
    assert classes(compared).numbers["by class, most gained first"]["queries"]


def test_figure_3_agrees_only_where_all_that_is_shown_is_right(toys):
    images, before, _ = toys
    perfect = np.eye(len(SIZES))[images.labels]
    wanted = {"layout": "column", "query": ["d", "e"]}
    agrees = queries(compare_vectors(images, before, perfect), **wanted).agreement
    assert agrees.startswith("Agrees: ")
    assert "of the 6 right images that the first 3 have room for, 6 are there after training" in agrees
    rises = queries(compare_vectors(images, before * [-1, 1, 1, 1, 1, 1, 1, 1], before), **wanted)
    shown = [each["after"]["right"] for each in rises.numbers["queries"]]
    assert not all(map(all, shown))
    assert not rises.agreement.startswith("Agrees: ")
