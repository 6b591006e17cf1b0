"""Trainings that are disturbed at random moments until they are done; run by test_training_soak.py.

    python training_victim.py FOLDER SECONDS SEED

The library is loaded once; each `smoothap train` is a fork. A campaign disturbs one training again and again, lets it
finish, and compares all that it wrote with the undisturbed run; there is one campaign after the other until the time is
over. One line of JSON says what was seen.
"""

import errno
import faulthandler
import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil
import torch
from photo_makers import pattern_folder

from smoothap.__main__ import main as smoothap
from smoothap._core import workers
from smoothap.cli._options import NOT_IMPROVED
from smoothap.losses import SmoothAP
from smoothap.metrics import evaluate
from smoothap.models import Embedder
from smoothap.training import finetune  # noqa: F401 (loaded once, for all forks)
from smoothap.training.log import Log, read_rows

KINDS = ("SIGTERM", "SIGKILL", "full disk", "killed worker", "second process")
ENDINGS = {  # how each may end besides well, and a part of what it says then
    (130, "SIGTERM"): "Interrupted after step",
    (-signal.SIGTERM, "SIGTERM"): "",  # before the first step and after the last
    (-signal.SIGKILL, "SIGKILL"): "",
    (1, "full disk"): "disk is full",
    (1, "killed worker"): "process that reads images was killed",
}
DONE = (0, NOT_IMPROVED)
EPOCHS = 7
PATIENCE = 120  # seconds after which a process hangs that did next to nothing in them, or nothing but compute


def _processor_seconds(process: int) -> float:
    times = psutil.Process(process).cpu_times()
    return times.user + times.system


class Ended(NamedTuple):
    code: int  # negative: by a signal
    words: str


class Soak:
    """The folder of the soak, and how a training is started in it, watched and waited for."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.photos = folder, pattern_folder(folder / "photos", 16, 4)
        self.full = folder / "the disk is full"  # while this file is there

    def start(self, out: Path) -> int:
        """A process that trains in `out`, or goes on."""
        child = os.fork()
        if child:
            return child
        code = 70  # of an error that nobody explained
        try:
            for stream in (1, 2):
                os.dup2(os.open(self._file_of_words(os.getpid()), os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
            faulthandler.register(signal.SIGUSR2)
            self._put_the_disk_under_the_flag()
            sys.argv = [
                *("smoothap", "train", "--data", f"folder:{self.photos}", "--out", str(out), "--resume"),
                *("--model", "test_resnet", "--weights", "none", "--size", "24", "--dimension", "16"),
                *("--batch-size", "12", "--epochs", str(EPOCHS), "--checkpoint-every", "3", "--workers", "2"),
                *("--device", "cpu"),
            ]
            smoothap()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1 if end.code else 0
            print(end.code if isinstance(end.code, str) else "", file=sys.stderr)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _put_the_disk_under_the_flag(self) -> None:
        write_bytes, write_row, full = Path.write_bytes, Log.write, self.full

        def bytes_or_full(path: Path, content: bytes) -> int:
            if full.exists():
                write_bytes(path, content[: len(content) // 2])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return write_bytes(path, content)

        def row_or_full(log: Log, row: dict) -> None:
            if full.exists():
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            write_row(log, row)

        Path.write_bytes, Log.write = bytes_or_full, row_or_full

    def wait(self, child: int) -> Ended:
        """How the process ended, and what it said."""
        until, used = time.monotonic() + PATIENCE, 0.0
        while not (ended := os.waitpid(child, os.WNOHANG))[0]:
            if (now := _processor_seconds(child)) > used + 0.2:  # slow, on a busy machine, is not stuck
                until, used = time.monotonic() + PATIENCE, now
            if time.monotonic() > until or used > PATIENCE:
                os.kill(child, signal.SIGUSR2)  # it tells where it is
                time.sleep(1)
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                raise SystemExit(f"a training hung: {self._words(child)}")
            time.sleep(0.01)
        return Ended(os.waitstatus_to_exitcode(ended[1]), self._words(child))

    def _file_of_words(self, process: int) -> Path:
        return self.folder / f"words of {process}"

    def _words(self, process: int) -> str:
        file = self._file_of_words(process)
        words = file.read_text() if file.exists() else ""
        file.unlink(missing_ok=True)
        return words

    def disturb(self, kind: str, out: Path, chance: random.Random) -> bool:
        """Train, disturb it after a few steps, and see that it ended as it should; False: it was done before."""
        seen, further = len(read_rows(out)), chance.randint(1, 3)
        child = self.start(out)
        until = time.monotonic() + PATIENCE
        while len(read_rows(out)) < seen + further and time.monotonic() < until:
            if not is_alive(child):
                break
            time.sleep(0.002)
        time.sleep(chance.random() * 0.03)
        if kind == "second process":
            return self._start_a_second(child, out)
        if kind == "full disk":
            self.full.touch()
        elif kind == "killed worker":
            kill_a_worker(child, chance)
        else:
            os.kill(child, signal.Signals[kind])
        code, words = self.wait(child)
        self.full.unlink(missing_ok=True)
        assert code in DONE or ((code, kind) in ENDINGS and ENDINGS[code, kind] in words), (kind, code, words)
        return code not in DONE

    def _start_a_second(self, first: int, out: Path) -> bool:
        """See that a second process is refused while the first trains; the first is stopped and later killed."""
        os.kill(first, signal.SIGSTOP)
        rows = read_rows(out)
        trains = is_alive(first) and bool(rows) and rows[-1]["epoch"] < EPOCHS  # it holds the lock of the folder
        if trains:
            code, words = self.wait(self.start(out))
            assert code == 1, (code, words)
            assert "Another process is training in" in words, (code, words)
        os.kill(first, signal.SIGKILL)
        self.wait(first)
        return trains


def is_alive(child: int) -> bool:
    """Whether a child of this process has not ended."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def children(process: int) -> list[int]:
    """The processes that a process started."""
    try:
        return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def kill_a_worker(process: int, chance: random.Random) -> None:
    """Kill one of the processes that read images, as soon as there is one."""
    while not (workers := children(process)):
        if not is_alive(process):
            return
        time.sleep(0.002)
    with suppress(ProcessLookupError):
        os.kill(chance.choice(workers), signal.SIGKILL)


def written(out: Path) -> dict[str, object]:
    """All that a training leaves, without what the clock says."""
    described = json.loads((out / "checkpoint.json").read_text())
    rows = [{name: value for name, value in row.items() if name != "images_per_second"} for row in read_rows(out)]
    model = json.loads((out / "model" / "model.json").read_text())
    return {
        "names": sorted(str(file.relative_to(out)) for file in out.rglob("*")),
        "rows": rows,
        "model": {**model, "checksum": None},
        "weights": (out / "model" / "model.safetensors").read_bytes(),
        "checkpoint": (out / described["tensors"]).read_bytes(),
    }


def main() -> None:
    folder, seconds, chance = Path(sys.argv[1]), float(sys.argv[2]), random.Random(int(sys.argv[3]))
    torch.set_num_threads(1)
    load_everything()
    soak = Soak(folder)
    began = time.monotonic()
    whole = folder / "whole"
    assert soak.wait(soak.start(whole)).code in DONE
    expected, disturbed, campaigns = written(whole), Counter(), 0
    while time.monotonic() - began < seconds or not all(disturbed[kind] for kind in KINDS):
        out = folder / f"campaign {campaigns}"
        for kind in chance.sample(KINDS, len(KINDS)):
            disturbed[kind] += soak.disturb(kind, out, chance)
        ended = soak.wait(soak.start(out))
        assert ended.code in DONE, ended
        found = written(out)
        different = [name for name, value in expected.items() if found[name] != value]
        assert not different, f"campaign {campaigns} differs in {different}"
        shutil.rmtree(out)
        campaigns += 1
    time.sleep(0.1)
    until = time.monotonic() + 15  # a worker whose parent was killed looks for it every five seconds
    while (left := children(os.getpid()) + orphans(folder)) and time.monotonic() < until:
        time.sleep(0.2)
    assert not left, f"processes {left} were left behind"
    print(json.dumps({"campaigns": campaigns, "disturbed": disturbed}))


def load_everything() -> None:
    """Import and compile here what every fork needs: seconds each, else. Workers look for their parent more often."""
    workers._SECONDS = 0.3
    labels = torch.arange(8) // 2
    vectors = Embedder("test_resnet", 16, size=24, pretrained=False)(torch.zeros(8, 3, 24, 24, dtype=torch.uint8))
    SmoothAP()(vectors + torch.randn(8, 16), labels).backward()
    evaluate(torch.randn(8, 16), labels)


def orphans(folder: Path) -> list[int]:
    """Processes of the soak that outlived their parent: they still carry its command line."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if str(folder).encode() in words and int(process.name) != os.getpid():
            found.append(int(process.name))
    return found


main()
