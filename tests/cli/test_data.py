import json

import pytest
from PIL import Image

from smoothap.cli.data import app


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for number, name in enumerate(["owl", "crow", "eel", "cod"]):
        for row in range(2):
            target = tmp_path / "set" / name / f"{row}.png"
            target.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (9, 9), (number * 40, row * 90, 10)).save(target)
    return tmp_path / "set"


def run(*arguments):
    app([str(argument) for argument in arguments], result_action="return_value")


def test_check_prints_json(root, capsys):
    run("check", f"folder:{root}", "--json", "--test-fraction", "0.25")
    findings = json.loads(capsys.readouterr().out)
    assert [(part["images"], part["classes"]) for part in findings["parts"]] == [(6, 3), (2, 1)]
    assert findings["unreadable"] == []
    assert findings["seconds"]["in all"] >= 0


def test_check_lists_unreadable_files_and_fails_when_there_are_many(root, capsys):
    (root / "eel" / "0.png").write_bytes(b"no picture")
    with pytest.raises(ValueError, match="1 of 8 images cannot be read, more than 1%"):
        run("check", f"folder:{root}")
    assert "eel/0.png" in capsys.readouterr().out


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp"])
def test_show_writes_a_picture(root, tmp_path, suffix):
    run("show", f"folder:{root}", "--out", tmp_path / f"new/sheet{suffix}")
    with Image.open(tmp_path / f"new/sheet{suffix}") as sheet:
        assert sheet.width > 500
