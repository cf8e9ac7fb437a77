"""What verification reads in the shards themselves: that they hold what manifests, plan and ledger say. No Beam.

Hashes prove only that nothing changed since they were written down. This finds shards that were wrong then, and edits
whose hashes were updated: tokens, bounds and columns are hashed as content, and checked against every rule that the
encode stage keeps. Works on one item at a time. Memory does not grow with the item, but for 8 bytes per document.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tokcore.errors import ConfigError, FormatError, TokError
from tokcore.formats.documents import Documents, get_documents_path
from tokcore.formats.partition_names import Partitioning
from tokcore.formats.provenance import Provenance, get_provenance_path, hide_provenance
from tokcore.formats.shard_facts import ShardFacts
from tokcore.formats.shard_format import ShardFormat, ShardReader, ShardSettings
from tokcore.kernel import IdCounter
from tokcore.shards.documents_digest import DocumentsDigest
from tokcore.shards.format_table import find_format
from tokcore.shards.partitions import label_partitions
from tokcore.shards.token_batch import ShardContent, TokenBatch, compute_document_digests, count_in_rows
from tokcore.shards.tombstone_lookup import TombstoneLookup
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec
from tokcore_pipelines.check.verify_order import Order
from tokcore_pipelines.history.find_removed import FoundDocument, find_removed_documents
from tokcore_pipelines.store.stored_shards import copy_shard_if_remote, find_main_files
from tokcore_pipelines.work.make_jobs import find_special_ids
from tokcore_schemas.refs import ShardRef
from tokcore_schemas.shard_entries import make_shard_settings
from tokcore_schemas.stage_manifests import ShardsConfig

MOST_NAMED = 5  # documents that were removed and are there, of a part


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """What holds for every shard of a build."""

    settings: ShardSettings
    prepend: tuple[int, ...]  # ids before each document
    append: tuple[int, ...]  # ids after each document
    reserved: tuple[int, ...]  # ids that occur only where prepend and append put them
    unknown: int | None  # id that stands for text without tokens
    is_shuffled: bool
    validation: frozenset[str]  # uris of the files whose documents are all of the validation split
    has_share: bool  # whether documents of others may be, too
    partitioning: Partitioning | None


@dataclasses.dataclass(slots=True)
class Found:
    """What the shards of an item hold, and what is wrong with them."""

    problems: list[str] = dataclasses.field(default_factory=list)
    shards: list[ShardRef] = dataclasses.field(default_factory=list)  # as manifests would name them
    documents_of: Counter[str] = dataclasses.field(default_factory=Counter)  # by source
    languages: dict[str, list[int]] = dataclasses.field(default_factory=dict)  # -> [documents, tokens, unknown]
    hashed: DocumentsDigest = dataclasses.field(default_factory=DocumentsDigest)
    ids: IdCounter = dataclasses.field(default_factory=IdCounter)
    records: bytearray = dataclasses.field(default_factory=bytearray)  # of shuffled shards: 32 bytes per document
    brought_back: list[FoundDocument] = dataclasses.field(default_factory=list)  # of what was removed, some


def make_rules(spec: TokenizerSpec, config: ShardsConfig, validation: Collection[str]) -> Rules:
    """The rules that tokenizer and configuration of the encode stage make. validation: as Rules has it.

    Raises FormatError if documents are to begin or end with a special token that the tokenizer lacks.
    """
    try:
        prepend = find_special_ids(spec, "prepend", config.prepend)
        append = find_special_ids(spec, "append", config.append)
    except ConfigError as error:
        raise FormatError(f"shards/manifest.json: config: {error}") from error
    specials = {token.id for token in spec.special if token.is_special and token.id is not None}
    reserved = set() if config.special_text == "special" else specials - {spec.model.unknown}
    ordinary = set(spec.model.ids[np.isin(spec.model.ids, [*reserved])].tolist())
    return Rules(
        make_shard_settings(config, spec.fingerprint, spec.vocab_size),
        prepend,
        append,
        tuple(sorted(reserved - ordinary)),  # a foreign tokenizer may give a special token the id of an ordinary one
        spec.model.unknown,
        config.shuffle is not None,
        frozenset(validation),
        config.validation != "0",
        config.partitioning,
    )


def check_shards(
    output: str, rules: Rules, shards: Sequence[ShardRef], order: Order, found: Found, removed: TombstoneLookup | None
) -> None:
    """Read all shards of a piece of work, in the order in which it wrote them. removed: what no document may be."""
    for shard in shards:
        with copy_shard_if_remote(output, shard) as folder:
            try:
                _check_shard(folder, rules, shard, order, found, removed)
            except TokError as error:
                found.problems.append(str(error))
        # Errors of tokcore name local paths.
        found.problems[:] = [problem.replace(f"{folder}/", "shards/") for problem in found.problems]


def _check_shard(
    folder: str, rules: Rules, shard: ShardRef, order: Order, found: Found, removed: TombstoneLookup | None
) -> None:
    """Read the shard in the first of its formats, and compare the others and the documents file with that."""
    opened = _open_formats(folder, shard)
    if not opened:  # which the manifest's check has said
        return
    leader, *others = opened
    path = get_documents_path(shard.facts.stem)
    documents = Documents(f"{folder}/{path}") if path in {file.path for file in shard.files} else None
    provenance = Provenance(f"{folder}/{get_provenance_path(shard.facts.stem)}") if rules.is_shuffled else None
    content = ShardContent()
    digests: list[bytes] = []
    for batch in leader.reader.batches():
        first = content.num_documents
        if documents is not None and not _has_lengths(documents, batch, first):
            found.problems.append(f"{documents.path}: its lengths are not those of the shard's documents")
            return
        for other in others:
            if (row := _find_first_other(batch, other.reader, first)) is not None:
                found.problems.append(f"shards/{leader.path}: document {row} has other tokens than in {other.path}")
                return
        named = batch
        if provenance is not None:
            named = provenance.restore(batch, first)
            order.add_places(shard.facts, provenance.places[first : first + batch.num_documents])
            if not _is_hidden(batch, hide_provenance(batch, first)):
                found.problems.append(f"shards/{leader.path}: names sources, which a shuffled shard does not")
                return
        some = _check_documents(rules, shard.facts, named, first, order, found)
        if removed is not None and len(found.brought_back) < MOST_NAMED:
            found.brought_back += find_removed_documents(named, removed)
        content.update(batch, some)
        digests += some
    _check_files(rules, opened, content, found)
    found.shards.append(_recount_shard(shard, content, provenance))
    if provenance is not None and len(provenance) != content.num_documents:
        found.problems.append(f"{provenance.path}: {len(provenance)} documents, the shard has {content.num_documents}")
    if documents is not None:
        if documents.vocab_size != rules.settings.vocab_size:
            found.problems.append(
                f"{documents.path}: vocab_size {documents.vocab_size}, the tokenizer's is {rules.settings.vocab_size}"
            )
        if leader.format.has_columns:  # else they are what was read
            _compare_documents(documents, content, digests, found)


class _Opened(NamedTuple):
    """The shard in one format."""

    path: str  # that it goes by, below shards/
    format: ShardFormat
    reader: ShardReader


def _open_formats(folder: str, shard: ShardRef) -> list[_Opened]:
    """The shard in every format, those with columns of their own first. Raises FormatError for a damaged file."""
    files = zip(find_main_files(shard), find_main_files(shard, folder), strict=True)
    opened = [_Opened(path, find_format(name), file.open()) for (name, path), file in files]
    return sorted(opened, key=lambda one: not one.format.has_columns)


def _check_files(rules: Rules, opened: Sequence[_Opened], content: ShardContent, found: Found) -> None:
    """Compare what the file of each format says of itself with the first one's content."""
    leader = opened[0]
    for path, one, reader in opened:
        # Where there is no id, some formats cannot say its dtype.
        if content.num_tokens and reader.dtype != (dtype := one.dtype(rules.settings)):
            found.problems.append(f"shards/{path}: ids of {reader.dtype}, expected {dtype}")
        if len(reader) != content.num_documents:
            found.problems.append(f"shards/{path}: {len(reader)} documents, {leader.path} has {content.num_documents}")
        if reader.fingerprint != rules.settings.fingerprint:
            found.problems.append(
                f"shards/{path}: written with tokenizer {reader.fingerprint}, "
                f"the build's is {rules.settings.fingerprint}"
            )


def _recount_shard(shard: ShardRef, content: ShardContent, provenance: Provenance | None) -> ShardRef:
    """The shard with what it was found to hold."""
    facts = dataclasses.replace(
        shard.facts,
        documents=content.num_documents,
        tokens=content.num_tokens,
        max_token_id=content.max_token_id,
    )
    path = get_provenance_path(facts.stem)
    files = tuple(
        dataclasses.replace(file, content_sha256=provenance.hash_content())
        if provenance is not None and file.path == path
        else file
        for file in shard.files
    )
    return ShardRef(facts, content.hexdigest(), files)


def _is_hidden(batch: TokenBatch, expected: TokenBatch) -> bool:
    return batch.sources == expected.sources and np.array_equal(batch.ordinals, expected.ordinals)


def _has_lengths(documents: Documents, batch: TokenBatch, first: int) -> bool:
    """Whether the documents file has the lengths of these documents, first being their number in the shard."""
    return np.array_equal(documents.lengths[first : first + batch.num_documents], np.diff(batch.offsets))


def _compare_documents(documents: Documents, shard: ShardContent, digests: list[bytes], found: Found) -> None:
    """That the documents file has the columns of the documents that were read."""
    if len(documents) != shard.num_documents:
        found.problems.append(f"{documents.path}: {len(documents)} documents, the shard has {shard.num_documents}")
        return
    content = ShardContent()
    for names, _ in documents.batches():
        content.update(names, digests[content.num_documents : content.num_documents + names.num_documents])
    if content.hexdigest() != shard.hexdigest():
        found.problems.append(f"{documents.path}: its columns are not those of the shard's documents")


def _find_first_other(batch: TokenBatch, other: ShardReader, start: int) -> int | None:
    """The first document of the batch that another format, from document start on, has with other tokens."""
    tokens, lengths = other.span(start, start + batch.num_documents)
    own = batch.tokens[batch.offsets[0] : batch.offsets[-1]]
    same_bounds = np.array_equal(lengths, np.diff(batch.offsets))
    if same_bounds and pa.py_buffer(own).equals(pa.py_buffer(tokens)):
        return None
    for i in range(batch.num_documents):
        one = batch.tokens[batch.offsets[i] : batch.offsets[i + 1]]
        if i >= len(lengths) or not np.array_equal(one, other.tokens(start + i)):
            return start + i
    return None


def _check_documents(
    rules: Rules, shard: ShardFacts, batch: TokenBatch, first: int, order: Order, found: Found
) -> list[bytes]:
    """Ask the encode stage's rules of documents, first being their number in the shard; add them to the totals.

    Returns their digests.
    """

    def complain(row: int, what: str) -> None:
        where = f"{batch.sources[row]}, ordinal {int(batch.ordinals[row])}"
        found.problems.append(f"shards: {shard.shard}, document {first + row} ({where}) {what}")

    order.add(shard, batch)
    lengths = np.diff(batch.offsets)
    tokens = batch.tokens[batch.offsets[0] : batch.offsets[-1]]
    if len(tokens) and (int(tokens.min()) < 0 or int(tokens.max()) >= rules.settings.vocab_size):
        wrong = int(np.flatnonzero((tokens < 0) | (tokens >= rules.settings.vocab_size))[0])
        row = int(np.searchsorted(batch.offsets - batch.offsets[0], wrong, side="right")) - 1
        complain(row, f"holds id {int(tokens[wrong])}, which the tokenizer does not have")
    without_begin, without_end = _find_without_added(tokens, batch.offsets - batch.offsets[0], rules)
    if without_begin is not None:
        complain(without_begin, f"does not begin with {list(rules.prepend)}")
    elif without_end is not None:
        complain(without_end, f"does not end with {list(rules.append)}")
    elif rules.reserved:
        expected = len(lengths) * sum(id in rules.reserved for id in rules.prepend + rules.append)
        candidates = tokens[tokens >= rules.reserved[0]]
        if int(np.isin(candidates, rules.reserved).sum()) != expected:
            complain(0, "or one of the next holds a special token within its text")
    for lang, where in batch.langs.by_label().items():
        if shard.lang and lang != shard.lang:
            complain(int(where[0]), f"is of language {lang!r}, the shard of {shard.lang!r}")
        sums = found.languages.setdefault(lang, [0, 0, 0])
        sums[0] += len(where)
        sums[1] += int(lengths[where].sum())
        if rules.unknown is not None:
            sums[2] += int(count_in_rows(batch, rules.unknown)[where].sum())
    if rules.partitioning is not None:
        for partition, where in label_partitions(rules.partitioning, batch.langs, batch.metadata).by_label().items():
            if partition != shard.partition:
                complain(int(where[0]), f"is of partition {partition}, the shard of {shard.partition}")
    for source, where in batch.sources.by_label().items():
        found.documents_of[source] += len(where)
        is_kept = source in rules.validation
        if (is_kept or not rules.has_share) and is_kept != (shard.split == "validation"):
            complain(
                int(where[0]), f"is of split {shard.split}, and its source is {'' if is_kept else 'not '}for validation"
            )
    found.ids.add(batch.tokens, batch.offsets)
    digests = compute_document_digests(batch.langs, batch.tokens, batch.offsets)
    found.hashed.add(digests)
    return digests


def _find_without_added(tokens: Any, offsets: Any, rules: Rules) -> tuple[int | None, int | None]:
    """The first document that does not begin with the prepended ids, and that does not end with the appended ones."""
    too_short = np.diff(offsets) < len(rules.prepend) + len(rules.append)

    def first_wrong(places: Any, ids: tuple[int, ...]) -> int | None:
        wrong = too_short if ids else np.zeros(len(too_short), bool)
        for i, id in enumerate(ids):
            # Where a document is too short, another's token is looked at; it is wrong already.
            at = np.clip(places + i, 0, len(tokens) - 1)
            wrong = wrong | ((tokens[at] if len(tokens) else np.full(len(at), -1)) != id)
        rows = np.flatnonzero(wrong)
        return int(rows[0]) if len(rows) else None

    return first_wrong(offsets[:-1], rules.prepend), first_wrong(offsets[1:] - len(rules.append), rules.append)
