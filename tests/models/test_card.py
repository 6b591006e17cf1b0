"""The model card that comes with a model folder."""

import re

import numpy as np
import yaml

from smoothap import evaluate
from smoothap.models import Embedder
from smoothap.models.card import CARD
from smoothap.models.folder import read_description


def saved(folder, **options):
    Embedder("test_resnet", 16, size=32, pretrained=False).save(folder, **options)
    return (folder / CARD).read_text()


def test_the_card_says_what_was_measured_and_how_to_use_the_model(tmp_path):
    labels = np.arange(6).repeat(2)
    before, after = (evaluate(vectors, labels, recall_at=(1, 4)) for vectors in (np.eye(12), np.eye(6).repeat(2, 0)))
    metrics = {"steps": 3, "before": {"emoji": before.summary()}, "after": {"emoji": after.summary()}}
    text = saved(tmp_path, data_set="emoji", metrics=metrics)
    front = yaml.safe_load(re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)[1])
    assert (front["library_name"], front["pipeline_tag"]) == ("smoothap", "image-feature-extraction")
    assert "| set | queries | mAP | Recall@1 | Recall@4 |" in text
    assert "| after, emoji | 12 | 100.0 | 100.0 | 100.0 |" in text
    assert f"| before, emoji | 12 | {100 * before.mean_average_precision:.1f} |" in text
    assert "Trained on: emoji" in text
    assert "test_resnet (timm), images of 32 x 32 pixels" in text
    assert f"Written by smoothap {read_description(tmp_path)['smoothap']}" in text


def test_a_card_of_the_users_own_is_kept(tmp_path):
    assert "Nothing was measured" in saved(tmp_path)
    assert "Trained on: birds" in saved(tmp_path, data_set="birds")  # ours is written again
    (tmp_path / CARD).write_text("# Birds of my garden\n")
    assert saved(tmp_path, data_set="cats") == "# Birds of my garden\n"
