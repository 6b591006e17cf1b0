"""What an album says of a photo, in bytes: compressed, as `album push` sends it, and in the memory of a reader.

python benchmarks/photo_table_size.py [--rows 20000]
"""

import argparse
import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from smoothap.album.photos import records_of, table_of


def main() -> None:
    """Print both numbers for photos of a shop: paths of 23 characters, a class for each ten, all with a thumbnail."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    rows, random = parser.parse_args().rows, np.random.default_rng(0)
    facts = [
        {"path": f"shop/{row % 500:04d}/{row:09d}.jpg", "label": str(row // 10), "sha256": random.bytes(32).hex(),
         "bytes": int(random.integers(50_000, 5_000_000)), "modified": 1.7e9 + float(random.integers(0, 100_000_000)),
         "width": 4032, "height": 3024, "taken": f"{2010 + row % 15}-05-01T10:{row % 60:02d}:00",
         "camera": "Apple iPhone 15"}
        for row in range(rows)
    ]  # fmt: skip
    records = records_of(facts, rows)
    for row, record in enumerate(records):
        record.update(pack=1, offset=9_000 * row, length=9_000, crc=int(random.integers(0, 1 << 32)))
    table, stream = table_of(records), io.BytesIO()
    table = table.append_column("mark", pa.array(random.integers(-(1 << 62), 1 << 62, rows)))
    pq.write_table(table, stream, compression="zstd")
    print(f"{stream.tell() / rows:.0f} bytes a photo, compressed; {table.nbytes / rows:.0f} in memory")


if __name__ == "__main__":
    main()
