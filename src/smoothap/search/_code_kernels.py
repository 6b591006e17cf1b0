"""Products of vectors in codes of one byte a number, compiled (extra `fast`). Imported only when numba is installed."""

import numpy as np

from smoothap.numerics.compiled import compiled


@compiled()
def scaled_products(codes: np.ndarray, scales: np.ndarray, query: np.ndarray, scale: float, found: np.ndarray) -> None:
    """found (n,) float32: the product of each row of codes (n, d) int8 with the query (d,) int16, times both scales.

    The sum is kept in 32 bits, for which processors have an instruction; `coded.py` sees to it that it fits.
    """
    for row in range(codes.shape[0]):
        code = codes[row]
        total = np.int32(0)
        for i in range(code.shape[0]):
            total = np.int32(total + np.int32(code[i]) * np.int32(query[i]))
        found[row] = np.float32(total) * scales[row] * np.float32(scale)
