"""Rules of the build file beyond the type and limits of a single setting.

Everything that can be refused before any work starts is refused here.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence, Set
from decimal import Decimal
from typing import Any, cast

from tokcore.errors import ConfigError
from tokcore.formats.metadata import RESERVED as RESERVED_COLUMNS
from tokcore.formats.metadata import fits_integer
from tokcore.formats.partition_names import Partitioning
from tokcore.formats.shard_format import count_most_ids
from tokcore.learn import language_weights as mixing
from tokcore.models import DEFAULT_MODEL, MODELS, LearnOptions
from tokcore.models.model import find_pinned
from tokcore.plugins.map_step import MAPS
from tokcore.shards.format_table import SHARD_FORMATS
from tokcore.shards.partitions import find_fault
from tokcore.text.byte_alphabet import from_printable
from tokcore.text.pattern_presets import PRESETS
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.text.split_steps import StepList
from tokcore.tokenizer.tokenizer_spec import PLAIN, TokenizerSpec
from tokcore_schemas.build_tables import (
    DEFAULT_SPECIAL,
    END_OF_TEXT,
    RESERVED,
    BuildConfig,
    MixTable,
    MixtureTable,
    Source,
    SpecialTable,
    make_reserved,
    name_maps,
    spell_plain,
)
from tokcore_schemas.config_reader import BuildFile, show_value, suggest_nearest
from tokcore_schemas.dedup_checks import check_dedup
from tokcore_schemas.document import find_twins, is_valid_lang
from tokcore_schemas.draws import make_randomness
from tokcore_schemas.encodings import UTF8
from tokcore_schemas.expressions import parse_expression
from tokcore_schemas.field_path import has_each
from tokcore_schemas.field_template import is_template, parse_template
from tokcore_schemas.input_format import find_format
from tokcore_schemas.level_checks import check_distinct_languages, check_levels, find_item_fault
from tokcore_schemas.levels import LANG, settle_flat
from tokcore_schemas.mask_checks import check_mask
from tokcore_schemas.mixture_weights import find_weight_fault
from tokcore_schemas.padding import find_padding
from tokcore_schemas.plan import DUPLICATE, MASK_REASON
from tokcore_schemas.setting import list_settings

# Settings of [encode] -> the role of the tokens that they hold if they are not set.
_ROLES = {"prepend": "document_begin", "append": "document_end"}

# Tables about counting and learning, which an imported tokenizer replaces.
_OF_LEARNING = ("normalize", "pretokenize", "count", "mix", "learn", "special")

_MIN_CUT_BYTES = 16  # least count.max_pretoken_bytes: shorter parts would leave nothing to learn


def complete(config: BuildConfig, file: BuildFile) -> BuildConfig:
    """The config with defaults that depend on other settings filled in, and lists in the order that identities use."""
    config = dataclasses.replace(config, sources=tuple(map(_move_template, config.sources)))
    if config.tokenizer is None:
        config = _pad(_follow_model(config, file), file)
    config = dataclasses.replace(config, declares_special=file.has("special"))
    unset = {name: role for name, role in _ROLES.items() if not file.has("encode", name)}
    if _declares_special(config):
        texts: dict[str, Any] = {
            name: tuple(token.text for token in config.special if token.role == role) for name, role in unset.items()
        }
        config = dataclasses.replace(config, encode=dataclasses.replace(config.encode, **texts))
    else:
        config = dataclasses.replace(config, of_roles=tuple(unset))
    shards = dataclasses.replace(config.shards, formats=tuple(sorted(config.shards.formats)))
    pack = dataclasses.replace(config.pack, formats=tuple(sorted(config.pack.formats)))
    mixture = dataclasses.replace(config.mixture, formats=tuple(sorted(config.mixture.formats)))
    mixture, mix = settle_flat(mixture, shards.partition_by), settle_flat(config.mix, ())
    return dataclasses.replace(config, shards=shards, mix=mix, mixture=mixture, pack=pack)


def _move_template(source: Source) -> Source:
    """The source with a template of lang as its lang_field, which it is: no code of a language has a brace."""
    if source.lang is None or source.lang_field is not None or not is_template(source.lang):
        return source
    return dataclasses.replace(source, lang=None, lang_field=source.lang)


def _follow_model(config: BuildConfig, file: BuildFile) -> BuildConfig:
    """The config with what follows from the model where the file is silent."""
    model = MODELS[config.learn.model]
    if not file.has("pretokenize", "pattern"):
        config = dataclasses.replace(config, pretokenize=dataclasses.replace(config.pretokenize, pattern=model.pattern))
    if not file.has("normalize", "steps"):
        # In byte form no text is unknown: there is nothing to normalize away.
        steps = () if config.learns_bytes else model.normalizer
        config = dataclasses.replace(config, normalize=dataclasses.replace(config.normalize, steps=steps))
    of_layout = model.layouts.get(config.layout, {})
    own_special = dict(model.own_special)
    for text in config.learn.control_symbols if "control_symbols" in model.uses else ():
        own_special.setdefault(text, PLAIN)
    roles = {**own_special, **{text: token.role for text, token in of_layout.items()}}
    if not roles:
        return config
    silent = "document_end" in roles.values() and not file.content.get("special", {}).keys() - {RESERVED}
    declared = {token.text: token for token in config.special if not (silent and token in DEFAULT_SPECIAL)}
    for text, token in of_layout.items():
        if text in declared and declared[text].id not in (None, token.id):
            raise file.error(
                ("special", text, "id"),
                f'= {declared[text].id}: with learn.layout = "{config.layout}" it is {token.id}. Remove the id.',
            )
    pinned = {token.text: token.id for token in declared.values() if token.id is not None}
    pinned |= {text: token.id for text, token in of_layout.items()}
    ids = find_pinned(LearnOptions(vocab_size=0, pinned=pinned), own_special)
    own = []
    for text, role in roles.items():
        named = declared.pop(text, None)
        if named is not None and _says_role(file, text):
            role = named.role
        own.append(SpecialTable(text=text, role=cast("Any", role), id=ids[text]))
    return dataclasses.replace(config, special=(*own, *declared.values()))


def _pad(config: BuildConfig, file: BuildFile) -> BuildConfig:
    """The config with as many reserved tokens as bring the size of the vocabulary to a multiple."""
    learn = config.learn
    multiple = learn.pad_to_multiple_of
    if multiple is None:
        return config
    key = ("learn", "pad_to_multiple_of")
    if "vocab_size" not in MODELS[learn.model].uses:
        raise file.error(key, f"is for models whose size vocab_size says, and learn.model is {learn.model}: remove it.")
    for name in ("extend", "allow_smaller"):
        if getattr(learn, name):
            raise file.error(key, f"and {name} exclude each other: remove one of them.")
    missing = -config.vocab_sizes[-1] % multiple
    odd = [size for size in config.vocab_sizes if size % multiple]
    if odd and len(config.vocab_sizes) > 1:
        raise file.error(key, f"= {multiple}: of several vocab_size each must be a multiple, and {odd[0]} is none.")
    if not missing:
        return config
    special = (*config.special, *make_reserved(missing, config.special))
    return dataclasses.replace(
        config,
        special=special,
        learn=dataclasses.replace(learn, vocab_size=(config.vocab_sizes[-1] + missing,)),
    )


def _says_role(file: BuildFile, text: str) -> bool:
    about = file.content["special"][text]
    return isinstance(about, str) or "role" in about


def take_over_roles(spec: TokenizerSpec, config: BuildConfig) -> BuildConfig:
    """The config with what follows from the roles of the imported tokenizer, if it names any."""
    if all(token.role == PLAIN for token in spec.special):
        return config
    texts: dict[str, Any] = {name: spec.texts_of(_ROLES[name]) for name in config.of_roles}
    return dataclasses.replace(config, encode=dataclasses.replace(config.encode, **texts))


def check(config: BuildConfig, file: BuildFile) -> None:
    """Raise ConfigError for the first broken rule."""
    _check_empty_tables(file)
    for number, source in enumerate(config.sources):
        _check_source(source, number, file)
    _check_metadata(config, file)
    _check_maps(config, file)
    check_mask(config, file, _declares_special(config))
    check_dedup(config, file)
    _check_filters(config, file)
    _check_groups(config, file)
    _check_languages(config, file)
    if config.tokenizer is not None:
        _check_imported(config, file)
    else:
        _check_pattern(config, file)
        _check_count(config, file)
        _check_mix(config, file)
        _check_extend(config, file)
        _check_end_of_word(config, file)
    if _declares_special(config):
        _check_special(config, file)
        _check_added(config, file)
    if config.tokenizer is None:
        _check_vocabulary(config, file)
    if _declares_special(config):
        _check_end(config, file)
    _check_draws(config, file)
    _check_dtype(config, file)
    _check_target_tokens(config, file)
    _check_partitions(config, file)
    _check_mixture(config, file)
    _check_pack(config, file)


def _check_empty_tables(file: BuildFile) -> None:
    for name, line in (("shuffle", "seed = 7"), ("pack", "length = 4096")):
        if file.content.get(name) == {}:
            raise file.error((name,), f"is empty, so it does nothing: add, for example, {line}, or remove the table.")


def _declares_special(config: BuildConfig) -> bool:
    """Whether special tokens come from [special].

    A tokenizer that is imported or extended brings its own, unless it is a rank file or GPT-2's pair of files.
    """
    if config.tokenizer is not None:
        return config.tokenizer.pattern is not None
    return config.learn.extend is None


def _check_source(source: Source, number: int, file: BuildFile) -> None:
    key = ("source", number)
    if (source.lang is None) == (source.lang_field is None):
        found = "neither is there" if source.lang is None else "both are there"
        raise file.error(key, f'needs either lang = "..." or lang_field = "...": {found}.')
    if source.lang is not None and not is_valid_lang(source.lang):
        raise file.error(
            (*key, "lang"),
            f"= {show_value(source.lang)}: expected a letter or digit, then letters, digits and . _ + -, "
            f"at most 64 in all: it becomes a file name.",
        )
    if source.unit is not None and source.separator is not None:
        raise file.error((*key, "separator"), "and unit exclude each other: remove one of them.")
    formats = {source.format or (find_format(uri) or ("",))[0] for uri in source.files}
    changed = _list_changed(source)
    _check_options(source, formats, key, file)
    if formats == {"text"}:
        for name in [name for name in changed if name in ("text", "id", "group")]:
            raise file.error((*key, name), "names a field, and text files have none: remove it.")
    if formats == {"warc"} and "text" in changed:
        raise file.error((*key, "text"), "names a field, and the text of a WARC record is its payload: remove it.")
    if source.group is not None and source.validation:
        raise file.error((*key, "group"), "and validation = true exclude each other: remove one of them.")
    _check_templates(source, key, file)
    if source.lang_map is not None and source.lang_field is None:
        raise file.error(
            (*key, "lang_map"), "is for the languages that lang_field finds: remove it, or set lang_field."
        )
    for spelled, lang in (source.lang_map or {}).items():
        if not is_valid_lang(lang):
            raise file.error(
                (*key, "lang_map", spelled),
                f"= {show_value(lang)}: expected a letter or digit, then letters, digits and . _ + -.",
            )
    for name in ("id", "lang_field", "group"):
        if has_each(getattr(source, name) or ""):
            raise file.error((*key, name), "leads to several values with [*], and a document has one: name one field.")
    if "text" in formats and source.lang_field is not None:
        raise file.error((*key, "lang_field"), 'names a field, and text files have none: use lang = "...".')


def _check_templates(source: Source, key: tuple[str, int], file: BuildFile) -> None:
    for name in ("text", "id", "lang_field", "group"):
        value = getattr(source, name)
        if value is not None and is_template(value):
            place = (*key, name) if file.has_at((*key, name)) else (*key, "lang")
            try:
                parts = parse_template(value).parts
            except ValueError as error:
                raise file.error(place, f"= {show_value(value)}: {error}.") from error
            if name != "text" and all(part.is_optional for part in parts):
                raise file.error(
                    place, f"= {show_value(value)}: each field may be missing, and a document has one: remove a `?`."
                )


# Settings of a source -> the formats that use them, and how to name these.
_OF_FORMATS = {
    "unit": (("text",), "text files"),
    "separator": (("text",), "text files"),
    "delimiter": (("csv", "tsv"), "csv and tsv files"),
    "quotes": (("csv", "tsv"), "csv and tsv files"),
    "encoding": (("jsonl", "csv", "tsv", "text"), "jsonl, csv, tsv and text files"),
}


def _check_options(source: Source, formats: Set[str | None], key: tuple[str, int], file: BuildFile) -> None:
    """Settings for some formats. formats: those of the source's files as far as their names tell; "" or None if not."""
    changed = _list_changed(source)
    for name, (used_by, whose) in _OF_FORMATS.items():
        if name in changed and not formats & {*used_by, "", None}:
            advice = f', or set format = "{used_by[0]}"' if "text" in used_by or "csv" in used_by else ""
            raise file.error((*key, name), f"is for {whose}: remove it{advice}.")
    delimiter = source.delimiter
    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n'):
        raise file.error(
            (*key, "delimiter"),
            f"= {show_value(delimiter)}: expected one ASCII character that is neither a quote nor a line break.",
        )
    if source.encoding != UTF8 and source.invalid_utf8 == "bytes":
        raise file.error(
            (*key, "invalid_utf8"),
            f'= "bytes" keeps the bytes of UTF-8 files, and encoding = "{source.encoding}" changes them: '
            f'write "reject" or "replace".',
        )


def _check_metadata(config: BuildConfig, file: BuildFile) -> None:
    for name in (*config.shards.formats, *config.mixture.formats) if config.metadata else ():
        if SHARD_FORMATS[name].has_columns and not SHARD_FORMATS[name].holds_metadata:
            raise file.error(("metadata",), f"has no place in the format {name}: leave one of the two out.")
    for one in config.metadata:
        key = ("metadata", one.name)
        if not one.name or one.name in RESERVED_COLUMNS:
            raise file.error(key, "is a column that shards have already: choose another name for the field.")
        if has_each(one.name) or is_template(one.name):
            raise file.error(key, "must name one field, or a path to one, as about.quality.")
        if one.default is None:
            continue
        if not _fits(one.default, one.type):
            raise file.error((*key, "default"), f"= {show_value(one.default)}: expected a value of type {one.type}.")


def _fits(value: object, kind: str) -> bool:
    """Whether a default is of a type of metadata."""
    if kind == "string" or isinstance(value, str):
        return kind == "string" and isinstance(value, str)
    if kind == "bool" or isinstance(value, bool):
        return kind == "bool" and isinstance(value, bool)
    assert isinstance(value, int | Decimal)
    return not kind.startswith("int") or (value == int(value) and fits_integer(int(value), kind))


_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def _check_maps(config: BuildConfig, file: BuildFile) -> None:
    names: dict[str, str] = {rule.name: f"filter[{number}]" for number, rule in enumerate(config.filter_rules)}
    for number, (table, name) in enumerate(zip(config.maps, name_maps(config.maps, [*names]), strict=True)):
        key = ("map", number)
        if _FUNCTION.fullmatch(table.run) is None and table.run not in MAPS.list_others():
            others = f", or one of {', '.join(MAPS.list_others())}" if MAPS.list_others() else ""
            raise file.error(
                (*key, "run"), f"= {show_value(table.run)}: expected MODULE:FUNCTION, as my_package.clean:keep{others}."
            )
        if not is_valid_lang(name):
            raise file.error((*key, "name"), f"= {show_value(name)}: expected letters, digits and . _ + -.")
        if names.setdefault(name, f"map[{number}]") != f"map[{number}]":
            raise file.error(
                (*key, "name"), f"= {show_value(name)}: {names[name]} is called so, too. Give one another name."
            )


def _check_filters(config: BuildConfig, file: BuildFile) -> None:
    spans = config.mask.spans
    numbers = {(field.name, field.kind) for field in config.compared_fields}
    kinds: dict[str, tuple[str, str]] = {one.name: (one.kind, "metadata") for one in config.metadata_fields}
    if spans in kinds:
        raise file.error(("metadata", spans), "cannot be carried along: it holds the spans of [mask].")
    for name, (kind, _) in kinds.items():
        if (name, "number") in numbers and kind != "number":
            raise file.error(("metadata", name), f"is a {kind}, and dedup.prefer has it as a number.")
    names: dict[str, int] = {}
    for number, (table, rule) in enumerate(zip(config.filters, config.filter_rules, strict=True)):
        key = ("filter", number)
        num_told = sum(one is not None for one in (table.keep, table.rule, table.ngram_overlap))
        if num_told != 1:
            found = "neither is there" if not num_told else "both are there" if num_told == 2 else "all are there"
            raise file.error(key, f'needs either keep = "..." or rule = "..." or ngram_overlap = {{...}}: {found}.')
        if table.ngram_overlap is not None and is_template(table.ngram_overlap.field):
            try:
                parse_template(table.ngram_overlap.field)
            except ValueError as error:
                where = (*key, "ngram_overlap", "field")
                raise file.error(where, f"= {show_value(table.ngram_overlap.field)}: {error}.") from error
        if not is_valid_lang(rule.name):
            raise file.error((*key, "name"), f"= {show_value(rule.name)}: expected letters, digits and . _ + -.")
        if names.setdefault(rule.name, number) != number:
            raise file.error(
                (*key, "name"),
                f"= {show_value(rule.name)}: filter[{names[rule.name]}] is called so, too. Give one another name.",
            )
        if rule.name == MASK_REASON and config.mask_rule is not None:
            raise file.error((*key, "name"), f"= {show_value(rule.name)}: ledgers call [mask] so.")
        if rule.name == DUPLICATE and config.dedup.by is not None:
            raise file.error((*key, "name"), f"= {show_value(rule.name)}: ledgers call what [dedup] drops so.")
        if table.keep is None:
            continue
        try:
            fields = parse_expression(table.keep).fields
        except ValueError as error:
            raise file.error((*key, "keep"), f"= {show_value(table.keep)}: {error}.") from error
        for name, kind in fields.items():
            if kind == "any":
                continue
            if name == spans:
                raise file.error((*key, "keep"), f"compares {name}, which holds the spans of [mask].")
            if (name, "number") in numbers and kind != "number":
                raise file.error((*key, "keep"), f"compares {name} as a {kind}, and dedup.prefer as a number.")
            known, place = kinds.setdefault(name, (kind, f"filter[{number}]"))
            if known != kind:
                raise file.error((*key, "keep"), f"compares {name} as a {kind}, and {place} has it as a {known}.")


def _check_groups(config: BuildConfig, file: BuildFile) -> None:
    for number, source in enumerate(config.sources):
        if source.group is not None and not config.shards.validation:
            raise file.error(
                ("source", number, "group"),
                "decides which documents are for validation, and none are: add, for example, shards.validation = 0.01.",
            )


def _check_languages(config: BuildConfig, file: BuildFile) -> None:
    if config.build.lang_normalize != "none":  # if it is not set, the output decides (tokcore_pipelines.build)
        return
    langs = [source.lang for source in config.sources]
    if (found := find_twins(filter(None, langs))) is not None:
        first, second = sorted(map(langs.index, found))
        raise file.error(
            ("source", second, "lang"),
            f"= {show_value(langs[second])}: differs from {show_value(langs[first])} in case only, and languages "
            f"name files: spell the two alike, choose another code, or remove build.lang_normalize.",
        )


def _check_imported(config: BuildConfig, file: BuildFile) -> None:
    assert config.tokenizer is not None
    for name in _OF_LEARNING:
        # [special] stands beside rank files and vocab.json; only who reads the file knows what it is.
        if file.has(name) and name != "special":
            raise file.error((name,), "cannot stand beside [tokenizer], which brings its own: remove one of the two.")
    if type(file.content.get("special", {}).get(RESERVED)) is int:
        raise file.error(("special", RESERVED), "cannot stand beside [tokenizer], whose ids stay: remove it.")
    if config.encode.vocab_size is not None:
        raise file.error(("encode", "vocab_size"), "chooses among tokenizers of [learn], and [tokenizer] names one.")
    if config.tokenizer.pattern is not None:
        try:
            Pretokenizer.of(config.tokenizer.pattern)
        except ConfigError as error:
            raise file.error(("tokenizer", "pattern"), f"cannot be used: {error}") from error


def _check_extend(config: BuildConfig, file: BuildFile) -> None:
    if config.learn.extend is None:
        return
    if config.learn.model != DEFAULT_MODEL:
        raise file.error(
            ("learn", "extend"),
            f"is for {DEFAULT_MODEL}, whose merges can go on, and learn.model is {config.learn.model}: remove the "
            f"setting.",
        )
    for name in ("normalize", "pretokenize", "special"):
        if file.has(name):
            raise file.error((name,), "cannot stand beside learn.extend, whose tokenizer brings its own: remove it.")


def _check_end_of_word(config: BuildConfig, file: BuildFile) -> None:
    key = ("learn", "end_of_word")
    if config.learn.end_of_word is None:
        return
    if not config.end_of_word:
        raise file.error(key, f"is for {DEFAULT_MODEL}, and learn.model is {config.learn.model}: remove the setting.")
    if config.learn.extend is not None:
        raise file.error(key, "and extend exclude each other: the words of a tokenizer that is there have no ends.")
    if config.encode.dropout:
        raise file.error(key, "and encode.dropout exclude each other: remove one of them.")


def _check_pattern(config: BuildConfig, file: BuildFile) -> None:
    model = MODELS[config.learn.model]
    is_own = config.pretokenize.regex is not None or config.pretokenize.pattern == model.pattern
    if model.marks_spaces and not model.splits_by_any and not is_own:
        raise file.error(
            ("pretokenize", "pattern"),
            f"= {show_value(config.pretokenize.pattern)}: the model {config.learn.model} splits text by "
            f"{model.pattern}. Write that, remove the setting, or count other pieces of text with pretokenize.regex.",
        )
    if config.pretokenize.steps is not None or "steps" in PRESETS.get(config.pretokenize.pattern, {}):
        _check_steps(config, file)
    if config.pretokenize.regex is None:
        return
    if file.has("pretokenize", "pattern"):
        raise file.error(("pretokenize", "regex"), "and pattern exclude each other: remove one of them.")
    try:
        Pretokenizer.regex(config.pretokenize.regex)
    except ConfigError as error:
        raise file.error(("pretokenize", "regex"), f"cannot be used: {error}") from error


def _check_steps(config: BuildConfig, file: BuildFile) -> None:
    is_preset = config.pretokenize.steps is None
    place = ("pretokenize", "pattern" if is_preset else "steps")
    for other in ("regex",) if is_preset else ("pattern", "regex"):
        if file.has("pretokenize", other):
            raise file.error(place, f"and {other} exclude each other: remove one of them.")
    if config.learn.model != DEFAULT_MODEL:
        named = f"= {show_value(config.pretokenize.pattern)}: " if is_preset else ""
        raise file.error(place, f"{named}is for {DEFAULT_MODEL}, and learn.model is {config.learn.model}: use regex.")
    if is_preset:
        return
    try:
        listed = StepList.from_text(str(config.pretokenize.steps))
    except ConfigError as error:
        raise file.error(place, f"cannot be used: {error}") from error
    if not listed.is_bytewise:
        raise file.error(place, 'has no ByteLevel: tokens are bytes. Write {"type": "ByteLevel", ...} as last step.')
    if config.count.mask and not listed.keeps_text:
        raise file.error(place, "change the text, so that spans of count.mask would be elsewhere: remove one of them.")


def _check_count(config: BuildConfig, file: BuildFile) -> None:
    size = config.count.max_pretoken_bytes
    if 0 < size < _MIN_CUT_BYTES:
        raise file.error(
            ("count", "max_pretoken_bytes"), f"= {size}: expected at least {_MIN_CUT_BYTES}, or 0 to keep them whole."
        )


def _check_mix(config: BuildConfig, file: BuildFile) -> None:
    mix = config.mix
    _check_strategy("mix", mix, file)
    check_levels(config, "mix", file)
    if mix.own_level != LANG:
        for name in ("density", "density_cap", "preset"):
            if name in _list_changed(mix):
                raise file.error(("mix", name), f"is for languages, and mix.over lacks lang: remove {name}.")
    if mix.preset is not None:
        for name in mixing.Temperature._fields:
            if getattr(mix, name) != getattr(mixing.DEFAULT, name):
                raise file.error(("mix", name), f'is set, and mix.preset = "{mix.preset}" sets it, too: remove one.')
    if mix.strategy == "unimax":
        if mix.max_epochs is None:
            raise file.error(("mix", "max_epochs"), "is missing: unimax needs it, for example max_epochs = 4.")
        if mix.max_epochs < 1 and mix.budget is None:
            raise file.error(
                ("mix", "max_epochs"),
                f"= {mix.max_epochs}: expected at least 1, as a budget of the whole corpus cannot be filled with less. "
                f"Raise it, or set a smaller mix.budget.",
            )
    if mix.strategy == "weights":
        _check_weights(config, file)
    if mix.strategy == "parity":
        _check_parity(config, file)


def _check_parity(config: BuildConfig, file: BuildFile) -> None:
    if config.mix.parallel is None:
        raise file.error(
            ("mix", "parallel"),
            'is missing: parity needs the same sentences in several languages: parallel = "flores".',
        )
    if not MODELS[config.learn.model].follows_premium:
        able = " and ".join(name for name, model in MODELS.items() if model.follows_premium)
        raise file.error(
            ("mix", "strategy"), f'= "parity": is for {able}, and learn.model is {config.learn.model}: change one.'
        )
    if config.mix_levels is not None:
        raise file.error(
            ("mix", "over"),
            'mixes by more than languages, and strategy = "parity" moves the weights of these: change one.',
        )
    if len(config.vocab_sizes) > 1:
        raise file.error(
            ("learn", "vocab_size"),
            'is a list, and with mix.strategy = "parity" weights follow from one size: build each size by itself.',
        )


def _list_changed(table: Any) -> list[str]:
    """The settings that are not the default; one that is spelled out does no harm."""
    return [name for name, one in list_settings(type(table)).items() if getattr(table, one.attribute) != one.default]


def _check_strategy(name: str, table: MixTable | MixtureTable, file: BuildFile) -> None:
    for setting in _list_changed(table):
        strategies = list_settings(type(table))[setting].limits.strategies
        if strategies and table.strategy not in strategies:
            raise file.error(
                (name, setting),
                f'is for strategy = "{strategies[0]}", and the strategy is "{table.strategy}": change one of the two.',
            )


def _check_unused(name: str, table: Any, what: str, example: str, file: BuildFile) -> None:
    """Raise ConfigError for a setting of a table that does nothing, since the key of the example is not set."""
    for setting in _list_changed(table):
        missing = f"{name}.{example.partition(' ')[0]}"
        raise file.error((name, setting), f"is for {what}, and {missing} is not set: add, for example, {example}.")


def _check_weights(config: BuildConfig, file: BuildFile) -> None:
    weights, level = config.mix.weights, config.mix.own_level
    if not weights:
        raise file.error(("mix", "weights"), "is missing: add a table [mix.weights] with lines like en = 1.5.")
    if level == LANG:
        check_distinct_languages(config, ("mix", "weights"), weights, file)
    if (fault := find_item_fault(config, level, weights, config.mix.groups)) is not None:
        raise file.error(("mix", "weights", fault.name), fault.what)


def _check_special(config: BuildConfig, file: BuildFile) -> None:
    pinned: dict[int, str] = {}
    for token in config.special:
        key = ("special", token.text)
        if not token.text:
            raise file.error(key, "is empty: a special token needs a text.")
        if token.text in MODELS[config.learn.model].layouts.get(config.layout, {}):
            continue
        if any(name is not None and len(name) == 1 for name in (token.text.encode(), from_printable(token.text))):
            raise file.error(key, "is the name of a byte's token in vocabulary files: choose a text like <|...|>.")
        if token.id is None:
            continue
        if token.id in pinned:
            raise file.error(
                (*key, "id"), f"= {token.id}: already the id of {show_value(pinned[token.id])}; pin another."
            )
        pinned[token.id] = token.text


def _check_added(config: BuildConfig, file: BuildFile) -> None:
    declared = [token.text for token in config.special]
    for name in _ROLES:
        for text in getattr(config.encode, name):
            if text not in declared:
                raise file.error(
                    ("encode", name),
                    f"names {show_value(text)}, which [special] does not declare. Add it there, or remove it here."
                    f"{suggest_nearest(text, declared)}",
                )


def _check_end(config: BuildConfig, file: BuildFile) -> None:
    if config.special and not config.encode.append and not file.has("encode", "append"):
        raise file.error(
            ("special",),
            f"has no token of role document_end, so nothing would mark the end of a document: "
            f'add a line {show_value(END_OF_TEXT)} = "document_end", or write append = [] in [encode] '
            f"if that is meant.",
        )


def _check_vocabulary(config: BuildConfig, file: BuildFile) -> None:
    model = MODELS[config.learn.model]
    if model.layouts and config.layout not in model.layouts:
        raise file.error(
            ("learn", "layout"),
            f"= {show_value(config.layout)}: the model {config.learn.model} has the layouts "
            f"{', '.join(filter(None, model.layouts))}. Change one of the two, or remove the layout.",
        )
    num_special = len(config.special)
    for size in config.vocab_sizes:
        options = LearnOptions(
            vocab_size=size,
            num_special=num_special,
            max_token_bytes=config.learn.max_token_bytes,
            end_of_word=config.end_of_word,
            pieces=config.piece_options,
        )
        if (wrong := model.wrong_option(options)) is not None:
            name, why = wrong
            raise file.error(("learn", name), why)
    _check_chosen_size(config, file)
    if model.own_special or config.layout:
        return  # special tokens may have any id
    # If allow_smaller is set there may be fewer tokens; ids that are wrong in any case are refused now.
    size = config.vocab_sizes[-1]
    first = size - num_special
    for token in config.special:
        if token.id is not None and token.id < first:
            raise file.error(
                ("special", token.text, "id"),
                f"= {token.id}: ids below {first} belong to ordinary tokens (learn.vocab_size = {size}, "
                f"{num_special} of them special tokens). Pin {first} or above, or lower vocab_size.",
            )


def _check_chosen_size(config: BuildConfig, file: BuildFile) -> None:
    every, sizes, model = config.encode.vocab_size or (), config.vocab_sizes, MODELS[config.learn.model]
    if "vocab_size" not in model.uses:
        return
    if len(every) > 1:
        _check_several(config, file)
    chosen = next((size for size in every if size not in sizes), None)
    if chosen is None:
        return
    found = f"expected one of {', '.join(map(str, sizes))}" if len(sizes) > 1 else f"the one size is {sizes[0]}"
    raise file.error(
        ("encode", "vocab_size"), f"= {chosen}: {found} (learn.vocab_size). Add it to that list, or remove it here."
    )


def _check_several(config: BuildConfig, file: BuildFile) -> None:
    key = ("encode", "vocab_size")
    if config.end_of_word:
        raise file.error(key, "is a list, and learn.end_of_word excludes that: name one size.")
    if not MODELS[config.learn.model].is_taken_apart:
        raise file.error(
            key,
            f"is a list: ids under fewer tokens follow from those under all of byte-level BPE alone, and learn.model "
            f"is {config.learn.model}. Name one size, and build the others for themselves.",
        )
    for is_set, other in ((config.draws, "dropout or sampling"), (config.learn.extend, "learn.extend")):
        if is_set:
            raise file.error(key, f"is a list, and {other} excludes that: name one size.")


def _check_draws(config: BuildConfig, file: BuildFile) -> None:
    if config.encode.dropout and config.encode.sampling:
        raise file.error(("encode", "sampling"), "and dropout exclude each other: remove one of them.")
    if config.tokenizer is not None:
        return  # see check_draws_of
    model = MODELS[config.learn.model]
    for name in ("dropout", "sampling"):
        if getattr(config.encode, name) and model.drawn_by != name:
            models = ", ".join(one for one, of in MODELS.items() if of.drawn_by == name)
            raise file.error(
                ("encode", name), f"is for {models}, and learn.model is {config.learn.model}: remove the setting."
            )
        if getattr(config.encode, name) and config.learns_bytes:
            raise file.error(
                ("encode", name),
                f"is for text that is split by {model.pattern}, and pretokenize.pattern is "
                f"{config.pretokenize.pattern}: remove one of the two.",
            )


def check_draws_of(spec: TokenizerSpec, config: BuildConfig) -> None:
    """Raise ConfigError if ids of the imported tokenizer cannot be drawn as the build file says."""
    if not config.draws:
        return
    name = "dropout" if config.encode.dropout else "sampling"
    try:
        randomness = make_randomness(config.encode_identity())
        assert randomness is not None
        randomness.check(spec.model)
    except ConfigError as error:
        raise ConfigError(f"{config.at('encode', name)}: {error}. Remove the setting.") from error


def _check_dtype(config: BuildConfig, file: BuildFile) -> None:
    dtype = config.shards.dtype
    choosing = [name for name, one in SHARD_FORMATS.items() if dtype in one.dtypes]
    written = {*config.shards.formats, *config.mixture.formats, *config.pack.formats}
    if "dtype" in _list_changed(config.shards) and not {*choosing} & written:
        raise file.error(
            ("shards", "dtype"),
            f"= {show_value(dtype)}: is for {', '.join(choosing)}, and shards.formats names none of them. "
            f"Add one there, or remove the setting.",
        )
    if config.tokenizer is None:
        holds = f"shards.dtype = {show_value(dtype)} holds ids below {count_most_ids(dtype)}"
        limit = f'{holds}. Lower it, or write dtype = "int32".'
        for token in config.special:
            if token.id is not None and token.id >= count_most_ids(dtype):
                raise file.error(("special", token.text, "id"), f"= {token.id}: {limit}")
        if config.vocab_size > count_most_ids(dtype):
            key = ("learn", "vocab_size") if config.encode.vocab_size is None else ("encode", "vocab_size")
            raise file.error(key, f"= {config.vocab_size}: {limit}")


def _check_target_tokens(config: BuildConfig, file: BuildFile) -> None:
    for name, limit in _list_exceeded(config, config.shards.formats):
        raise file.error(
            ("shards", "target_tokens"),
            f"= {config.shards.target_tokens}: expected at most {limit} for the format {name}, which cannot count "
            f"more in one file.",
        )


def _list_exceeded(config: BuildConfig, formats: Sequence[str]) -> list[tuple[str, int]]:
    """(name, the most ids of a file) of each format whose files cannot hold shards.target_tokens."""
    limits = ((name, SHARD_FORMATS[name].most_tokens) for name in formats)
    return [(name, limit) for name, limit in limits if limit is not None and config.shards.target_tokens > limit]


def _check_partitions(config: BuildConfig, file: BuildFile) -> None:
    by = config.shards.partition_by
    if by and config.shards.by == "lang":
        raise file.error(("shards", "by"), '= "lang": partition_by is there, too. Remove by, and put "lang" there.')
    bins = {name: tuple(map(spell_plain, bounds)) for name, bounds in config.shards.bins.items()}
    if (fault := find_fault(Partitioning(by, bins), config.metadata_columns)) is not None:
        raise file.error(("shards", *fault.key), f"{fault.what}.")


def _check_mixture(config: BuildConfig, file: BuildFile) -> None:
    mixture = config.mixture
    if mixture.strategy is None:
        _check_unused("mixture", mixture, "a mixture", 'strategy = "temperature"', file)
        return
    _check_strategy("mixture", mixture, file)
    if config.shuffle.seed is None:
        raise file.error(
            ("mixture", "strategy"),
            "needs a shuffle, which keeps documents that come again apart: add seed = 0 to [shuffle].",
        )
    if mixture.strategy == "unimax" and mixture.max_epochs is None:
        raise file.error(("mixture", "max_epochs"), "is missing: unimax needs it, for example max_epochs = 4.")
    check_levels(config, "mixture", file)
    if mixture.strategy == "weights":
        _check_mixture_weights(config, file)
    _check_formats(config, mixture.formats, ("mixture", "formats"), file)


def _check_mixture_weights(config: BuildConfig, file: BuildFile) -> None:
    weights = config.mixture.weights
    if bool(weights) == (config.mixture.weights_file is not None):
        if weights:
            raise file.error(("mixture", "weights_file"), "and weights exclude each other: remove one of them.")
        raise file.error(("mixture", "weights"), "is missing: add a table [mixture.weights] with lines like en = 1.5.")
    if config.mixture.own_level == LANG:
        check_distinct_languages(config, ("mixture", "weights"), weights, file)
    if (fault := find_weight_fault(config)) is not None:
        raise file.error(("mixture", "weights", *filter(None, [fault.name])), fault.what)


def _check_formats(config: BuildConfig, formats: Sequence[str], key: tuple[str, str], file: BuildFile) -> None:
    for name, limit in _list_exceeded(config, formats):
        raise file.error(
            key,
            f"names {name}, which cannot count more than {limit} ids in one file, and shards.target_tokens = "
            f"{config.shards.target_tokens}: lower it, or leave {name} out.",
        )


def _check_pack(config: BuildConfig, file: BuildFile) -> None:
    pack = config.pack
    if pack.length is None:
        _check_unused("pack", pack, "packed rows", "length = 4096", file)
        return
    if pack.strategy == "concatenate" and pack.cut == "never":
        raise file.error(
            ("pack", "cut"),
            '= "never": strategy = "concatenate" cuts documents wherever a row ends. Write strategy = "best-fit" or '
            '"one", or remove cut.',
        )
    _check_formats(config, pack.formats, ("pack", "formats"), file)
    if config.tokenizer is None:  # else see check_padding_of
        try:
            find_padding({one.text: one.role for one in config.special}, pack.padding or "", config.encode.append)
        except ConfigError as error:
            raise file.error(("pack", "padding"), str(error)) from error


def check_padding_of(spec: TokenizerSpec, config: BuildConfig) -> None:
    """Raise ConfigError if rows are to be packed, and the imported tokenizer has no special token that fills them."""
    if config.pack.length is None:
        return
    try:
        find_padding({one.text: one.role for one in spec.special}, config.pack.padding or "", config.encode.append)
    except ConfigError as error:
        raise ConfigError(f"{config.at('pack', 'padding')} {error}") from error


def check_dtype_of(spec: TokenizerSpec, config: BuildConfig) -> None:
    """Raise ConfigError if the ids of the imported tokenizer do not fit into shards.dtype."""
    dtype = config.shards.dtype
    if spec.vocab_size > count_most_ids(dtype):
        raise ConfigError(
            f"{config.at('shards', 'dtype')} = {show_value(dtype)}: holds ids below {count_most_ids(dtype)}, and the "
            f'tokenizer has ids up to {spec.vocab_size - 1}. Write dtype = "int32".'
        )
