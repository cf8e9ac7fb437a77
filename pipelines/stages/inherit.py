"""Which work items of a part are those of the part whose place it takes, and what workers are told of them.

Results belong to content: an item of the same bytes of the same files, read in the same way, has the same counts and
the same shards, whatever its number and whatever the rest of the plan is. So the part that is made is, byte for byte,
the one that reading all of its files would make; nothing in its manifests says that it was not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple, cast

from pipelines.stages.commit import find_manifests, get_folder
from pipelines.stages.ledger import FileLedger, PlacedReject
from pipelines.stages.rejects import LEDGER, REJECTED
from pipelines.stages.stage import StageKey
from pipelines.store import storage, urls
from pipelines.store.at_once import run_at_once
from pipelines.store.attempts import Attempts
from pipelines.store.crashpoints import reach
from pipelines.store.redaction import redact
from pipelines.store.tokenizers import load_spec
from pipelines.work.read_plan import read_plan
from pipelines.work.read_shards import count_around, list_item_shards
from pipelines.work.result_keys import hash_content
from schemas.inheritance import LESS_KEY, GoneItem, Inheritance, InheritedItem, InheritedShard, Less, make_inherited_key
from schemas.manifest import AnyManifest
from schemas.plan import AssignedRange, InputFile, Plan
from schemas.refs import LanguageCounts, RangeLedger, RejectRef, StoredFile
from schemas.stage_manifests import CountsConfig, CountsManifest, PlanManifest, ShardsConfig, ShardsManifest
from tokcore.canonical import parse_canonical
from tokcore.errors import StageError
from tokcore.jsonable import from_jsonable

_NEEDED = ("plan", "rejected", "shards", "counts")  # the stages that a part is known by


class _Part(NamedTuple):
    """The manifests of a part."""

    planned: PlanManifest
    shards: ShardsManifest | None
    counts: CountsManifest | None


def find_inheritance(output: str, plan: Plan, base: str, again: Collection[str] = ()) -> Inheritance | None:
    """What the part of a new plan takes over from a finished part of these settings; None if that would save nothing.

    output: URL of the finished part. base: folder against which relative uris of inputs are resolved.
    again: uris of files that are to be read again, since they have documents that were removed.
    """
    if (part := _read_part(output)) is None:
        return None
    before = read_plan(output, part.planned)
    there = {hash_content(before.assignment(item)): item.number for item in before.items}
    again = frozenset(again)
    kept = {}
    for item in plan.items:
        assignment = plan.assignment(item)
        if (
            not any(one.uri in again for one in assignment.ranges)
            and (found := there.get(hash_content(assignment))) is not None
        ):
            kept[item.number] = found
    left = {*kept.values()}
    gone = [item for item in before.items if item.number not in left]
    if not kept or sum(item.size_bytes for item in gone) > sum(before.items[number].size_bytes for number in left):
        return None
    files = {r.file: before.files[r.file] for item in gone for r in item.ranges}
    changed = {*find_changed(files.values(), base)}
    # Of an item that was decoded, the source cannot be read as it was, not even if it is back.
    changed |= {file.uri for file in files.values() if before.settings[file.settings].decoded_from}
    found_gone = {item.number: not any(files[r.file].uri in changed for r in item.ranges) for item in gone}
    if not all(found_gone.values()) and not _are_tokens_exact(output, part):
        return None
    return Inheritance(output, before, kept, found_gone)


def require_undamaged(output: str) -> None:
    """Raise StageError if a file of a part's stages has other bytes than were committed. Reads all of them."""

    def check(file: tuple[str, str]) -> None:
        url, sha256 = file
        if storage.compute_sha256(url) != sha256:
            raise StageError(f"{redact(url)}: its bytes are not those that were committed")

    stages = find_manifests(output, (*_NEEDED, "tokenizer")).items()
    files = [(urls.join(get_folder(output, name), one.path), one.sha256) for name, made in stages for one in made.files]
    run_at_once(check, files)


def find_changed(files: Iterable[InputFile], base: str) -> list[str]:
    """The uris of input files that are gone, or are not those that were pinned. base: where relative uris start."""
    files = list(files)

    def is_as_pinned(file: InputFile) -> bool:
        url = urls.resolve(base, file.uri)
        return storage.exists(url) and storage.stat(url)[1:] == (file.size_bytes, file.version)

    return [file.uri for file, as_pinned in zip(files, run_at_once(is_as_pinned, files), strict=True) if not as_pinned]


def list_read_again(plan: Plan, inheritance: Inheritance | None) -> list[str]:
    """The uris of the files of a new part that are read."""
    kept = inheritance.kept if inheritance is not None else {}
    return sorted({plan.files[r.file].uri for item in plan.items if item.number not in kept for r in item.ranges})


def choose_files_to_read(plan: Plan, inheritance: Inheritance | None) -> Plan:
    """The plan, with the files alone that are read."""
    if inheritance is None:
        return plan
    read = {*list_read_again(plan, inheritance)}
    return dataclasses.replace(plan, files=tuple(file for file in plan.files if file.uri in read), items=())


def _read_part(output: str) -> _Part | None:
    """None if it is of another release, whose results may differ, or has nothing to take over."""
    found = find_manifests(output, _NEEDED)
    if not {"plan", "rejected"} <= found.keys():
        return None
    planned = found["plan"].as_input()  # of another one may be what earlier stages left, whose inputs were replaced
    made = {
        stage: found[stage]
        for stage in ("shards", "counts")
        if stage in found and found[stage].inputs["plan"] == planned
    }
    if not made or found["rejected"].inputs["plan"] != planned or not all(map(_is_of_this_release, made.values())):
        return None
    return _Part(
        cast(PlanManifest, found["plan"]),
        cast("ShardsManifest | None", made.get("shards")),
        cast("CountsManifest | None", made.get("counts")),
    )


def _is_of_this_release(made: AnyManifest) -> bool:
    return StageKey(made.stage, made.config, made.inputs).identity == made.identity


def _are_tokens_exact(output: str, part: _Part) -> bool:
    """Whether the tokens of documents give back all that was read of them, and counted."""
    if part.shards is None:
        return False
    spec = load_spec(output)
    is_sampled = part.counts is not None and part.counts.config.sample != "1"
    is_own = spec.fingerprint == part.shards.totals.fingerprint
    is_shuffled = part.shards.config.shuffle is not None  # so shards are not those of work items
    return is_own and spec.model.lossless and not spec.normalizer and not is_sampled and not is_shuffled


# ------------------------------------------------------------------------------------------------ what workers are told


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
    part = _read_part(inheritance.output) if inheritance is not None else None
    if inheritance is None or part is None or not _is_made_alike(part, config, fingerprint):
        return False
    if attempts.result(LESS_KEY, Less) is not None:
        return True
    reach("inherit.found")
    stage = attempts.stage
    shards = list_item_shards(part.shards) if part.shards is not None else {}
    ledgers, rejects = _read_ledgers(inheritance.output), _read_rejects(inheritance.output)

    def tell(numbers: tuple[int, int]) -> None:
        number, before = numbers
        assignment = plan.assignment(plan.items[number])
        own = InheritedItem(
            ledgers=tuple(_make_ledger(one, ledgers[one.uri]) for one in assignment.ranges),
            rejects=tuple(ref for one in assignment.ranges for ref in _make_rejects(one, rejects.get(one.uri, ()))),
            shards=tuple(shards.get(before, ())) if stage == "shards" else (),
            bears_sums=number == min(inheritance.kept),
        )
        attempts.record(make_inherited_key(number), own)

    run_at_once(tell, inheritance.kept.items())
    # Last, since it says that the others are there.
    attempts.record(LESS_KEY, _make_less(inheritance, part, shards, stage))
    return True


def _is_made_alike(part: _Part, config: CountsConfig | ShardsConfig, fingerprint: str) -> bool:
    """Whether a stage of another part has this configuration, and for shards this tokenizer."""
    if isinstance(config, ShardsConfig):
        return (
            part.shards is not None and part.shards.config == config and part.shards.totals.fingerprint == fingerprint
        )
    return part.counts is not None and part.counts.config == config


def _make_less(inheritance: Inheritance, part: _Part, shards: Mapping[int, list[InheritedShard]], stage: str) -> Less:
    gone = tuple(
        GoneItem(
            inheritance.before.assignment(inheritance.before.items[number]), is_there, tuple(shards.get(number, ()))
        )
        for number, is_there in sorted(inheritance.gone.items())
    )
    told = part.shards.config if part.shards is not None else None
    around = count_around(told) if told is not None else (0, 0)
    if stage == "shards":
        assert part.shards is not None
        of_shards = {
            lang: LanguageCounts(one.documents, one.text_bytes, 0, 0, one.pretokens, one.tokens, 0, one.unknown or 0)
            for lang, one in part.shards.languages.items()
        }
        return Less(inheritance.output, around, of_shards, dict(part.shards.totals.special_text), {}, {}, gone)
    assert part.counts is not None
    of_counts = {
        lang: LanguageCounts(
            *(one.documents, one.text_bytes, one.counted_documents, one.counted_bytes, one.pretokens, 0),
            one.masked_bytes or 0,
        )
        for lang, one in part.counts.languages.items()
    }
    masked = {lang: one.masked or {} for lang, one in part.counts.languages.items()}
    tables = {
        entry.about.lang: StoredFile(entry.path, "", entry.size_bytes, entry.sha256, entry.content_sha256)
        for entry in part.counts.files
    }
    return Less(inheritance.output, around, of_counts, {}, masked, tables, gone)


def _read_lines(output: str, name: str, cls: type[Any]) -> list[Any]:
    url = urls.join(output, "rejected", name)
    return [from_jsonable(cls, parse_canonical(line, url), url) for line in storage.read_bytes(url).splitlines(True)]


def _read_ledgers(output: str) -> dict[str, FileLedger]:
    return {one.uri: one for one in _read_lines(output, LEDGER, FileLedger)}


def _read_rejects(output: str) -> dict[str, list[PlacedReject]]:
    found: dict[str, list[PlacedReject]] = {}
    for one in _read_lines(output, REJECTED, PlacedReject):
        found.setdefault(one.file, []).append(one)
    return found


def _make_ledger(one: AssignedRange, file: FileLedger) -> RangeLedger:
    """The ledger of a range. The first one of a file has all of it: if a range of a file is inherited, all are."""
    if one.start:
        return RangeLedger(one.file, one.start, one.end - one.start, 0, 0, 0, 0, {}, file.rejected_file)
    return RangeLedger(
        file=one.file,
        start=0,
        size_bytes=one.end,
        read_bytes=one.size_bytes,
        num_records=file.records,
        num_documents=file.documents,
        text_bytes=file.text_bytes,
        rejected=file.rejected,
        rejected_file=file.rejected_file,
        skipped=file.skipped,
        num_removed=file.removed,
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
