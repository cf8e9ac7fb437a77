"""The weights of counts that are mixed by more than language: by source, family, script or group, level by level."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import NamedTuple

from tokcore.errors import ConfigError
from tokcore.learn.language_weights import Mix, Temperature, compare_shares
from tokcore.learn.level_shares import Level, Path, find_density_factors, mix_by_levels
from tokcore_schemas.config import BuildConfig
from tokcore_schemas.levels import LANG, LevelsConfig, make_levels
from tokcore_schemas.stage_manifests import (
    CountedLanguage,
    LearnedConfig,
    LevelShare,
    MixedLanguage,
    TemperatureMix,
    UnimaxMix,
    WeightsMix,
)

Levels = dict[str, dict[str, LevelShare]]


class MixedByLevel(NamedTuple):
    """Weights by path, as LevelsConfig.name_path spells it, and what came of them."""

    mix: Mix
    languages: dict[str, MixedLanguage]
    levels: Levels


class Cell(NamedTuple):
    """The text of a language in a source, or in all of them."""

    lang: str
    path: Path
    sizes: dict[str, int]  # unit -> size


def mix_by_level(config: BuildConfig, levels: LevelsConfig, languages: Mapping[str, CountedLanguage]) -> MixedByLevel:
    """languages: what was counted. Raises ConfigError for a language that is named, and that no text is of."""
    identity = config.learn_identity()
    assert isinstance(identity, LearnedConfig)
    cells = [one for one in list_cells(levels, languages) if one.sizes["bytes"] and one.sizes[config.mix.unit]]
    paths = {levels.name_path(one.path): one.path for one in cells}
    sizes = {unit: _add_up(cells, levels, unit) for unit in ("bytes", "pretokens", "documents")}
    own, budget = _read_own_level(identity, levels, paths, sizes)
    told = make_levels(levels, own, "mix", config.mix.max_epochs)
    _require_known(told, levels, languages)
    parameters = {"strategy": identity.mix.strategy, "over": ", ".join(levels.over)}
    mix = mix_by_levels(paths, sizes[config.mix.unit], sizes["bytes"], told, parameters, budget)
    return MixedByLevel(mix, _tell_languages(cells, levels, mix), _tell_levels(cells, levels, mix))


def list_cells(levels: LevelsConfig, languages: Mapping[str, CountedLanguage]) -> list[Cell]:
    """What was counted, by language and source."""
    cells = []
    for lang, of in languages.items():
        # Where rows do not know the source, the whole language is of none.
        for one in of.origins or (of,):
            source = getattr(one, "source", "")
            sizes = {"bytes": one.counted_bytes, "pretokens": one.pretokens, "documents": one.counted_documents}
            cells.append(Cell(lang, levels.find_path(lang, source), sizes))
    return cells


def _add_up(cells: list[Cell], levels: LevelsConfig, unit: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in cells:
        name = levels.name_path(one.path)
        found[name] = found.get(name, 0) + one.sizes[unit]
    return found


def _read_own_level(
    identity: LearnedConfig, levels: LevelsConfig, paths: Mapping[str, Path], sizes: Mapping[str, Mapping[str, int]]
) -> tuple[Level, int | None]:
    """How the level of [mix] itself is shared out, and the budget of the whole."""
    mix = identity.mix
    if isinstance(mix, TemperatureMix):
        exponents = Temperature(Decimal(mix.alpha), Decimal(mix.density), Decimal(mix.density_cap))
        factors = None
        if exponents.density:
            depth = levels.over.index(LANG)
            factors = find_density_factors(paths, depth, sizes["bytes"], sizes["pretokens"], exponents)
        return Level("", alpha=exponents.alpha, factors=factors), None
    if isinstance(mix, UnimaxMix):
        return Level("", alpha=Decimal(0)), mix.budget
    if isinstance(mix, WeightsMix):
        return Level("", weights={name: Decimal(one) for name, one in mix.weights.items()}), None
    return Level(""), None


def _require_known(told: list[Level], levels: LevelsConfig, languages: Mapping[str, CountedLanguage]) -> None:
    """Where records say languages, only the counts tell which there are."""
    for name, level in zip(levels.over, told, strict=True):
        named = {**(level.weights or {}), **(level.shares or {})} if name == LANG else {}
        if unknown := sorted(named.keys() - languages.keys()):
            known = ", ".join(sorted(languages))
            raise ConfigError(f"{level.name} names {unknown[0]}: the corpus has no such language, only {known}")


def _tell_languages(cells: list[Cell], levels: LevelsConfig, mix: Mix) -> dict[str, MixedLanguage]:
    shares = _share_by(cells, levels, mix, [one.lang for one in cells])
    weights: dict[str, set[int]] = {}
    for one in cells:
        weights.setdefault(one.lang, set()).add(mix.weights[levels.name_path(one.path)])
    return {
        lang: MixedLanguage(next(iter(weights[lang])) if len(weights[lang]) == 1 else None, **of)
        for lang, of in shares.items()
    }


def _tell_levels(cells: list[Cell], levels: LevelsConfig, mix: Mix) -> Levels:
    return {
        level: {
            item: LevelShare(**of)
            for item, of in _share_by(cells, levels, mix, [one.path[depth] for one in cells]).items()
        }
        for depth, level in enumerate(levels.over)
    }


def _share_by(
    cells: list[Cell], levels: LevelsConfig, mix: Mix, items: list[str]
) -> dict[str, dict[str, tuple[str, str]]]:
    """Item -> its share of each unit, before and after. items: what each cell is."""
    shares: dict[str, dict[str, tuple[str, str]]] = {item: {} for item in sorted(set(items))}
    for unit in ("bytes", "pretokens", "documents"):
        before, after = dict.fromkeys(shares, 0), dict.fromkeys(shares, 0)
        for item, one in zip(items, cells, strict=True):
            before[item] += one.sizes[unit]
            after[item] += one.sizes[unit] * mix.weights[levels.name_path(one.path)]
        for item, both in compare_shares(before, after).items():
            shares[item][f"share_of_{unit}"] = both
    return shares
