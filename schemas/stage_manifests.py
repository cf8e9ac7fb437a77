"""What the manifest of each stage holds; tokcore_schemas.stage_table reads them.

Of each stage four things: its configuration (the settings that can change its bytes), its totals, what it says of each
language, and of each file. A field that is left out of the JSON form is written only where it says something.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

from tokcore.files.canonical_json import hash_sha256
from tokcore.files.jsonable import written_unless
from tokcore.formats.partition_names import Partitioning
from tokcore.formats.shard_facts import ShardFacts
from tokcore_schemas.count_key import CountedBy, CountKey
from tokcore_schemas.levels import LevelsConfig
from tokcore_schemas.manifest import Manifest
from tokcore_schemas.plan import DUPLICATE, ReadSettings, Runs

if TYPE_CHECKING:
    from tokcore.tokenizer.tokenizer_spec import TokenizerSpec

Share = tuple[str, str]  # before and after weighting, decimals
Plugins = dict[str, str] | None  # name -> distribution and version, of what is used and is not tokcore's


@dataclasses.dataclass(frozen=True, slots=True)
class Nothing:
    """Where a stage has nothing to say."""


# ---------------------------------------------------------------------------------------------------------------- plan


@dataclasses.dataclass(frozen=True, slots=True)
class PlanConfig:
    range_bytes: int
    settings: tuple[ReadSettings, ...]
    runs: Runs = written_unless("")  # where runs of small files end


@dataclasses.dataclass(frozen=True, slots=True)
class PlanTotals:
    files: int
    stored_bytes: int
    items: int
    partitions: int  # into which earlier releases dealt counts
    duplicates: tuple[str, ...]  # uris that were matched more than once


PlanManifest = Manifest[PlanConfig, PlanTotals, Nothing, Nothing]


# ------------------------------------------------------------------------------------------------------------ rejected


@dataclasses.dataclass(frozen=True, slots=True)
class RejectedConfig:
    special_text: str  # whether corpus text that spells a special token is a reason


@dataclasses.dataclass(frozen=True, slots=True)
class RecordTotals:
    read: int
    documents: int
    rejected: dict[str, int]  # reason -> records
    skipped: dict[str, int] | None = written_unless(None)  # kind of no document -> number
    removed: int = written_unless(0)  # documents that tombstones leave out
    # Language -> rule and reason -> records that a filter dropped.
    filtered: dict[str, dict[str, int]] | None = written_unless(None)
    # Language -> documents whose records spell it otherwise, those that tombstones leave out included.
    respelled: dict[str, int] | None = written_unless(None)
    # Language -> kind -> spans that a mask found, those of documents that are not kept included.
    masked: dict[str, dict[str, int]] | None = written_unless(None)
    # Language -> line or paragraph, and bytes -> number that documents do not have, as they were duplicates.
    cut: dict[str, dict[str, int]] | None = written_unless(None)

    @property
    def num_filtered(self) -> int:
        """Records that were documents and that filters dropped, duplicates included."""
        return sum(sum(by_reason.values()) for by_reason in (self.filtered or {}).values())

    @property
    def num_duplicates(self) -> int:
        """Records that were documents and are duplicates of others."""
        return sum(by_reason.get(DUPLICATE, 0) for by_reason in (self.filtered or {}).values())


@dataclasses.dataclass(frozen=True, slots=True)
class FileTotals:
    planned: int
    rejected: dict[str, int]  # reason -> files
    stored_bytes_planned: int
    stored_bytes_rejected: int


@dataclasses.dataclass(frozen=True, slots=True)
class LedgerTotals:
    """Both ledgers summed up: every stage that reads the corpus has them."""

    records: RecordTotals
    files: FileTotals
    text_bytes: int


RejectedManifest = Manifest[RejectedConfig, LedgerTotals, Nothing, Nothing]


# --------------------------------------------------------------------------------------------------------------- dedup


@dataclasses.dataclass(frozen=True, slots=True)
class DedupConfig:
    by: str  # TEXT, one of PIECES, or a field
    normalize: tuple[str, ...] = written_unless(())  # of texts, before they are compared
    prefer: tuple[str, ...] = written_unless(())  # which one stays, as the build file has it
    validation: str = written_unless("")  # exact decimal; this and the seed only where a split is preferred
    seed: int | None = written_unless(None)


@dataclasses.dataclass(frozen=True, slots=True)
class DropsAbout:
    """The facts about the file of the duplicates of a work item."""

    item: int
    duplicates: int
    result_key: str = written_unless("")  # in the file's name, as of shards


@dataclasses.dataclass(frozen=True, slots=True)
class DedupTotals:
    documents: int  # that were compared, duplicates included; or lines or paragraphs, as are duplicates
    duplicates: int


DedupManifest = Manifest[DedupConfig, DedupTotals, Nothing, DropsAbout]


# -------------------------------------------------------------------------------------------------------------- counts


@dataclasses.dataclass(frozen=True, slots=True)
class CountsConfig:
    max_pretoken_bytes: int
    sample: str  # exact decimal
    normalize: tuple[str, ...]
    pretokenize: dict[str, str]  # Pretokenizer.spec
    seed: int | None = written_unless(None)  # only where documents are sampled, or dealt to splits
    mask: tuple[str, ...] = written_unless(())
    # What rows know of their documents besides the language. Empty where there is nothing to tell apart, and in outputs
    # that began before 2026-11-28.
    apart_by: tuple[CountedBy, ...] = written_unless(())
    validation: str = written_unless("")  # exact decimal, where splits are told apart


@dataclasses.dataclass(frozen=True, slots=True)
class CountedOrigin:
    """What the documents of a split and a source bring to a language's counts."""

    counted_documents: int
    counted_bytes: int
    pretokens: int
    split: str = written_unless("")  # empty where splits are not told apart
    source: str = written_unless("")  # its name; empty if it has none


@dataclasses.dataclass(frozen=True, slots=True)
class CountedLanguage:
    documents: int
    text_bytes: int
    counted_documents: int  # after sampling
    counted_bytes: int  # their bytes, normalized
    pretokens: int
    rows: int  # of the count tables
    masked_bytes: int | None = written_unless(None)  # both only with a mask
    masked: dict[str, int] | None = written_unless(None)  # preset -> spans
    origins: tuple[CountedOrigin, ...] = written_unless(())  # by split and source, where rows know these


@dataclasses.dataclass(frozen=True, slots=True)
class TableAbout:
    """The facts about a count table."""

    lang: str
    rows: int
    pretokens: int
    pretoken_bytes: int  # of all pre-tokens, each row once
    result_key: str = written_unless("")  # in the file's name, as of shards
    split: str = written_unless("")  # of the documents; empty: any
    source: str = written_unless("")  # of the documents, if it has a name

    @property
    def key(self) -> CountKey:
        return CountKey(self.lang, self.split, self.source)


CountsManifest = Manifest[CountsConfig, LedgerTotals, CountedLanguage, TableAbout]


# ----------------------------------------------------------------------------------------------------------- tokenizer


@dataclasses.dataclass(frozen=True, slots=True)
class NaturalMix:
    strategy: Literal["natural"]


@dataclasses.dataclass(frozen=True, slots=True)
class TemperatureMix:
    strategy: Literal["temperature"]
    unit: str
    alpha: str  # exact decimal
    density: str = written_unless("0")  # exact decimal
    density_cap: str = written_unless("0")  # exact decimal; only with a density


@dataclasses.dataclass(frozen=True, slots=True)
class UnimaxMix:
    strategy: Literal["unimax"]
    unit: str
    max_epochs: str  # exact decimal
    budget: int | None  # None: the size of the corpus


@dataclasses.dataclass(frozen=True, slots=True)
class WeightsMix:
    strategy: Literal["weights"]
    weights: dict[str, str]  # language -> exact decimal, where it is not 1


@dataclasses.dataclass(frozen=True, slots=True)
class ParityMix:
    strategy: Literal["parity"]
    unit: str
    alpha: str  # exact decimal, as the next three: of the weights to begin with
    density: str
    density_cap: str
    target_premium: str
    parallel_sha256: str  # OddLines.sha256


MixConfig = NaturalMix | TemperatureMix | UnimaxMix | WeightsMix | ParityMix


@dataclasses.dataclass(frozen=True, slots=True)
class SpecialConfig:
    text: str
    role: str
    id: int | None  # None: the lowest free one


# Settings of [learn] for SentencePiece's models. The special tokens that control_symbols adds are among the others.
PIECE_SETTINGS = (
    *("max_sentencepiece_length", "split_by_unicode_script", "split_by_number", "split_by_whitespace"),
    *("split_digits", "byte_fallback", "user_defined_symbols"),
)


@dataclasses.dataclass(frozen=True, slots=True)
class LearnedConfig:
    """The configuration of a tokenizer that the build learns."""

    model: str
    vocab_size: int | tuple[int, ...]  # several: of the stage that learns them all
    normalize: tuple[str, ...]
    pretokenize: dict[str, str]  # Pretokenizer.spec
    special: tuple[SpecialConfig, ...]
    mix: MixConfig
    # Settings that the model does not use are left out.
    allow_smaller: bool | None = written_unless(None)
    min_count: int | None = written_unless(None)
    min_documents: int = written_unless(0)
    max_token_bytes: int = written_unless(0)
    end_of_word: str = written_unless("")
    layout: str = written_unless("")
    extends: str = written_unless("")  # fingerprint of the tokenizer whose ids stay
    character_coverage: str = written_unless("")
    superset: str = written_unless("")
    max_sentencepiece_length: int | None = written_unless(None)
    split_by_unicode_script: bool | None = written_unless(None)
    split_by_number: bool | None = written_unless(None)
    split_by_whitespace: bool | None = written_unless(None)
    split_digits: bool | None = written_unless(None)
    byte_fallback: bool | None = written_unless(None)
    user_defined_symbols: tuple[str, ...] = written_unless(())
    chat_template_sha256: str = written_unless("")
    max_length: int | None = written_unless(None)
    splits: Literal["", "train"] = written_unless("")  # that are learned from; empty: all
    levels: LevelsConfig | None = written_unless(None)  # None: languages are mixed
    plugins: Plugins = written_unless(None)  # the model, if it is of another distribution


@dataclasses.dataclass(frozen=True, slots=True)
class ImportedConfig:
    """The configuration of a tokenizer that the build file names: which one it is, not where its file is."""

    tokenizer: Literal["imported"] = "imported"
    fingerprint: str = written_unless("")  # the build's configuration knows only that there is one
    chat_template_sha256: str = written_unless("")  # which no fingerprint covers
    post_processor_sha256: str = written_unless("")  # which none covers, either
    max_length: int | None = written_unless(None)  # nor this
    decoder_sha256: str = written_unless("")  # nor this
    plugin: str = written_unless("")  # distribution and version of the model, if they are not tokcore's

    @classmethod
    def of(cls, spec: TokenizerSpec) -> ImportedConfig:
        """The one that names this tokenizer."""
        from tokcore.models import find_version_of  # imports every model; a spec was read with them loaded

        template, around, decoder = (
            hash_sha256(text.encode()) if text else ""
            for text in (spec.chat_template, spec.post_processor, spec.decoder)
        )
        plugin = find_version_of(spec.model.kind)
        return cls("imported", spec.fingerprint, template, around, spec.max_length, decoder, plugin)


@dataclasses.dataclass(frozen=True, slots=True)
class TokenizerTotals:
    fingerprint: str
    vocab_size: int
    mix: dict[str, str | int | dict[str, int]]  # Mix.describe(); empty of an imported tokenizer
    # Level -> item -> its shares; only where more than languages are mixed.
    levels: dict[str, dict[str, LevelShare]] | None = written_unless(None)
    # Model.facts() follow.
    merges: int | None = written_unless(None)
    lossless: bool | None = written_unless(None)  # False: texts do not come back


@dataclasses.dataclass(frozen=True, slots=True)
class LevelShare:
    """What an item of a level has of the counts, before and after weighting, over all items above it."""

    share_of_bytes: Share
    share_of_pretokens: Share
    share_of_documents: Share


@dataclasses.dataclass(frozen=True, slots=True)
class MixedLanguage:
    weight: int | None  # None: its sources have several
    share_of_bytes: Share
    share_of_pretokens: Share
    share_of_documents: Share


@dataclasses.dataclass(frozen=True, slots=True)
class TokenizerFile:
    """What is said of a file of a tokenizer."""

    md5: str = written_unless("")  # of vocab.json, since configurations of models record it; empty in earlier outputs


TokenizerManifest = Manifest[LearnedConfig | ImportedConfig, TokenizerTotals, MixedLanguage, TokenizerFile]


@dataclasses.dataclass(frozen=True, slots=True)
class TokenizersTotals:
    sizes: dict[str, TokenizerTotals]  # vocab_size as the build file has it -> the tokenizer

    def list_ascending(self) -> list[tuple[int, TokenizerTotals]]:
        """(vocab_size, tokenizer), the smallest first: JSON has 10 before 9."""
        return sorted(((int(size), one) for size, one in self.sizes.items()), key=lambda one: one[0])


# Only of a build that learns several sizes. Its files are in a folder for each fingerprint.
TokenizersManifest = Manifest[LearnedConfig, TokenizersTotals, MixedLanguage, TokenizerFile]


# -------------------------------------------------------------------------------------------------------------- shards


@dataclasses.dataclass(frozen=True, slots=True)
class ShardsConfig:
    formats: tuple[str, ...]
    target_tokens: int
    by: Literal["plan", "lang"]
    validation: str  # exact decimal
    compression: str
    append: tuple[str, ...]  # special tokens after each document
    special_text: Literal["ordinary", "special", "reject"]
    seed: int | None = written_unless(None)  # only for a validation split, or to draw ids
    prepend: tuple[str, ...] = written_unless(())  # special tokens before each document
    dtype: str = written_unless("")  # only where a format leaves the choice
    plugins: Plugins = written_unless(None)  # formats of other distributions
    shuffle: int | None = written_unless(None)  # its seed; None: plan order
    dropout: str = written_unless("")  # exact decimal; empty: none
    sampling: str = written_unless("")  # theta, exact decimal; empty: none
    epoch: int | None = written_unless(None)  # only where ids are drawn
    metadata: tuple[tuple[str, str], ...] = written_unless(())  # (name, type) of each column of [metadata]
    partition_by: tuple[str, ...] = written_unless(())
    bins: dict[str, tuple[str, ...]] | None = written_unless(None)  # field -> exact decimals

    @property
    def partitioning(self) -> Partitioning | None:
        """How documents are dealt to partitions; None if they are not."""
        return Partitioning(self.partition_by, self.bins or {}) if self.partition_by else None


@dataclasses.dataclass(frozen=True, slots=True)
class ShardsTotals(LedgerTotals):
    shards: int
    tokens: int
    documents_digest: str
    fingerprint: str  # of the tokenizer
    special_text: dict[str, int]  # special token -> times that corpus text spells it


@dataclasses.dataclass(frozen=True, slots=True)
class EncodedLanguage:
    documents: int
    text_bytes: int
    pretokens: int
    tokens: int
    bytes_per_token: str  # decimal
    # Of the tokens, those that stand for text without tokens; only where the tokenizer has one for that.
    unknown: int | None = written_unless(None)


@dataclasses.dataclass(frozen=True, slots=True)
class CorpusAbout:
    """The facts about token_counts.parquet and the indexes of formats' folders: totals of all shards."""

    documents: int
    tokens: int


# The facts about a shard are those about each of its files.
ShardsManifest = Manifest[ShardsConfig, ShardsTotals, EncodedLanguage, ShardFacts | CorpusAbout]


# --------------------------------------------------------------------------------------------------------------- mixed


@dataclasses.dataclass(frozen=True, slots=True)
class MixtureConfig:
    strategy: Literal["temperature", "unimax", "natural", "weights"]
    over: str  # languages, sources, keys of partitions such as topic/quality, or levels
    formats: tuple[str, ...]
    target_tokens: int
    compression: str
    alpha: str = written_unless("")  # exact decimal; only of temperature
    # Language, source or partition -> exact decimal, where it is not 1.
    weights: dict[str, str] | None = written_unless(None)
    tokens: int | None = written_unless(None)  # None: as many as there are
    max_epochs: str = written_unless("")  # exact decimal; empty: any number
    dtype: str = written_unless("")  # only where a format leaves the choice
    plugins: Plugins = written_unless(None)  # formats of other distributions
    metadata: tuple[tuple[str, str], ...] = written_unless(())  # as of ShardsConfig
    # Language, source or partition -> how often its documents came before an update that kept this, as COPIES or
    # COPIES+CUT of MixtureShare; others come once. Then strategy, weights, tokens and max_epochs decide nothing.
    kept: dict[str, str] | None = written_unless(None)
    levels: LevelsConfig | None = written_unless(None)  # where `over` is "levels"
    segments: int | None = written_unless(None)  # at least; where copies of documents are to stay where they were

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """The keys of the partitions that are mixed; none if languages or sources are."""
        return self.levels.partition_keys if self.levels is not None else list_partition_keys(self.over)


def list_partition_keys(over: str) -> tuple[str, ...]:
    """The keys of partitions that mixture.over names; none if it names languages or sources."""
    return () if over in ("languages", "sources") else tuple(over.split("/"))


@dataclasses.dataclass(frozen=True, slots=True)
class MixtureShare:
    """The receipt of a language, source or partition: its training documents in the shards, and in the mixture."""

    documents: int  # in the shards
    tokens: int  # in the shards
    mixed_documents: int
    mixed_tokens: int
    left_out: int  # of the documents, those that are not in the mixture
    repeated: int  # of the mixed documents, those that come again
    share: str  # of the tokens of the mixture, decimal
    epochs: str  # mixed tokens / tokens, decimal
    # Only of what is mixed: the share and the tokens that were wanted. Each document comes `copies` times, and once
    # more if the second half of its place, a number of 64 bits, is below `cut`, which is hexadecimal.
    share_wanted: str = written_unless("")
    tokens_wanted: int | None = written_unless(None)
    copies: int | None = written_unless(None)
    cut: str = written_unless("")


@dataclasses.dataclass(frozen=True, slots=True)
class MixtureTotals:
    """The ledger of a mixture: read + repeated = documents + left_out."""

    shards: int
    read: int  # documents in the shards
    documents: int
    left_out: int
    repeated: int
    tokens: int
    validation_documents: int  # which come once each, as they are
    validation_tokens: int
    parts: int
    segments: int  # tokcore_schemas.copies says what these are
    fingerprint: str  # of the tokenizer
    sources: dict[str, MixtureShare]  # by name, for sources that have one
    # By the keys that are mixed, or, where those are none, by shards.partition_by.
    partitions: dict[str, MixtureShare] | None = written_unless(None)
    # By what documents are at each level, such as `lang=en/source=web`; only of a mixture by levels.
    paths: dict[str, MixtureShare] | None = written_unless(None)


# As of shards; what it says of each language is about training documents alone.
MixtureManifest = Manifest[MixtureConfig, MixtureTotals, MixtureShare, ShardFacts | CorpusAbout]


# -------------------------------------------------------------------------------------------------------------- packed


@dataclasses.dataclass(frozen=True, slots=True)
class PackedConfig:
    length: int  # ids of a row
    strategy: Literal["concatenate", "best-fit", "one"]
    cut: Literal["long", "never"]
    last: Literal["pad", "keep"]
    formats: tuple[str, ...]
    target_tokens: int
    compression: str
    padding: str = written_unless("")  # as the build file has it; "": by the tokenizer
    dtype: str = written_unless("")  # only where a format leaves the choice
    plugins: Plugins = written_unless(None)  # formats of other distributions
    # content_sha256 of the rows that these are again, with padding where documents were removed since.
    in_place_of: str = written_unless("")


@dataclasses.dataclass(frozen=True, slots=True)
class PackedTotals:
    shards: int
    rows: int
    documents: int
    pieces: int  # parts of documents in rows
    cut: int  # documents in more than one row
    tokens: int  # of documents, all in all rows
    padding: int  # ids that fill rows
    fingerprint: str  # of the tokenizer
    removed: int = written_unless(0)  # documents that were taken down in place
    removed_tokens: int = written_unless(0)  # of the padding, what took their place


# As of shards, with rows as documents; padding counts as tokens there.
PackedManifest = Manifest[PackedConfig, PackedTotals, Nothing, ShardFacts | CorpusAbout]


# --------------------------------------------------------------------------------------------------------------- build


@dataclasses.dataclass(frozen=True, slots=True)
class StageConfigs:
    """Every setting that can change bytes, but the plan's."""

    tokenizer: LearnedConfig | ImportedConfig
    shards: ShardsConfig
    counts: CountsConfig | None = written_unless(None)  # not of an imported tokenizer
    packed: PackedConfig | None = written_unless(None)  # only with [pack]
    tokenizers: LearnedConfig | None = written_unless(None)  # only of several sizes
    mixed: MixtureConfig | None = written_unless(None)  # only with [mixture]
    dedup: DedupConfig | None = written_unless(None)  # only with [dedup]


@dataclasses.dataclass(frozen=True, slots=True)
class BuildTotals(ShardsTotals):
    vocab_size: int


@dataclasses.dataclass(frozen=True, slots=True)
class BuiltLanguage(EncodedLanguage):
    """What the other stages say of a language: the mix is of a learned tokenizer, the last two are of a mask."""

    weight: int | None = written_unless(None)
    share_of_bytes: Share | None = written_unless(None)
    share_of_pretokens: Share | None = written_unless(None)
    share_of_documents: Share | None = written_unless(None)
    masked_bytes: int | None = written_unless(None)
    masked: dict[str, int] | None = written_unless(None)


BuildManifest = Manifest[StageConfigs, BuildTotals, BuiltLanguage, Nothing]
