"""Text, lists, tables and numbers that others wrote, as columns: read, or refused with the name of the file.

Columns are packed: millions of paths take as many bytes as they have letters, and worker processes share them.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq


def trimmed(column: pa.Array) -> pa.Array:
    """Any column as text without the spaces around it; a null is empty text."""
    return pc.call_function("utf8_trim_whitespace", [pc.cast(column, pa.string()).fill_null("")])


def replaced(column: pa.Array, pattern: str, replacement: str = "") -> pa.Array:
    """Each text with what matches the regular expression replaced."""
    options = pc.ReplaceSubstringOptions(pattern, replacement)
    return pc.call_function("replace_substring_regex", [column], options)


def positions(wanted: pa.Array, within: pa.Array, *, any_case: bool = False) -> pa.Array:
    """Where each text is in another column, null where it does not: (n,) int32."""
    if any_case:
        wanted, within = (pc.call_function("utf8_lower", [column]) for column in (wanted, within))
    return pc.call_function("index_in", [wanted], pc.SetLookupOptions(value_set=within))


def is_equal(column: pa.Array, text: str) -> np.ndarray:
    """Which rows hold this text: (n,) bool."""
    return pc.call_function("equal", [column, text]).to_numpy(zero_copy_only=False)


def label_by(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Labels 0 ... classes - 1 in the sorted order of the texts, and the text of each class: (n,) int64, (classes,)."""
    encoded = column.dictionary_encode()
    names, rank = np.unique(encoded.dictionary.to_numpy(zero_copy_only=False), return_inverse=True)
    return rank.astype(np.int64)[encoded.indices.to_numpy()], names


def read_table(path: Path, required: tuple[str, ...], names: str | None = None) -> dict[str, pa.Array]:
    """The columns of a CSV or Parquet file with a header, as trimmed text by trimmed name.

    `names` says what columns are called in this file, such as "path=image_path,label=product_id".
    """
    renamed = {} if names is None else _renamed(names)
    if not path.is_file():
        raise FileNotFoundError(f"There is no table {path}.")
    try:
        if path.suffix.lower() == ".parquet":
            content = pq.read_table(path)
        else:
            types = dict.fromkeys(pyarrow.csv.open_csv(path).schema.names, pa.string())  # 007 is a name, not 7
            options = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
            content = pyarrow.csv.read_csv(path, convert_options=options)
        columns = {
            name.strip(): trimmed(column.combine_chunks())
            for name, column in zip(content.column_names, content.columns, strict=True)
        }
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read as a table: {str(error)[:300]}") from error
    absent = [name for name in (*renamed.values(), *set(required).difference(renamed)) if name not in columns]
    if absent:
        hint = (
            ""
            if absent[0] in renamed.values() or "path" not in required
            else (f" Say what it is called there, such as --columns {absent[0]}=NAME.")
        )
        raise ValueError(f"{path} lacks the column {absent[0]!r}; it has {', '.join(columns) or 'none'}.{hint}")
    taken = {ours: columns[theirs] for ours, theirs in renamed.items()}
    return taken | {name: column for name, column in columns.items() if name not in {*taken, *renamed.values()}}


def _renamed(names: str) -> dict[str, str]:
    pairs = [pair.partition("=")[::2] for pair in names.split(",")]
    if not all(ours.strip() and theirs.strip() for ours, theirs in pairs):
        raise ValueError(f"--columns takes OURS=THEIRS with commas, such as path=image_path,label=sku, not {names!r}.")
    return {ours.strip(): theirs.strip() for ours, theirs in pairs}


def read_rows(path: Path, width: int, *, skip: int = 0) -> list[pa.Array]:
    """The columns of a list whose cells are separated by spaces, without the lines of its head."""
    lines = read_lines(path)[skip:]
    cells = pc.call_function("utf8_split_whitespace", [lines])
    wrong = np.flatnonzero(np.diff(cells.offsets.to_numpy()) != width)
    if len(wrong):
        line = lines[int(wrong[0])].as_py()
        raise ValueError(f"{path} should have {width} cells a line, but a line reads {line[:200]!r}.")
    flat = cells.flatten()
    return [flat.take(pa.array(np.arange(column, len(flat), width))) for column in range(width)]


def read_lines(path: Path) -> pa.Array:
    """The lines of a text file that are not empty, without the spaces around them."""
    lines = pc.call_function("split_pattern", [pa.array([read_text(path)])], pc.SplitPatternOptions("\n"))
    column = trimmed(lines.flatten())
    return column.filter(pa.array(~is_equal(column, "")))


def read_text(path: Path) -> str:
    """The text of a file in UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is no text in UTF-8 (byte {error.start}): save it as that, or fetch it again."
        ) from error


def as_numbers(path: Path, columns: dict[str, pa.Array]) -> np.ndarray:
    """Columns of text as numbers (rows, columns) float32; the first cell that is none is named."""
    numbers = np.empty((len(next(iter(columns.values()))), len(columns)), np.float32)
    for place, (name, column) in enumerate(columns.items()):
        try:
            numbers[:, place] = column.cast(pa.float32()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid as error:
            cell = str(error).partition("'")[2].rpartition("'")[0]  # which Arrow quotes
            row = column.to_pylist().index(cell) + 1
            raise ValueError(
                f"{path}: {name} of row {row} is no number but {cell[:40]!r}: fetch the file again."
            ) from error
    return numbers
