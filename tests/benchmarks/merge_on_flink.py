"""Which merge of count tables is faster on Flink: a CombineFn, or two explicit levels of GroupByKey and a DoFn?

    PYTHONPATH=tests python tests/benchmarks/merge_on_flink.py [--megabytes 60] [--rounds 3]

Starts a cluster (tests/support/flink.py), and counts a generated corpus with each merge in turn. Prints seconds of the
Flink job, the runs that were written and their bytes, and whether the tables are equal.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from unittest import mock

import apache_beam as beam
from engines.flink.run import OUT, generate
from support.builds import ROOT
from support.flink import FlinkCluster
from support.held_worker import write_worker

from tokcore_pipelines.build.build import Build
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.run.engines import merge_graph, task_graph
from tokcore_pipelines.run.engines.merge_graph import AddUpRuns, KeyedRun
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.work.merge_tree import FAN_IN, order_runs
from tokcore_pipelines.work.runs import merge_runs
from tokcore_schemas.config import load_config
from tokcore_schemas.refs import RunRef, TableRef

_Grouped = tuple[tuple[str, int, int], RunRef]


class MergeInTwoLevels(AddUpRuns):
    """As AddUpRuns, for counts: groups of about FAN_IN items are merged first, then the groups of each partition."""

    num_groups = 1

    def expand(self, runs: beam.PCollection[KeyedRun]) -> beam.PCollection[TableRef]:
        regroup = merge_graph._Regroup(self.attempts, self.adding.regroup)
        write = merge_graph._Finish(self.attempts, self.adding.finish)
        return (
            runs
            | "KeyByGroup" >> beam.Map(_key_by_group, self.num_groups).with_output_types(_Grouped)
            | "GroupItems" >> beam.GroupByKey()
            | "MergeGroup" >> beam.ParDo(_MergeGroup(self.attempts)).with_output_types(KeyedRun)
            | "GroupByRange" >> beam.GroupByKey()
            | "WriteRange" >> beam.ParDo(regroup).with_output_types(tuple[str, RunRef])
            | "GroupByTable" >> beam.GroupByKey()
            | "WriteTable" >> beam.ParDo(write).with_output_types(TableRef)
        )


def _key_by_group(element: tuple[tuple[str, int], RunRef], num_groups: int) -> tuple[tuple[str, int, int], RunRef]:
    (name, partition), run = element
    group = int(hashlib.sha256(run.attempt.encode()).hexdigest()[:8], 16) % num_groups
    return (name, partition, group), run


class _MergeGroup(beam.DoFn):
    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts

    def process(self, element: tuple[tuple[str, int, int], Iterable[RunRef]]) -> Iterator[KeyedRun]:
        (name, partition, _), runs = element
        ordered = tuple(sorted(runs, key=order_runs))
        yield (name, partition), merge_runs(self._attempts, ordered) if len(ordered) > 1 else ordered[0]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=60, help="of text, to be generated")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    shutil.rmtree(OUT, ignore_errors=True)
    generate(OUT / "corpus", given.megabytes, 30)
    build = OUT / "corpus" / "build.toml"
    build.write_text(build.read_text().replace("8_000_000", "1_000_000"))  # many runs for each language
    num_items = given.megabytes
    MergeInTwoLevels.num_groups = max(1, num_items // FAN_IN)
    worker = write_worker(OUT / "worker", "from tokcore_pipelines.run.engines.boot_worker import main\nmain()\n")
    tables: set[str] = set()
    with FlinkCluster(OUT / "cluster") as cluster:
        for number in range(given.rounds):
            for merge in (AddUpRuns, MergeInTwoLevels):
                output = OUT / f"{merge.__name__}-{number}"
                with mock.patch.object(task_graph, "AddUpRuns", merge):
                    config = load_config(str(build), [*cluster.assignments, f"engine.worker={worker}"])
                    Build(config, RunOptions(), str(output)).count()
                job = cluster.list_jobs("count")[-1]
                tables.add(_hash_tables(output))
                print(f"{merge.__name__:18} {job['duration'] / 1000:6.1f} s", flush=True)
    print("equal tables" if len(tables) == 1 else "tables differ")
    sys.exit(len(tables) != 1)


def _hash_tables(output: Path) -> str:
    files = sorted((output / "counts").glob("*.parquet"))
    return hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files)).hexdigest()


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tests"))
    main()
