"""A build file written in Python: what is given becomes the tables of a file, and is checked as those of a file are."""

from __future__ import annotations

import dataclasses
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from tokcore.errors import ConfigError
from tokcore_schemas import build_classes
from tokcore_schemas.build_classes import (
    BuildKeys,
    Count,
    Dedup,
    Encode,
    Engine,
    ExistingTokenizer,
    Filter,
    Learn,
    Map,
    Mask,
    Metadata,
    Mix,
    Mixture,
    Normalize,
    Pack,
    Plan,
    Pretokenize,
    Shards,
    Shuffle,
    Source,
    Special,
    Storage,
    Update,
    Watch,
)
from tokcore_schemas.build_tables import SEVERAL, TABLES, VERSION, BuildConfig, is_attributes
from tokcore_schemas.config import parse_config
from tokcore_schemas.generate_build_classes import name_class
from tokcore_schemas.toml_lines import quote_key, quote_text

NAME = "Build(...)"  # what messages say where a build file has its path
_EXACT_DIGITS = 15  # which a float holds, whatever they are


@dataclasses.dataclass(frozen=True, kw_only=True)
class Build(BuildKeys):
    """A build file: its own fields are the keys of [build], the others are its tables.

    What is not given is not set, as in a file. A key that is a word of Python ends with `_`: `from_`.

    >>> build = Build(output="out", sources=[Source(lang="en", files="en/*.jsonl")], learn=Learn(vocab_size=300))
    >>> print(build.to_toml())
    version = 1
    <BLANKLINE>
    [build]
    output = "out"
    <BLANKLINE>
    [[source]]
    lang = "en"
    files = "en/*.jsonl"
    <BLANKLINE>
    [learn]
    vocab_size = 300
    <BLANKLINE>
    >>> Build.from_toml(build.to_toml()) == build
    True
    """

    base: str | None = None  # where relative paths start, which no file says; not set: the current folder
    sources: Sequence[Source]
    metadata: Mapping[str, str | Metadata | Sequence[str] | Mapping[str, str | Sequence[str]]] | None = None
    maps: Sequence[Map] | None = None
    mask: Mask | None = None
    filters: Sequence[Filter] | None = None
    dedup: Dedup | None = None
    normalize: Normalize | None = None
    pretokenize: Pretokenize | None = None
    plan: Plan | None = None
    count: Count | None = None
    mix: Mix | None = None
    learn: Learn | None = None
    special: Mapping[str, str | Special] | None = None
    encode: Encode | None = None
    shards: Shards | None = None
    shuffle: Shuffle | None = None
    mixture: Mixture | None = None
    pack: Pack | None = None
    tokenizer: ExistingTokenizer | None = None
    storage: Storage | None = None
    engine: Engine | None = None
    update: Update | None = None
    watch: Watch | None = None

    def to_tables(self) -> dict[str, Any]:
        """What parsing its TOML gives: new dicts and lists, and numbers with a point as Decimal."""
        keys = BuildKeys(**{one.name: getattr(self, one.name) for one in dataclasses.fields(BuildKeys)})
        tables = {"build": keys, **{name: getattr(self, attribute) for name, (attribute, _) in _OTHERS.items()}}
        return {"version": VERSION, **{name: _make_plain(one) for name, one in tables.items() if one is not None}}

    def to_toml(self) -> str:
        """The text of a build file with these keys."""
        return "\n".join(_write_tables(self.to_tables()))

    def parse(self, assigned: Sequence[str] = ()) -> BuildConfig:
        """As parse_config. Raises ConfigError for a key that is missing or wrong."""
        return parse_config(self.to_tables(), os.path.join(self.base or "", NAME), assigned)  # noqa: PTH118 - or a URL

    @classmethod
    def from_toml(cls, text: str, path: str = "build.toml") -> Build:
        """What a build file sets. path: for messages. Raises ConfigError as parse_config."""
        parse_config(text, path)
        content = tomllib.loads(text, parse_float=_parse_float)
        tables = {
            attribute: _make_class(name, content[name]) for name, (attribute, _) in _OTHERS.items() if name in content
        }
        return cls(**content.get("build", {}), **tables)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Build:
        """The build file at a local path, whose folder becomes base. Raises as from_toml, and OSError."""
        text = Path(path).read_text("utf-8-sig")
        return dataclasses.replace(cls.from_toml(text, os.fspath(path)), base=str(Path(path).absolute().parent))


def spell_settings(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Settings as a command line spells them, KEY=VALUE each. A table is a dict, or the class of the table.

    >>> spell_settings({"learn": Learn(vocab_size=300), "mix": {"alpha": 0.5}, "learn.model": "bpe"})
    ('learn.vocab_size=300', 'mix.alpha=0.5', 'learn.model="bpe"')
    """
    spelled = []
    for name, value in settings.items():
        plain = _make_plain(value)
        inside = {f"{name}.{quote_key(key)}": one for key, one in plain.items()} if isinstance(plain, dict) else {}
        spelled += [f"{key}={write_value(one, (key,))}" for key, one in (inside or {name: plain}).items()]
    return tuple(spelled)


_OTHERS = {name: one for name, one in TABLES.items() if name != "build"}


def _make_plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        set_ = {one.name.rstrip("_"): getattr(value, one.name) for one in dataclasses.fields(value)}
        return {name: _make_plain(one) for name, one in set_.items() if one is not None}
    if isinstance(value, Mapping):
        return {name: _make_plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_make_plain(one) for one in value]
    if isinstance(value, float):
        return Decimal(repr(value))
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _make_class(name: str, table: Any) -> Any:
    """The class of a table that parse_config accepts."""
    cls = getattr(build_classes, name_class(name))
    if name in SEVERAL:
        return [cls(**one) for one in table]
    if name in ("special", "metadata"):
        return {
            text: one if isinstance(one, str) or (name == "metadata" and is_attributes(one)) else cls(**one)
            for text, one in table.items()
        }
    attributes = {one.name.rstrip("_"): one.name for one in dataclasses.fields(cls)}
    return cls(**{attributes[key]: value for key, value in table.items()})


def _parse_float(text: str) -> float | Decimal:
    """A float, unless it would be another number."""
    exact = Decimal(text)
    return exact if len(exact.as_tuple().digits) > _EXACT_DIGITS or Decimal(repr(float(text))) != exact else float(text)


def _write_tables(tables: Mapping[str, Any]) -> Iterator[str]:
    yield f"version = {tables['version']}"
    for name, table in tables.items():
        if name == "version":
            continue
        for one in table if name in SEVERAL else [table]:
            yield ""
            yield f"[[{name}]]" if name in SEVERAL else f"[{name}]"
            yield from (f"{quote_key(key)} = {write_value(value, (name, key))}" for key, value in one.items())
    yield ""


def write_value(value: Any, key: Sequence[str]) -> str:
    """A value as TOML spells it. key: for messages. Raises ConfigError for one that TOML does not have.

    >>> write_value({"web": Decimal("0.5"), "langs": ["en", True]}, ("mix",))
    '{ web = 0.5, langs = ["en", true] }'
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return quote_text(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Decimal) and value.is_finite():
        text = format(value, "f")
        return text if "." in text else f"{text}.0"
    if isinstance(value, list):
        return f"[{', '.join(write_value(one, key) for one in value)}]"
    if isinstance(value, dict):
        inside = (f"{quote_key(str(name))} = {write_value(one, key)}" for name, one in value.items())
        return f"{{ {', '.join(inside)} }}"
    raise ConfigError(f"{NAME}: {'.'.join(key)} = {value!r}: TOML has no such value")
