"""The tables of a build file: one frozen dataclass each. Defaults, meanings and limits are here and nowhere else.

tokcore_schemas.setting says how a setting is declared.
Leaves to others: reading the file (config_reader), rules that involve several settings (config_checks), the JSON
Schema (json_schema).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, get_args

from tokcore.errors import ConfigError
from tokcore.files.canonical_json import hash_sha256, write_canonical_json
from tokcore.formats.metadata import TYPES
from tokcore.learn import language_weights as mixing
from tokcore.learn import parity
from tokcore.learn.parallel_text import OddLines
from tokcore.models import DEFAULT_MODEL, MODELS
from tokcore.models.model import DEFAULT_COVERAGE, DEFAULT_SUPERSET
from tokcore.models.sentencepiece.piece_options import PieceOptions
from tokcore.plugins.map_code import identify_code
from tokcore.plugins.reader import READERS
from tokcore.shards.format_table import DEFAULT_FORMATS, SHARD_FORMATS, find_format
from tokcore.text.mask_presets import MASK_PRESETS
from tokcore.text.normalize import STEPS, name_space_step
from tokcore.text.pattern_presets import PRESETS
from tokcore.text.patterns import DEFAULT_PATTERN, PATTERNS
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.text.quality.rules import RULES, Rule
from tokcore.text.sentencepiece_tables import NORMALIZER
from tokcore.text.split_steps import StepList
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec
from tokcore_schemas.count_key import CountedBy
from tokcore_schemas.document import normalize_lang
from tokcore_schemas.encodings import ENCODINGS, OTHER_ENCODING_NAMES, UTF8
from tokcore_schemas.gaps import KeptRows
from tokcore_schemas.input_format import FileFormat
from tokcore_schemas.input_format import find_format as find_input_format
from tokcore_schemas.levels import LANG, LeveledTable, LevelsConfig, make_levels_config
from tokcore_schemas.plan import Attributes, FieldOfRecord, FilterRule, MapRule, MaskRule, MetadataField, Overlap
from tokcore_schemas.prefer import PIECES, SOURCE_ORDER, TEXT, parse_preferences
from tokcore_schemas.setting import REQUIRED, Limits, Setting, key
from tokcore_schemas.stage_manifests import (
    PIECE_SETTINGS,
    CountsConfig,
    DedupConfig,
    ImportedConfig,
    LearnedConfig,
    MixConfig,
    MixtureConfig,
    NaturalMix,
    PackedConfig,
    ParityMix,
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
RESERVED = "reserved"  # the key of [special] that is a number of tokens without use
MAX_RESERVED = 100_000
CODE = "code"  # the key of [special] that adds CODE_TOKENS
# Of repositories, files and text that is to be filled in, as Qwen and StarCoder have them.
CODE_TOKENS = tuple(
    f"<|{name}|>" for name in ("repo_name", "file_sep", "fim_prefix", "fim_middle", "fim_suffix", "fim_pad")
)
MAX_VOCAB_SIZE = 2**31 - 1  # ids are int32
MAX_ROW_LENGTH = 2**26  # which every format holds as one document
MAX_THETA = 1_000
# Which the first outputs were built without -> what is there if it is not set.
_LATER_KEYS: Mapping[str, object] = {
    **dict.fromkeys(
        ("end_of_word", "follow_links", "lang_map", "max_length", "memory_bytes", "ngram_overlap", "parallel")
    ),
    **dict.fromkeys(("pad_to_multiple_of", "splits", "steps", "weights_file")),
    "bins": {},
    "flat_keys": (),
    "groups": {},
    "levels": {},
    "max_partitions": 1000,
    "over": ("languages",),
    "partition_by": (),
    "superset": DEFAULT_SUPERSET,
    "target_premium": parity.DEFAULT_TARGET,
}


def _show_settings(table: Any) -> str:
    """All settings of a table. hash_settings has them, so a key that came later is there only if it is set."""
    every = {one.name: getattr(table, one.name) for one in dataclasses.fields(table)}
    return _spell_settings(table, every)


def _spell_settings(table: Any, every: Mapping[str, object]) -> str:
    shown = {name: one for name, one in every.items() if name not in _LATER_KEYS or one != _LATER_KEYS[name]}
    return f"{type(table).__name__}({', '.join(f'{name}={one!r}' for name, one in shown.items())})"


def _list_defaults(name: str) -> str:
    """What follows from each model, where it is not what follows from the first."""
    values = {model: getattr(one, name) for model, one in MODELS.items()}
    said = {model: one if isinstance(one, str) else ", ".join(one) for model, one in values.items()}
    return ", ".join(f"{model}: {one}" for model, one in said.items() if values[model] != values[DEFAULT_MODEL])


# What others call the types of metadata.
OTHER_TYPE_NAMES = (
    *((name, "string") for name in ("str", "text", "utf8", "varchar")),
    *((name, "bool") for name in ("boolean",)),
    *((name, "int64") for name in ("int", "integer", "long", "bigint")),
    *((name, "float32") for name in ("real",)),
    *((name, "float64") for name in ("float", "double", "number")),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BuildTable:
    """[build]"""

    name: str = key("", "for people; changes no byte", may_be_empty=True)
    output: str = key(
        REQUIRED, "a folder, or a URL of s3, gs or az; a relative path starts at the build file's folder", is_path=True
    )
    seed: int = key(
        0, "decides which documents are sampled, which go to the validation split, and which ids are drawn", least=0
    )
    max_rejected: Decimal = key(
        Decimal("0.001"), "share of records or stored bytes above which the build fails; 1 = never", least=0, most=1
    )
    lang_normalize: Literal["bcp47", "none"] | None = key(
        None,
        "how language codes are spelled: bcp47: in its case, zh-Hant-TW, other codes in lower case; none: as they are; "
        "not set: bcp47, in outputs that began without it none",
    )
    max_languages: int = key(
        5_000, "a build with more languages, each of which has files of its own, ends early", least=1
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """[[source]]"""

    lang: str | None = key(None, "language of all documents; this or lang_field is required")
    lang_field: str | None = key(None, "field, column or template that gives each record's language")
    lang_map: Mapping[str, str] | None = key(
        None, 'with lang_field: { English = "en", eng = "en" }: a language as records spell it = the code that is meant'
    )
    files: tuple[str, ...] = key(REQUIRED, "URL, glob or list of them", least=1, or_one=True, is_path=True)
    exclude: tuple[str, ...] = key(
        (), "globs of files to leave out; one without / matches names in any folder", or_one=True, is_path=True
    )
    follow_links: bool | None = key(
        None,
        "for symbolic links that a pattern meets on a disk: true reads what they lead to, each file once; false leaves "
        "them out; not set: they end planning",
    )
    split: str | None = key(None, "for a Hugging Face folder, which files names: read only this split of it")
    format: str | None = key(
        None, "not set: follows from each file's suffix", options=get_args(FileFormat), others=READERS
    )
    text: str = key(
        "text",
        "field or column of the text, or a path: data.body, messages[*].content; or a template: {title?}\\n{data.body}",
    )
    id: str | None = key(None, "field, column or template of the document's id")
    invalid_utf8: Literal["reject", "replace", "bytes"] = key(
        "reject", "what to do with a text that is not valid UTF-8"
    )
    max_document_bytes: int = key(268_435_456, "a longer text is rejected", least=1)
    encoding: str = key(
        UTF8,
        "for jsonl, csv, tsv and text: how the files encode text",
        options=ENCODINGS,
        meant=OTHER_ENCODING_NAMES,
        instead="or convert the files to UTF-8",
    )
    unit: Literal["file", "line", "paragraph"] | None = key(None, "for text files: what a document is; not set: a file")
    separator: str | None = key(None, "for text files: what separates two documents; replaces unit")
    delimiter: str | None = key(
        None, "for csv and tsv: the character between two fields; not set: a comma, for tsv a tab"
    )
    quotes: bool = key(True, 'for csv and tsv: fields may be in "quotes"; false: quotes are ordinary characters')
    validation: bool = key(False, "all documents go to the validation split, whatever shards.validation is")
    group: str | None = key(
        None, "field, column or template: records with the same value go to the same split, whatever their source"
    )
    name: str | None = key(
        None, "for a mixture over sources, and for counts by source; several sources may share a name"
    )

    def __repr__(self) -> str:
        return _show_settings(self)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MetadataTable:
    """[metadata] NAME = "TYPE", or { ... }: fields that go with each document into shards; no id depends on them"""

    name: str
    type: str = key(REQUIRED, "of the column", options=tuple(TYPES), meant=OTHER_TYPE_NAMES)
    default: object = key(None, "where a record has none: a text, a number, true or false; not set: null")
    required: bool = key(False, "a record that has none, and for which there is no default, is rejected")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AttributesTable:
    """[metadata] attributes = "URL or glob", or { ... }: Parquet tables beside the inputs that hold fields"""

    files: tuple[str, ...] = key(REQUIRED, "URL, glob or list of them", least=1, or_one=True, is_path=True)
    join: Literal["id", "ordinal"] = key(
        "id", "columns by which a row finds its document: id; or source and ordinal, as shards have them"
    )
    missing: Literal["default", "reject", "error"] = key(
        "default", "what a document without a row gets: the defaults of [metadata]; a rejection; the end of the build"
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MapTable:
    """[[map]]: your own code over documents, before filters; commands run it only with --allow-code"""

    run: str = key(REQUIRED, "MODULE:FUNCTION, or an entry point's name: takes a pyarrow.RecordBatch, and returns one")
    version: str | None = key(None, "of what the code's hash does not cover: raise it when that changes")
    name: str | None = key(None, "of the step in ledgers; not set: the function's; the second one ends in -2")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OverlapTable:
    """[filter.ngram_overlap]"""

    files: tuple[str, ...] = key(
        REQUIRED, "URL, glob or list of them: the items of tests", least=1, or_one=True, is_path=True
    )
    n: int = key(13, "words in a row; an item with fewer is never found", least=1, most=100)
    field: str = key("text", "field, column or template of an item's text")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FilterTable:
    """[[filter]]: documents that are not kept; the rules hold in their order, for counts and shards"""

    keep: str | None = key(
        None, "documents are kept where this is true of fields of their records: quality >= 0.7 and license in ['mit']"
    )
    rule: str | None = key(
        None, "; ".join(f"{name}: keeps {rule.text}" for name, rule in RULES.items()), options=tuple(RULES)
    )
    name: str | None = key(
        None, "of the rule in ledgers; not set: keep, or the ready rule's; the second one ends in -2"
    )
    ngram_overlap: OverlapTable | None = key(
        None,
        "documents that share n words in a row with a record of these files are not kept: { files = 'evals/*.jsonl', "
        "n = 13, field = 'text' }",
    )
    langs: tuple[str, ...] = key((), "languages, or globs of them: documents of others pass", or_one=True)
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # of the ready rule, that the file sets

    def __repr__(self) -> str:
        return _show_settings(self)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MaskTable:
    """[mask]: spans that texts do not keep, for counts and shards"""

    presets: tuple[str, ...] = key(
        (), "spans of these kinds, as of count.mask", options=tuple(MASK_PRESETS), distinct=True
    )
    regex: Mapping[str, str] = key({}, "kind = a regular expression of yours: { order = 'ORD-[0-9]{8}' }")
    spans: str | None = key(
        None, "field or column of spans that another tool found: a list of [start, end] or [start, end, kind]"
    )
    replacement: str = key(
        "", "text, or special token, in place of each span; {kind} is its kind; empty: nothing", may_be_empty=True
    )
    remove: tuple[str, ...] = key((), "kinds that nothing replaces, whatever replacement is", distinct=True)
    drop: tuple[str, ...] = key((), "kinds whose documents are not kept at all", distinct=True)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DedupTable:
    """[dedup]: of documents, lines or paragraphs that are equal, one is kept, for counts and shards"""

    by: str | None = key(
        None,
        "text: equal texts; line or paragraph: equal ones within a source, without which their documents go on; or a "
        "field or column: documents with the same value; not set: all are kept",
    )
    normalize: tuple[str, ...] = key(
        (), "for by = text: steps after which texts are compared", options=tuple(STEPS), distinct=True
    )
    prefer: tuple[str, ...] = key(
        (),
        "which one stays, by the first of these that tells: split:validation, split:train, source_order, a field whose "
        "smaller number, or -field whose larger number stays; then the smallest (language, document key)",
        distinct=True,
    )


def _make_parameter(name: str, default: Any) -> Setting:
    of = ", ".join(rule for rule, one in RULES.items() if name in {field.name for field in fields_of(one)})
    kind = {int: int, bool: bool, float: Decimal, tuple: tuple[str, ...]}[type(default)]
    limits = Limits() if kind in (bool, tuple[str, ...]) else Limits(least=0)
    shown = spell_plain(Decimal(str(default))) if isinstance(default, float) else str(default).lower()
    shown = ", ".join(default) if isinstance(default, tuple) else shown
    return Setting(name, kind, f"of {of}; not set: {shown}", limits, None)


def fields_of(rule: Rule) -> tuple[dataclasses.Field[Any], ...]:
    """The parameters of a ready rule."""
    return dataclasses.fields(rule.parameters)


@functools.cache
def list_parameters() -> Mapping[str, Setting]:
    """The parameters of all ready rules, which are keys of [[filter]], too."""
    return {
        field.name: _make_parameter(field.name, field.default) for rule in RULES.values() for field in fields_of(rule)
    }


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NormalizeTable:
    """[normalize]"""

    steps: tuple[str, ...] = key(
        (),
        "applied in this order, before counting and encoding; not set: those of the model ("
        + _list_defaults("normalizer")
        + ")",
        options=tuple(STEPS),
        distinct=True,
    )
    add_dummy_prefix: bool = key(True, "for unigram and sentencepiece-bpe: a space before each text")
    remove_extra_whitespaces: bool = key(
        True, "for unigram and sentencepiece-bpe: no spaces at the ends of a text, and one where there are several"
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PretokenizeTable:
    """[pretokenize]"""

    pattern: str = key(
        DEFAULT_PATTERN,
        "split pattern by name; not set: that of the model (" + _list_defaults("pattern") + ")",
        options=(*PATTERNS, *PRESETS),
        instead="or regex = '''...''' for one of your own",
    )
    regex: str | None = key(None, "a split pattern of your own; replaces pattern; slower")
    steps: str | None = key(
        None, "for bpe: a list of steps, as JSON, as pre_tokenizer of tokenizer.json has it; replaces pattern"
    )

    def __repr__(self) -> str:
        return _show_settings(self)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlanTable:
    """[plan]"""

    range_bytes: int = key(67_108_864, "size of an input range", least=1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CountTable:
    """[count]"""

    max_pretoken_bytes: int = key(
        1024, "a longer pre-token is cut at a character for counting; 0 keeps it whole", least=0
    )
    memory_bytes: int = key(536_870_912, "per worker; a larger table spills to disk, nothing is dropped", least=1 << 20)
    sample: Decimal = key(Decimal(1), "share of documents counted, by hash of (seed, document key)", above=0, most=1)
    mask: tuple[str, ...] = key(
        (), "pre-tokens that touch a span of these kinds are not counted", options=tuple(MASK_PRESETS), distinct=True
    )
    splits: Literal["train", "all"] | None = key(
        None,
        "which documents are learned from, where there is a validation split; not set: train, in outputs that began "
        "without it all",
    )

    def __repr__(self) -> str:
        return _show_settings(self)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MixTable(LeveledTable):
    """[mix]"""

    strategy: Literal["temperature", "unimax", "natural", "weights", "parity"] = key(
        "temperature", "how the counts of languages are weighted"
    )
    alpha: Decimal = key(
        mixing.DEFAULT.alpha,
        "for temperature: shares p become p**alpha; 1 is natural, 0 makes languages equal",
        least=0,
        most=1,
        strategies=("temperature", "parity"),
    )
    density: Decimal = key(
        mixing.DEFAULT.density,
        "for temperature: p**alpha is multiplied by (bytes per pre-token / their mean)**density; 0: not at all",
        least=0,
        most=mixing.MAX_DENSITY,
        strategies=("temperature", "parity"),
    )
    density_cap: Decimal = key(
        mixing.DEFAULT.density_cap,
        "for temperature: the most that bytes per pre-token / their mean counts as",
        least=1,
        strategies=("temperature", "parity"),
    )
    preset: Literal["fair"] | None = key(
        None,
        "for temperature: sets alpha, density and density_cap for premiums closer to 1",
        strategies=("temperature", "parity"),
    )
    unit: Literal["bytes", "pretokens", "documents"] = key(
        "bytes",
        "for temperature and unimax: the unit of a language's size",
        strategies=("temperature", "unimax", "parity"),
    )
    max_epochs: Decimal | None = key(
        None, "for unimax, which requires it: how often a language may be repeated", above=0, strategies=("unimax",)
    )
    budget: int | None = key(
        None, "for unimax, in units; not set: the size of the corpus", least=1, strategies=("unimax",)
    )
    weights: Mapping[str, Decimal] = key(
        {}, "for weights: language or source = factor on its counts; 1 if not named", above=0, strategies=("weights",)
    )
    target_premium: Decimal = key(
        parity.DEFAULT_TARGET,
        "for parity: languages whose premium is higher get more weight than temperature gives them, round by round",
        least=1,
        most=10,
        strategies=("parity",),
    )
    parallel: str | None = key(
        None,
        "for parity, which requires it: a folder with a file LANG.txt or LANG.txt.zst for each language, line N of "
        "which is the same sentence everywhere; premiums are those of its odd lines",
        strategies=("parity",),
    )

    @property
    def begins_with(self) -> str:
        """The strategy of the weights that are there before any follow a premium."""
        return "temperature" if self.strategy == "parity" else self.strategy

    def __repr__(self) -> str:
        return _show_settings(self)

    @property
    def exponents(self) -> mixing.Temperature:
        """What temperature mixing is given: of the preset, or as set one by one."""
        if self.preset is not None:
            return mixing.PRESETS[self.preset]
        return mixing.Temperature(self.alpha, self.density, self.density_cap)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LearnTable:
    """[learn]"""

    model: str = key(
        DEFAULT_MODEL,
        "; ".join(f"{name}: {model.text}" for name, model in MODELS.items()),
        options=tuple(MODELS),
        others=MODELS,
    )
    vocab_size: tuple[int, ...] | None = key(
        None,
        "a number, or a list of them: a tokenizer of each size; special tokens included; exact, or an error that says "
        "why; not set: " + "; ".join(f"{name}: {model.default_size}" for name, model in MODELS.items()),
        least=1,
        most=MAX_VOCAB_SIZE,
        or_one=True,
        distinct=True,
    )
    extend: str | None = key(
        None,
        "for bpe: a tokenizer, as tokenizer.from names one, whose ids all stay; further merges get ids after its last, "
        "and its normalizer, split pattern and special tokens are taken over",
    )
    allow_smaller: bool = key(False, "accept fewer tokens if the counts give no more")
    min_count: int = key(2, "pairs with a smaller weighted count (divided by the scale) are not merged", least=0)
    min_documents: int = key(
        0, "pre-tokens in fewer documents, over all languages, take no part; 0 and 1: all take part", least=0
    )
    max_token_bytes: int = key(0, "no merge makes a longer token; 0: no limit", least=0)
    memory_bytes: int | None = key(
        None,
        "what learning may take; bpe then reads its rows from a temporary file, others are refused; not set: what the "
        "machine and its control group leave",
        least=1 << 20,
    )
    end_of_word: str | None = key(
        None,
        "for bpe: the last byte of a pre-token is a token of its own, whose name ends with this: </w>, as in CLIP; "
        "texts then do not come back",
    )
    layout: str | None = key(
        None,
        "for byte and codepoint: ids and special tokens of a published tokenizer, ByT5's or CANINE's; "
        "not set: special tokens come last",
        options=tuple(sorted({name for model in MODELS.values() for name in model.layouts if name})),
    )
    character_coverage: Decimal = key(
        DEFAULT_COVERAGE,
        "for character, unigram and sentencepiece-bpe: the share of the text that single characters cover",
        above=0,
        most=1,
    )
    superset: Decimal = key(
        DEFAULT_SUPERSET,
        "for pathpiece: size of the BPE from which tokens are dropped, as a multiple of vocab_size; 1: none is",
        least=1,
        most=16,
    )
    max_sentencepiece_length: int = key(
        PieceOptions().max_sentencepiece_length,
        "for unigram and sentencepiece-bpe: the most characters of a piece",
        least=1,
        most=512,
    )
    split_by_unicode_script: bool = key(
        True, "for unigram and sentencepiece-bpe: no piece has characters of two scripts"
    )
    split_by_number: bool = key(
        True, "for unigram and sentencepiece-bpe: digits count as characters of another script than letters"
    )
    split_by_whitespace: bool = key(
        True,
        "for unigram and sentencepiece-bpe: no piece crosses a space; false needs pre-tokens that do: "
        "pretokenize.regex",
    )
    split_digits: bool = key(False, "for unigram and sentencepiece-bpe: each digit is a piece of its own")
    byte_fallback: bool = key(
        True, "for unigram and sentencepiece-bpe: 256 pieces spell what no piece matches, which would be unknown"
    )
    user_defined_symbols: tuple[str, ...] = key(
        (), "for unigram and sentencepiece-bpe: texts that are always one piece", distinct=True
    )
    control_symbols: tuple[str, ...] = key(
        (), "for unigram and sentencepiece-bpe: special tokens after <unk>, <s> and </s>", distinct=True
    )
    chat_template: str | None = key(None, "a file with a Jinja chat template, for tokenizer_config.json; changes no id")
    max_length: int | None = key(
        None,
        "tokens that a model takes at once, for tokenizer_config.json: its model_max_length; changes no id",
        least=1,
        most=2**31 - 1,
    )
    pad_to_multiple_of: int | None = key(
        None,
        "special tokens without use are added until vocab_size is a multiple of this, 64 or 128 for speed on GPUs; for "
        "a vocab_size that is exact",
        least=1,
        most=2**20,
    )

    def __repr__(self) -> str:
        return _show_settings(self)


# What other libraries call the roles.
OTHER_ROLE_NAMES = (
    *((name, "document_end") for name in ("eos", "eod", "eot", "end", "end_of_text", "endoftext")),
    *((name, "document_begin") for name in ("bos", "bod", "begin", "start")),
    ("pad", "padding"),
    ("unk", "unknown"),
    ("sep", "separator"),
    ("cls", "classifier"),
    *((name, "plain") for name in ("control", "user")),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SpecialTable:
    """[special] "TEXT" = { ... }, or just the role"""

    text: str
    role: Literal[
        "document_end", "document_begin", "padding", "unknown", "mask", "separator", "classifier", "plain"
    ] = key("plain", "what the token is for", meant=OTHER_ROLE_NAMES)
    id: int | None = key(
        None,
        "pins the id, after all ordinary tokens unless the model has special tokens of its own; "
        "not set: the lowest free one",
        least=0,
        most=2**31 - 1,
    )


def make_code_tokens(special: Iterable[SpecialTable]) -> tuple[SpecialTable, ...]:
    """Those of CODE_TOKENS that are not declared."""
    taken = {token.text for token in special}
    return tuple(SpecialTable(text=text) for text in CODE_TOKENS if text not in taken)


def make_reserved(num: int, special: Iterable[SpecialTable]) -> tuple[SpecialTable, ...]:
    """`num` special tokens for later use, which no text is encoded to.

    They have the names that Llama 3 gives such tokens, from the first number that is free.

    >>> [token.text for token in make_reserved(2, [SpecialTable(text="<|reserved_special_token_0|>")])]
    ['<|reserved_special_token_1|>', '<|reserved_special_token_2|>']
    """
    taken = {token.text for token in special}
    names = (f"<|reserved_special_token_{i}|>" for i in itertools.count())
    return tuple(SpecialTable(text=text) for text in itertools.islice((n for n in names if n not in taken), num))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EncodeTable:
    """[encode]"""

    vocab_size: tuple[int, ...] | None = key(
        None,
        "where learn.vocab_size is a list: the size that documents are encoded with; not set: the largest. A list: the "
        "others follow from the largest of it, each in an output of its own, OUTPUT-SIZE",
        least=1,
        most=MAX_VOCAB_SIZE,
        or_one=True,
        distinct=True,
    )
    prepend: tuple[str, ...] = key(
        (), "special tokens before each document; not set: the declared ones of role document_begin"
    )
    append: tuple[str, ...] = key(
        (END_OF_TEXT,), "special tokens after each document; not set: the declared ones of role document_end"
    )
    special_text: Literal["ordinary", "special", "reject"] = key(
        "ordinary", "how to read corpus text that spells a special token; it is counted"
    )
    max_unknown: Decimal = key(
        Decimal(1),
        "share of unknown tokens above which the build fails, for tokenizers that have one; 1 = never",
        least=0,
        most=1,
    )
    dropout: Decimal = key(
        Decimal(0),
        "for bpe and wordpiece: the probability with which a merge, or a token that matches, is passed over; 0: never",
        least=0,
        most=1,
    )
    sampling: Mapping[str, Decimal] = key(
        {},
        "for unigram: { theta = 0.1 } draws cuts in proportion to exp(theta * sum of scores); not set: the best cut",
        least=0,
        most=MAX_THETA,
        keys=("theta",),
    )
    epoch: int = key(0, "for dropout and sampling, beside build.seed: another one draws other tokens", least=0)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShardsTable:
    """[shards]"""

    formats: tuple[str, ...] = key(
        DEFAULT_FORMATS,
        "file formats of the shards; each holds the same tokens",
        least=1,
        options=tuple(SHARD_FORMATS),
        others=SHARD_FORMATS,
        distinct=True,
    )
    target_tokens: int = key(10_000_000, "a shard ends with the document that reaches it", least=1)
    by: Literal["plan", "lang"] = key("plan", "one sequence of shards, or one per language")
    partition_by: tuple[str, ...] = key(
        (),
        "lang and fields of [metadata]: a sequence of shards for each of their values, in KEY=VALUE/",
        distinct=True,
    )
    bins: Mapping[str, tuple[Decimal, ...]] = key(
        {}, "for fields of numbers in partition_by: { quality = [0.2, 0.5, 0.8] }; bin 1 is from 0.2 on, below 0.5"
    )
    max_partitions: int = key(1000, "a build with more, each of which has files of its own, ends early", least=1)
    validation: Decimal = key(Decimal(0), "share of documents, by key, for the validation split", least=0, below=1)
    compression: Literal["zstd", "lz4", "none"] = key("zstd", "for Arrow, Parquet and documents files")
    dtype: Literal["int32", "uint16", "uint32"] = key(
        "int32", "type of the ids in formats that leave the choice; uint16 is half the size, for at most 65,536 ids"
    )

    def __repr__(self) -> str:
        return _show_settings(self)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleTable:
    """[shuffle]"""

    seed: int | None = key(
        None,
        "the order of documents follows from it, their keys and texts alone; not set: the order of the plan",
        least=0,
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MixtureTable(LeveledTable):
    """[mixture]: the training documents of the shards in other proportions, written beside them"""

    strategy: Literal["temperature", "unimax", "natural", "weights"] | None = key(
        None, "how many tokens each language, source or partition gets; not set: no mixture is written"
    )
    alpha: Decimal = key(
        mixing.DEFAULT.alpha,
        "for temperature: shares p of tokens become p**alpha; 1 is natural, 0 makes them equal",
        least=0,
        most=1,
        strategies=("temperature",),
    )
    weights: Mapping[str, Decimal] = key(
        {},
        'for weights: language, source or "topic=code" = factor on its tokens; 1 if not named; 0 leaves it out',
        least=0,
        strategies=("weights",),
    )
    weights_file: str | None = key(
        None, "the same in a file: JSON, or TOML by its name", is_path=True, strategies=("weights",)
    )
    tokens: int | None = key(
        None, "tokens of the mixture; not set: as many as there are, for weights as many as the factors give", least=1
    )
    max_epochs: Decimal | None = key(
        None,
        "how often documents may come at most; others get what one then lacks; unimax requires it",
        above=0,
    )
    formats: tuple[str, ...] = key(
        (),
        "file formats of the mixture; not set: those of shards.formats",
        options=tuple(SHARD_FORMATS),
        others=SHARD_FORMATS,
        distinct=True,
    )

    def __repr__(self) -> str:
        # In the order of the first releases.
        every = {one.name: getattr(self, one.name) for one in dataclasses.fields(self) if one.metadata}
        first = {"strategy": self.strategy, "over": self.over[0] if len(self.over) == 1 else self.level_names}
        return _spell_settings(self, {**first, **{name: one for name, one in every.items() if name not in first}})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PackTable:
    """[pack]: rows of one length, written beside the shards"""

    length: int | None = key(None, "ids of a row; not set: no packed rows are written", least=1, most=MAX_ROW_LENGTH)
    strategy: Literal["concatenate", "best-fit", "one"] = key(
        "best-fit",
        "documents back to back, cut where rows end; put together so that rows are full; or in rows of their own",
    )
    cut: Literal["long", "never"] = key(
        "long", "for best-fit and one: a document longer than a row is cut at multiples of length, or fails the build"
    )
    last: Literal["pad", "keep"] = key(
        "pad", "the last row of each split, if it is partial: filled up, or kept as it is"
    )
    padding: str | None = key(
        None, "special token that fills rows; not set: the one of role padding, else the last of encode.append"
    )
    formats: tuple[str, ...] = key(
        (),
        "file formats of the rows; not set: those of shards.formats",
        options=tuple(SHARD_FORMATS),
        others=SHARD_FORMATS,
        distinct=True,
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerTable:
    """[tokenizer]: an existing one, so no count and no learn"""

    from_: str = key(
        REQUIRED,
        "tokcore.json, tokenizer.json, tekken.json, SentencePiece's .model, vocab.txt, YouTokenToMe's model, ByT5's "
        "folder, a rank file, or vocab.json with merges.txt; hf://org/name is a model on the Hugging Face Hub",
        is_path=True,
    )
    pattern: str | None = key(
        None,
        "for vocab.json, and for a rank file that is no published one, which require it: the name of the split "
        "pattern, or a regex (for a rank file, as tiktoken reads it)",
    )
    normalize: tuple[str, ...] = key(
        (), "for a vocab.txt: the steps of its normalizer; not set: bert", options=tuple(STEPS), distinct=True
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StorageTable:
    """[storage]: where the stores' libraries find their servers; changes no byte. Never secrets"""

    s3: Mapping[str, str | bool] = key(
        {},
        "for s3: endpoint_url, region, profile, anon, requester_pays",
        keys=("endpoint_url", "region", "profile", "anon", "requester_pays"),
    )
    gcs: Mapping[str, str | bool] = key(
        {},
        "for gs: endpoint_url, project, anon, requester_pays",
        keys=("endpoint_url", "project", "anon", "requester_pays"),
    )
    azure: Mapping[str, str | bool] = key(
        {}, "for abfs and az: account_name, account_host, anon", keys=("account_name", "account_host", "anon")
    )
    hf: Mapping[str, str | bool] = key({}, "for hf: endpoint", keys=("endpoint",))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UpdateTable:
    """[update]: how tokcore update follows the inputs; changes no byte of a build"""

    vanished: Literal["keep", "remove", "fail"] = key(
        "keep", "what becomes of the documents of input files that are no longer there; fail: nothing is changed"
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WatchTable:
    """[watch]: how tokcore watch follows the inputs; changes no byte of a commit, but which files are in it"""

    poll_seconds: Decimal = key(Decimal(10), "from one listing of the sources to the next", above=0)
    settle_seconds: Decimal = key(
        Decimal(5), "so long a file must look the same before it is taken: it may still be written", least=0
    )
    marker: str | None = key(
        None, "a file is taken once this name is in its folder; * stands for the file's name: *.done, or _SUCCESS"
    )
    batch_bytes: int = key(1 << 28, "stored bytes of a batch: a fuller one is begun at once", least=1)
    batch_files: int = key(10_000, "files of a batch", least=1, most=10_000)
    batch_seconds: Decimal = key(Decimal(30), "a batch is begun once its oldest file has waited for so long", least=0)
    tries: int = key(3, "so often a file may fail before it is left alone, and named", least=1)
    lease_seconds: Decimal = key(
        Decimal(60), "a watcher without a sign of life for so long is lost, and another one commits", least=1
    )
    drain_seconds: Decimal = key(Decimal(30), "so long a batch may go on after SIGTERM before it is cut short", least=0)
    listen: str = key("127.0.0.1:9464", "HOST:PORT of /healthz, /readyz and /metrics; empty: none", may_be_empty=True)
    sorted_names: bool = key(
        False, "names of new files sort after earlier ones, as dates do: most looks list only what comes after"
    )
    full_looks: int = key(
        60, "with sorted_names: every so many looks list everything, for late and changed files", least=1
    )
    notifications: str | None = key(
        None,
        "a queue that tells of new files, so that a look need not wait: sqs://QUEUE, or pubsub://PROJECT/SUBSCRIPTION",
    )
    drift_baseline: str | None = key(
        None,
        "an output with this tokenizer, to compare what lands with; not set: the one it was learned in, if it is known",
        is_path=True,
    )
    drift_window_bytes: int = key(50_000_000, "so much text that landed last is compared", least=1)
    drift_bytes_per_token: Decimal = key(
        Decimal("0.1"), "drift: the bytes of a token fall by more than this share", least=0, most=1
    )
    drift_short_tokens: Decimal = key(
        Decimal("0.05"), "drift: the share of text in tokens of one or two bytes grows by more", least=0, most=1
    )
    drift_unseen: Decimal = key(
        Decimal("0.1"),
        "drift: a larger share of pre-tokens is not in the baseline; only if they are counted",
        least=0,
        most=1,
    )
    drift_language: Decimal = key(
        Decimal("0.1"), "drift: the share of a language in the text grows or falls by more", least=0, most=1
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EngineTable:
    """[engine]: where the work is done; changes no byte"""

    name: Literal["local", "direct", "flink", "prism", "portable", "dataflow"] = key(
        "local",
        "processes of this machine, Beam's own runner in this process, Beam's job server for Flink, Prism, any server "
        "of Beam's job API, or Google's Dataflow",
    )
    endpoint: str | None = key(
        None, "HOST:PORT of the job server; not set: for flink 127.0.0.1:8099, for prism 127.0.0.1:8073"
    )
    parallelism: int | None = key(None, "pieces of work at a time; not set: as the engine does", least=1)
    processes: int | None = key(
        None,
        "worker processes of a TaskManager of flink; not set: one for each slot, at most engine.parallelism",
        least=1,
    )
    web: str | None = key(
        None,
        "HOST:PORT of the engine's pages, for flink of its REST interface; not set: for flink port 8081 of that host",
    )
    environment: Literal["process", "external"] = key(
        "process", "who starts workers: the engine, as processes of its hosts, or a pool of Beam's that runs already"
    )
    worker: str | None = key(
        None, "process: path of tokcore-worker on the engine's hosts, not set: as here; external: HOST:PORT of the pool"
    )
    shared_filesystem: bool = key(False, "whether the engine's hosts see the local paths of this one")
    checkpoints: str | None = key(
        None, "URL of a folder where flink keeps checkpoints of streams, which this machine can read, too"
    )
    project: str | None = key(None, "for dataflow, which requires it, as all to max_workers: id of the project")
    region: str | None = key(None, "where workers run: us-central1; required")
    staging: str | None = key(None, "gs:// URL of a folder for what jobs are started from; required")
    temp: str | None = key(None, "gs:// URL of a folder for the service; not set: temp below engine.staging")
    image: str | None = key(
        None, "image of the workers, by tag or digest: HOST/PROJECT/NAME:TAG or NAME@sha256:HASH; required"
    )
    network: str | None = key(None, "name of the workers' network; not set: the subnetwork's, or default")
    subnetwork: str | None = key(
        None, "of the workers: regions/REGION/subnetworks/NAME; its full URL if another project has it"
    )
    service_account: str | None = key(None, "e-mail that the workers act as; not set: the project's default")
    machine_type: str | None = key(None, "of the workers; not set: n2-standard-4")
    learn_machine_type: str | None = key(
        None, "of the worker that learns; not set: the smallest n2-highmem that has the memory"
    )
    public_addresses: bool = key(
        False, "whether workers get public addresses; without them the subnetwork needs Private Google Access"
    )
    labels: tuple[str, ...] = key((), "KEY=VALUE of each label of the jobs")
    max_workers: int | None = key(None, "hosts of a job; not set: as the service does", least=1)


DEFAULT_SPECIAL = (SpecialTable(text=END_OF_TEXT, role="document_end"),)

# Name in the file -> (attribute of BuildConfig, class). [[source]] and [special] hold several.
TABLES: Mapping[str, tuple[str, type]] = {
    "build": ("build", BuildTable),
    "source": ("sources", Source),
    "metadata": ("metadata", MetadataTable),
    "map": ("maps", MapTable),
    "mask": ("mask", MaskTable),
    "filter": ("filters", FilterTable),
    "dedup": ("dedup", DedupTable),
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


ATTRIBUTES = "attributes"  # the key of [metadata] that names tables, unless its value is a type


def is_attributes(value: object) -> bool:
    """Whether the value of that key names tables.

    >>> is_attributes("a/*.parquet"), is_attributes("float32"), is_attributes({"type": "string"})
    (True, False, False)
    """
    if isinstance(value, Mapping):
        return not value.keys().isdisjoint({"files", "join", "missing"})
    return isinstance(value, list | tuple) or (
        isinstance(value, str) and value not in (*TYPES, *dict(OTHER_TYPE_NAMES))
    )


SEVERAL = ("source", "map", "filter")  # tables of which a file has any number

# What the result does not follow from.
_NOT_OF_RESULT = frozenset({"path", "build", "storage", "engine", "update", "watch"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BuildConfig:
    """A checked build file."""

    path: str  # of the build file, for messages
    base: str  # its folder, absolute: where relative paths start
    build: BuildTable
    sources: tuple[Source, ...]
    metadata: tuple[MetadataTable, ...] = ()
    attributes: AttributesTable | None = None
    maps: tuple[MapTable, ...] = ()
    mask: MaskTable = MaskTable()
    filters: tuple[FilterTable, ...] = ()
    dedup: DedupTable = DedupTable()
    normalize: NormalizeTable = NormalizeTable()
    pretokenize: PretokenizeTable = PretokenizeTable()
    plan: PlanTable = PlanTable()
    count: CountTable = CountTable()
    mix: MixTable = MixTable()
    learn: LearnTable = LearnTable()
    special: tuple[SpecialTable, ...] = DEFAULT_SPECIAL
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
    # The text in the folder mix.parallel, and its hash.
    parallel: OddLines | None = dataclasses.field(default=None, repr=False, compare=False)
    parallel_sha256: str = ""
    counts_too: bool = dataclasses.field(default=False, compare=False)  # although the tokenizer is imported
    # Whether language codes are as records spell them because the output began so, not since the build file says so.
    keeps_spelling: bool = dataclasses.field(default=False, compare=False)
    # What rows of the counts that the output holds know of their documents; None: it holds none, and they know all.
    counted_by: tuple[CountedBy, ...] | None = dataclasses.field(default=None, compare=False)
    declares_special: bool = dataclasses.field(default=False, compare=False)  # whether the file has [special]
    # How often documents of a part come in its mixture, where an update kept that; as MixtureConfig has it.
    kept_weights: Mapping[str, str] | None = dataclasses.field(default=None, compare=False)
    # The rows of another part, which stay where they are in this one.
    kept_rows: KeptRows | None = dataclasses.field(default=None, compare=False)

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
    def metadata_fields(self) -> tuple[MetadataField, ...]:
        """The fields of [metadata] as plans have them, by name."""
        return tuple(
            MetadataField(one.name, one.type, spell_default(one.default), one.required)
            for one in sorted(self.metadata, key=lambda one: one.name)
        )

    @property
    def metadata_columns(self) -> tuple[tuple[str, str], ...]:
        """(name, type) of each column of [metadata], by name."""
        return tuple((one.name, one.type) for one in self.metadata_fields)

    @property
    def attributes_rule(self) -> Attributes | None:
        """The tables of [metadata] as plans have them, but not pinned; None if there are none."""
        told = self.attributes
        return Attributes(told.join, told.missing) if told is not None else None

    @property
    def map_rules(self) -> tuple[MapRule, ...]:
        """The steps of [[map]] as plans have them. Raises ConfigError for code that is not there."""
        names = name_maps(self.maps, [rule.name for rule in self.filter_rules])
        return tuple(
            MapRule(name, one.run, *self._identify(number, one), one.version or "")
            for number, (name, one) in enumerate(zip(names, self.maps, strict=True))
        )

    def _identify(self, number: int, table: MapTable) -> tuple[str, str]:
        try:
            return identify_code(table.run)
        except ConfigError as error:
            raise ConfigError(f"{self.at('map', number, 'run')} = {table.run!r}: {error}") from error

    @property
    def filter_rules(self) -> tuple[FilterRule, ...]:
        """The rules of [[filter]] as plans have them."""
        return name_rules(self.filters)

    @property
    def mask_rule(self) -> MaskRule | None:
        """What [mask] says, as plans have it; None if nothing is masked."""
        mask = self.mask
        if not (mask.presets or mask.regex or mask.spans):
            return None
        return MaskRule(
            presets=tuple(sorted(mask.presets)),
            regex=tuple(sorted(mask.regex.items())),
            spans=mask.spans or "",
            replacement=mask.replacement,
            remove=tuple(sorted(mask.remove)) if mask.replacement else (),
            drop=tuple(sorted(mask.drop)),
        )

    @property
    def compared_fields(self) -> tuple[FieldOfRecord, ...]:
        """The fields that [dedup] looks at."""
        if self.dedup.by is None:
            return ()
        by = [FieldOfRecord(self.dedup.by, "name")] if self.dedup.by not in (TEXT, *PIECES) else []
        preferences = parse_preferences(self.dedup.prefer)
        return (*by, *(FieldOfRecord(one.name, "number") for one in preferences if one.kind == "field"))

    @property
    def orders_sources(self) -> bool:
        """Whether the order of sources decides which of several duplicates stays, or which are some."""
        return self.dedup.by in PIECES or (self.dedup.by is not None and SOURCE_ORDER in self.dedup.prefer)

    @property
    def counts(self) -> bool:
        """Whether pre-tokens are counted: to learn a tokenizer, or beside one that is imported."""
        return self.tokenizer is None or self.counts_too

    @property
    def has_validation(self) -> bool:
        """Whether there is a validation split."""
        return bool(self.shards.validation) or any(source.validation for source in self.sources)

    @property
    def counts_apart_by(self) -> tuple[CountedBy, ...]:
        """What rows of count tables know of their documents, besides the language."""
        if self.counted_by is not None:
            return self.counted_by
        by_source: tuple[CountedBy, ...] = ("source",) if any(source.name for source in self.sources) else ()
        return (*by_source, "split") if self.has_validation else by_source

    @property
    def learned_splits(self) -> Literal["", "train"]:
        """The splits that a tokenizer is learned from; empty: all."""
        return "train" if "split" in self.counts_apart_by and self.count.splits != "all" else ""

    @property
    def vocab_size(self) -> int:
        """The size of the vocabulary that encodes, special tokens included.

        encode.vocab_size, its largest, or the largest of learn.vocab_size, or else the model's own.
        """
        sizes = self._learned_sizes
        if not sizes:
            return MODELS[self.learn.model].default_vocab_size(len(self.special))
        chosen = max(self.encode.vocab_size or (0,))
        return chosen if chosen in sizes else sizes[-1]

    def list_smaller(self) -> list[BuildConfig]:
        """The builds of the other sizes of encode.vocab_size, the largest first."""
        sizes = sorted(size for size in self.encode.vocab_size or () if size in self._learned_sizes)[:-1]
        encode = dataclasses.replace(self.encode, vocab_size=None)
        return [
            dataclasses.replace(self, learn=dataclasses.replace(self.learn, vocab_size=(size,)), encode=encode)
            for size in reversed(sizes)
        ]

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
    def end_of_word(self) -> str:
        """learn.end_of_word, if the model heeds it; empty: words have no ends."""
        return (self.learn.end_of_word or "") if "end_of_word" in MODELS[self.learn.model].uses else ""

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
        # Whether what came later is there.
        later = {
            "maps": bool(self.maps),
            "metadata": bool(self.metadata),
            "attributes": self.attributes is not None,
            "filters": bool(self.filters),
            "mask": self.mask_rule is not None,
            "dedup": self.dedup.by is not None,
            "parallel_sha256": bool(self.parallel_sha256),
        }
        fields = [name for name in fields if later.get(name, True)]
        settings = {name: repr(getattr(self, name)) for name in fields}
        # Outputs that began without a rule have the hash that their release gave them.
        langs = {} if self.normalizes_langs or self.keeps_spelling else {"lang_normalize": "none"}
        plugins = {"plugins": found} if (found := self._find_plugins()) else {}
        code = {"code": repr(self.map_rules)} if self.maps else {}
        return hash_sha256(write_canonical_json({**settings, **langs, **plugins, **code, "seed": str(self.build.seed)}))

    def _find_plugins(self) -> dict[str, str]:
        """Name -> distribution and version of each format, model and reader that is not tokcore's."""
        formats = {*self.shards.formats, *self.mixture.formats, *self.pack.formats}
        told = (
            source.format or (find_input_format(uri) or ("",))[0] for source in self.sources for uri in source.files
        )
        readers = {name for name in told if name and name not in get_args(FileFormat)}
        model = MODELS.find_versions([self.learn.model])
        return {
            **(SHARD_FORMATS.find_versions(formats) or {}),
            **(model or {}),
            **(READERS.find_versions(readers) or {}),
        }

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
        mixed, dedup = self.mixture_identity(), self.dedup_identity()
        return StageConfigs(*configs, self.pack_identity(), self.sizes_identity(), mixed, dedup)

    def dedup_identity(self) -> DedupConfig | None:
        """The settings that decide which documents are duplicates, besides the plan's; None if all are kept."""
        if self.dedup.by is None:
            return None
        splits = any(one.kind == "split" for one in parse_preferences(self.dedup.prefer))
        validation = self.shards.validation if splits else Decimal(0)
        return DedupConfig(
            by=self.dedup.by,
            normalize=self.dedup.normalize,
            prefer=self.dedup.prefer,
            validation=spell_plain(validation) if validation else "",
            seed=self.build.seed if validation else None,
        )

    def count_identity(self) -> CountsConfig:
        """The settings that can change count tables, besides the plan's."""
        apart_by = self.counts_apart_by
        validation = self.shards.validation if "split" in apart_by else Decimal(0)
        return CountsConfig(
            max_pretoken_bytes=self.count.max_pretoken_bytes,
            sample=spell_plain(self.count.sample),
            normalize=self.counting_steps,
            pretokenize=make_pretokenizer(self).spec,
            seed=self.build.seed if self.count.sample < 1 or validation else None,
            mask=tuple(sorted(self.count.mask)),
            apart_by=apart_by,
            validation=spell_plain(validation) if validation else "",
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
            plugins=MODELS.find_versions([self.learn.model]),
            vocab_size=self.vocab_size,
            normalize=self.counting_steps,
            pretokenize=make_pretokenizer(self).spec,
            special=tuple(SpecialConfig(t.text, t.role, t.id) for t in (*unpinned, *pinned)),
            mix=self._mix_identity(),
            levels=self.mix_levels,
            allow_smaller=self.learn.allow_smaller if "allow_smaller" in used else None,
            min_count=self.learn.min_count if "min_count" in used else None,
            # 1 limits nothing either.
            min_documents=min_documents if min_documents > 1 and "min_documents" in used else 0,
            max_token_bytes=max_token_bytes if max_token_bytes > 1 and "max_token_bytes" in used else 0,
            end_of_word=self.end_of_word,
            layout=self.layout,
            extends=self.extends,
            character_coverage=(spell_plain(self.learn.character_coverage) if "character_coverage" in used else ""),
            superset=spell_plain(self.learn.superset) if "superset" in used else "",
            **{name: getattr(self.learn, name) for name in PIECE_SETTINGS if name in used},
            chat_template_sha256=hash_sha256(self.chat_template.encode()) if self.chat_template else "",
            max_length=self.learn.max_length,
            splits=self.learned_splits,
        )

    def sizes_identity(self) -> LearnedConfig | None:
        """The settings that can change the tokenizers of several sizes; None if there is one."""
        if self.tokenizer is not None or len(self.vocab_sizes) == 1:
            return None
        chosen = self.learn_identity()
        assert isinstance(chosen, LearnedConfig)
        return dataclasses.replace(chosen, vocab_size=self.vocab_sizes)

    @property
    def mix_levels(self) -> LevelsConfig | None:
        """How counts are mixed by more than language; None if languages are mixed, and nothing else."""
        if self.mix.is_flat and self.mix.own_level == LANG:
            return None
        return make_levels_config(self.mix, spell_plain)

    def _mix_identity(self) -> MixConfig:
        mix = self.mix
        if mix.strategy == "temperature":
            exponents = mix.exponents
            if mix.own_level != LANG:
                exponents = exponents._replace(density=Decimal(0))
            density_cap = spell_plain(exponents.density_cap) if exponents.density else "0"
            return TemperatureMix(
                mix.strategy, mix.unit, spell_plain(exponents.alpha), spell_plain(exponents.density), density_cap
            )
        if mix.strategy == "parity":
            alpha, density, cap = mix.exponents
            begins = spell_plain(alpha), spell_plain(density), spell_plain(cap) if density else "0"
            return ParityMix(mix.strategy, mix.unit, *begins, spell_plain(mix.target_premium), self.parallel_sha256)
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
            plugins=SHARD_FORMATS.find_versions(self.shards.formats),
            target_tokens=self.shards.target_tokens,
            by=self.shards.by,
            partition_by=self.shards.partition_by,
            bins={name: tuple(map(spell_plain, bounds)) for name, bounds in sorted(self.shards.bins.items())} or None,
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
            metadata=self.metadata_columns,
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
            over=mixture.over[0] if mixture.is_flat else "levels",
            formats=formats,
            plugins=SHARD_FORMATS.find_versions(formats),
            target_tokens=self.shards.target_tokens,
            compression=self.shards.compression,
            alpha=spell_plain(mixture.alpha) if mixture.strategy == "temperature" else "",
            weights=weights or None,
            tokens=mixture.tokens,
            max_epochs=spell_plain(mixture.max_epochs) if mixture.max_epochs is not None else "",
            dtype=self._find_dtype(formats),
            metadata=self.metadata_columns,
            kept=dict(self.kept_weights) if self.kept_weights is not None else None,
            levels=None if mixture.is_flat else make_levels_config(mixture, spell_plain),
            segments=self.kept_rows.segments if self.kept_rows is not None else None,
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
            plugins=SHARD_FORMATS.find_versions(formats),
            target_tokens=self.shards.target_tokens,
            compression=self.shards.compression,
            padding=pack.padding or "",
            dtype=self._find_dtype(formats),
            in_place_of=self.kept_rows.content_sha256 if self.kept_rows is not None else "",
        )


def name_rules(filters: Sequence[FilterTable]) -> tuple[FilterRule, ...]:
    """The rules of [[filter]], each with its name in ledgers.

    >>> [one.name for one in name_rules([FilterTable(keep="a"), FilterTable(keep="b"), FilterTable(rule="c4_quality")])]
    ['keep', 'keep-2', 'c4_quality']
    """
    kinds = (one.rule or ("ngram_overlap" if one.ngram_overlap is not None else "keep") for one in filters)
    names = _number_names(zip((one.name for one in filters), kinds, strict=True))
    return tuple(
        FilterRule(name, one.keep or "", one.rule or "", _spell_parameters(one), one.langs, _find_overlap(one))
        for name, one in zip(names, filters, strict=True)
    )


def spell_default(value: object) -> str:
    """A default of metadata as JSON; "" if there is none.

    >>> spell_default("en"), spell_default(Decimal("0.50")), spell_default(True), spell_default(None)
    ('"en"', '0.5', 'true', '')
    """
    if value is None:
        return ""
    return spell_plain(value) if isinstance(value, Decimal) else write_canonical_json(value).decode().strip()


def name_maps(maps: Sequence[MapTable], filters: Sequence[str] = ()) -> list[str]:
    """The name of each step of [[map]] in ledgers. filters: names of rules, which no step gets unless it is told to.

    >>> name_maps([MapTable(run="a:keep"), MapTable(run="b:keep"), MapTable(run="toy")])
    ['keep', 'keep-2', 'toy']
    >>> name_maps([MapTable(run="a:keep"), MapTable(run="toy")], ["keep", "keep-2"])
    ['keep-3', 'toy']
    """
    return _number_names(((one.name, one.run.rpartition(":")[2]) for one in maps), filters)


def _number_names(named: Iterable[tuple[str | None, str]], taken: Collection[str] = ()) -> list[str]:
    """Each name that is given, or else the one beside it, from the second of its kind on with a number."""
    names: list[str] = []
    num_of: dict[str, int] = {}
    for given, kind in named:
        name = kind
        while given is None:
            num_of[kind] = num_of.get(kind, 0) + 1
            name = f"{kind}-{num_of[kind]}" if num_of[kind] > 1 else kind
            if name not in taken:
                break
        names.append(given or name)
    return names


def _find_overlap(one: FilterTable) -> Overlap | None:
    overlap = one.ngram_overlap
    return Overlap(overlap.n, overlap.field, ()) if overlap is not None else None


def _spell_parameters(one: FilterTable) -> str:
    """The parameters that are not the rule's defaults, as canonical JSON; "" if all are."""
    defaults = RULES[one.rule].parameters() if one.rule else None
    told = {
        name: spell_plain(value) if isinstance(value, Decimal) else value
        for name, value in sorted(one.parameters.items())
        if (float(value) if isinstance(value, Decimal) else value) != getattr(defaults, name)
    }
    return write_canonical_json(told).decode().strip() if told else ""


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
