import json
import sys

import pytest

from smoothap._core.extras import EXTRAS
from smoothap.cli import app, doctor
from smoothap.models import open_model


def printed(capsys, *words):
    app(["doctor", *words], result_action="return_value", exit_on_error=False)
    return capsys.readouterr().out


@pytest.fixture
def small_networks(monkeypatch):
    """A tiny network in the place of the default one, which the slow tests check."""
    monkeypatch.setattr(
        "smoothap.cli._self_check.open_model",
        lambda _, **options: open_model("test_resnet", **{**options, "weights": "none"}),
    )


def test_the_check_says_whether_this_machine_computes_right(capsys, small_networks):
    text = printed(capsys, "--check", "--device", "cpu")
    for name in ("loss", "evaluation", "training", "16 bits", "speed"):
        assert f"\n  {name:<12} " in text
    assert "a known set gives its known results, to the last digit" in text
    assert "This machine computes right." in text


def test_a_machine_that_computes_wrong_is_told_so(capsys, monkeypatch, small_networks):
    for broken in ("KNOWN", "SmoothAP"):
        monkeypatch.setattr(f"smoothap.cli._self_check.{broken}", None)
    with pytest.raises(ValueError, match=r"does not compute right \(loss, evaluation, training, speed\)"):
        printed(capsys, "--check", "--json", "--device", "cpu")
    assert "right" in json.loads(capsys.readouterr().out)["checks"][0]


def test_without_torch_the_doctor_still_speaks_and_fails(capsys, monkeypatch):
    real = doctor.version

    def without_torch(package):
        if package == "torch":
            raise doctor.PackageNotFoundError(package)
        return real(package)

    monkeypatch.setattr(doctor, "version", without_torch)
    with pytest.raises(ValueError, match="pip install smoothap"):
        printed(capsys)
    assert "torch missing" in capsys.readouterr().out


def test_weights_in_the_hugging_face_cache_are_found(capsys, monkeypatch, tmp_path):
    file = tmp_path / "models--timm--resnet50.tv_in1k" / "snapshots" / "abc" / "model.safetensors"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"x" * 2_000_000)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    findings = json.loads(printed(capsys, "--json"))
    assert {"name": "resnet50.tv_in1k", "file": str(file)} in findings["weights"]
    assert findings["caches"]["Hugging Face"] == {"path": str(tmp_path), "megabytes": 2.0}


def test_the_table_of_extras_is_that_of_the_project():
    if sys.version_info < (3, 11):
        pytest.skip("tomllib came with Python 3.11")
    import re
    from pathlib import Path

    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {
        extra: {name for need in needs if (name := re.match(r"[\w-]+", need)[0]) != "smoothap"}
        for extra, needs in project["optional-dependencies"].items()
        if extra != "all"
    }
    assert {extra: set(packages) for extra, packages in EXTRAS.items()} == declared


def test_no_cyclopts_is_allowed_that_cannot_start_the_command_line():
    import re
    from pathlib import Path

    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    bound = re.search(r'"cyclopts>=([\d.]+)', text)
    assert bound is not None
    assert tuple(map(int, bound[1].split("."))) >= (4, 8)  # before, a command by import path took no help and no group
