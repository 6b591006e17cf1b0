import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

import smoothap
from smoothap.cli.data import app

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(smoothap.__file__).parent.parent)}  # the source under test


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


def test_check_prints_the_counts_and_the_time(root, capsys):
    run("check", f"folder:{root}")
    printed = capsys.readouterr().out
    assert "set train" in printed
    assert "Unreadable: 0" in printed
    assert "0 test images are in train too" in printed
    assert "Took" in printed


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


def test_check_without_reading_does_not_see_them(root, capsys):
    (root / "eel" / "0.png").write_bytes(b"no picture")
    run("check", f"folder:{root}", "--no-read")
    assert "Unreadable" not in capsys.readouterr().out


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp"])
def test_show_writes_a_picture(root, tmp_path, suffix):
    run("show", f"folder:{root}", "--out", tmp_path / f"new/sheet{suffix}")
    with Image.open(tmp_path / f"new/sheet{suffix}") as sheet:
        assert sheet.width > 500


def test_show_refuses_another_kind_of_file(root, tmp_path):
    with pytest.raises(ValueError, match=r"a .png, .jpg or .webp file, not 'sheet.txt'"):
        run("show", f"folder:{root}", "--out", tmp_path / "sheet.txt")


def test_a_mistake_is_a_sentence_and_not_a_traceback(tmp_path):
    command = [sys.executable, "-m", "smoothap", "data", "check", f"sop:{tmp_path}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert result.returncode == 1
    assert result.stderr.startswith("smoothap: There is no Ebay_train.txt")
    assert "Traceback" not in result.stderr


def test_a_name_that_is_not_utf8_is_a_line_and_not_the_end(root):
    (root / os.fsdecode(b"stra\xdfe")).mkdir()
    command = [sys.executable, "-m", "smoothap", "data", "check", f"folder:{root}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert result.returncode == 0
    assert result.stderr == f"Warning: {root}: b'stra\\xdfe' is left out, for its name is not UTF-8: rename it.\n"


def test_help_of_the_data_commands_imports_neither_torch_nor_pillow():
    code = (
        "import sys; from smoothap.cli import app; app(['data', 'check', '--help'], result_action='return_value'); "
        "print([name for name in ('torch', 'PIL', 'pyarrow', 'numpy') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=ENVIRONMENT)
    assert result.stdout.strip().endswith("[]")
