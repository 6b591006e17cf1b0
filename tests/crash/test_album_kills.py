"""kill -9 during index, add, remove, learn and undo: the album opens, its hashes match, and the next run finishes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from guarantees import short_or_long

TESTS = Path(__file__).parent.parent


@pytest.mark.guarantee(11)
def test_an_album_survives_kill_9(tmp_path, measured):
    kills = short_or_long(3, 50)
    source = os.pathsep.join([str(TESTS), str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "album_victim.py"), str(tmp_path), str(kills), "0"],
        capture_output=True,
        text=True,
        timeout=60 + 10 * kills,
        env={**os.environ, "PYTHONPATH": source, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        check=False,
    )
    assert run.returncode == 0, run.stderr
    seen = json.loads(run.stdout.splitlines()[-1])
    assert seen["photos"] >= 12
    assert seen["worst"] < 1e-5
    assert seen["interrupted"] > 0  # the kills did hit an album in the middle of a change
    assert seen["leftover"] == []
    measured(f"{kills} kills, {seen['interrupted']} of them in the middle of a change; opened and whole each time")
