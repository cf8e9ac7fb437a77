"""The mixture stage: from shuffled shards to shards with the same training documents in other proportions."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Generator, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from tokcore.errors import LedgerError
from tokcore.formats.shard_facts import ShardFacts
from tokcore.learn.level_shares import Level, Path
from tokcore.train.document_shares import Copies, choose_copies, count_wanted, share_tokens, share_tokens_by_levels
from tokcore_pipelines.build.commit import require_manifest
from tokcore_pipelines.build.derived_before import DerivedBefore, find_derived_before
from tokcore_pipelines.build.shard_files import SumOfShards, list_shard_files
from tokcore_pipelines.build.stage import BuildRun, Made, StageKey, name_inputs, run_stage
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.local.terminal import MOST_ROWS, format_number, format_table, make_printable
from tokcore_pipelines.run.task import Step, do_steps, name_by_number
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.tokenizers import load_checked_spec
from tokcore_pipelines.work.derived_shards import ShardSource
from tokcore_pipelines.work.item_results import read_packed
from tokcore_pipelines.work.language_totals import format_ratio
from tokcore_pipelines.work.make_jobs import make_mix_job
from tokcore_pipelines.work.mix_part import (
    Group,
    MixedBefore,
    MixJob,
    count_part,
    make_measured_key,
    make_mixed_key,
    measure_part,
    mix_part,
    name_mixed,
)
from tokcore_pipelines.work.result_keys import make_table_key
from tokcore_schemas.copies import NUM_CELLS, choose_num_segments
from tokcore_schemas.levels import LevelsConfig, make_levels
from tokcore_schemas.refs import Measured, MixedSums, MixPart, PartMeasured, PartMixed
from tokcore_schemas.shard_entries import Afresh
from tokcore_schemas.shuffle import choose_num_parts
from tokcore_schemas.stage_manifests import (
    CorpusAbout,
    MixtureConfig,
    MixtureManifest,
    MixtureShare,
    MixtureTotals,
    ShardsManifest,
)
from tokcore_schemas.stage_table import MIXED, SHARDS, TOKENIZER

_SHARE_DIGITS = 6


class Decision(NamedTuple):
    """How a mixture is made; it follows from its settings and from what the shards hold."""

    wanted: dict[str, int]  # language, source or partition -> tokens
    copies: dict[str, Copies]  # of the same
    num_parts: int
    num_segments: int


def mix_corpus(run: BuildRun) -> MixtureManifest | None:
    """Write the mixture of the documents of the shards, if the build file asks for one.

    Raises ConfigError for tokens that cannot be reached, LedgerError if documents are lost.
    """
    config = run.config.mixture_identity()
    if config is None:
        return None
    shards = require_manifest(run.output, SHARDS)
    learned = require_manifest(run.output, TOKENIZER)
    key = StageKey(MIXED.name, config, name_inputs(shards, learned))

    def make(attempts: Attempts) -> Made[MixtureTotals, MixtureShare, ShardFacts | CorpusAbout]:
        spec = load_checked_spec(run.output, learned)
        job = make_mix_job(config, attempts, run.output, shards, spec, make_table_key(key.identity))
        if (found := find_derived_before(run, config, MIXED.name, shards)) is not None:
            job = dataclasses.replace(job, before=_describe_before(found))
        return _mix(run, shards, job)

    return run_stage(run, key, make)


def _describe_before(found: DerivedBefore) -> MixedBefore:
    """A mixture whose parts may be taken over."""
    decided, config = _read_decision(found.made), found.source.config
    return MixedBefore(
        ShardSource.of(found.output, found.source),
        ShardSource.of(found.output, found.made),
        choose_num_parts(found.source.totals.tokens, config.target_tokens),
        *(decided.num_parts, decided.num_segments, decided.copies),
    )


def _mix(
    run: BuildRun, shards: ShardsManifest, job: MixJob
) -> Made[MixtureTotals, MixtureShare, ShardFacts | CorpusAbout]:
    executor = run.find_executor(job.attempts)
    with run.progress.stage("mixture"):
        measured, decided, mixed = do_steps(executor, mix_steps(shards, job, run.is_whole), job.attempts)
    run.take_turn(job.attempts)
    reach("stage.worked")
    written = Afresh(lambda: (shard for part in mixed for shard in part.shards))
    totals, languages = _sum_up(job, decided, measured, mixed)
    if wrong := _find_unmixed(totals, languages, shards):
        raise LedgerError(f"mixture: {wrong}")
    about = CorpusAbout(totals.documents, totals.tokens)
    return Made(list_shard_files(job, written, about), totals, languages)


def mix_steps(
    shards: ShardsManifest, job: MixJob, is_whole: bool = True
) -> Generator[Step, bool, tuple[Sequence[PartMeasured], Decision, Sequence[PartMixed]]]:
    """Count what is in the shards, decide, and write the mixture; what was recorded of both, and what was decided.

    is_whole: whether it is that of a build, and not of a part that a commit adds to one.
    """
    to_measure = [MixPart(number) for number in range(job.num_source_parts)]
    yield Step("measure", measure_part, (job,), to_measure, name_by_number(make_measured_key))
    measured = read_packed(job.attempts, job.num_source_parts, PartMeasured, make_measured_key)
    decided = _decide(job.config, shards, measured, is_whole)
    job = _tell_decision(job, decided)
    to_mix = [MixPart(number) for number in range(job.num_parts)]
    yield Step("mix", mix_part, (job,), to_mix, name_by_number(make_mixed_key))
    return measured, decided, read_packed(job.attempts, job.num_parts, PartMixed, make_mixed_key)


def _tell_decision(job: MixJob, decided: Decision) -> MixJob:
    """The job of the second pass."""
    return dataclasses.replace(
        job, num_parts=decided.num_parts, num_segments=decided.num_segments, copies=decided.copies
    )


def _decide(
    config: MixtureConfig, shards: ShardsManifest, parts: Sequence[PartMeasured], is_whole: bool = False
) -> Decision:
    """How the mixture is made. Raises ConfigError if it cannot be as it is wanted.

    is_whole: whether it has to have all that weights name. What an output had once may have been removed from it.
    """
    cells: dict[str, list[int]] = {}
    for one in _iterate_measured(parts):
        name = name_mixed(config, one.lang, one.source, one.partition)
        own = cells.setdefault(name, [0] * NUM_CELLS)
        own[:] = map(sum, zip(own, one.cells, strict=True))
    if config.kept is not None:
        copies = {name: read_copies(config.kept.get(name, "1")) for name in sorted(cells)}
        wanted = {name: count_wanted(copies[name], own) for name, own in cells.items()}
        return Decision(wanted, copies, *_choose_sizes(config, shards, _count_tokens(wanted, parts)))
    sizes = {name: sum(own) for name, own in cells.items()}
    if config.levels is not None:
        names = {(one.lang, one.source, one.partition) for one in _iterate_measured(parts)}
        paths = {name_mixed(config, *one): config.levels.find_path(*one) for one in sorted(names)}
        wanted = _share_by_levels(config, config.levels, paths, sizes)
    else:
        wanted = _share_flat(config, sizes, is_whole)
    copies = {name: choose_copies(name, wanted[name], cells[name]) for name in sorted(cells)}
    return Decision(wanted, copies, *_choose_sizes(config, shards, _count_tokens(wanted, parts)))


def _share_flat(config: MixtureConfig, sizes: Mapping[str, int], is_whole: bool) -> dict[str, int]:
    return share_tokens(
        sizes,
        config.strategy,
        alpha=Decimal(config.alpha) if config.alpha else None,
        weights={name: Decimal(weight) for name, weight in (config.weights or {}).items() if is_whole or name in sizes},
        tokens=config.tokens,
        max_epochs=Decimal(config.max_epochs) if config.max_epochs else None,
    )


def _share_by_levels(
    config: MixtureConfig, levels: LevelsConfig, paths: Mapping[str, Path], sizes: Mapping[str, int]
) -> dict[str, int]:
    """How many tokens each path gets. paths: name -> path."""
    own = Level("")
    if config.strategy in ("temperature", "unimax"):
        own = Level("", alpha=Decimal(config.alpha or 0))
    elif config.strategy == "weights":
        own = Level("", weights={name: Decimal(weight) for name, weight in (config.weights or {}).items()})
    told = make_levels(levels, own, "mixture", Decimal(config.max_epochs) if config.max_epochs else None)
    there = {path: sizes[name] for name, path in paths.items() if sizes[name]}
    budget = sum(there.values()) if config.tokens is None else config.tokens
    return share_tokens_by_levels(paths, there, told, budget)


def _count_tokens(wanted: Mapping[str, int], parts: Iterable[PartMeasured]) -> int:
    """The tokens of the mixture, those of validation included."""
    return sum(wanted.values()) + sum(part.validation_tokens for part in parts)


def _choose_sizes(config: MixtureConfig, shards: ShardsManifest, num_tokens: int) -> tuple[int, int]:
    """(number of parts, number of segments) of a mixture with this many tokens."""
    there = shards.totals.tokens
    num_parts = choose_num_parts(num_tokens, config.target_tokens)
    num_source_parts = choose_num_parts(there, shards.config.target_tokens)
    num_segments = choose_num_segments(max(num_tokens, there), num_parts, num_source_parts)
    return num_parts, max(num_segments, config.segments or 0)


def spell_copies(share: MixtureShare) -> str:
    """How often the documents of a language, source or partition come, as MixtureConfig.kept has it."""
    return f"{share.copies or 0}+{share.cut}" if share.cut else f"{share.copies or 0}"


def read_copies(spelled: str) -> Copies:
    """As spell_copies wrote it.

    >>> read_copies("2+ff"), read_copies("0")
    (Copies(whole=2, cut=255), Copies(whole=0, cut=0))
    """
    whole, _, cut = spelled.partition("+")
    return Copies(int(whole), int(cut or "0", 16))


def list_mixed(made: MixtureManifest) -> Mapping[str, MixtureShare]:
    """The receipt of each language, source or partition, whichever are mixed."""
    totals = made.totals
    return _choose_receipts(made.config, made.languages, totals.sources, totals.partitions or {}, totals.paths or {})


def _read_decision(made: MixtureManifest) -> Decision:
    """How a mixture was made, as its manifest says."""
    chosen = {name: share for name, share in list_mixed(made).items() if share.copies is not None}
    return Decision(
        {name: share.tokens_wanted or 0 for name, share in chosen.items()},
        {name: read_copies(spell_copies(share)) for name, share in chosen.items()},
        made.totals.parts,
        made.totals.segments,
    )


def _iterate_measured(parts: Sequence[PartMeasured]) -> Iterable[Measured]:
    return (one for part in parts for one in part.measured)


def _add_up_sums(parts: Iterable[PartMixed]) -> list[MixedSums]:
    """The sums of each language, source and partition over all parts."""
    totals: dict[Group, list[int]] = {}
    for one in (one for part in parts for one in part.sums):
        own = totals.setdefault((one.lang, one.source, one.partition), [0, 0, 0, 0])
        own[:] = map(sum, zip(own, (one.documents, one.tokens, one.left_out, one.repeated), strict=True))
    return [
        MixedSums(lang, source, documents, tokens, left_out, repeated, partition)
        for (lang, source, partition), (documents, tokens, left_out, repeated) in sorted(totals.items())
    ]


def _choose_receipts(config: MixtureConfig, *receipts: dict[str, MixtureShare]) -> dict[str, MixtureShare]:
    """The receipts of what is mixed. receipts: of languages, of sources, of partitions, of paths by levels."""
    if config.levels is not None:
        return receipts[3]
    return receipts[2 if config.partition_keys else 1 if config.over == "sources" else 0]


def _sum_up(
    job: MixJob, decided: Decision, measured: Sequence[PartMeasured], parts: Sequence[PartMixed]
) -> tuple[MixtureTotals, dict[str, MixtureShare]]:
    """The totals of the stage, with the receipts of sources and partitions, and the receipts of languages."""
    mixed, written = _add_up_sums(parts), SumOfShards.of(shard for part in parts for shard in part.shards)
    by_lang, by_source, by_partition = (
        _write_receipts(
            ((getattr(one, what), one) for one in _iterate_measured(measured) if getattr(one, what)),
            [(getattr(one, what), one) for one in mixed if getattr(one, what)],
        )
        for what in ("lang", "source", "partition")
    )
    by_path: dict[str, MixtureShare] = {}
    if job.config.levels is not None:
        by_path = _write_receipts(
            ((name_mixed(job.config, one.lang, one.source, one.partition), one) for one in _iterate_measured(measured)),
            [(name_mixed(job.config, one.lang, one.source, one.partition), one) for one in mixed],
        )
    whole = sum(decided.wanted.values())
    chosen = _choose_receipts(job.config, by_lang, by_source, by_partition, by_path)
    for name, share in chosen.items():
        copies = decided.copies[name]
        chosen[name] = dataclasses.replace(
            share,
            share_wanted=format_ratio(decided.wanted[name], whole, _SHARE_DIGITS),
            tokens_wanted=decided.wanted[name],
            copies=copies.whole,
            cut=f"{copies.cut:016x}" if copies.cut else "",
        )
    validation = [sum(getattr(part, f"validation_{name}") for part in measured) for name in ("documents", "tokens")]
    read, left_out, repeated = (
        sum(getattr(share, name) for share in by_lang.values()) for name in ("documents", "left_out", "repeated")
    )
    totals = MixtureTotals(
        shards=written.shards,
        read=read + validation[0],
        documents=written.documents,
        left_out=left_out,
        repeated=repeated,
        tokens=written.tokens,
        validation_documents=validation[0],
        validation_tokens=validation[1],
        parts=decided.num_parts,
        segments=decided.num_segments,
        fingerprint=job.settings.fingerprint,
        sources=by_source,
        partitions=by_partition or None,
        paths=by_path or None,
    )
    return totals, by_lang


def _write_receipts(
    there: Iterable[tuple[str, Measured]], mixed: Sequence[tuple[str, MixedSums]]
) -> dict[str, MixtureShare]:
    sums: dict[str, list[int]] = {}
    for name, one in there:
        own = sums.setdefault(name, [0] * 6)
        own[0] += one.documents
        own[1] += one.tokens
    for name, made in mixed:
        own = sums.setdefault(name, [0] * 6)
        own[2:] = map(sum, zip(own[2:], (made.documents, made.tokens, made.left_out, made.repeated), strict=True))
    whole = sum(own[3] for own in sums.values())
    return {name: _write_receipt(own, whole) for name, own in sorted(sums.items())}


def _write_receipt(sums: Sequence[int], whole: int) -> MixtureShare:
    """sums: the first fields of a receipt. whole: tokens of the mixture."""
    documents, tokens, mixed_documents, mixed_tokens, left_out, repeated = sums
    return MixtureShare(
        documents,
        tokens,
        mixed_documents,
        mixed_tokens,
        left_out,
        repeated,
        share=format_ratio(mixed_tokens, whole, _SHARE_DIGITS),
        epochs=format_ratio(mixed_tokens, tokens),
    )


def _find_unmixed(totals: MixtureTotals, languages: Mapping[str, MixtureShare], shards: ShardsManifest) -> str:
    """What the shards hold and the mixture does not account for, or the other way round; empty if nothing is."""
    there = shards.totals.records.documents
    tokens = sum(share.tokens for share in languages.values()) + totals.validation_tokens
    if (totals.read, tokens) != (there, shards.totals.tokens):
        return (
            f"{there} documents of {shards.totals.tokens} tokens are in the shards, {totals.read} of {tokens} were read"
        )
    if totals.read + totals.repeated != totals.documents + totals.left_out:
        return (
            f"{totals.read} documents were read, {totals.left_out} left out and {totals.repeated} repeated: this "
            f"is not {totals.documents}, which were written"
        )
    for lang, share in languages.items():
        if share.documents + share.repeated != share.mixed_documents + share.left_out:
            return f"{lang}: documents, left out and repeated ones do not add up"
    mixed = sum(share.mixed_tokens for share in languages.values()) + totals.validation_tokens
    if mixed != totals.tokens:
        return f"{totals.tokens} tokens were written, by language they are {mixed}"
    return ""


def tell_mixture(made: MixtureManifest) -> list[str]:
    """What the end of a build says of a mixture."""
    return [f"{made.totals.documents:,} documents, {made.totals.tokens:,} tokens"]


def show_receipts(made: MixtureManifest) -> list[str]:
    """The lines that show what the mixture holds of each language and source, and of the largest partitions."""
    lines: list[str] = []
    for what, shares in (("language", made.languages), ("source", made.totals.sources)):
        rows = [
            [
                make_printable(name),
                format_number(one.tokens),
                format_number(one.mixed_tokens),
                one.share_wanted or "",
                one.share,
                one.epochs,
                format_number(one.left_out),
                format_number(one.repeated),
            ]
            for name, one in shares.items()
        ]
        if rows:
            if made.config.kept is not None and not lines:
                lines += ["", "--keep-weights: documents come as often as before the update; new ones come once"]
            header = [what, "tokens", "in mixture", "share wanted", "share", "epochs", "left out", "repeated"]
            lines += ["", *format_table(header, rows)]
    paths = _show_largest("level by level", made.totals.paths or {})
    return [*lines, *_show_largest("partition", made.totals.partitions or {}), *paths]


def _show_largest(what: str, shares: Mapping[str, MixtureShare]) -> list[str]:
    """Lines of the largest partitions or paths, whose names are long: with fewer columns than the others."""
    largest = sorted(shares.items(), key=lambda item: (-item[1].mixed_tokens, item[0]))[:MOST_ROWS]
    rows = [
        [make_printable(name), format_number(one.tokens), format_number(one.mixed_tokens), one.share, one.epochs]
        for name, one in largest
    ]
    lines = ["", *format_table([what, "tokens", "in mixture", "share", "epochs"], rows)] if rows else []
    if len(largest) < len(shares):
        lines.append(f"and {len(shares) - len(largest):,} more, in {MIXED.name}/manifest.json")
    return lines


# ---------------------------------------------------------------------------------------------------------- made again


def count_parts(stored: Stored) -> int:
    """How many parts a mixture has. Raises LedgerError if its manifest says other ones than follow from the shards."""
    totals, said, shards = stored.get(MIXED).totals, _read_decision(stored.get(MIXED)), stored.get(SHARDS)
    sizes = _choose_sizes(stored.get(MIXED).config, shards, sum(said.wanted.values()) + totals.validation_tokens)
    if sizes != (totals.parts, totals.segments):
        raise LedgerError(f"{totals.parts} parts of {totals.segments} segments, expected {sizes[0]} of {sizes[1]}")
    return totals.parts


def mix_again(stored: Stored, attempts: Attempts, number: int) -> PartMixed:
    """Write a part of a mixture once more, as its manifest says what was decided."""
    made = stored.get(MIXED)
    job = _tell_decision(_make_job_again(stored), _read_decision(made))
    return mix_part(dataclasses.replace(job, attempts=attempts), MixPart(number))


def count_source_parts(stored: Stored) -> int:
    """How many parts the shuffle has that a mixture is made of."""
    return _make_job_again(stored).num_source_parts


def measure_again(stored: Stored, number: int) -> PartMeasured:
    """What a part of the shuffle brings to a mixture. Nothing is written."""
    return count_part(_make_job_again(stored), number)


def sum_up_again(
    stored: Stored, parts: Sequence[PartMixed], measured: Sequence[PartMeasured]
) -> tuple[MixtureTotals, dict[str, MixtureShare]]:
    """What the manifest of a mixture of these parts says of them all, from what the shards hold."""
    job = _make_job_again(stored)
    decided = _decide(job.config, stored.get(SHARDS), measured)
    return _sum_up(job, decided, measured, parts)


@functools.lru_cache(maxsize=2)
def _make_job_again(stored: Stored) -> MixJob:
    made = stored.get(MIXED)
    attempts, key = Attempts(stored.url, made.stage, made.identity), make_table_key(made.identity)
    return make_mix_job(made.config, attempts, stored.url, stored.get(SHARDS), stored.spec, key)
