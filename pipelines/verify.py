"""Verification: an output is exactly what was committed, and its tokens are the source's text.

Hashing needs the output alone; decoding (`decode`) reads the pinned inputs again and compares document by document.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pipelines import storage
from pipelines.attempts import FOLDER
from pipelines.commit import MANIFEST, RUN, STAGES, committed
from pipelines.decode_item import DecodeJob, decode_item, load_tokenizer
from pipelines.options import RunOptions
from pipelines.plan import FILES, parse_files_table
from pipelines.pool import open_pool
from schemas.manifest import FileEntry, Manifest, parse_manifest
from schemas.plan import Plan, make_plan
from tokcore.errors import ConfigError, FormatError, TokError

_BLOCK_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """What verification found; the output is sound if problems is empty."""

    problems: tuple[str, ...]
    root: str  # as recomputed; empty if the build's manifest cannot be read
    num_files: int
    size_bytes: int
    seconds: float
    num_decoded: int  # documents compared with their source
    totals: dict[str, Any]


def verify(
    output: str, *, decode: int | None = 0, root: str = "", base: str = "", options: RunOptions | None = None
) -> Report:
    """Check an output against its manifests, and decode documents against their source.

    decode: how many documents, spread over the build; None for all. base: folder of the build file, against which
    relative input uris are resolved; only needed to decode. Raises ConfigError if output does not exist.
    """
    started = time.monotonic()
    if not storage.exists(output):
        raise ConfigError(f"{storage.redact(output)}: there is no output")
    present = storage.list_tree(output)
    problems: list[str] = []
    manifests = _manifests(output, problems)
    named = {MANIFEST: None, **{f"{stage}/{MANIFEST}": None for stage in manifests if stage != "build"}}
    entries = [(stage, entry) for stage, made in manifests.items() for entry in made.files]
    for stage, entry in entries:
        path = f"{stage}/{entry.path}"
        if path in named:
            problems.append(f"{path}: named twice")
        named[path] = None
    for path in present:
        if path not in named and not _may_be_unnamed(path):
            problems.append(f"{path}: no manifest names it")
    workers = (options or RunOptions()).num_workers
    with ThreadPoolExecutor(workers) as threads:
        for found in threads.map(lambda one: _check_file(output, *one), entries):
            problems.extend(found)
    build = manifests.get("build")
    if build is not None:
        problems.extend(_check_belonging(output, build, manifests))
        if root and build.root != root:
            problems.append(f"{MANIFEST}: its root is {build.root}, expected {root}")
    num_decoded = 0
    if build is not None and decode != 0 and not problems:
        base = base or _recorded_base(output)
        num_decoded, wrong = _decode(output, manifests, decode, base, options or RunOptions())
        problems.extend(wrong)
    return Report(
        problems=tuple(problems),
        root=build.root if build is not None else "",
        num_files=len(named),
        size_bytes=sum(entry.size_bytes for _, entry in entries),
        seconds=time.monotonic() - started,
        num_decoded=num_decoded,
        totals=build.totals if build is not None else {},
    )


def _may_be_unnamed(path: str) -> bool:
    parts = path.split("/")
    return path == RUN or parts[0] == FOLDER or (len(parts) == 2 and parts[0] in STAGES and parts[1] == RUN)


def _manifests(output: str, problems: list[str]) -> dict[str, Manifest]:
    """Stage -> manifest, "build" included; what cannot be read becomes a problem."""
    found: dict[str, Manifest] = {}
    try:
        build = committed(output, "")
    except (FormatError, TokError) as error:
        problems.append(str(error))
        return found
    if build is None:
        problems.append(f"{MANIFEST}: missing; the build did not finish, or it was removed")
        return found
    found["build"] = build
    for stage, made_from in build.inputs.items():
        try:
            url = storage.join(output, stage, MANIFEST)
            data = storage.read_bytes(url)
            if hashlib.sha256(data).hexdigest() != made_from.sha256:
                problems.append(f"{stage}/{MANIFEST}: not the manifest that the build committed")
                continue
            found[stage] = parse_manifest(data, url)
        except TokError as error:
            problems.append(f"{stage}/{MANIFEST}: {error}")
    return found


def _check_file(output: str, stage: str, entry: FileEntry) -> list[str]:
    path = f"{stage}/{entry.path}"
    try:
        hasher = hashlib.sha256()
        size = 0
        with storage.open_read(storage.join(output, stage, entry.path)) as file:
            while block := file.read(_BLOCK_BYTES):
                hasher.update(block)
                size += len(block)
    except TokError as error:
        return [f"{path}: {error}"]
    if size != entry.size_bytes:
        return [f"{path}: {size} bytes, committed with {entry.size_bytes}"]
    if hasher.hexdigest() != entry.sha256:
        return [f"{path}: its bytes are not the ones that were committed"]
    return []


def _check_belonging(output: str, build: Manifest, manifests: dict[str, Manifest]) -> Iterator[str]:
    """That the stages are made from each other and the tokenizer is the one of the shards."""
    for stage, made in manifests.items():
        for name, made_from in made.inputs.items():
            if name in build.inputs and build.inputs[name].sha256 != made_from.sha256 and stage != "build":
                yield f"{stage}/{MANIFEST}: was made from another {name}"
    if "tokenizer" not in manifests or "shards" not in manifests:
        return
    try:
        fingerprint = load_tokenizer(output).fingerprint
    except TokError as error:
        yield str(error)
        return
    for stage in ("tokenizer", "shards"):
        if manifests[stage].totals["fingerprint"] != fingerprint:
            yield f"{stage}/{MANIFEST}: names another tokenizer than tokenizer/tokcore.json"


def _recorded_base(output: str) -> str:
    """The folder of the build file, as the plan stage noted it; the current one if the note is gone."""
    try:
        return str(json.loads(storage.read_bytes(storage.join(output, "plan", RUN)))["base"])
    except (TokError, ValueError, KeyError):
        return str(Path.cwd())


def planned(output: str, manifest: Manifest) -> Plan:
    """The plan of an output, from its committed manifest and table of files."""
    url = storage.join(output, "plan", FILES)
    files = parse_files_table(storage.read_bytes(url), url)
    config = manifest.config
    return make_plan(files, config["settings"], config["range_bytes"], manifest.totals["duplicates"])


def _decode(
    output: str, manifests: dict[str, Manifest], decode: int | None, base: str, options: RunOptions
) -> tuple[int, list[str]]:
    """(documents compared, what was wrong). Spreads a limited number over the work items."""
    plan = planned(output, manifests["plan"])
    shards: dict[int, dict[str, str]] = {}
    for entry in manifests["shards"].files:
        if entry.path.endswith((".arrow", ".bin")) and not entry.path.endswith(".documents.arrow"):
            shards.setdefault(int(entry.about["shard"].split("-")[1]), {})[entry.path] = entry.content_sha256
    limit = None if decode is None else -(-decode // max(1, len(plan.items)))
    jobs = [
        DecodeJob(output, base, plan.assignment(item), shards.get(item.number, {}), limit, manifests["shards"].config)
        for item in plan.items
    ]
    num_decoded, wrong = 0, []
    with open_pool(options.num_workers) as pool, ThreadPoolExecutor(options.num_workers) as threads:
        for compared, found in threads.map(lambda job: pool.run(decode_item, job), jobs):
            num_decoded += compared
            wrong.extend(found)
    return num_decoded, wrong


def describe_problems(problems: Sequence[str], limit: int = 20) -> str:
    """The first problems, a line each, and how many more there are."""
    more = f"\n... and {len(problems) - limit} more" if len(problems) > limit else ""
    return "\n".join(problems[:limit]) + more
