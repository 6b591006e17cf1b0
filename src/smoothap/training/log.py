"""The metrics of a training, step by step: `metrics.jsonl`, and TensorBoard where it is asked for."""

import json
from pathlib import Path
from typing import Any

from smoothap._core.files import write_atomically

FILE = "metrics.jsonl"


def read_rows(folder: Path | str) -> list[dict[str, Any]]:
    """The rows of `metrics.jsonl`; a last line that a crash cut short is left out."""
    file = Path(folder) / FILE
    rows: list[dict[str, Any]] = []
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines() if file.is_file() else ():
        try:
            rows.append(json.loads(line))
        except (ValueError, RecursionError):
            break
    return rows


class Log:
    """Appends rows of metrics; those beyond `step`, of a run that was killed after its checkpoint, are dropped."""

    def __init__(self, folder: Path, step: int, *, tensorboard: bool = False, writes: bool = True) -> None:
        self._file = self._board = None
        if not writes:
            return
        if tensorboard:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ModuleNotFoundError as missing:
                raise ValueError("TensorBoard is not installed: pip install 'smoothap[tensorboard]'") from missing
            self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)
        rows = [row for row in read_rows(folder) if row["step"] <= step] if step else []
        write_atomically(folder / FILE, "".join(f"{json.dumps(row)}\n" for row in rows))
        self._file = (folder / FILE).open("a", encoding="utf-8")

    def write(self, row: dict[str, Any]) -> None:
        """Append a row, which has a `step`."""
        if self._file is not None:
            self._file.write(f"{json.dumps(row)}\n")
            self._file.flush()
        if self._board is not None:
            for name, value in row.items():
                if name not in ("step", "epoch"):
                    self._board.add_scalar(name, value, row["step"])

    def close(self) -> None:
        """Close the files."""
        for output in (self._file, self._board):
            if output is not None:
                output.close()
