"""The build file: what a build reads, makes and writes. One frozen dataclass a table; defaults stand here and nowhere else.

Leaves to others: listing files (pipelines.plan) and what the settings mean (tokcore).
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import posixpath
import re
import tomllib
import types
import typing
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from schemas.toml_lines import line_of
from tokcore.errors import ConfigError
from tokcore.normalize import STEPS
from tokcore.patterns import PATTERNS
from tokcore.pretokenize import Pretokenizer

VERSION = 1

_LANG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")


def valid_lang(code: str) -> bool:
    """Whether a language code may be used; it becomes a file name.

    >>> valid_lang("zh-Hant"), valid_lang("../en")
    (True, False)
    """
    return _LANG.fullmatch(code) is not None


def _setting(default: Any, text: str) -> Any:
    if isinstance(default, (list, dict)):
        return dataclasses.field(default_factory=lambda: default, metadata={"text": text})
    return dataclasses.field(default=default, metadata={"text": text})


def _required(text: str) -> Any:
    return dataclasses.field(metadata={"text": text})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BuildTable:
    """[build]"""

    name: str = _setting("", "for people; changes no byte")
    output: str = _required("any fsspec URL; relative paths start at the build file's folder")
    seed: int = _setting(0, "of sampling and validation")
    max_rejected: Decimal = _setting(Decimal("0.001"), "share of the input above which the build fails; 1 = never")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """[[source]]"""

    lang: str | None = _setting(None, "language of all documents")
    lang_field: str | None = _setting(None, "or the field that holds each record's language")
    files: tuple[str, ...] = _required("URL, glob or list of them")
    format: Literal["jsonl", "parquet", "arrow", "text"] | None = _setting(None, "default: from the suffix")
    text: str = _setting("text", "field or column of the text")
    id: str | None = _setting(None, "field or column of the document's id")
    invalid_utf8: Literal["reject", "replace", "bytes"] = _setting("reject", "what becomes of invalid UTF-8")
    max_document_bytes: int = _setting(268_435_456, "a longer text is rejected")
    unit: Literal["file", "line", "paragraph"] | None = _setting(None, 'of format text: what a document is; "file"')
    separator: str | None = _setting(None, "of format text: or what stands between documents")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NormalizeTable:
    """[normalize]"""

    steps: tuple[str, ...] = _setting((), "nfc nfd nfkc nfkd lowercase strip_accents strip_controls strip_invisible")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PretokenizeTable:
    """[pretokenize]"""

    pattern: str = _setting("cl100k", "gpt2 cl100k cl100k-2023 o200k llama3 qwen2 nanochat")
    regex: str | None = _setting(None, "or a regular expression of your own, slower")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlanTable:
    """[plan]"""

    range_bytes: int = _setting(67_108_864, "size of an input range")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CountTable:
    """[count]"""

    max_pretoken_bytes: int = _setting(1024, "longer ones are cut at a character for counting; 0 keeps them whole")
    memory_bytes: int = _setting(536_870_912, "per worker; a table over it spills, nothing is dropped")
    sample: Decimal = _setting(Decimal(1), "share of documents counted, by hash of (seed, document key)")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MixTable:
    """[mix]"""

    strategy: Literal["temperature", "unimax", "natural", "weights"] = _setting(
        "temperature", "how languages are weighed"
    )
    alpha: Decimal = _setting(Decimal("0.3"), "of temperature: shares become share ** alpha")
    unit: Literal["bytes", "pretokens", "documents"] = _setting("bytes", "what a language's size is measured in")
    max_epochs: Decimal | None = _setting(None, "of unimax: most times that a language may be repeated")
    budget: int | None = _setting(None, "of unimax, in units; default: the size of the corpus")
    weights: Mapping[str, Decimal] = _setting({}, "of weights: language = factor on its counts; 1 where not named")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LearnTable:
    """[learn]"""

    model: Literal["bpe"] = _setting("bpe", "byte-level BPE")
    vocab_size: int = _setting(32768, "special tokens included; exact, or an error that says why")
    allow_smaller: bool = _setting(False, "accept fewer tokens if the counts give no more")
    min_count: int = _setting(2, "a pair whose weighted count, divided by the scale, is below it is not merged")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SpecialTable:
    """[special] "TEXT" = {...}, or just the role"""

    text: str
    role: Literal["document_end", "document_begin", "padding", "plain"] = _setting("plain", "what the token is for")
    id: int | None = _setting(None, "pins the id")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EncodeTable:
    """[encode]"""

    append: tuple[str, ...] = _setting((), "special tokens behind each document; default: those of role document_end")
    special_text: Literal["ordinary", "special", "reject"] = _setting(
        "ordinary", "what corpus text that spells a special token becomes; it is counted"
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShardsTable:
    """[shards]"""

    formats: tuple[Literal["arrow", "megatron"], ...] = _setting(("arrow", "megatron"), "what to write")
    target_tokens: int = _setting(10_000_000, "a shard ends with the document that reaches it")
    by: Literal["plan", "lang"] = _setting("plan", "one sequence of shards, or one per language")
    validation: Decimal = _setting(Decimal(0), "share of documents, by key, that go to shards of their own")
    compression: Literal["zstd", "lz4", "none"] = _setting("zstd", "of Arrow files")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerTable:
    """[tokenizer]: an existing one; no count, no learn"""

    from_: str = _required("tokcore.json, tokenizer.json or a tiktoken rank file")
    pattern: str | None = _setting(None, "of a rank file: the name of its pattern, or a regex")


# Table name -> (attribute, class). [[source]] and [special] hold several.
_TABLES: dict[str, tuple[str, type]] = {
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
    "tokenizer": ("tokenizer", TokenizerTable),
}


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
    special: tuple[SpecialTable, ...] = (SpecialTable(text="<|endoftext|>", role="document_end"),)
    encode: EncodeTable = EncodeTable(append=("<|endoftext|>",))
    shards: ShardsTable = ShardsTable()
    tokenizer: TokenizerTable | None = None

    def count_identity(self) -> dict[str, Any]:
        """The settings that can change count tables, besides the plan's."""
        counting = {
            "max_pretoken_bytes": self.count.max_pretoken_bytes,
            "sample": plain(self.count.sample),
        }
        if self.count.sample < 1:
            counting["seed"] = self.build.seed
        return {**counting, "normalize": list(self.normalize.steps), "pretokenize": self._pattern()}

    def learn_identity(self) -> dict[str, Any]:
        """The settings that can change the tokenizer."""
        if self.tokenizer is not None:
            return {"tokenizer": {"from": self.tokenizer.from_, "pattern": self.tokenizer.pattern}}
        mix: dict[str, Any] = {"strategy": self.mix.strategy, "unit": self.mix.unit}
        if self.mix.strategy == "temperature":
            mix["alpha"] = plain(self.mix.alpha)
        elif self.mix.strategy == "unimax":
            assert self.mix.max_epochs is not None
            mix |= {"max_epochs": plain(self.mix.max_epochs), "budget": self.mix.budget}
        elif self.mix.strategy == "weights":
            mix["weights"] = {lang: plain(weight) for lang, weight in sorted(self.mix.weights.items())}
        return {
            "mix": mix,
            "model": self.learn.model,
            "vocab_size": self.learn.vocab_size,
            "allow_smaller": self.learn.allow_smaller,
            "min_count": self.learn.min_count,
            "normalize": list(self.normalize.steps),
            "pretokenize": self._pattern(),
            "special": [{"text": t.text, "role": t.role, "id": t.id} for t in self.special],
        }

    def encode_identity(self) -> dict[str, Any]:
        """The settings that can change shards, besides the plan's and the tokenizer's."""
        shards = {
            "formats": sorted(self.shards.formats),
            "target_tokens": self.shards.target_tokens,
            "by": self.shards.by,
            "validation": plain(self.shards.validation),
            "compression": self.shards.compression,
            "append": list(self.encode.append),
            "special_text": self.encode.special_text,
        }
        if self.shards.validation:
            shards["seed"] = self.build.seed
        return shards

    def _pattern(self) -> dict[str, str]:
        return pretokenizer_of(self).spec


def pretokenizer_of(config: BuildConfig) -> Pretokenizer:
    """The build's split pattern: a named one, or the user's own."""
    own = config.pretokenize.regex
    return Pretokenizer.regex(own) if own is not None else Pretokenizer.named(config.pretokenize.pattern)


def plain(number: Decimal) -> str:
    """The shortest decimal spelling: equal numbers give equal text.

    >>> plain(Decimal("0.30")), plain(Decimal("1E+2"))
    ('0.3', '100')
    """
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


# ------------------------------------------------------------------------------------------------------------- parsing


def load_config(path: str) -> BuildConfig:
    """The build file at a local path. Raises ConfigError naming file, line, key, what was expected and found."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the build file: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: a build file is UTF-8; byte {error.start} is not") from error
    return parse_config(text, path)


def parse_config(text: str, path: str) -> BuildConfig:
    """The build file with this text; path says where it came from and where relative paths start."""
    try:
        raw = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from error
    return _Reader(text, path).read(raw)


class _Reader:
    """Reads one build file; knows where each key stands in it."""

    def __init__(self, text: str, path: str) -> None:
        self._text = text
        self._path = path

    def error(self, key: str, message: str) -> ConfigError:
        """key: dotted, e.g. source[1].files."""
        line = line_of(self._text, key)
        return ConfigError(f"{self._path}:{line}: {key} {message}" if line else f"{self._path}: {key} {message}")

    def read(self, raw: dict[str, Any]) -> BuildConfig:
        if "version" not in raw:
            raise self.error("version", f"is missing. Write `version = {VERSION}` at the top of the file.")
        version = raw.pop("version")
        if version != VERSION or type(version) is not int:
            raise self.error("version", f"= {_shown(version)}: this release of tokcore reads version {VERSION}.")
        self._known(raw, _TABLES, "")
        for required, example in (("build", "[build]"), ("source", "[[source]]")):
            if not raw.get(required):
                raise self.error(required, f"is missing. Add a table {example}.")
        values: dict[str, Any] = {}
        for name, value in raw.items():
            attribute, cls = _TABLES[name]
            if name == "source":
                values[attribute] = self._sources(value)
            elif name == "special":
                values[attribute] = self._special(value)
            else:
                values[attribute] = self._table(cls, value, name)
        special = values.get("special", BuildConfig.__dataclass_fields__["special"].default)
        if "append" not in raw.get("encode", {}):
            ends = tuple(t.text for t in special if t.role == "document_end")
            values["encode"] = dataclasses.replace(values.get("encode", EncodeTable()), append=ends)
        base = posixpath.dirname(self._path) if "://" in self._path else str(Path(self._path).absolute().parent)
        config = BuildConfig(path=self._path, base=base, **values)
        self._check(config, raw)
        return config

    def _sources(self, value: Any) -> tuple[Source, ...]:
        if not isinstance(value, list):
            raise self.error("source", "must be written as [[source]], with two brackets: there may be several.")
        sources = []
        for i, one in enumerate(value):
            key = f"source[{i}]"
            source = self._table(Source, one, key)
            if (source.lang is None) == (source.lang_field is None):
                found = "neither is there" if source.lang is None else "both are there"
                raise self.error(key, f'needs either lang = "..." or lang_field = "...": {found}.')
            if source.lang is not None and not valid_lang(source.lang):
                raise self.error(
                    f"{key}.lang",
                    f"= {_shown(source.lang)}: expected letters, digits, and . _ + - after the first of them, "
                    f"at most 64 in all; it becomes a file name.",
                )
            if not source.files:
                raise self.error(f"{key}.files", "is empty: name at least one file or glob.")
            if source.unit is not None and source.separator is not None:
                raise self.error(f"{key}.separator", "and unit exclude each other: remove one of them.")
            if source.separator == "":
                raise self.error(f"{key}.separator", "is empty: expected the text that stands between two documents.")
            formats = {source.format or (format_of(file) or ("",))[0] for file in source.files}
            for name in ("unit", "separator"):
                if getattr(source, name) is not None and formats & {"jsonl", "parquet", "arrow"}:
                    raise self.error(f"{key}.{name}", 'is for format = "text" only: remove it, or set the format.')
            self._at_least(source.max_document_bytes, 1, f"{key}.max_document_bytes")
            sources.append(source)
        return tuple(sources)

    def _special(self, value: Any) -> tuple[SpecialTable, ...]:
        if not isinstance(value, dict):
            raise self.error("special", 'must be a table: [special], then lines like "<|endoftext|>" = "document_end".')
        tokens = []
        pinned: dict[int, str] = {}
        for text, about in value.items():
            key = f'special."{text}"'
            if not text:
                raise self.error(key, "is empty: a special token needs a text.")
            fields = {"role": about} if isinstance(about, str) else about
            if not isinstance(fields, dict):
                raise self.error(key, f'= {_shown(about)}: expected a role or a table {{ role = "...", id = N }}.')
            self._known(fields, ("role", "id"), key)
            token = self._table(SpecialTable, {**fields, "text": text}, key)
            if token.id is not None:
                if not 256 <= token.id < 1 << 31:
                    raise self.error(
                        f"{key}.id", f"= {token.id}: expected at least 256 (smaller ids are bytes) and less than 2^31."
                    )
                if token.id in pinned:
                    raise self.error(f"{key}.id", f"= {token.id} is also the id of {_shown(pinned[token.id])}.")
                pinned[token.id] = text
            tokens.append(token)
        return tuple(tokens)

    def _table(self, cls: type, value: Any, key: str) -> Any:
        if not isinstance(value, dict):
            raise self.error(key, f"= {_shown(value)}: expected a table.")
        fields = {_toml_name(f.name): f for f in dataclasses.fields(cls)}
        self._known(value, fields, key)
        hints = typing.get_type_hints(cls)
        for name, field in fields.items():
            if name not in value and field.default is field.default_factory is dataclasses.MISSING:
                raise self.error(f"{key}.{name}", f"is missing: {field.metadata['text']}.")
        return cls(
            **{fields[n].name: self._value(hints[fields[n].name], item, f"{key}.{n}") for n, item in value.items()}
        )

    def _value(self, kind: Any, value: Any, key: str) -> Any:
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin in (typing.Union, types.UnionType):
            return self._value(next(a for a in arguments if a is not type(None)), value, key)
        if origin is Literal:
            if value not in arguments or not isinstance(value, str):
                raise self.error(key, f"= {_shown(value)}: expected {_one_of(arguments)}.{_nearest(value, arguments)}")
            return value
        if origin is tuple:
            items = [value] if isinstance(value, str) and arguments[0] is str and key.endswith(".files") else value
            if not isinstance(items, list):
                raise self.error(key, f"= {_shown(value)}: expected a list.")
            return tuple(self._value(arguments[0], item, key) for item in items)
        if origin is not None:  # Mapping[str, Decimal]
            if not isinstance(value, dict):
                raise self.error(key, f"= {_shown(value)}: expected a table of name = number.")
            return {name: self._value(arguments[1], item, f"{key}.{name}") for name, item in value.items()}
        if kind is Decimal and type(value) in (int, Decimal) and Decimal(value).is_finite():
            return Decimal(value)
        if kind in (str, int, bool) and type(value) is kind:
            return value
        names = {str: "a string", int: "a whole number", bool: "true or false", Decimal: "a number"}
        raise self.error(key, f"= {_shown(value)}: expected {names[kind]}.")

    def _known(self, found: Mapping[str, Any], known: Any, key: str) -> None:
        for name in found:
            if name not in known:
                full = f"{key}.{name}" if key else name
                raise self.error(full, f"is not a key of the build file.{_nearest(name, list(known))}")

    def _at_least(self, value: int, least: int, key: str) -> None:
        if value < least:
            raise self.error(key, f"= {value}: must be at least {least}.")

    def _check(self, config: BuildConfig, raw: Mapping[str, Any]) -> None:
        """What involves more than one value, or the range of one."""
        for key, share, low_in, high_in in (
            ("build.max_rejected", config.build.max_rejected, True, True),
            ("count.sample", config.count.sample, False, True),
            ("mix.alpha", config.mix.alpha, True, True),
            ("shards.validation", config.shards.validation, True, False),
        ):
            if not ((share >= 0 if low_in else share > 0) and (share <= 1 if high_in else share < 1)):
                low, high = "from 0" if low_in else "above 0", "to 1" if high_in else "to below 1"
                raise self.error(key, f"= {share}: expected a number {low} {high}.")
        if not 0 <= config.build.seed < 1 << 63:
            raise self.error("build.seed", f"= {config.build.seed}: expected a number from 0 to 2^63 - 1.")
        for key, value, least in (
            ("plan.range_bytes", config.plan.range_bytes, 1),
            ("count.memory_bytes", config.count.memory_bytes, 1 << 20),
            ("learn.min_count", config.learn.min_count, 0),
            ("shards.target_tokens", config.shards.target_tokens, 1),
        ):
            self._at_least(value, least, key)
        if 0 < config.count.max_pretoken_bytes < 16 or config.count.max_pretoken_bytes < 0:
            raise self.error(
                "count.max_pretoken_bytes",
                f"= {config.count.max_pretoken_bytes}: expected 0 (keep whole) or at least 16.",
            )
        self._check_patterns(config, raw)
        self._check_mix(config, raw)
        if len(set(config.shards.formats)) != len(config.shards.formats) or not config.shards.formats:
            raise self.error(
                "shards.formats", f"= {list(config.shards.formats)}: expected each format once, at least one."
            )
        if config.tokenizer is not None:
            for name in ("normalize", "pretokenize", "count", "mix", "learn", "special"):
                if name in raw:
                    raise self.error(name, "cannot be set beside [tokenizer]: an imported tokenizer brings its own.")
            return
        minimum = 256 + len(config.special)
        if config.learn.vocab_size < minimum:
            raise self.error(
                "learn.vocab_size",
                f"= {config.learn.vocab_size}: must be at least {minimum} "
                f"(256 byte tokens + {len(config.special)} special tokens). Raise vocab_size or remove special tokens.",
            )
        declared = [token.text for token in config.special]
        for text in config.encode.append:
            if text not in declared:
                raise self.error(
                    "encode.append", f"names {_shown(text)}, which is not in [special].{_nearest(text, declared)}"
                )

    def _check_patterns(self, config: BuildConfig, raw: Mapping[str, Any]) -> None:
        steps = config.normalize.steps
        for step in steps:
            if step not in STEPS:
                raise self.error(
                    "normalize.steps", f"names {_shown(step)}: expected {_one_of(STEPS)}.{_nearest(step, STEPS)}"
                )
        if len(set(steps)) != len(steps):
            raise self.error("normalize.steps", "names a step twice.")
        given = raw.get("pretokenize", {})
        if "pattern" in given and "regex" in given:
            raise self.error("pretokenize.regex", "and pattern exclude each other: remove one of them.")
        name = config.pretokenize.pattern
        if name not in PATTERNS:
            raise self.error(
                "pretokenize.pattern",
                f"= {_shown(name)}: expected {_one_of(PATTERNS)}, or use regex = '''...''' for one of your own."
                f"{_nearest(name, PATTERNS)}",
            )
        if config.pretokenize.regex is not None:
            try:
                Pretokenizer.regex(config.pretokenize.regex)
            except ConfigError as error:
                raise self.error("pretokenize.regex", f"cannot be used: {error}") from error

    def _check_mix(self, config: BuildConfig, raw: Mapping[str, Any]) -> None:
        mix, given = config.mix, raw.get("mix", {})
        belongs = {"alpha": "temperature", "max_epochs": "unimax", "budget": "unimax", "weights": "weights"}
        for name, strategy in belongs.items():
            if name in given and mix.strategy != strategy:
                raise self.error(f"mix.{name}", f'is for strategy = "{strategy}"; here it is "{mix.strategy}".')
        if mix.strategy == "unimax":
            if mix.max_epochs is None:
                raise self.error("mix.max_epochs", "is missing: unimax needs it, for example max_epochs = 4.")
            if mix.max_epochs <= 0:
                raise self.error("mix.max_epochs", f"= {mix.max_epochs}: must be above 0.")
            if mix.budget is not None:
                self._at_least(mix.budget, 1, "mix.budget")
        if mix.strategy == "weights" and not mix.weights:
            raise self.error("mix.weights", "is missing: add a table [mix.weights] with lines like en = 1.0.")
        for lang, weight in mix.weights.items():
            if weight <= 0:
                raise self.error(f"mix.weights.{lang}", f"= {weight}: must be above 0.")


def _toml_name(field: str) -> str:
    return field.rstrip("_")


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def _one_of(options: Any) -> str:
    return "one of " + ", ".join(map(str, options)) if len(options) > 1 else f'"{next(iter(options))}"'


def _nearest(value: Any, options: Any) -> str:
    close = difflib.get_close_matches(str(value), [str(o) for o in options], n=1, cutoff=0.5)
    return f" Did you mean {close[0]}?" if close else ""


# -------------------------------------------------------------------------------------------------------------- formats

_COMPRESSIONS = {".gz": "gz", ".gzip": "gz", ".zst": "zst", ".zstd": "zst"}
_FORMATS = {
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    ".parquet": "parquet",
    **dict.fromkeys((".arrow", ".arrows", ".ipc", ".feather"), "arrow"),
    **dict.fromkeys((".txt", ".text", ".md"), "text"),
}


def format_of(uri: str) -> tuple[str, str] | None:
    """(format, compression) that a file's name tells; ("", compression) if it tells no format, None if nothing at all.

    >>> format_of("a/b.jsonl.zst"), format_of("b.parquet"), format_of("notes")
    (('jsonl', 'zst'), ('parquet', 'none'), None)
    """
    stem, suffix = posixpath.splitext(uri.lower())
    compression = _COMPRESSIONS.get(suffix, "none")
    if compression != "none":
        suffix = posixpath.splitext(stem)[1]
    found = _FORMATS.get(suffix, "")
    return (found, compression) if found or compression != "none" else None


# ---------------------------------------------------------------------------------------------------------- JSON Schema


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the build file, for editors."""
    tables = {}
    for name, (_, cls) in _TABLES.items():
        table = _table_schema(cls)
        if name == "source":
            table = {"type": "array", "items": table, "minItems": 1}
        elif name == "special":
            table["properties"].pop("text")
            role = table["properties"]["role"]
            table = {"type": "object", "additionalProperties": {"anyOf": [{**role}, {**table, "required": []}]}}
        tables[name] = table
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tokcore build file",
        "type": "object",
        "properties": {"version": {"const": VERSION}, **tables},
        "required": ["version", "build", "source"],
        "additionalProperties": False,
    }


def _table_schema(cls: type) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    properties: dict[str, Any] = {}
    required = []
    for field in dataclasses.fields(cls):
        name = _toml_name(field.name)
        schema = _type_schema(hints[field.name], name)
        if text := field.metadata.get("text"):
            schema["description"] = text
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            required.append(name)
        elif isinstance(field.default, (str, int, Decimal)):
            schema["default"] = field.default if isinstance(field.default, (str, int)) else plain(field.default)
        properties[name] = schema
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _type_schema(kind: Any, name: str) -> dict[str, Any]:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _type_schema(next(a for a in arguments if a is not type(None)), name)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is tuple:
        many = {"type": "array", "items": _type_schema(arguments[0], name)}
        return {"anyOf": [{"type": "string"}, many]} if name == "files" else many
    if origin is not None:
        return {"type": "object", "additionalProperties": _type_schema(arguments[1], name)}
    return {"type": {str: "string", int: "integer", bool: "boolean", Decimal: "number"}[kind]}


def main() -> None:
    """Print the JSON Schema."""
    print(json.dumps(json_schema(), indent=1, sort_keys=True))


if __name__ == "__main__":
    main()
