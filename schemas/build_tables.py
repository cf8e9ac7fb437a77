"""The tables of a build file: one frozen dataclass each. Defaults, meanings and limits are here and nowhere else.

tokcore_schemas.setting says how a setting is declared.
Leaves to others: reading the file (config_reader), rules that involve several settings (config_checks), the JSON
Schema (json_schema).
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal

from tokcore.files.canonical_json import hash_sha256, write_canonical_json
from tokcore.learn import language_weights as mixing
from tokcore.models import DEFAULT_MODEL, MODELS
from tokcore.models.model import DEFAULT_COVERAGE
from tokcore.models.sentencepiece.piece_options import PieceOptions
from tokcore.shards.format_table import DEFAULT_FORMATS, SHARD_FORMATS, find_format
from tokcore.text.mask_presets import MASK_PRESETS
from tokcore.text.normalize import STEPS, name_space_step
from tokcore.text.patterns import DEFAULT_PATTERN, PATTERNS
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.text.sentencepiece_tables import NORMALIZER
from tokcore.text.split_steps import StepList
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec
from tokcore_schemas.document import normalize_lang
from tokcore_schemas.encodings import ENCODINGS, OTHER_ENCODING_NAMES, UTF8
from tokcore_schemas.input_format import FileFormat
from tokcore_schemas.setting import Limits
from tokcore_schemas.stage_manifests import (
    PIECE_SETTINGS,
    CountsConfig,
    ImportedConfig,
    LearnedConfig,
    MixConfig,
    MixtureConfig,
    NaturalMix,
    PackedConfig,
    ShardsConfig,
    SpecialConfig,
    StageConfigs,
    TemperatureMix,
    UnimaxMix,
    WeightsMix,
)
from tokcore_schemas.toml_lines import OPTION, Key, find_key_lines, find_place, spell_key

VERSION = 1
END_OF_TEXT = "<|endoftext|>"
MAX_VOCAB_SIZE = 2**31 - 1  # ids are int32
MAX_ROW_LENGTH = 2**26  # which every format holds as one document
MAX_THETA = 1_000
_LATER_KEYS = frozenset({"follow_links", "max_length", "steps"})  # which the first outputs were built without


def _show_settings(table: Any) -> str:
    """All settings of a table. hash_settings has them, so a key that came later is there only if it is set."""
    every = {one.name: getattr(table, one.name) for one in dataclasses.fields(table)}
    shown = {name: one for name, one in every.items() if one is not None or name not in _LATER_KEYS}
    return f"{type(table).__name__}({', '.join(f'{name}={one!r}' for name, one in shown.items())})"


def _list_defaults(name: str) -> str:
    """What follows from each model, where it is not what follows from the first."""
    values = {model: getattr(one, name) for model, one in MODELS.items()}
    said = {model: one if isinstance(one, str) else ", ".join(one) for model, one in values.items()}
    return ", ".join(f"{model}: {one}" for model, one in said.items() if values[model] != values[DEFAULT_MODEL])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BuildTable:
    """[build]"""

    name: Annotated[str, "for people; changes no byte", Limits(may_be_empty=True)] = ""
    output: Annotated[
        str,
        "a folder, or a URL of s3, gs or az; a relative path starts at the build file's folder",
        Limits(is_path=True),
    ]
    seed: Annotated[
        int,
        "decides which documents are sampled, which go to the validation split, and which ids are drawn",
        Limits(least=0),
    ] = 0
    max_rejected: Annotated[
        Decimal, "share of records or stored bytes above which the build fails; 1 = never", Limits(least=0, most=1)
    ] = Decimal("0.001")
    lang_normalize: Annotated[
        Literal["bcp47", "none"] | None,
        "how language codes are spelled: bcp47: in its case, zh-Hant-TW, other codes in lower case; none: as they are; "
        "not set: bcp47, in outputs that began without it none",
    ] = None
    max_languages: Annotated[
        int, "a build with more languages, each of which has files of its own, ends early", Limits(least=1)
    ] = 5_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """[[source]]"""

    lang: Annotated[str | None, "language of all documents; this or lang_field is required"] = None
    lang_field: Annotated[str | None, "field or column that holds each record's language"] = None
    files: Annotated[tuple[str, ...], "URL, glob or list of them", Limits(least=1, or_one=True, is_path=True)]
    exclude: Annotated[
        tuple[str, ...],
        "globs of files to leave out; one without / matches names in any folder",
        Limits(or_one=True, is_path=True),
    ] = ()
    follow_links: Annotated[
        bool | None,
        "for symbolic links that a pattern meets on a disk: true reads what they lead to, each file once; false leaves "
        "them out; not set: they end planning",
    ] = None
    split: Annotated[str | None, "for a Hugging Face folder, which files names: read only this split of it"] = None
    format: Annotated[FileFormat | None, "not set: follows from each file's suffix"] = None
    text: Annotated[str, "field or column of the text, or a path: data.body, messages[*].content"] = "text"
    id: Annotated[str | None, "field or column of the document's id"] = None
    invalid_utf8: Annotated[Literal["reject", "replace", "bytes"], "what to do with a text that is not valid UTF-8"] = (
        "reject"
    )
    max_document_bytes: Annotated[int, "a longer text is rejected", Limits(least=1)] = 268_435_456
    encoding: Annotated[
        str,
        "for jsonl, csv, tsv and text: how the files encode text",
        Limits(options=ENCODINGS, meant=OTHER_ENCODING_NAMES, instead="or convert the files to UTF-8"),
    ] = UTF8
    unit: Annotated[
        Literal["file", "line", "paragraph"] | None, "for text files: what a document is; not set: a file"
    ] = None
    separator: Annotated[str | None, "for text files: what separates two documents; replaces unit"] = None
    delimiter: Annotated[
        str | None, "for csv and tsv: the character between two fields; not set: a comma, for tsv a tab"
    ] = None
    quotes: Annotated[bool, 'for csv and tsv: fields may be in "quotes"; false: quotes are ordinary characters'] = True
    validation: Annotated[bool, "all documents go to the validation split, whatever shards.validation is"] = False
    group: Annotated[
        str | None, "field or column: records with the same value go to the same split, whatever their source"
    ] = None
    name: Annotated[str | None, "for a mixture over sources: what it mixes; several sources may share a name"] = None

    def __repr__(self) -> str:
        return _show_settings(self)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NormalizeTable:
    """[normalize]"""

    steps: Annotated[
        tuple[str, ...],
        "applied in this order, before counting and encoding; not set: those of the model ("
        + _list_defaults("normalizer")
        + ")",
        Limits(options=tuple(STEPS), distinct=True),
    ] = ()
    add_dummy_prefix: Annotated[bool, "for unigram and sentencepiece-bpe: a space before each text"] = True
    remove_extra_whitespaces: Annotated[
        bool, "for unigram and sentencepiece-bpe: no spaces at the ends of a text, and one where there are several"
    ] = True


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PretokenizeTable:
    """[pretokenize]"""

    pattern: Annotated[
        str,
        "split pattern by name; not set: that of the model (" + _list_defaults("pattern") + ")",
        Limits(options=tuple(PATTERNS), instead="or regex = '''...''' for one of your own"),
    ] = DEFAULT_PATTERN
    regex: Annotated[str | None, "a split pattern of your own; replaces pattern; slower"] = None
    steps: Annotated[
        str | None, "for bpe: a list of steps, as JSON, as pre_tokenizer of tokenizer.json has it; replaces pattern"
    ] = None

    def __repr__(self) -> str:
        return _show_settings(self)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlanTable:
    """[plan]"""

    range_bytes: Annotated[int, "size of an input range", Limits(least=1)] = 67_108_864


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CountTable:
    """[count]"""

    max_pretoken_bytes: Annotated[
        int, "a longer pre-token is cut at a character for counting; 0 keeps it whole", Limits(least=0)
    ] = 1024
    memory_bytes: Annotated[
        int, "per worker; a larger table spills to disk, nothing is dropped", Limits(least=1 << 20)
    ] = 536_870_912
    sample: Annotated[
        Decimal, "share of documents counted, by hash of (seed, document key)", Limits(above=0, most=1)
    ] = Decimal(1)
    mask: Annotated[
        tuple[str, ...],
        "pre-tokens that touch a span of these kinds are not counted",
        Limits(options=tuple(MASK_PRESETS), distinct=True),
    ] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MixTable:
    """[mix]"""

    strategy: Annotated[
        Literal["temperature", "unimax", "natural", "weights"], "how the counts of languages are weighted"
    ] = "temperature"
    alpha: Annotated[
        Decimal,
        "for temperature: shares p become p**alpha; 1 is natural, 0 makes languages equal",
        Limits(least=0, most=1),
    ] = mixing.DEFAULT.alpha
    density: Annotated[
        Decimal,
        "for temperature: p**alpha is multiplied by (bytes per pre-token / their mean)**density; 0: not at all",
        Limits(least=0, most=mixing.MAX_DENSITY),
    ] = mixing.DEFAULT.density
    density_cap: Annotated[
        Decimal, "for temperature: the most that bytes per pre-token / their mean counts as", Limits(least=1)
    ] = mixing.DEFAULT.density_cap
    preset: Annotated[
        Literal["fair"] | None, "for temperature: sets alpha, density and density_cap for premiums closer to 1"
    ] = None
    unit: Annotated[
        Literal["bytes", "pretokens", "documents"], "for temperature and unimax: the unit of a language's size"
    ] = "bytes"
    max_epochs: Annotated[
        Decimal | None, "for unimax, which requires it: how often a language may be repeated", Limits(above=0)
    ] = None
    budget: Annotated[int | None, "for unimax, in units; not set: the size of the corpus", Limits(least=1)] = None
    weights: Annotated[
        Mapping[str, Decimal], "for weights: language = factor on its counts; 1 if not named", Limits(above=0)
    ] = dataclasses.field(default_factory=dict)

    @property
    def exponents(self) -> mixing.Temperature:
        """What temperature mixing is given: of the preset, or as set one by one."""
        if self.preset is not None:
            return mixing.PRESETS[self.preset]
        return mixing.Temperature(self.alpha, self.density, self.density_cap)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LearnTable:
    """[learn]"""

    model: Annotated[
        str, "; ".join(f"{name}: {model.text}" for name, model in MODELS.items()), Limits(options=tuple(MODELS))
    ] = DEFAULT_MODEL
    vocab_size: Annotated[
        tuple[int, ...] | None,
        "a number, or a list of them: a tokenizer of each size; special tokens included; exact, or an error that says "
        "why; not set: " + "; ".join(f"{name}: {model.default_size}" for name, model in MODELS.items()),
        Limits(least=1, most=MAX_VOCAB_SIZE, or_one=True, distinct=True),
    ] = None
    extend: Annotated[
        str | None,
        "for bpe: a tokenizer, as tokenizer.from names one, whose ids all stay; further merges get ids after its last, "
        "and its normalizer, split pattern and special tokens are taken over",
    ] = None
    allow_smaller: Annotated[bool, "accept fewer tokens if the counts give no more"] = False
    min_count: Annotated[
        int, "pairs with a smaller weighted count (divided by the scale) are not merged", Limits(least=0)
    ] = 2
    min_documents: Annotated[
        int, "pre-tokens in fewer documents, over all languages, take no part; 0 and 1: all take part", Limits(least=0)
    ] = 0
    max_token_bytes: Annotated[int, "no merge makes a longer token; 0: no limit", Limits(least=0)] = 0
    layout: Annotated[
        str | None,
        "for byte and codepoint: ids and special tokens of a published tokenizer, ByT5's or CANINE's; "
        "not set: special tokens come last",
        Limits(options=tuple(sorted({name for model in MODELS.values() for name in model.layouts if name}))),
    ] = None
    character_coverage: Annotated[
        Decimal,
        "for character, unigram and sentencepiece-bpe: the share of the text that single characters cover",
        Limits(above=0, most=1),
    ] = DEFAULT_COVERAGE
    max_sentencepiece_length: Annotated[
        int,
        "for unigram and sentencepiece-bpe, as all to control_symbols: the most characters of a piece",
        Limits(least=1, most=512),
    ] = PieceOptions().max_sentencepiece_length
    split_by_unicode_script: Annotated[bool, "no piece has characters of two scripts"] = True
    split_by_number: Annotated[bool, "digits count as characters of another script than letters"] = True
    split_by_whitespace: Annotated[
        bool, "no piece crosses a space; false needs pre-tokens that do: pretokenize.regex"
    ] = True
    split_digits: Annotated[bool, "each digit is a piece of its own"] = False
    byte_fallback: Annotated[bool, "256 pieces spell what no piece matches, which would be unknown"] = True
    user_defined_symbols: Annotated[tuple[str, ...], "texts that are always one piece", Limits(distinct=True)] = ()
    control_symbols: Annotated[tuple[str, ...], "special tokens after <unk>, <s> and </s>", Limits(distinct=True)] = ()
    chat_template: Annotated[
        str | None, "a file with a Jinja chat template, for tokenizer_config.json; changes no id"
    ] = None
    max_length: Annotated[
        int | None,
        "tokens that a model takes at once, for tokenizer_config.json: its model_max_length; changes no id",
        Limits(least=1, most=2**31 - 1),
    ] = None

    def __repr__(self) -> str:
        return _show_settings(self)


# What other libraries call the roles.
OTHER_ROLE_NAMES = (
    *((name, "document_end") for name in ("eos", "eod", "eot", "end", "end_of_text", "endoftext")),
    *((name, "document_begin") for name in ("bos", "bod", "begin", "start")),
    ("pad", "padding"),
    ("unk", "unknown"),
    *((name, "plain") for name in ("mask", "sep", "cls", "control", "user")),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SpecialTable:
    """[special] "TEXT" = { ... }, or just the role"""

    text: str
    role: Annotated[
        Literal["document_end", "document_begin", "padding", "unknown", "plain"],
        "what the token is for",
        Limits(meant=OTHER_ROLE_NAMES),
    ] = "plain"
    id: Annotated[
        int | None,
        "pins the id, after all ordinary tokens unless the model has special tokens of its own; "
        "not set: the lowest free one",
        Limits(least=0, most=2**31 - 1),
    ] = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EncodeTable:
    """[encode]"""

    vocab_size: Annotated[
        int | None, "where learn.vocab_size is a list: the size that documents are encoded with; not set: the largest"
    ] = None
    prepend: Annotated[
        tuple[str, ...], "special tokens before each document; not set: the declared ones of role document_begin"
    ] = ()
    append: Annotated[
        tuple[str, ...], "special tokens after each document; not set: the declared ones of role document_end"
    ] = (END_OF_TEXT,)
    special_text: Annotated[
        Literal["ordinary", "special", "reject"], "how to read corpus text that spells a special token; it is counted"
    ] = "ordinary"
    max_unknown: Annotated[
        Decimal,
        "share of unknown tokens above which the build fails, for tokenizers that have one; 1 = never",
        Limits(least=0, most=1),
    ] = Decimal(1)
    dropout: Annotated[
        Decimal,
        "for bpe and wordpiece: the probability with which a merge, or a token that matches, is passed over; 0: never",
        Limits(least=0, most=1),
    ] = Decimal(0)
    sampling: Annotated[
        Mapping[str, Decimal],
        "for unigram: { theta = 0.1 } draws cuts in proportion to exp(theta * sum of scores); not set: the best cut",
        Limits(least=0, most=MAX_THETA, keys=("theta",)),
    ] = dataclasses.field(default_factory=dict)
    epoch: Annotated[
        int, "for dropout and sampling, beside build.seed: another one draws other tokens", Limits(least=0)
    ] = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShardsTable:
    """[shards]"""

    formats: Annotated[
        tuple[str, ...],
        "file formats of the shards; each holds the same tokens",
        Limits(least=1, options=tuple(SHARD_FORMATS), distinct=True),
    ] = DEFAULT_FORMATS
    target_tokens: Annotated[int, "a shard ends with the document that reaches it", Limits(least=1)] = 10_000_000
    by: Annotated[Literal["plan", "lang"], "one sequence of shards, or one per language"] = "plan"
    validation: Annotated[Decimal, "share of documents, by key, for the validation split", Limits(least=0, below=1)] = (
        Decimal(0)
    )
    compression: Annotated[Literal["zstd", "lz4", "none"], "for Arrow, Parquet and documents files"] = "zstd"
    dtype: Annotated[
        Literal["int32", "uint16", "uint32"],
        "type of the ids in formats that leave the choice; uint16 is half the size, for at most 65,536 ids",
    ] = "int32"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleTable:
    """[shuffle]"""

    seed: Annotated[
        int | None,
        "the order of documents follows from it, their keys and texts alone; not set: the order of the plan",
        Limits(least=0),
    ] = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MixtureTable:
    """[mixture]: the training documents of the shards in other proportions, written beside them"""

    strategy: Annotated[
        Literal["temperature", "unimax", "natural", "weights"] | None,
        "how many tokens each language or source gets; not set: no mixture is written",
    ] = None
    over: Annotated[Literal["languages", "sources"], "what is mixed: languages, or sources by their names"] = (
        "languages"
    )
    alpha: Annotated[
        Decimal,
        "for temperature: shares p of tokens become p**alpha; 1 is natural, 0 makes them equal",
        Limits(least=0, most=1),
    ] = mixing.DEFAULT.alpha
    weights: Annotated[
        Mapping[str, Decimal],
        "for weights: language or source = factor on its tokens; 1 if not named; 0 leaves it out",
        Limits(least=0),
    ] = dataclasses.field(default_factory=dict)
    tokens: Annotated[
        int | None,
        "tokens of the mixture; not set: as many as there are, for weights as many as the factors give",
        Limits(least=1),
    ] = None
    max_epochs: Annotated[
        Decimal | None,
        "how often documents may come at most; others get what a language or source then lacks; unimax requires it",
        Limits(above=0),
    ] = None
    formats: Annotated[
        tuple[str, ...],
        "file formats of the mixture; not set: those of shards.formats",
        Limits(options=tuple(SHARD_FORMATS), distinct=True),
    ] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PackTable:
    """[pack]: rows of one length, written beside the shards"""

    length: Annotated[
        int | None, "ids of a row; not set: no packed rows are written", Limits(least=1, most=MAX_ROW_LENGTH)
    ] = None
    strategy: Annotated[
        Literal["concatenate", "best-fit", "one"],
        "documents back to back, cut where rows end; put together so that rows are full; or in rows of their own",
    ] = "best-fit"
    cut: Annotated[
        Literal["long", "never"],
        "for best-fit and one: a document longer than a row is cut at multiples of length, or fails the build",
    ] = "long"
    last: Annotated[
        Literal["pad", "keep"], "the last row of each split, if it is partial: filled up, or kept as it is"
    ] = "pad"
    padding: Annotated[
        str | None,
        "special token that fills rows; not set: the one of role padding, else the last of encode.append",
    ] = None
    formats: Annotated[
        tuple[str, ...],
        "file formats of the rows; not set: those of shards.formats",
        Limits(options=tuple(SHARD_FORMATS), distinct=True),
    ] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerTable:
    """[tokenizer]: an existing one, so no count and no learn"""

    from_: Annotated[
        str,
        "tokcore.json, tokenizer.json, tekken.json, SentencePiece's .model, vocab.txt, YouTokenToMe's model, ByT5's "
        "folder, a rank file, or vocab.json with merges.txt; hf://org/name is a model on the Hugging Face Hub",
        Limits(is_path=True),
    ]
    pattern: Annotated[
        str | None,
        "for vocab.json, and for a rank file that is no published one, which require it: the name of the split "
        "pattern, or a regex (for a rank file, as tiktoken reads it)",
    ] = None
    normalize: Annotated[
        tuple[str, ...],
        "for a vocab.txt: the steps of its normalizer; not set: bert",
        Limits(options=tuple(STEPS), distinct=True),
    ] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StorageTable:
    """[storage]: where the stores' libraries find their servers; changes no byte. Never secrets"""

    s3: Annotated[
        Mapping[str, str | bool],
        "for s3: endpoint_url, region, profile, anon, requester_pays",
        Limits(keys=("endpoint_url", "region", "profile", "anon", "requester_pays")),
    ] = dataclasses.field(default_factory=dict)
    gcs: Annotated[
        Mapping[str, str | bool],
        "for gs: endpoint_url, project, anon, requester_pays",
        Limits(keys=("endpoint_url", "project", "anon", "requester_pays")),
    ] = dataclasses.field(default_factory=dict)
    azure: Annotated[
        Mapping[str, str | bool],
        "for abfs and az: account_name, account_host, anon",
        Limits(keys=("account_name", "account_host", "anon")),
    ] = dataclasses.field(default_factory=dict)
    hf: Annotated[Mapping[str, str | bool], "for hf: endpoint", Limits(keys=("endpoint",))] = dataclasses.field(
        default_factory=dict
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UpdateTable:
    """[update]: how tokcore update follows the inputs; changes no byte of a build"""

    vanished: Annotated[
        Literal["keep", "remove", "fail"],
        "what becomes of the documents of input files that are no longer there; fail: nothing is changed",
    ] = "keep"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WatchTable:
    """[watch]: how tokcore watch follows the inputs; changes no byte of a commit, but which files are in it"""

    poll_seconds: Annotated[Decimal, "from one listing of the sources to the next", Limits(above=0)] = Decimal(10)
    settle_seconds: Annotated[
        Decimal, "so long a file must look the same before it is taken: it may still be written", Limits(least=0)
    ] = Decimal(5)
    marker: Annotated[
        str | None,
        "a file is taken once this name is in its folder; * stands for the file's name: *.done, or _SUCCESS",
    ] = None
    batch_bytes: Annotated[int, "stored bytes of a batch: a fuller one is begun at once", Limits(least=1)] = 1 << 28
    batch_files: Annotated[int, "files of a batch", Limits(least=1, most=10_000)] = 10_000
    batch_seconds: Annotated[
        Decimal, "a batch is begun once its oldest file has waited for so long", Limits(least=0)
    ] = Decimal(30)
    tries: Annotated[int, "so often a file may fail before it is left alone, and named", Limits(least=1)] = 3
    lease_seconds: Annotated[
        Decimal, "a watcher without a sign of life for so long is lost, and another one commits", Limits(least=1)
    ] = Decimal(60)
    drain_seconds: Annotated[
        Decimal, "so long a batch may go on after SIGTERM before it is cut short", Limits(least=0)
    ] = Decimal(30)
    listen: Annotated[str, "HOST:PORT of /healthz, /readyz and /metrics; empty: none", Limits(may_be_empty=True)] = (
        "127.0.0.1:9464"
    )
    sorted_names: Annotated[
        bool, "names of new files sort after earlier ones, as dates do: most looks list only what comes after"
    ] = False
    full_looks: Annotated[
        int, "with sorted_names: every so many looks list everything, for late and changed files", Limits(least=1)
    ] = 60
    notifications: Annotated[
        str | None,
        "a queue that tells of new files, so that a look need not wait: sqs://QUEUE, or pubsub://PROJECT/SUBSCRIPTION",
    ] = None
    drift_baseline: Annotated[
        str | None,
        "an output with this tokenizer, to compare what lands with; not set: the one it was learned in, if it is known",
        Limits(is_path=True),
    ] = None
    drift_window_bytes: Annotated[int, "so much text that landed last is compared", Limits(least=1)] = 50_000_000
    drift_bytes_per_token: Annotated[
        Decimal, "drift: the bytes of a token fall by more than this share", Limits(least=0, most=1)
    ] = Decimal("0.1")
    drift_short_tokens: Annotated[
        Decimal, "drift: the share of text in tokens of one or two bytes grows by more", Limits(least=0, most=1)
    ] = Decimal("0.05")
    drift_unseen: Annotated[
        Decimal,
        "drift: a larger share of pre-tokens is not in the baseline; only if they are counted",
        Limits(least=0, most=1),
    ] = Decimal("0.1")
    drift_language: Annotated[
        Decimal, "drift: the share of a language in the text grows or falls by more", Limits(least=0, most=1)
    ] = Decimal("0.1")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EngineTable:
    """[engine]: where the work is done; changes no byte"""

    name: Annotated[
        Literal["local", "direct", "flink", "prism", "portable", "dataflow"],
        "processes of this machine, Beam's own runner in this process, Beam's job server for Flink, Prism, any server "
        "of Beam's job API, or Google's Dataflow",
    ] = "local"
    endpoint: Annotated[
        str | None, "HOST:PORT of the job server; not set: for flink 127.0.0.1:8099, for prism 127.0.0.1:8073"
    ] = None
    parallelism: Annotated[int | None, "pieces of work at a time; not set: as the engine does", Limits(least=1)] = None
    processes: Annotated[
        int | None,
        "worker processes of a TaskManager of flink; not set: one for each slot, at most engine.parallelism",
        Limits(least=1),
    ] = None
    web: Annotated[
        str | None,
        "HOST:PORT of the engine's pages, for flink of its REST interface; not set: for flink port 8081 of that host",
    ] = None
    environment: Annotated[
        Literal["process", "external"],
        "who starts workers: the engine, as processes of its hosts, or a pool of Beam's that runs already",
    ] = "process"
    worker: Annotated[
        str | None,
        "process: path of tokcore-worker on the engine's hosts, not set: as here; external: HOST:PORT of the pool",
    ] = None
    shared_filesystem: Annotated[bool, "whether the engine's hosts see the local paths of this one"] = False
    checkpoints: Annotated[
        str | None, "URL of a folder where flink keeps checkpoints of streams, which this machine can read, too"
    ] = None
    project: Annotated[str | None, "for dataflow, which requires it, as all to max_workers: id of the project"] = None
    region: Annotated[str | None, "where workers run: us-central1; required"] = None
    staging: Annotated[str | None, "gs:// URL of a folder for what jobs are started from; required"] = None
    temp: Annotated[str | None, "gs:// URL of a folder for the service; not set: temp below engine.staging"] = None
    image: Annotated[
        str | None, "image of the workers, by tag or digest: HOST/PROJECT/NAME:TAG or NAME@sha256:HASH; required"
    ] = None
    network: Annotated[str | None, "name of the workers' network; not set: the subnetwork's, or default"] = None
    subnetwork: Annotated[
        str | None, "of the workers: regions/REGION/subnetworks/NAME; its full URL if another project has it"
    ] = None
    service_account: Annotated[str | None, "e-mail that the workers act as; not set: the project's default"] = None
    machine_type: Annotated[str | None, "of the workers; not set: n2-standard-4"] = None
    learn_machine_type: Annotated[
        str | None, "of the worker that learns; not set: the smallest n2-highmem that has the memory"
    ] = None
    public_addresses: Annotated[
        bool, "whether workers get public addresses; without them the subnetwork needs Private Google Access"
    ] = False
    labels: Annotated[tuple[str, ...], "KEY=VALUE of each label of the jobs"] = ()
    max_workers: Annotated[int | None, "hosts of a job; not set: as the service does", Limits(least=1)] = None


# Name in the file -> (attribute of BuildConfig, class). [[source]] and [special] hold several.
TABLES: Mapping[str, tuple[str, type]] = {
    "build": ("build", BuildTable),
    "source": ("sources", Source),
    "normalize": ("normalize", NormalizeTable),
    "pretokenize": ("pretokenize", PretokenizeTable),
    "plan": ("plan", PlanTable),
    "count": ("count", CountTable),
    "mix": ("mix", MixTable),
    "learn": ("learn", LearnTable),
    "special": ("special", SpecialTable),
    "encode": ("encode", EncodeTable),
    "shards": ("shards", ShardsTable),
    "shuffle": ("shuffle", ShuffleTable),
    "mixture": ("mixture", MixtureTable),
    "pack": ("pack", PackTable),
    "tokenizer": ("tokenizer", TokenizerTable),
    "storage": ("storage", StorageTable),
    "engine": ("engine", EngineTable),
    "update": ("update", UpdateTable),
    "watch": ("watch", WatchTable),
}


# What the result does not follow from.
_NOT_OF_RESULT = frozenset({"path", "build", "storage", "engine", "update", "watch"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BuildConfig:
    """A checked build file."""

    path: str  # of the build file, for messages
    base: str  # its folder, absolute: where relative paths start
    build: BuildTable
    sources: tuple[Source, ...]
    normalize: NormalizeTable = NormalizeTable()
    pretokenize: PretokenizeTable = PretokenizeTable()
    plan: PlanTable = PlanTable()
    count: CountTable = CountTable()
    mix: MixTable = MixTable()
    learn: LearnTable = LearnTable()
    special: tuple[SpecialTable, ...] = (SpecialTable(text=END_OF_TEXT, role="document_end"),)
    encode: EncodeTable = EncodeTable()
    shards: ShardsTable = ShardsTable()
    shuffle: ShuffleTable = ShuffleTable()
    mixture: MixtureTable = MixtureTable()
    pack: PackTable = PackTable()
    tokenizer: TokenizerTable | None = None
    storage: StorageTable = StorageTable()
    engine: EngineTable = EngineTable()
    update: UpdateTable = UpdateTable()
    watch: WatchTable = WatchTable()
    text: str = dataclasses.field(default="", repr=False, compare=False)  # of the build file, for messages
    assigned: tuple[str, ...] = dataclasses.field(default=(), compare=False)  # KEY=VALUE of the command line
    assigned_keys: tuple[Key, ...] = dataclasses.field(default=(), compare=False)  # that these set
    chat_template: str = ""  # what is in the file learn.chat_template
    of_roles: tuple[str, ...] = ()  # settings of [encode] that follow from the roles of a tokenizer that is there
    # The tokenizer that learn.extend names, and its fingerprint.
    extended: TokenizerSpec | None = dataclasses.field(default=None, repr=False, compare=False)
    extends: str = ""
    counts_too: bool = dataclasses.field(default=False, compare=False)  # although the tokenizer is imported
    # Whether language codes are as records spell them because the output began so, not since the build file says so.
    keeps_spelling: bool = dataclasses.field(default=False, compare=False)
    declares_special: bool = dataclasses.field(default=False, compare=False)  # whether the file has [special]

    def at(self, *key: str | int) -> str:
        """Where the build file sets a key, or would: `build.toml:7: source[0].files`, for the start of a message."""
        if isinstance(key[-1], int) and key not in find_key_lines(self.text):
            key = key[:-1]  # a list of one value may be written as that value
        return f"{find_place(key, self.path, self.text, self.assigned_keys)}: {spell_key(key)}"

    @property
    def as_argument(self) -> str:
        """The build file as a command names it, with what this command line sets."""
        return " ".join([self.path, *(f"{OPTION} {shlex.quote(one)}" for one in self.assigned)])

    @property
    def counts(self) -> bool:
        """Whether pre-tokens are counted: to learn a tokenizer, or beside one that is imported."""
        return self.tokenizer is None or self.counts_too

    @property
    def vocab_size(self) -> int:
        """The size of the vocabulary that encodes, special tokens included.

        encode.vocab_size, or the largest of learn.vocab_size, or else the model's own.
        """
        sizes = self._learned_sizes
        if not sizes:
            return MODELS[self.learn.model].default_vocab_size(len(self.special))
        return self.encode.vocab_size if self.encode.vocab_size in sizes else sizes[-1]

    @property
    def vocab_sizes(self) -> tuple[int, ...]:
        """The sizes of the vocabularies to learn, ascending, special tokens included; one or more."""
        return self._learned_sizes or (self.vocab_size,)

    @property
    def _learned_sizes(self) -> tuple[int, ...]:
        is_heeded = "vocab_size" in MODELS[self.learn.model].uses
        return tuple(sorted(self.learn.vocab_size or ())) if is_heeded else ()

    @property
    def draws(self) -> bool:
        """Whether ids are drawn."""
        return bool(self.encode.dropout or self.encode.sampling)

    @property
    def layout(self) -> str:
        """The layout of ids: learn.layout, if the model has layouts; empty: its own."""
        return (self.learn.layout or "") if MODELS[self.learn.model].layouts else ""

    @property
    def normalizes_langs(self) -> bool:
        """Whether language codes get the case of BCP 47."""
        return self.build.lang_normalize != "none"

    def spell_lang(self, lang: str) -> str:
        """A language code as documents have it."""
        return normalize_lang(lang) if self.normalizes_langs else lang

    def hash_settings(self) -> str:
        """sha256 of every setting that the result follows from, patterns of inputs and their base folder included."""
        fields = [one.name for one in dataclasses.fields(self) if one.compare and one.name not in _NOT_OF_RESULT]
        settings = {name: repr(getattr(self, name)) for name in fields}
        # Outputs that began without a rule have the hash that their release gave them.
        langs = {} if self.normalizes_langs or self.keeps_spelling else {"lang_normalize": "none"}
        return hash_sha256(write_canonical_json({**settings, **langs, "seed": str(self.build.seed)}))

    @property
    def learns_bytes(self) -> bool:
        """Whether the model, which would mark spaces, is learned in byte form: from pre-tokens of another pattern."""
        model = MODELS[self.learn.model]
        given = self.pretokenize.regex is not None or self.pretokenize.steps is not None
        other = not given and self.pretokenize.pattern != model.pattern
        return model.marks_spaces and model.splits_by_any and other

    @property
    def counting_steps(self) -> tuple[str, ...]:
        """The normalizer that text is counted with: normalize.steps, and what marks spaces if the model does."""
        if not MODELS[self.learn.model].marks_spaces or self.learns_bytes:
            return self.normalize.steps
        own = name_space_step(self.normalize.add_dummy_prefix, self.normalize.remove_extra_whitespaces)
        return (*self.normalize.steps, own)

    @property
    def piece_options(self) -> PieceOptions:
        """What SentencePiece's models are learned with."""
        learn, normalize = self.learn, self.normalize
        return PieceOptions(
            max_sentencepiece_length=learn.max_sentencepiece_length,
            split_by_unicode_script=learn.split_by_unicode_script,
            split_by_number=learn.split_by_number,
            split_by_whitespace=learn.split_by_whitespace,
            split_digits=learn.split_digits,
            byte_fallback=learn.byte_fallback,
            user_defined_symbols=learn.user_defined_symbols,
            reserved=tuple(token.text for token in self.special),
            has_charsmap=normalize.steps[-1:] == (NORMALIZER,) and not self.learns_bytes,
            add_dummy_prefix=normalize.add_dummy_prefix,
            remove_extra_whitespaces=normalize.remove_extra_whitespaces,
            as_bytes=self.learns_bytes,
        )

    def stage_configs(self) -> StageConfigs:
        """Every setting that can change bytes, by stage."""
        counts = self.count_identity() if self.counts else None
        configs = self.learn_identity(), self.encode_identity(), counts
        return StageConfigs(*configs, self.pack_identity(), self.sizes_identity(), self.mixture_identity())

    def count_identity(self) -> CountsConfig:
        """The settings that can change count tables, besides the plan's."""
        return CountsConfig(
            max_pretoken_bytes=self.count.max_pretoken_bytes,
            sample=spell_plain(self.count.sample),
            normalize=self.counting_steps,
            pretokenize=make_pretokenizer(self).spec,
            seed=self.build.seed if self.count.sample < 1 else None,
            mask=tuple(sorted(self.count.mask)),
        )

    def learn_identity(self) -> LearnedConfig | ImportedConfig:
        """The settings that can change the tokenizer; for an imported one, its fingerprint, wherever its file is."""
        if self.tokenizer is not None:
            return ImportedConfig()
        # A token with an id of its own gets that id, whatever its place in the file.
        unpinned = [token for token in self.special if token.id is None]
        pinned = sorted((token for token in self.special if token.id is not None), key=lambda token: token.id or 0)
        used = MODELS[self.learn.model].uses
        min_documents, max_token_bytes = self.learn.min_documents, self.learn.max_token_bytes
        return LearnedConfig(
            model=self.learn.model,
            vocab_size=self.vocab_size,
            normalize=self.counting_steps,
            pretokenize=make_pretokenizer(self).spec,
            special=tuple(SpecialConfig(t.text, t.role, t.id) for t in (*unpinned, *pinned)),
            mix=self._mix_identity(),
            allow_smaller=self.learn.allow_smaller if "allow_smaller" in used else None,
            min_count=self.learn.min_count if "min_count" in used else None,
            # 1 limits nothing either.
            min_documents=min_documents if min_documents > 1 and "min_documents" in used else 0,
            max_token_bytes=max_token_bytes if max_token_bytes > 1 and "max_token_bytes" in used else 0,
            layout=self.layout,
            extends=self.extends,
            character_coverage=(spell_plain(self.learn.character_coverage) if "character_coverage" in used else ""),
            **{name: getattr(self.learn, name) for name in PIECE_SETTINGS if name in used},
            chat_template_sha256=hash_sha256(self.chat_template.encode()) if self.chat_template else "",
            max_length=self.learn.max_length,
        )

    def sizes_identity(self) -> LearnedConfig | None:
        """The settings that can change the tokenizers of several sizes; None if there is one."""
        if self.tokenizer is not None or len(self.vocab_sizes) == 1:
            return None
        chosen = self.learn_identity()
        assert isinstance(chosen, LearnedConfig)
        return dataclasses.replace(chosen, vocab_size=self.vocab_sizes)

    def _mix_identity(self) -> MixConfig:
        mix = self.mix
        if mix.strategy == "temperature":
            exponents = mix.exponents
            density_cap = spell_plain(exponents.density_cap) if exponents.density else "0"
            return TemperatureMix(
                mix.strategy, mix.unit, spell_plain(exponents.alpha), spell_plain(exponents.density), density_cap
            )
        if mix.strategy == "unimax":
            assert mix.max_epochs is not None
            return UnimaxMix(mix.strategy, mix.unit, spell_plain(mix.max_epochs), mix.budget)
        if mix.strategy == "weights":
            weights = {lang: spell_plain(weight) for lang, weight in sorted(mix.weights.items()) if weight != 1}
            return WeightsMix(mix.strategy, weights)
        return NaturalMix(mix.strategy)

    def encode_identity(self) -> ShardsConfig:
        """The settings that can change shards, besides the plan's and the tokenizer's."""
        return ShardsConfig(
            formats=tuple(sorted(self.shards.formats)),
            target_tokens=self.shards.target_tokens,
            by=self.shards.by,
            validation=spell_plain(self.shards.validation),
            compression=self.shards.compression,
            append=self.encode.append,
            prepend=self.encode.prepend,
            special_text=self.encode.special_text,
            seed=self.build.seed if self.shards.validation or self.draws else None,
            dtype=self._find_dtype(self.shards.formats),
            shuffle=self.shuffle.seed,
            dropout=spell_plain(self.encode.dropout) if self.encode.dropout else "",
            sampling=spell_plain(self.encode.sampling["theta"]) if self.encode.sampling else "",
            epoch=self.encode.epoch if self.draws else None,
        )

    def mixture_identity(self) -> MixtureConfig | None:
        """The settings that can change a mixture, besides those of shards; None if there is none."""
        mixture = self.mixture
        if mixture.strategy is None:
            return None
        formats = tuple(sorted(mixture.formats or self.shards.formats))
        weights = {name: spell_plain(weight) for name, weight in sorted(mixture.weights.items()) if weight != 1}
        return MixtureConfig(
            strategy=mixture.strategy,
            over=mixture.over,
            formats=formats,
            target_tokens=self.shards.target_tokens,
            compression=self.shards.compression,
            alpha=spell_plain(mixture.alpha) if mixture.strategy == "temperature" else "",
            weights=weights or None,
            tokens=mixture.tokens,
            max_epochs=spell_plain(mixture.max_epochs) if mixture.max_epochs is not None else "",
            dtype=self._find_dtype(formats),
        )

    def _find_dtype(self, formats: Sequence[str]) -> str:
        """shards.dtype, if one of the formats leaves the choice."""
        return self.shards.dtype if any(find_format(name).dtypes for name in formats) else ""

    def pack_identity(self) -> PackedConfig | None:
        """The settings that can change packed rows, besides those of shards; None if there are none."""
        pack = self.pack
        if pack.length is None:
            return None
        formats = tuple(sorted(pack.formats or self.shards.formats))
        return PackedConfig(
            length=pack.length,
            strategy=pack.strategy,
            cut=pack.cut if pack.strategy != "concatenate" else "long",
            last=pack.last,
            formats=formats,
            target_tokens=self.shards.target_tokens,
            compression=self.shards.compression,
            padding=pack.padding or "",
            dtype=self._find_dtype(formats),
        )


def make_pretokenizer(config: BuildConfig) -> Pretokenizer:
    """The build's split pattern: a named one, or the user's own."""
    own = config.pretokenize.regex
    if config.pretokenize.steps is not None:
        return Pretokenizer("steps", StepList.from_text(config.pretokenize.steps).text)
    return Pretokenizer.regex(own) if own is not None else Pretokenizer.named(config.pretokenize.pattern)


def spell_plain(number: Decimal) -> str:
    """The shortest decimal spelling: equal numbers give equal text.

    >>> spell_plain(Decimal("0.30")), spell_plain(Decimal("1E+2"))
    ('0.3', '100')
    """
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
