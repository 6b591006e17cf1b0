"""A process that computes parts of an album, one after another: `python -m smoothap.album._part_process`.

Its first line on standard input says of which album, each other line the number of a part; a line on standard output
answers each. It ends with its starter, however that ends: then standard input is closed.
"""

import json
import os
import queue
import sys
import threading
from typing import Any

from smoothap.album._part_work import PartWork


def _listen(jobs: "queue.Queue[dict[str, Any] | None]", idle: threading.Event) -> None:
    for line in sys.stdin:
        jobs.put(json.loads(line))
    if not idle.is_set():
        os._exit(1)  # whoever started this is gone: what is committed stays, and the next run goes on from there
    jobs.put(None)


def main() -> None:
    """Answer jobs until there are no more."""
    answers, sys.stdout = sys.stdout, sys.stderr  # nothing but answers goes to the starter
    jobs: queue.Queue[dict[str, Any] | None] = queue.Queue()
    idle = threading.Event()
    threading.Thread(target=_listen, args=(jobs, idle), daemon=True).start()
    work: PartWork | None = None
    while True:
        idle.set()
        if (job := jobs.get()) is None:
            return
        idle.clear()
        if work is None:
            import torch

            torch.set_num_threads(job.pop("threads"))
            work = PartWork(**job)
            continue
        try:
            answer = {"report": vars(work.compute(job["number"]))}
        except (OSError, ValueError, RuntimeError) as error:
            answer = {"error": str(error), "kind": type(error).__name__}
        answers.write(json.dumps({"number": job["number"], **answer}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
