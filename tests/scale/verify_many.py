"""How much memory the driver of `tokcore verify` needs for an output of very many shards.

    PYTHONPATH=tests python tests/scale/verify_many.py FOLDER [--shards 100000] [--languages 10] [--formats arrow]

One work item is encoded. In FOLDER, which should be in memory, the output then has it as often as asked for: each time
from an input file of its own, under names of its own, as hard links. Listing, manifests and sums are all those of a
real build. Each file is hashed, and shards are read, once; what that gave is then recorded for every other piece of
work. So what is measured is all that the driver does, and nothing of what workers do.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

from scale.verify_large import read_peak_mb

from tokcore.shards.format_table import list_all_paths
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.item_steps import find_or_encode_item
from tokcore_pipelines.check import verify_content, verify_tasks
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.check.verify_tasks import VerifyJob, make_piece_key
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.work.count_item import make_item_key
from tokcore_pipelines.work.encode_job import EncodeJob
from tokcore_pipelines.work.result_keys import make_shards_key
from tokcore_schemas.config import parse_config
from tokcore_schemas.plan import Assignment
from tokcore_schemas.refs import ItemEncoded, ShardRef, spell_shard_name
from tokcore_schemas.verified import FilesHashed, FilesToHash, SeenFile, ShardsRead, ShardsToRead

_HERE = RunOptions(workers=1, here=True)
_BUILD = """
version = 1
[build]
output = "{folder}/{name}"
[[source]]
lang_field = "lang"
files = "{folder}/{name}-in/**/*.jsonl"
[plan]
range_bytes = {size_bytes}
[shards]
formats = {formats}
target_tokens = 1
by = "lang"
"""


def build(folder: Path, name: str, files: int, languages: int, formats: list[str], settings: str) -> Path:
    """An output of that many equal files, each a work item, with a document of each language; its folder."""
    lines = "".join(f'{{"lang": "l{i:03d}", "text": "Text number {i}, of some words."}}\n' for i in range(languages))
    first, inputs = folder / f"{name}.jsonl", folder / f"{name}-in"
    first.write_text(lines)
    for number in range(files):
        path = inputs / f"{number // 1000:05d}" / f"part-{number:07d}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        os.link(first, path)
    told = _BUILD.format(folder=folder, name=name, size_bytes=len(lines), formats=json.dumps(formats)) + settings
    (folder / f"{name}.toml").write_text(told)
    Build(parse_config(told, f"{folder}/{name}.toml"), _HERE, progress=StageProgress(-1)).run()
    return folder / name


@dataclasses.dataclass
class Copies:
    """Encodes the first work item; every other gets the same shards, under names of its own."""

    first: ItemEncoded | None = None

    def find_or_encode_item(self, job: EncodeJob, assignment: Assignment) -> tuple[ItemEncoded, bool]:
        """As the function of that name."""
        if self.first is None:
            made, _ = find_or_encode_item(job, assignment)
            for file in (file for shard in made.shards for file in shard.files):
                os.link(job.attempts.url(file.attempt), job.attempts.url(f"{file.attempt}.copied"))
            self.first = made
            return made, False
        (planned,), key = assignment.ranges, make_shards_key(job.settings_sha256, assignment)
        ledgers = tuple(dataclasses.replace(one, file=planned.file) for one in self.first.ledgers)
        shards = tuple(self._copy(job, shard, assignment.number, key) for shard in self.first.shards)
        made = dataclasses.replace(self.first, item=assignment.number, ledgers=ledgers, shards=shards)
        return job.attempts.record(make_item_key(assignment.number), made), False

    def _copy(self, job: EncodeJob, shard: ShardRef, item: int, key: str) -> ShardRef:
        name = spell_shard_name(shard.facts.split, item, 0)
        facts = dataclasses.replace(shard.facts, item=item, shard=name, result_key=key)
        files = []
        for path, file in zip(list_all_paths(job.config.formats, facts.stem), shard.files, strict=True):
            attempt = path.replace("/", "-")
            os.link(job.attempts.url(f"{file.attempt}.copied"), job.attempts.url(attempt))
            files.append(dataclasses.replace(file, path=path, attempt=attempt))
        return dataclasses.replace(shard, facts=facts, files=tuple(files))


@dataclasses.dataclass
class Once:
    """Reads the shards of the first piece; every other is said to hold the same."""

    read: ShardsRead | None = None

    def read_shards(self, job: VerifyJob, piece: ShardsToRead) -> ShardsRead:
        """As the function of that name."""
        if self.read is None:
            self.read = verify_tasks.read_shards(job, piece)
            return self.read
        assert piece.assignment is not None
        (planned,) = piece.assignment.ranges
        found = dataclasses.replace(self.read, documents_of={planned.uri: sum(self.read.documents_of.values())})
        return job.attempts.record(make_piece_key(piece), found)

    def hash_files(self, job: VerifyJob, piece: FilesToHash) -> FilesHashed:
        """As the function of that name; nothing is read."""
        seen = (SeenFile(f"{one.stage}/{one.path}", one.size_bytes, one.version) for one in piece.files)
        return job.attempts.record(make_piece_key(piece), FilesHashed(tuple(seen), ()))


def verify_here(output: Path) -> None:
    """Verify, and print what that took."""
    once, began = Once(), time.process_time()
    with (
        mock.patch.object(verify_content, "read_shards", once.read_shards),
        mock.patch.object(verify_content, "hash_files", once.hash_files),
    ):
        before = read_peak_mb(os.getpid())
        report = verify(str(output), options=_HERE, progress=StageProgress(-1))
    assert not report.problems, report.problems[:3]
    manifest_mb = (output / "shards" / "manifest.json").stat().st_size / 1e6
    print(
        f"{report.totals['shards']:,} shards, {report.num_files:,} files, manifest {manifest_mb:.0f} MB: driver "
        f"{read_peak_mb(os.getpid()):.0f} MB at most, {before:.0f} before; {time.process_time() - began:.0f} CPU s"
    )


def main() -> None:
    """Print a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shards", type=int, default=100_000)
    parser.add_argument("--languages", type=int, default=10)
    parser.add_argument("--formats", nargs="+", default=["arrow"])
    parser.add_argument("--verify-here", action="store_true", help="Only verify the output, in this process.")
    given = parser.parse_args()
    folder = given.folder / str(given.shards)
    output = folder / "out"
    if given.verify_here:
        verify_here(output)
        return
    if not (output / "manifest.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        learned = build(folder, "learned", 1, given.languages, given.formats, '[learn]\nmodel = "byte"\n')
        settings = f'[tokenizer]\nfrom = "{learned}"\n'
        with mock.patch("tokcore_pipelines.build.item_steps.find_or_encode_item", Copies().find_or_encode_item):
            build(folder, "out", given.shards // given.languages, given.languages, given.formats, settings)
    subprocess.run([sys.executable, *sys.argv, "--verify-here"], check=True)


if __name__ == "__main__":
    main()
