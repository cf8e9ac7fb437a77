"""What workers are told of the work items that a part takes over: records in the working folder of a stage."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence

from tokcore_pipelines.build.file_rejections import REJECTS
from tokcore_pipelines.build.inherited_items import read_standing_part
from tokcore_pipelines.build.ledger import FileLedger, PlacedReject
from tokcore_pipelines.build.rejects import LEDGER
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.json_lines import read_table
from tokcore_pipelines.store.parallel_requests import run_at_once
from tokcore_pipelines.work.read_shards import count_around
from tokcore_schemas.count_key import CountKey
from tokcore_schemas.inheritance import (
    SUMS_KEY,
    Inheritance,
    InheritedItem,
    InheritedSums,
    ItemNotTakenOver,
    ShuffledBefore,
    ThinnedItem,
    make_inherited_key,
)
from tokcore_schemas.plan import AssignedRange, Assignment, Plan
from tokcore_schemas.refs import LanguageCounts, RangeLedger, RejectRef, ShardRef
from tokcore_schemas.shard_entries import list_item_shards
from tokcore_schemas.shuffle import choose_num_parts
from tokcore_schemas.stage_manifests import CountsConfig, ShardsConfig, ShardsManifest
from tokcore_schemas.stage_table import COUNTS, REJECTED, SHARDS


def tell_workers(
    inheritance: Inheritance | None,
    plan: Plan,
    attempts: Attempts,
    config: CountsConfig | ShardsConfig,
    fingerprint: str = "",
) -> bool:
    """Record what the workers of a stage take over; whether they take over anything.

    config: of counts or shards. fingerprint: of the tokenizer, for shards. What an interrupted run of the same part
    has recorded stays.
    """
    part = read_standing_part(inheritance.output) if inheritance is not None else None
    if inheritance is None or part is None or not _is_made_alike(part, config, fingerprint):
        return False
    made = part.find(SHARDS)
    if attempts.result(SUMS_KEY, InheritedSums) is not None:
        return True
    reach("inherit.found")
    encodes = isinstance(config, ShardsConfig)
    is_shuffled = made is not None and made.config.shuffle is not None
    shards = list_item_shards(made) if made is not None and not is_shuffled else {}
    ledgers, rejects = read_ledgers(inheritance.output), _read_rejects(inheritance.output)
    first = inheritance.first

    def tell(numbers: tuple[int, int]) -> None:
        number, before = numbers
        assignment = plan.assignment(plan.items[number])
        as_before = [one for one in assignment.ranges if one.uri not in inheritance.again]
        own = InheritedItem(
            output=inheritance.output,
            ledgers=tuple(_make_ledger(one, ledgers[one.uri]) for one in as_before),
            rejects=tuple(ref for one in assignment.ranges for ref in _make_rejects(one, rejects.get(one.uri, ()))),
            shards=tuple(shards.get(before, ())) if encodes else (),
            bears_sums=number == first,
            is_thinned=number in inheritance.thinned,
        )
        attempts.record(make_inherited_key(number), own)

    run_at_once(tell, [*inheritance.kept.items(), *inheritance.thinned.items()])
    less = _make_inherited_sums(inheritance, part, shards, encodes)
    if inheritance.thinned:
        thinned = _list_thinned(inheritance, plan, ledgers, shards)
        less = dataclasses.replace(less, thinned=tuple(thinned), removed=plan.settings[0].removed)
    if made is not None and is_shuffled:
        less = dataclasses.replace(less, shuffled=_describe_shuffled(inheritance, made, plan))
    # Last, since it says that the others are there.
    attempts.record(SUMS_KEY, less)
    return True


def _list_thinned(
    inheritance: Inheritance,
    plan: Plan,
    ledgers: Mapping[str, FileLedger],
    shards: Mapping[int, Sequence[ShardRef]],
) -> Iterator[ThinnedItem]:
    """The work items from whose files documents were removed."""
    removed_before = inheritance.before.settings[0].removed
    for number, before in sorted(inheritance.thinned.items()):
        ranges = [
            dataclasses.replace(one, settings=dataclasses.replace(one.settings, removed=removed_before))
            for one in plan.assignment(plan.items[number]).ranges
            if one.uri in inheritance.again
        ]
        of_ranges = tuple(_make_ledger(one, ledgers[one.uri]) for one in ranges)
        yield ThinnedItem(Assignment(number, tuple(ranges)), of_ranges, tuple(shards.get(before, ())))


def _describe_shuffled(inheritance: Inheritance, made: ShardsManifest, plan: Plan) -> ShuffledBefore:
    """The shuffled shards of the part before, and which documents leave them."""
    before = inheritance.before
    files = {before.files[r.file].uri for number in inheritance.gone for r in before.items[number].ranges}
    return ShuffledBefore(
        sha256=made.as_input().sha256,
        num_parts=choose_num_parts(made.totals.tokens, made.config.target_tokens),
        num_tokens=made.totals.tokens,
        leaving=tuple(sorted(files - inheritance.alike)),
        alike=tuple(sorted(inheritance.alike)),
        removed=plan.settings[0].removed if inheritance.again else None,
    )


def _is_made_alike(part: Stored, config: CountsConfig | ShardsConfig, fingerprint: str) -> bool:
    """Whether a stage of another part has this configuration, and for shards this tokenizer."""
    shards, counts = part.find(SHARDS), part.find(COUNTS)
    if isinstance(config, ShardsConfig):
        return shards is not None and shards.config == config and shards.totals.fingerprint == fingerprint
    return counts is not None and counts.config == config


def _make_inherited_sums(
    inheritance: Inheritance, part: Stored, shards: Mapping[int, list[ShardRef]], encodes: bool
) -> InheritedSums:
    gone = tuple(
        ItemNotTakenOver(
            inheritance.before.assignment(inheritance.before.items[number]), is_there, tuple(shards.get(number, ()))
        )
        for number, is_there in sorted(inheritance.gone.items())
    )
    made = part.find(SHARDS)
    around = count_around(made.config) if made is not None else (0, 0)
    if encodes:
        assert made is not None
        # What shuffled shards have is added up when they are gathered.
        is_counted = made.config.shuffle is None
        of_shards = {
            lang: LanguageCounts(
                *(one.documents, one.text_bytes, 0, 0, one.pretokens),
                num_tokens=one.tokens * is_counted,
                num_unknown=(one.unknown or 0) * is_counted,
            )
            for lang, one in made.languages.items()
        }
        return InheritedSums(inheritance.output, around, of_shards, dict(made.totals.special_text), {}, {}, gone)
    counts = part.get(COUNTS)
    of_counts = {
        lang: LanguageCounts(
            *(one.documents, one.text_bytes, one.counted_documents, one.counted_bytes, one.pretokens, 0),
            one.masked_bytes or 0,
        )
        for lang, one in counts.languages.items()
    }
    masked = {lang: one.masked or {} for lang, one in counts.languages.items()}
    tables = {entry.about.key.spell(): entry.describe() for entry in counts.files}
    origins = {
        CountKey(lang, own.split, own.source).spell(): LanguageCounts(
            0, 0, own.counted_documents, own.counted_bytes, own.pretokens
        )
        for lang, one in counts.languages.items()
        for own in one.origins
    }
    return InheritedSums(inheritance.output, around, of_counts, {}, masked, tables, gone, origins=origins)


def read_ledgers(output: str) -> dict[str, FileLedger]:
    """Uri of an input file -> what became of it, as a build says that has committed its rejects."""
    return {one.uri: one for one in read_table(urls.join(output, REJECTED.name, LEDGER), FileLedger)}


def _read_rejects(output: str) -> dict[str, list[PlacedReject]]:
    found: dict[str, list[PlacedReject]] = {}
    for one in read_table(urls.join(output, REJECTED.name, REJECTS), PlacedReject):
        found.setdefault(one.file, []).append(one)
    return found


def _make_ledger(one: AssignedRange, file: FileLedger) -> RangeLedger:
    """The ledger of a range. The first one of a file has all of it: if a range of a file is inherited, all are."""
    if one.start:
        return RangeLedger(one.file, one.start, one.stored_bytes, 0, 0, 0, 0, {}, file.rejected_file)
    return RangeLedger(
        file=one.file,
        start=0,
        size_bytes=one.stored_bytes,
        read_bytes=one.size_bytes,
        num_records=file.records,
        num_documents=file.documents,
        text_bytes=file.text_bytes,
        rejected=file.rejected,
        rejected_file=file.rejected_file,
        skipped=file.skipped,
        num_removed=file.removed,
        filtered=file.filtered,
        respelled=file.respelled,
        masked=file.masked,
        cut=file.cut,
        overlaps=file.overlaps,
    )


def _make_rejects(one: AssignedRange, placed: Collection[PlacedReject]) -> list[RejectRef]:
    """The rejects of a file, in its first range. After a removal nothing is quoted from them."""
    if one.start:
        return []
    is_quiet = one.settings.removed is not None
    return [
        RejectRef(one.file, 0, ref.record, ref.reason, "" if is_quiet else ref.detail, "" if is_quiet else ref.sample)
        for ref in placed
    ]
