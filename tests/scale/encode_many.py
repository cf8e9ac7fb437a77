"""How much memory the driver of a build needs for very many shards.

    PYTHONPATH=tests python tests/scale/encode_many.py FOLDER [--shards 100000] [--formats arrow]

One work item is encoded. Every other, from an input file of its own, is recorded with the same shard under a name of
its own, as verify_many does it. What a process of its own then does is measured: all that the driver of a build does
when workers have encoded all items, and nothing of what they do. It reads their records, adds them up, moves the shards
and writes the manifests. FOLDER should be in memory.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from unittest import mock

from scale.verify_large import read_peak_mb
from scale.verify_many import Copies, build

from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.stage import BuildRun
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.run.task import Step
from tokcore_pipelines.store.attempts import Attempts
from tokcore_schemas.config import parse_config


class _WorkedError(Exception):
    """All work items are recorded."""


class _Commit:
    """An executor that finds the work items done, and does all else."""

    def do(self, step: Step, _attempts: Attempts, _on_progress: object, measured: Counter[str]) -> bool:
        """As Executor.do."""
        for task in step.list_tasks() if step.name != "encode" else ():
            task.function(*task.arguments)
        return False


def prepare(folder: Path, shards: int, formats: list[str]) -> None:
    """Leave the output of a build that was killed when all work items were encoded."""
    folder.mkdir(parents=True, exist_ok=True)
    learned = build(folder, "learned", 1, 1, formats, '[learn]\nmodel = "byte"\n')
    with (
        mock.patch("tokcore_pipelines.build.item_steps.find_or_encode_item", Copies().find_or_encode_item),
        mock.patch("tokcore_pipelines.build.encode_corpus._check_and_finish", side_effect=_WorkedError),
    ):
        try:
            build(folder, "out", shards, 1, formats, f'[tokenizer]\nfrom = "{learned}"\n')
        except _WorkedError:
            return


def commit_here(folder: Path) -> None:
    """Go on with the build, and print what that took."""
    config = parse_config((folder / "out.toml").read_text(), f"{folder}/out.toml")
    before, began = read_peak_mb(os.getpid()), time.process_time()
    with mock.patch.object(BuildRun, "find_executor", return_value=_Commit()):
        Build(config, RunOptions(workers=1, here=True), progress=StageProgress(-1)).run()
    used = resource.getrusage(resource.RUSAGE_SELF)
    manifest = folder / "out" / "shards" / "manifest.json"
    print(
        f"{json.loads(manifest.read_bytes())['totals']['shards']:,} shards, manifest of {manifest.stat().st_size:,} "
        f"bytes: driver {used.ru_maxrss / 1000:.0f} MB at most, {before:.0f} before; "
        f"{time.process_time() - began:.1f} CPU s"
    )


def main() -> None:
    """Print a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shards", type=int, default=100_000)
    parser.add_argument("--formats", nargs="+", default=["arrow"])
    parser.add_argument("--prepare-only", action="store_true")
    parser.add_argument("--commit-here", action="store_true", help="Only go on with the build, in this process.")
    given = parser.parse_args()
    folder = given.folder / str(given.shards)
    if given.commit_here:
        commit_here(folder)
        return
    if not (folder / "out").exists():
        prepare(folder, given.shards, given.formats)
    if not given.prepare_only:
        subprocess.run([sys.executable, *sys.argv, "--commit-here"], check=True)


if __name__ == "__main__":
    main()
