"""Text columns, packed: millions of paths take as many bytes as they have letters, and worker processes share them."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def trimmed(column: pa.Array) -> pa.Array:
    """Any column as text without the spaces around it; a null is empty text."""
    return pc.call_function("utf8_trim_whitespace", [pc.cast(column, pa.string()).fill_null("")])


def replaced(column: pa.Array, pattern: str, replacement: str = "") -> pa.Array:
    """Each text with what matches the regular expression replaced."""
    options = pc.ReplaceSubstringOptions(pattern, replacement)
    return pc.call_function("replace_substring_regex", [column], options)


def positions(wanted: pa.Array, within: pa.Array) -> pa.Array:
    """Where each text stands in another column, null where it does not: (n,) int32."""
    return pc.call_function("index_in", [wanted], pc.SetLookupOptions(value_set=within))


def is_equal(column: pa.Array, text: str) -> np.ndarray:
    """Which rows hold this text: (n,) bool."""
    return pc.call_function("equal", [column, text]).to_numpy(zero_copy_only=False)


def lowered(column: pa.Array) -> pa.Array:
    """Each text in lower case."""
    return pc.call_function("utf8_lower", [column])


def as_names(column: pa.Array) -> np.ndarray:
    """Unpacked: (n,) of Python strings."""
    return column.to_numpy(zero_copy_only=False)


def label_by(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Labels 0 ... classes - 1 in the sorted order of the texts, and the text of each class: (n,) int64, (classes,)."""
    encoded = column.dictionary_encode()
    names, rank = np.unique(as_names(encoded.dictionary), return_inverse=True)
    return rank.astype(np.int64)[encoded.indices.to_numpy()], names


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """The column of a table in one piece."""
    chunks = column.combine_chunks()
    return pa.concat_arrays(chunks.chunks) if isinstance(chunks, pa.ChunkedArray) else chunks
