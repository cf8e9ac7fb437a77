"""Verification of a folder that WriteShards made: a tokenizer, and shards that no build vouches for. No Beam.

Its manifest of shards is all that says what they are, so a root that was kept elsewhere proves more. The documents came
from a Beam pipeline of the user: there is no source to compare them with.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from tokcore.errors import TokError
from tokcore.tokenizer.tokenizer_spec import FILE_NAME, TokenizerSpec
from tokcore_pipelines.build.commit import MANIFEST
from tokcore_pipelines.build.token_count_table import TOKEN_COUNTS
from tokcore_pipelines.check.shard_sums import ShardSums
from tokcore_pipelines.check.verify_derived import check_entries, check_folder_indexes, check_place
from tokcore_pipelines.check.verify_manifests import KNOWN
from tokcore_pipelines.check.verify_shards import Found, check_written_shard, make_rules
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.attempts import FOLDER
from tokcore_pipelines.store.tokenizers import load_spec
from tokcore_schemas.manifest import compute_identity
from tokcore_schemas.shard_entries import list_named_shards
from tokcore_schemas.stage_manifests import ShardsManifest

_SPEC = f"tokenizer/{FILE_NAME}"


class Checked(NamedTuple):
    """What was found."""

    problems: list[str]
    num_read: int  # documents
    lossless: bool
    num_leftovers: int  # files of unfinished work


def check_names(made: ShardsManifest, there: list[str]) -> Iterator[str]:
    """Files that nothing names. there: all paths below the folder."""
    named = {_SPEC, f"shards/{MANIFEST}", *(f"shards/{entry.path}" for entry in made.files)}
    yield from (f"{path}: no manifest names it" for path in there if path not in named and not _is_leftover(path))


def check_written(output: str, made: ShardsManifest, quick: bool, options: RunOptions) -> Checked:
    """What is wrong with a folder whose files all have the hashes of its manifest. quick: without reading shards."""
    there = storage.list_tree(output)
    leftovers = sum(map(_is_leftover, there))
    try:
        storage.require_inside(output, _SPEC)
        spec = load_spec(output)
        problems = [*_check_manifest(made, spec)]
        lossless = spec.model.facts().get("lossless") is not False
        if quick or problems:
            return Checked(problems, 0, lossless, leftovers)
        return Checked(*_check_content(output, made, spec, options), lossless, leftovers)
    except TokError as error:
        return Checked([str(error) if _SPEC in str(error) else f"{_SPEC}: {error}"], 0, True, leftovers)


def _is_leftover(path: str) -> bool:
    return path.startswith(f"{FOLDER}/")


def _check_manifest(made: ShardsManifest, spec: TokenizerSpec) -> Iterator[str]:
    """That the manifest agrees with itself, and with the tokenizer."""
    where, totals = f"shards/{MANIFEST}", made.totals
    if totals.fingerprint != spec.fingerprint:
        yield f"{_SPEC}: its fingerprint is {spec.fingerprint}, of the one that wrote the shards {totals.fingerprint}"
    key = {"tokenizer": totals.fingerprint, "documents": totals.documents_digest}
    if made.identity not in {compute_identity("shards", key, {}, semantics) for semantics in KNOWN}:
        yield f"{where}: its identity is not that of its tokenizer and documents"
    shards = list_named_shards(made)
    yield from check_entries(made, shards)
    yield from check_folder_indexes(made, shards, spec.vocab_size, (TOKEN_COUNTS,))
    for shard in shards:
        yield from check_place(made, shard)
    for name, said, held in (
        ("shards", totals.shards, len(shards)),
        ("tokens", totals.tokens, sum(shard.facts.tokens for shard in shards)),
        ("documents", totals.records.documents, sum(shard.facts.documents for shard in shards)),
        ("text_bytes", totals.text_bytes, sum(one.text_bytes for one in made.languages.values())),
    ):
        if said != held:
            yield f"{where}: totals: {name} = {said}, expected {held}"


def _check_content(
    output: str, made: ShardsManifest, spec: TokenizerSpec, options: RunOptions
) -> tuple[list[str], int]:
    """Read all shards; what is wrong with them, and how many documents there were."""
    rules = make_rules(spec, made.config, None)
    problems: list[str] = []
    sums = ShardSums()

    def check(number: int) -> Found:
        return check_written_shard(output, rules, shards[number])

    shards = list_named_shards(made)
    with ThreadPoolExecutor(options.num_workers) as threads:
        for found in threads.map(check, range(len(shards))):
            problems.extend(found.problems)
            sums.add(found)
    problems.extend(sums.compare(output, made))
    return problems, sums.documents_of.total()
