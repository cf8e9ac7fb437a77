"""Which rule for the spelling of language codes holds in an output: what began without one goes on without it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import TypeVar

from tokcore.errors import ConfigError
from tokcore_schemas.build_tables import MixTable, MixtureTable
from tokcore_schemas.config import BuildConfig
from tokcore_schemas.document import find_twins, normalize_lang
from tokcore_schemas.levels import LANG, spell_languages
from tokcore_schemas.plan import ReadSettings

_MOST_NAMED = 3
Mixing = TypeVar("Mixing", MixTable, MixtureTable)


def settle_languages(config: BuildConfig, stored: Callable[[], Iterable[ReadSettings]]) -> BuildConfig:
    """The build file with the rule that holds, and with languages of weights as that rule spells them.

    stored: gives how the output has read files so far; it is asked only if the build file sets no rule and it matters.
    Raises ConfigError for languages of two sources that differ in case only, where no rule makes them one.
    """
    if config.build.lang_normalize is None and _matters(config):
        keeps = any(map(_is_as_written, stored()))
        table = dataclasses.replace(config.build, lang_normalize="none" if keeps else "bcp47")
        config = dataclasses.replace(config, build=table, keeps_spelling=keeps)
    if not config.normalizes_langs:
        _refuse_twins(config)
        return config
    return dataclasses.replace(config, mix=_spell_table(config.mix), mixture=_spell_table(config.mixture))


def describe_kept_spelling(config: BuildConfig, languages: Iterable[str]) -> str:
    """A warning where an output keeps codes that a new build would spell otherwise; "" where it does not.

    config: as settle_languages gives it. languages: of the output.
    """
    if not config.keeps_spelling:
        return ""
    others = [f"{lang} ({normalize_lang(lang)})" for lang in sorted(languages) if normalize_lang(lang) != lang]
    if not others:
        return ""
    more = f" and {len(others) - _MOST_NAMED:,} more" if len(others) > _MOST_NAMED else ""
    return (
        f"language codes stay as records spell them, as this output began: a new build would spell otherwise "
        f"{', '.join(others[:_MOST_NAMED])}{more}. build.lang_normalize decides"
    )


def _matters(config: BuildConfig) -> bool:
    """Whether the rules can differ: languages come from records, or the build file spells some in other case."""
    named = [source.lang for source in config.sources if source.lang is not None]
    for table in (config.mix, config.mixture):
        named += [*table.weights, *(lang for langs in table.groups.values() for lang in langs)]
        if (told := table.levels.get(LANG)) is not None:
            named += [*told.weights, *told.shares]
    return any(source.lang_field for source in config.sources) or any(normalize_lang(lang) != lang for lang in named)


def _is_as_written(settings: ReadSettings) -> bool:
    """Whether files were read so that no rule can have held."""
    is_of_records = bool(settings.lang_field) and not settings.lang_normalize
    return is_of_records or normalize_lang(settings.lang) != settings.lang


def _spell_table(table: Mixing) -> Mixing:
    if table.own_level == LANG:
        weights = {normalize_lang(lang): weight for lang, weight in table.weights.items()}
        table = dataclasses.replace(table, weights=weights)
    return spell_languages(table, normalize_lang)


def _refuse_twins(config: BuildConfig) -> None:
    langs = [source.lang for source in config.sources]
    if (found := find_twins(filter(None, langs))) is not None:
        second = max(map(langs.index, found))
        raise ConfigError(
            f"{config.at('source', second, 'lang')}: {found[0]!r} and {found[1]!r} differ in case only, and languages "
            f'name files: spell the two alike, or write build.lang_normalize = "bcp47".'
        )
