import io
import sys

from smoothap._core import progress
from smoothap._core.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def run(stream, monkeypatch, shown=True):
    monkeypatch.setattr(sys, "stderr", stream)
    for name in ("_DELAY", "_EVERY_ON_A_TERMINAL", "_EVERY_IN_A_LOG"):
        monkeypatch.setattr(progress, name, -1.0)
    with Progress("Reading", total=4, unit="images", shown=shown) as line:
        for _ in range(4):
            line.advance()
    return stream.getvalue()


def test_a_terminal_line_redraws_itself_and_ends_with_all_done(monkeypatch):
    text = run(Terminal(), monkeypatch)
    assert text.endswith("\n")
    assert text.count("\n") == 1
    assert "100%  4/4 images" in text.split("\r")[-1]


def test_a_log_gets_whole_lines(monkeypatch):
    lines = run(io.StringIO(), monkeypatch).splitlines()
    assert len(lines) == 4
    assert all("\r" not in line and line.startswith("Reading") for line in lines)


def test_what_is_left_is_not_guessed_from_the_first_moments(monkeypatch):
    """A large file first, or a slow start, would promise hours."""
    stream, now = Terminal(), [0.0]
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with Progress("Copying", total=1000, unit="photos") as line:
        for second, done in ((3.0, 1), (9.0, 2), (11.0, 1), (12.0, 96)):
            now[0] = second
            line.advance(done)
    assert ["left" in drawn for drawn in stream.getvalue().split("\r")[1:5]] == [False, False, True, True]
