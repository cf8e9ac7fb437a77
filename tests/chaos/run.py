"""`make chaos`: play many schedules of faults on all cores, and report their outcomes.

make chaos                       1,000 schedules
make chaos CHAOS=50 SEED=7000    50 of them, from seed 7000 on
make chaos CHAOS=1 SEED=7013     one of them again: a seed gives the same schedule
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from chaos.schedules import kind_of, opened_lab, play


def main() -> int:
    """Returns exit code 1 if a promise was not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first schedule")
    parser.add_argument("--kind", help="only schedules of this kind")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    seeds = [
        seed
        for seed in range(options.seed, options.seed + options.schedules)
        if options.kind in (None, kind_of(seed).__name__)
    ]
    broken: list[str] = []
    tally: Counter[str] = Counter()
    lock = threading.Lock()
    started = time.monotonic()
    left = iter(seeds)

    def work(_: int) -> None:
        with opened_lab() as lab:
            for seed in left:
                try:
                    play(lab, seed)
                except Exception as error:  # any error is reported with its seed
                    message = f"seed {seed}, {kind_of(seed).__name__}: {type(error).__name__}: {error}"
                    print(message, f"repeat it with: make chaos CHAOS=1 SEED={seed}", sep="\n", file=sys.stderr)
                    broken.append(message)
            with lock:
                tally.update(lab.tally)

    with ThreadPoolExecutor(options.jobs) as threads:
        list(threads.map(work, range(options.jobs)))
    for name in sorted(tally):
        print(f"{tally[name]:8,}  {name}")
    seconds = time.monotonic() - started
    print(f"{len(seeds):8,}  schedules in {seconds:.0f} s, {len(broken)} broken promises")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
