"""Products of vectors in codes of one byte a number, compiled (extra `fast`). Imported only when numba is installed."""

import numpy as np

from smoothap._core.threads import compiled

_ROWS = 32  # whose codes stay near the processor while all queries are multiplied with them


@compiled()
def scaled_products(
    codes: np.ndarray, scales: np.ndarray, queries: np.ndarray, query_scales: np.ndarray, found: np.ndarray
) -> None:
    """found (m, n) float32: products of codes (n, d) int8 with queries (m, d) int16, times the scales (n,) and (m,).

    The sum is kept in 32 bits, for which processors have an instruction; `coded.py` sees to it that it fits. The codes
    are read once for all queries: from memory that takes longer than to multiply them.
    """
    for start in range(0, codes.shape[0], _ROWS):
        for place in range(queries.shape[0]):
            query = queries[place]
            for row in range(start, min(start + _ROWS, codes.shape[0])):
                code = codes[row]
                total = np.int32(0)
                for i in range(code.shape[0]):
                    total = np.int32(total + np.int32(code[i]) * np.int32(query[i]))
                found[place, row] = np.float32(total) * scales[row] * query_scales[place]
