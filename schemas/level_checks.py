"""Rules of [mix] and [mixture] about what is mixed: levels, groups, and the names that weights and shares may have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from tokcore.formats.partition_names import find_name_fault
from tokcore.learn.language_groups import OTHER, list_families, list_scripts
from tokcore_schemas.build_tables import BuildConfig, MixTable, MixtureTable
from tokcore_schemas.config_reader import BuildFile, show_value, suggest_nearest
from tokcore_schemas.document import find_twins
from tokcore_schemas.levels import DECISIONS, GROUP, LANG, LEVELS, OF_LANGUAGES, SOURCE
from tokcore_schemas.setting import list_settings

TableName = Literal["mix", "mixture"]


class WeightFault(NamedTuple):
    """A weight that nothing has, and what is wrong with it; without a name, what is wrong with all of them."""

    name: str
    what: str


def check_levels(config: BuildConfig, name: TableName, file: BuildFile) -> None:
    """Raise ConfigError for levels that are not there, and for what is set of a level that is not mixed."""
    table: MixTable | MixtureTable = getattr(config, name)
    _check_over(config, name, table, file)
    _check_groups(config, name, table, file)
    for level, told in table.levels.items():
        key = (name, "levels", level)
        if level not in table.level_names:
            hint = suggest_nearest(level, table.level_names)
            raise file.error(
                key, f"is none of {', '.join(table.level_names)}, which {name}.over names: add it there.{hint}"
            )
        set_ = [one for one in DECISIONS if getattr(told, one) not in (None, {})]
        if len(set_) > 1:
            raise file.error((*key, set_[1]), f"and {set_[0]} exclude each other: remove one of them.")
        if set_ and level == table.own_level and (own := _find_own_setting(name, table, file)):
            raise file.error((*key, set_[0]), f"and {name}.{own} both say how {level} is mixed: remove one of them.")
        if not set_ and told.max_epochs is None:
            raise file.error(key, "is empty: add alpha, weights, shares or max_epochs, or remove the table.")
        if sum(told.shares.values()) > 1:
            raise file.error((*key, "shares"), f"add up to {sum(told.shares.values())}: expected at most 1.")
        for one in ("weights", "shares"):
            if level == LANG:
                check_distinct_languages(config, (*key, one), getattr(told, one), file)
            if (fault := find_item_fault(config, level, getattr(told, one), table.groups)) is not None:
                raise file.error((*key, one, fault.name), fault.what)


def find_item_fault(
    config: BuildConfig, level: str, names: Iterable[str], groups: Iterable[str] = ()
) -> WeightFault | None:
    """The first name that nothing of a level has; None if all may be there."""
    if level not in LEVELS:
        return find_partition_fault(level.split("/"), names)
    known = _list_known(config, level, groups)
    spell = config.spell_lang if level == LANG else str
    what = {LANG: "language"}.get(level, level)
    for name in names:
        if (
            known is not None
            and spell(name) not in known
            and not (level == "script" and re.fullmatch("[A-Z][a-z]{3}", name))
        ):
            hint = suggest_nearest(name, known)
            return WeightFault(name, f"weighs a {what} that is not there: expected one of {', '.join(known)}.{hint}")
    return None


def find_partition_fault(keys: Sequence[str], names: Iterable[str]) -> WeightFault | None:
    """The first name that is no partition's by these keys; None if all are."""
    faults = ((name, find_name_fault(name, keys)) for name in names)
    return next((WeightFault(name, f"weighs no partition: {fault}.") for name, fault in faults if fault), None)


def check_distinct_languages(config: BuildConfig, key: tuple[str, ...], langs: Iterable[str], file: BuildFile) -> None:
    """Raise ConfigError for two languages that are one."""
    if config.normalizes_langs and (found := find_twins(langs)) is not None:
        raise file.error((*key, found[1]), f"and {found[0]} are the same language: remove one of the two.")


def _list_known(config: BuildConfig, level: str, groups: Iterable[str]) -> list[str] | None:
    """The items that a level can have; None if records decide."""
    if level == SOURCE:
        return sorted({source.name or "" for source in config.sources})
    if level == LANG:
        if any(source.lang_field is not None for source in config.sources):
            return None
        return sorted({config.spell_lang(source.lang or "") for source in config.sources})
    return [*groups, OTHER] if level == GROUP else [*(list_families() if level == "family" else list_scripts()), OTHER]


def _check_over(config: BuildConfig, name: TableName, table: MixTable | MixtureTable, file: BuildFile) -> None:
    key, names = (name, "over"), table.level_names
    shown = show_value(table.over[0] if len(table.over) == 1 else list(table.over))
    of_partitions = config.shards.partition_by if name == "mixture" else ()
    for level in () if table.flat_keys else names:
        for one in level.split("/"):
            is_level = one == level and one in LEVELS
            if not is_level and one not in of_partitions:
                known = dict.fromkeys(("languages", "sources", *of_partitions, *LEVELS))
                more = " Keys of shards.partition_by stand with / between them." if name == "mixture" else ""
                raise file.error(
                    key, f"= {shown}: {one} is none of {', '.join(known)}.{more}{suggest_nearest(one, known)}"
                )
            if is_level and one != LANG and one in of_partitions:
                raise file.error(key, f"= {shown}: {one} is a level and a key of partitions: rename the field.")
    if twice := next((one for i, one in enumerate(names) if one in names[:i]), None):
        raise file.error(key, f"= {shown}: {twice} is there twice; remove one of them.")
    if LANG in names and (late := [one for one in names[names.index(LANG) :] if one in (GROUP, *OF_LANGUAGES)]):
        raise file.error(key, f"= {shown}: {late[0]} holds languages: put it before lang.")
    if SOURCE in names and not table.flat_keys:
        for number, source in enumerate(config.sources):
            if not source.name:
                raise file.error(
                    ("source", number, "name"),
                    f'is missing, and {name}.over = {shown} mixes sources by name: add, for example, name = "web".',
                )


def _check_groups(config: BuildConfig, name: TableName, table: MixTable | MixtureTable, file: BuildFile) -> None:
    if GROUP in table.level_names and not table.groups:
        raise file.error(
            (name, "groups"), f'is missing: add a table [{name}.groups] with lines like cjk = ["zh", "ja"].'
        )
    if table.groups and GROUP not in table.level_names:
        raise file.error(
            (name, "groups"), f'are for the level group, which {name}.over lacks: over = ["group", "lang"].'
        )
    known = _list_known(config, LANG, ())
    group_of: dict[str, str] = {}
    for group, langs in table.groups.items():
        key = (name, "groups", group)
        if group == OTHER:
            raise file.error(key, "is the name of the group of all other languages: choose another.")
        for lang in map(config.spell_lang, langs):
            if known is not None and lang not in known:
                hint = suggest_nearest(lang, known)
                raise file.error(
                    key, f"has {lang}, a language that is not there: expected some of {', '.join(known)}.{hint}"
                )
            if lang in group_of:
                raise file.error(key, f"has {lang}, which is in {group_of[lang]}, too: remove one of the two.")
            group_of[lang] = group


def _find_own_setting(name: TableName, table: MixTable | MixtureTable, file: BuildFile) -> str:
    """The first setting by which the table itself says how its level is mixed; "" if there is none."""
    strategies: Any = {one for one, of in list_settings(type(table)).items() if of.limits.strategies}
    told = [one for one in ("strategy", *sorted(strategies - {"unit"})) if file.has(name, one)]
    return next((one for one in told if one != "strategy" or name == "mix"), "")
