"""The same seed gives the same weights, bit for bit."""

from contextlib import suppress

import pytest
from guarantees import LONG, short_or_long

from smoothap._core.threads import one_thread
from smoothap.cli import app

STEPS = short_or_long(8, 200)


def trained(folder, out, workers, seed=3):
    words = [
        *("train", "--data", f"folder:{folder}", "--out", str(out), "--device", "cpu"),
        *("--model", "test_resnet", "--weights", "none", "--size", "24", "--dimension", "16"),
        *("--batch-size", "24", "--steps", str(STEPS), "--workers", str(workers), "--seed", str(seed)),
    ]
    with one_thread(), suppress(SystemExit):  # so few steps need not teach it anything
        app(words, result_action="return_value", exit_on_error=False)
    return next(out.glob("checkpoint-*.safetensors")).read_bytes()  # the last weights, also where the first were best


@pytest.mark.guarantee(8)
def test_twice_and_with_any_number_of_workers_the_weights_are_bit_equal(pattern_folder, tmp_path, measured):
    first = trained(pattern_folder, tmp_path / "first", workers=0)
    assert trained(pattern_folder, tmp_path / "workers", workers=2) == first
    if LONG:
        assert trained(pattern_folder, tmp_path / "again", workers=0) == first
        assert trained(pattern_folder, tmp_path / "other", workers=0, seed=4) != first
    measured(f"bit-equal after {STEPS} steps with 0, 2 and 0 workers")
