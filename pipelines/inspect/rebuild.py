"""`tokcore verify OUTPUT --rebuild SHARD`: compute one shard again from its pinned inputs, elsewhere, and compare.

Plan and tokenizer are taken from the output, once their hashes were checked; nothing in the output is written.
"""

from __future__ import annotations

import dataclasses
import itertools
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

from pipelines.inspect.chain import read_manifests
from pipelines.inspect.decoded_files import describe_decoded, find_decoded
from pipelines.inspect.derived_jobs import DERIVED, derive_again
from pipelines.inspect.verify import check_file, read_base
from pipelines.inspect.verify_manifests import BuiltManifests, require_all_manifests
from pipelines.stages.commit import find_package_versions, read_run_facts, require_output
from pipelines.store import urls
from pipelines.store.attempts import Attempts, publish
from pipelines.store.main_files import copy_shard_if_remote, find_main_files
from pipelines.store.tokenizers import load_spec
from pipelines.work.make_again import make_shards_again
from pipelines.work.make_jobs import make_encode_job
from pipelines.work.read_plan import read_plan
from schemas.plan import Plan
from schemas.refs import ShardRef, StoredFile
from schemas.shard_entries import list_named_shards
from schemas.stage_manifests import MixtureManifest, PackedManifest, ShardsManifest
from tokcore.errors import ConfigError, TokError
from tokcore.format_table import FormatFile
from tokcore.tokenizer_spec import FILE_NAME


@dataclasses.dataclass(frozen=True, slots=True)
class Rebuilt:
    """What computing a shard again gave; the shard is sound if problems is empty."""

    shard: str
    problems: tuple[str, ...]
    notes: tuple[str, ...]  # what differs and may
    documents: int
    tokens: int
    size_bytes: int
    seconds: float


def rebuild(output: str, name: str, base: str = "") -> Rebuilt:
    """Encode the work item of a shard again and compare the shard's files with what was committed.

    name: the shard's, or the path of one of its files. base: as for verify. Raises ConfigError if there is no such
    output or shard, StageError naming the input that changed, if one did.
    """
    started = time.monotonic()
    require_output(output)
    notes: list[str] = []
    read = read_manifests(output)
    manifests, problems = read.found, [*read.problems.values()]
    for stage, made in manifests.items():
        for entry in made.files:
            if stage == "plan" or (stage, entry.path) == ("tokenizer", FILE_NAME):
                problems.extend(check_file(output, stage, entry))
    if problems:
        return Rebuilt(name, tuple(problems), (), 0, 0, 0, time.monotonic() - started)
    built = require_all_manifests(manifests)
    made, shard = _find([one for one in (built.shards, built.mixed, built.packed) if one is not None], name)
    plan = read_plan(output, built.plan)
    if made.stage == "shards" and find_decoded(plan):
        raise ConfigError(
            f"--rebuild {name}: {describe_decoded(plan)}, since the source was gone, so there is nothing to compute it "
            f"from. `tokcore verify` checks all that is stored"
        )
    if made.stage in DERIVED:
        for stage in sorted(set(made.inputs) - {"tokenizer"}):  # the shards that it follows from
            for entry in manifests[stage].files:
                problems.extend(check_file(output, stage, entry))
        if problems:
            return Rebuilt(name, tuple(problems), (), 0, 0, 0, time.monotonic() - started)
    with tempfile.TemporaryDirectory(prefix="tokcore-rebuild-") as folder:
        if made.stage in DERIVED:
            attempts, ref = _derive_again(output, built, made, shard, folder)
        else:
            attempts, ref = _encode_again(output, built, plan, shard, folder, base or read_base(output))
            if ref is None or not _has_content(shard, ref):
                apart = urls.join(folder, "before")
                before = _encode_again(output, built, plan.as_before(), shard, apart, base or read_base(output))
                if before[1] is not None and _has_content(shard, before[1]):
                    attempts, ref = before
        if ref is None:
            problems.append(f"{shard.facts.shard}: its inputs give no such shard")
        else:
            _compare(output, made.stage, shard, attempts, ref, problems, notes)
    return Rebuilt(
        shard.facts.shard,
        tuple(problems),
        tuple(notes),
        shard.facts.documents,
        shard.facts.tokens,
        sum(file.size_bytes for file in shard.files),
        time.monotonic() - started,
    )


def _find(stages: Sequence[ShardsManifest | MixtureManifest | PackedManifest], name: str) -> tuple[Any, ShardRef]:
    """The shard of that name, and the manifest that names it. Those of later stages have its folder before them."""
    stage, _, wanted = name.partition("/")
    if stage not in ("shards", *DERIVED):
        stage, wanted = "shards", name
    made = next((one for one in stages if one.stage == stage), None)
    shards = list_named_shards(made) if made is not None else []
    found = [shard for shard in shards if wanted in _list_names(shard)]
    if len(found) != 1 or made is None:
        examples = ", ".join(s.facts.place for s in (found or shards)[:3])
        there = f"; there is, e.g., {examples}" if examples else ": this build has none of that kind"
        raise ConfigError(f"--rebuild {name}: {len(found) or 'no'} shards of that name{there}")
    return made, found[0]


def _list_names(shard: ShardRef) -> set[str]:
    """What a user may call it: its names, and the paths of its files, with or without the result key."""
    facts = shard.facts
    paths = {file.path for file in shard.files}
    return {facts.shard, facts.place, facts.stem, *paths, *(path.replace(facts.stem, facts.place) for path in paths)}


def _encode_again(
    output: str, manifests: BuiltManifests, plan: Plan, shard: ShardRef, folder: str, base: str
) -> tuple[Attempts, ShardRef | None]:
    attempts = Attempts(folder, "shards", manifests.shards.identity)
    job = make_encode_job(
        manifests.shards.config,
        attempts,
        base,
        urls.join(output, "tokenizer", FILE_NAME),
        manifests.tokenizer.file(FILE_NAME).sha256,
        load_spec(output),
    )
    again = make_shards_again(job, plan, shard.facts.item, manifests.shards.totals.tokens)
    same = (ref for ref in again if ref.facts.stem == shard.facts.stem)
    return attempts, next(same, None)


def _has_content(shard: ShardRef, again: ShardRef) -> bool:
    made = {file.path: file.content_sha256 for file in again.files}
    return all(made.get(file.path) == file.content_sha256 for file in shard.files)


def _derive_again(
    output: str, manifests: BuiltManifests, made: Any, shard: ShardRef, folder: str
) -> tuple[Attempts, ShardRef | None]:
    attempts = Attempts(folder, made.stage, made.identity)
    spec, number = load_spec(output), shard.facts.item
    again = derive_again(output, manifests.shards, manifests.mixed, made, spec, attempts, number)
    return attempts, next((ref for ref in again if ref.facts.stem == shard.facts.stem), None)


def _compare(
    output: str,
    stage: str,
    shard: ShardRef,
    attempts: Attempts,
    ref: ShardRef,
    problems: list[str],
    notes: list[str],
) -> None:
    again = {file.path: file for file in ref.files}
    stored_wrong = [wrong for entry in shard.files for wrong in check_file(output, stage, entry)]
    problems.extend(stored_wrong)
    for entry in shard.files:
        if entry.path not in again:
            problems.append(f"{stage}/{entry.path}: not made again")
        elif again[entry.path].content_sha256 != entry.content_sha256:
            problems.append(f"{stage}/{entry.path}: its inputs give other content than was committed")
        elif again[entry.path].sha256 != entry.sha256:
            _explain_bytes(output, stage, entry, problems, notes)
    if problems:
        problems.extend(_find_first_difference(output, stage, shard, attempts, ref))


def _explain_bytes(output: str, stage: str, entry: StoredFile, problems: list[str], notes: list[str]) -> None:
    """The same content in other bytes: another version's doing, or else a problem."""
    then, now = read_run_facts(output, stage).packages, find_package_versions()
    changed = [f"{name} {then.get(name)} then, {now[name]} now" for name in now if then.get(name) != now[name]]
    text = f"{stage}/{entry.path}: the same content in other bytes"
    if changed:
        notes.append(f"{text}: {', '.join(changed)}")
    else:
        problems.append(f"{text}, with the same versions of the libraries that write them")


def _find_first_difference(
    output: str, stage: str, shard: ShardRef, attempts: Attempts, ref: ShardRef
) -> Iterator[str]:
    """The first document that is not the same in the stored file and the one made again."""
    again = urls.join(attempts.output, "again")
    publish(attempts, again, ref.files)
    with copy_shard_if_remote(output, shard, stage) as stored:
        for name, path in find_main_files(ref):
            one, other = FormatFile(name, f"{stored}/{path}"), FormatFile(name, f"{again}/{path}")
            try:
                pairs = itertools.zip_longest(_read_documents(one), _read_documents(other))
                for row, (old, new) in enumerate(pairs):
                    if old != new:
                        source, ordinal = (new or old or ("", 0))[:2]
                        yield f"{stage}/{path}: document {row} ({source}, ordinal {ordinal}) is the first that differs"
                        break
            except (TokError, OSError) as error:
                yield f"{stage}/{path}: cannot be compared by document: {error}"


def _read_documents(file: FormatFile) -> Iterator[tuple[str, int, str | None, str, bytes]]:
    """(source, ordinal, id, lang, tokens) of each document of a shard."""
    for batch in file.open().batches():
        for i in range(batch.num_documents):
            tokens = batch.tokens[batch.offsets[i] : batch.offsets[i + 1]].tobytes()
            yield batch.sources[i], int(batch.ordinals[i]), batch.ids[i], batch.langs[i], tokens
