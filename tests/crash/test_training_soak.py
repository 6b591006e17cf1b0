"""An hour of bad luck: whatever happens to a training, it ends as if nothing had."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from guarantees import short_or_long

TESTS = Path(__file__).parent.parent


@pytest.mark.alone
@pytest.mark.guarantee(23)
@pytest.mark.skipif(sys.platform != "linux", reason="forks, and finds the workers of a process in /proc")
def test_a_training_disturbed_in_every_way_ends_as_the_undisturbed_one(tmp_path, measured):
    seconds = short_or_long(3, 1_800)  # and until each kind has come
    source = os.pathsep.join([str(TESTS), str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "training_victim.py"), str(tmp_path), str(seconds), "0"],
        capture_output=True,
        text=True,
        timeout=seconds + 600,
        env={**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(tmp_path / "cache")},
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    seen = json.loads(run.stdout.splitlines()[-1])
    disturbances = ", ".join(f"{count} x {kind}" for kind, count in seen["disturbed"].items())
    measured(f"{seen['campaigns']} trainings over {seconds} s, {disturbances}; all bit-equal at the end")
