"""Models by folder or by their name on the hub, of which a stand-in is here."""

import shutil

import pytest
import torch
from photo_makers import tiny_model

from smoothap.models import Embedder


def test_a_folder_is_loaded_as_it_is(tmp_path):
    tiny_model(tmp_path / "model")
    loaded, again = Embedder.load(tmp_path / "model"), Embedder.from_pretrained(tmp_path / "model")
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in loaded.state_dict().items())


def test_a_name_is_fetched_from_the_hub_with_nothing_but_the_two_files(tmp_path, monkeypatch):
    tiny_model(tmp_path / "published")
    asked = []

    def snapshot_download(name, allow_patterns):
        asked.append((name, sorted(allow_patterns)))
        shutil.copytree(tmp_path / "published", tmp_path / "cache")
        return str(tmp_path / "cache")

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    assert Embedder.from_pretrained("somebody/birds").dimension == Embedder.load(tmp_path / "published").dimension
    assert asked == [("somebody/birds", ["model.json", "model.safetensors"])]


def test_what_cannot_be_fetched_says_which_files_to_put_where(monkeypatch):
    def snapshot_download(*_, **__):
        raise OSError("no route to host")

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    with pytest.raises(FileNotFoundError, match=r"no route to host.*copy model.safetensors and model.json"):
        Embedder.from_pretrained("somebody/birds")
    with pytest.raises(FileNotFoundError, match="owner/name"):
        Embedder.from_pretrained("nowhere")
