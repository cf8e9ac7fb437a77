"""Mixing by levels, which [mix] and [mixture] share: what is mixed, and how what one level has is shared in the next.

Leaves to others: whether names are of something that is there (level_checks), the shares (tokcore.learn.level_shares).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

from tokcore.files.jsonable import written_unless
from tokcore.formats.partition_names import name_folder, pick_keys
from tokcore.learn.language_groups import OTHER, find_family, find_script
from tokcore.learn.level_shares import Level, Path
from tokcore_schemas.setting import key

LANG, SOURCE, GROUP = "lang", "source", "group"
OF_LANGUAGES: Mapping[str, Callable[[str], str]] = {"family": find_family, "script": find_script}
LEVELS = (LANG, SOURCE, GROUP, *OF_LANGUAGES)
PARTITIONS = "partitions"  # the level of a table over keys of partitions and nothing else
_EARLIER_NAMES = {"languages": LANG, "sources": SOURCE}  # of a single level
DECISIONS = ("alpha", "weights", "shares")  # of which a level has one at most

T = TypeVar("T", bound="LeveledTable")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LevelTable:
    """[mix.levels.NAME]: one of alpha, weights and shares, or none of them: in proportion to sizes"""

    alpha: Decimal | None = key(
        None, "in proportion to size**alpha; 1 is natural, 0 makes items equal", least=0, most=1
    )
    weights: Mapping[str, Decimal] = key({}, "item = factor on its size; 1 if not named", above=0)
    shares: Mapping[str, Decimal] = key({}, "item = its share; others share the rest by size", above=0, most=1)
    max_epochs: Decimal | None = key(None, "how often an item may be repeated at most", above=0)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LeveledTable:
    """Keys of [mix] and [mixture] alike."""

    over: tuple[str, ...] = key(
        ("languages",),
        "what is mixed: languages, sources by their names, for a mixture also partitions by keys, such as "
        'topic/quality; or levels, the first shared out first: ["group", "lang", "source"]; others are family and '
        "script of languages, and for a mixture keys of partitions",
        or_one=True,
        least=1,
        distinct=True,
    )
    levels: Mapping[str, LevelTable] = key(
        {},
        "level = how it is shared out: alpha, weights or shares, and max_epochs; languages, or without them the first "
        "level, as the table itself says, others in proportion to their sizes",
    )
    groups: Mapping[str, tuple[str, ...]] = key(
        {}, "for the level group: name = list of languages; others are in the group other"
    )
    # Keys of the partitions that `over` names, in the one way that the first releases knew: alone.
    flat_keys: tuple[str, ...] = ()

    @property
    def level_names(self) -> tuple[str, ...]:
        """The levels, languages and sources by one name each."""
        return tuple(_EARLIER_NAMES.get(name, name) for name in self.over)

    @property
    def own_level(self) -> str:
        """The level that the strategy of the table itself is for."""
        if self.flat_keys:
            return PARTITIONS
        return LANG if LANG in self.level_names else self.level_names[0]

    @property
    def is_flat(self) -> bool:
        """Whether there is one level, and the table itself says all about it."""
        is_one = len(self.over) == 1 and not self.levels and not self.groups
        return is_one and self.own_level in (LANG, SOURCE, PARTITIONS)


@dataclasses.dataclass(frozen=True, slots=True)
class LevelConfig:
    """A level, as manifests have it."""

    alpha: str = written_unless("")  # exact decimal
    weights: dict[str, str] | None = written_unless(None)  # item -> exact decimal, where it is not 1
    shares: dict[str, str] | None = written_unless(None)  # item -> exact decimal
    max_epochs: str = written_unless("")  # exact decimal


@dataclasses.dataclass(frozen=True, slots=True)
class LevelsConfig:
    """What LeveledTable says, as manifests have it."""

    over: tuple[str, ...]
    levels: dict[str, LevelConfig]
    groups: dict[str, tuple[str, ...]] | None = written_unless(None)

    def find_path(self, lang: str, source: str, partition: str = "") -> Path:
        """What documents are at each level.

        >>> levels = LevelsConfig(("group", "lang", "topic"), {}, {"cjk": ("zh", "ja")})
        >>> levels.find_path("zh", "web", "topic=code/quality=3"), levels.find_path("en", "web", "topic=code")
        (('cjk', 'zh', 'topic=code'), ('other', 'en', 'topic=code'))
        """
        return tuple(self._find_item(name, lang, source, partition) for name in self.over)

    def _find_item(self, name: str, lang: str, source: str, partition: str) -> str:
        if name in (LANG, SOURCE):
            return lang if name == LANG else source
        if name == GROUP:
            return next((group for group, langs in (self.groups or {}).items() if lang in langs), OTHER)
        return OF_LANGUAGES[name](lang) if name in OF_LANGUAGES else pick_keys(partition, name.split("/"))

    def name_path(self, path: Path) -> str:
        """A path as one name, as partitions are named.

        >>> LevelsConfig(("lang", "source"), {}).name_path(("en", "my wiki"))
        'lang=en/source=my%20wiki'
        """
        return "/".join(
            name_folder(name, item) if name in LEVELS else item for name, item in zip(self.over, path, strict=True)
        )

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """The keys of partitions among the levels."""
        return tuple(one for name in self.over if name not in LEVELS for one in name.split("/"))


def settle_flat(table: T, partition_by: Sequence[str]) -> T:
    """The table with its one level named as the first releases did, if it has one.

    >>> table = LeveledTable(over=("lang",))
    >>> settle_flat(table, []).over, settle_flat(table, ["lang"]).flat_keys
    (('languages',), ('lang',))
    """
    if len(table.over) != 1 or table.levels or table.groups:
        return table
    keys = tuple(table.over[0].split("/"))
    if all(one in partition_by for one in keys):
        return dataclasses.replace(table, flat_keys=keys)
    spelled = {meant: name for name, meant in _EARLIER_NAMES.items()}
    return dataclasses.replace(table, over=(spelled.get(table.over[0], table.over[0]),))


def make_levels_config(table: LeveledTable, spell: Callable[[Decimal], str]) -> LevelsConfig:
    """What a table says, in the one spelling of manifests."""
    levels = {
        name: LevelConfig(
            alpha="" if one.alpha is None else spell(one.alpha),
            weights={item: spell(factor) for item, factor in sorted(one.weights.items()) if factor != 1} or None,
            shares={item: spell(share) for item, share in sorted(one.shares.items())} or None,
            max_epochs="" if one.max_epochs is None else spell(one.max_epochs),
        )
        for name, one in sorted(table.levels.items())
    }
    groups = {name: tuple(sorted(langs)) for name, langs in sorted(table.groups.items())}
    return LevelsConfig(table.level_names, levels, groups or None)


def describe_levels(config: LevelsConfig | None) -> dict[str, Any]:
    """The keys of the table that config was made from, as parsing a build file gives them."""
    if config is None:
        return {}
    levels = {name: _describe_level(one) for name, one in config.levels.items()}
    groups = {name: list(langs) for name, langs in (config.groups or {}).items()}
    keys = {"levels": levels, "groups": groups}
    return {"over": list(config.over), **{name: value for name, value in keys.items() if value}}


def _describe_level(one: LevelConfig) -> dict[str, Any]:
    numbers = {name: Decimal(value) for name in ("alpha", "max_epochs") if (value := getattr(one, name))}
    tables = {name: found for name in ("weights", "shares") if (found := getattr(one, name))}
    return {**numbers, **{name: {item: Decimal(of) for item, of in table.items()} for name, table in tables.items()}}


def read_levels_config(config: LevelsConfig | None) -> dict[str, Any]:
    """The fields of the table that config was made from."""
    if config is None:
        return {}
    levels = {name: LevelTable(**_describe_level(one)) for name, one in config.levels.items()}
    return {"over": config.over, "levels": levels, "groups": config.groups or {}}


def make_levels(config: LevelsConfig, own: Level, table: str, max_epochs: Decimal | None = None) -> list[Level]:
    """The levels as they are computed with.

    own: what the table itself says, of the level that it is for. table: mix or mixture. max_epochs: of the table, for
    each level that has none.
    """
    own_name = LANG if LANG in config.over else config.over[0]
    levels = []
    for name in config.over:
        told = config.levels.get(name, LevelConfig())
        decided = any(getattr(told, one) for one in DECISIONS)
        level = own if name == own_name and not decided else Level("")
        if decided:
            level = Level(
                "",
                alpha=Decimal(told.alpha) if told.alpha else None,
                weights={item: Decimal(one) for item, one in told.weights.items()} if told.weights else None,
                shares={item: Decimal(one) for item, one in told.shares.items()} if told.shares else None,
            )
        epochs = Decimal(told.max_epochs) if told.max_epochs else max_epochs
        levels.append(level._replace(name=f"{table}.levels.{name}", max_epochs=epochs))
    return levels


def spell_languages(table: T, spell: Callable[[str], str]) -> T:
    """The table with languages of levels and groups as a rule spells them."""

    def spelled(of: Mapping[str, Decimal]) -> dict[str, Decimal]:
        return {spell(lang): one for lang, one in of.items()}

    levels = dict(table.levels)
    if (of := levels.get(LANG)) is not None:
        levels[LANG] = dataclasses.replace(of, weights=spelled(of.weights), shares=spelled(of.shares))
    groups = {name: tuple(map(spell, langs)) for name, langs in table.groups.items()}
    return dataclasses.replace(table, levels=levels, groups=groups)
