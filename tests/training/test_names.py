import pytest
from photo_makers import pattern_folder, tiny_model

from smoothap.album.identity import load_model
from smoothap.data.names import open_data
from smoothap.models import open_model


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("emojis", r"no data set called 'emojis'. Did you mean emoji\?"),
        ("folder", "folder needs a path: folder:PATH, where PATH is a folder"),
        ("folder:", "folder needs a path"),
        ("glyphs:here", "glyphs takes no path"),
        ("/some/photos", r"Did you mean folder:/some/photos\?"),
        ("photos/of:mine", r"Did you mean folder:photos/of:mine\?"),
        ("foldr:/some/photos", r"called 'foldr'. Did you mean folder\?"),
        ("things.CSV", r"Did you mean csv:things.CSV\?"),
    ],
)
def test_a_wrong_name_or_path_is_explained(spec, complaint):
    with pytest.raises(ValueError, match=complaint):
        open_data(spec)


def test_a_set_with_a_split_of_its_own_takes_no_fraction():
    with pytest.raises(ValueError, match="emoji comes with its split"):
        open_data("emoji", test_fraction=0.3)


def test_the_folder_of_a_training_is_not_its_model(tmp_path):
    tiny_model(tmp_path / "mine" / "model")
    with pytest.raises(FileNotFoundError, match=r"No model in .*mine: .* Did you mean .*mine/model\?"):
        open_model(str(tmp_path / "mine"))
    with pytest.raises(FileNotFoundError, match=r"No model in .*: a model folder holds .* and model\.json\.$"):
        open_model(str(tmp_path))


def test_a_model_folder_that_is_not_there_is_no_timm_name():
    for open_it in (open_model, load_model):
        for name in ("runs/none/model", "mine@home"):
            with pytest.raises(ValueError, match=f"There is no model folder {name}"):
                open_it(name)


def test_a_network_may_be_named_with_its_size():
    assert open_model("test_resnet@48", weights="none").transform.size == 48
    assert open_model("test_resnet@48", size=48, weights="none").transform.size == 48
    with pytest.raises(ValueError, match="test_resnet@48 and a size of 32 do not agree"):
        open_model("test_resnet@48", size=32, weights="none")


def test_another_draw_of_the_classes_is_another_split(tmp_path):
    photos = pattern_folder(tmp_path / "photos", 12, 2)
    test_classes = [
        tuple(open_data(f"folder:{photos}", split=split).tests["test"].class_names) for split in (0, 0, 1, 2)
    ]
    assert len(set(test_classes)) == 3
    assert test_classes[0] == tuple(open_data(f"folder:{photos}").tests["test"].class_names)
    with pytest.raises(ValueError, match=r"sop has one split of its classes here: others can be drawn for album, "):
        open_data(f"sop:{tmp_path}", split=1)
    with pytest.raises(ValueError, match="one split"):
        open_data(f"folder:{photos}", split=1, test_classes=tmp_path / "list.txt")
