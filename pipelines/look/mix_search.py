"""`tokcore mix-search`: weights for a stated target, from many small tokenizers that are learned from one count.

A mix is worth what the tokenizer that it gives takes for texts: those of the validation split where there is one, else
those that were learned from, and the odd lines of parallel text. The even lines judge what was found.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from tokcore.count.sum_of_runs import merge_many_rows
from tokcore.errors import ConfigError, LearnError
from tokcore.learn.language_groups import OTHER, find_family
from tokcore.learn.mix_search import (
    Direction,
    Try,
    Worth,
    find_exact_quantile,
    miss_at_least,
    miss_at_most,
    search_weights,
)
from tokcore.learn.weighted_rows import gather_rows
from tokcore.models import MODELS
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.work.counted_parts import CountedParts
from tokcore_pipelines.work.learn_model import find_mix, learn_from_weighted, name_cell
from tokcore_pipelines.work.mix_by_level import list_cells
from tokcore_pipelines.work.search_rows import KeptTable, keep_tables
from tokcore_schemas.build_in_python import write_value
from tokcore_schemas.build_tables import BuildConfig, MixTable
from tokcore_schemas.config_reader import suggest_nearest
from tokcore_schemas.count_key import CountKey
from tokcore_schemas.levels import GROUP, LANG, OF_LANGUAGES, SOURCE, LevelsConfig, make_levels_config
from tokcore_schemas.toml_lines import quote_key

PREMIUM = "premium"
_LEVELS = (LANG, SOURCE, GROUP, *OF_LANGUAGES)
_P90 = Fraction(9, 10)
_MOST_ITEMS = 12  # that are moved one by one; more languages are moved by families
_DIGITS = 4


class Target(NamedTuple):
    """What is wanted: `hi=6.5`, `family:indic=6.5`, `en=97%`, or `premium=1.5`."""

    text: str  # as it was given
    level: str  # of the item; "premium"
    item: str  # whose bytes per token are at least the goal; empty of premium, which is at most it
    goal: Fraction
    is_relative: bool  # a floor: the goal is a part of what the mix of the build file gives, and comes before others


class Wishes(NamedTuple):
    """What a command line says of a search."""

    targets: Sequence[Target]
    vocab_size: int  # of the small tokenizers
    most_rows: int  # that are learned from
    most_tries: int
    parallel: Mapping[str, Sequence[bytes]] | None  # language -> lines
    reference: str  # of the parallel text: the language that others are compared with


class _Measured(NamedTuple):
    """What a mix gives."""

    num_bytes: int
    tokens: int
    values: dict[str, Fraction]  # of each target, by its text
    premiums: dict[str, Fraction]  # language -> premium on odd lines; empty without parallel text
    judged: Fraction | None  # p90 of the premiums on even lines
    fingerprint: str


def parse_target(text: str) -> Target:
    """Raises ConfigError for what is no target.

    >>> parse_target("family:indic=6.5").item, parse_target("en=97%").goal, parse_target("premium=1.5").level
    ('indic', Fraction(97, 100), 'premium')
    """
    name, _, value = text.rpartition("=")
    level, _, item = name.rpartition(":")
    is_relative = value.endswith("%")
    try:
        goal = Fraction(Decimal(value.removesuffix("%"))) / (100 if is_relative else 1)
    except (ArithmeticError, ValueError):
        goal = Fraction(0)
    if not name or goal <= 0:
        raise ConfigError(
            f"--target {text}: expected NAME=NUMBER or NAME=PERCENT%, such as hi=6.5, family:indic=6.5, en=97% or "
            f"premium=1.5"
        )
    if level not in ("", *_LEVELS):
        raise ConfigError(f"--target {text}: {level} is none of {', '.join(_LEVELS)}.{suggest_nearest(level, _LEVELS)}")
    return Target(
        text, PREMIUM if name == PREMIUM else level or LANG, "" if name == PREMIUM else item, goal, is_relative
    )


class _Search:
    """The tables, the text, and what was measured of each mix."""

    def __init__(self, config: BuildConfig, counted: CountedParts, wishes: Wishes, threads: int) -> None:
        self.wishes, self.threads = wishes, threads
        self.config = _make_small(config, wishes.vocab_size)
        learned = dataclasses.replace(counted, split=config.learned_splits)
        self.languages = learned.languages
        self.rows_there = learned.most_rows
        self.learned = keep_tables(learned, wishes.most_rows)
        held = dataclasses.replace(counted, split="validation")
        is_held = bool(config.learned_splits) and any(held.rows_of_tables)
        self.measured_on = "the validation split" if is_held else "text that is learned from"
        self.measured = keep_tables(held, wishes.most_rows) if is_held else self.learned
        self.sizes = [one.size_bytes for one in self.measured]
        if not any(self.sizes):
            raise LearnError("the corpus is empty: no text was counted. Check source.files and the rejects.")
        self.where = {one.text: self._select(one) for one in wishes.targets}

    def _select(self, target: Target) -> list[int]:
        """The measured tables of a target's item. Raises ConfigError if there is none."""
        if target.level == PREMIUM:
            if self.wishes.parallel is None:
                raise ConfigError(f"--target {target.text}: premiums need parallel text: add --parallel FOLDER")
            return []
        items = [self.find_item(target.level, one.key) for one in self.measured]
        item = self.config.spell_lang(target.item) if target.level == LANG else target.item
        found = [place for place, one in enumerate(items) if one == item and self.sizes[place]]
        if not found:
            known, what = sorted({one for one in items if one}), {LANG: "language"}.get(target.level, target.level)
            hint = suggest_nearest(target.item, [*known, PREMIUM])
            raise ConfigError(
                f"--target {target.text}: no counted text is of the {what} {target.item}, only of "
                f"{', '.join(known) or 'none'}.{hint}"
            )
        return found

    def find_item(self, level: str, key: CountKey) -> str:
        """What a table is at a level."""
        if level == SOURCE:
            return key.source
        if level == GROUP:
            return next((name for name, langs in self.config.mix.groups.items() if key.lang in langs), OTHER)
        return key.lang if level == LANG else OF_LANGUAGES[level](key.lang)

    def use_weights(self, weights: Mapping[str, Decimal]) -> BuildConfig:
        """The build file with these weights of the items of its own level."""
        return dataclasses.replace(self.config, mix=make_weighted(self.config.mix, weights))

    def measure(self, config: BuildConfig) -> _Measured:
        """Learn with a mix, and count what the tokenizer takes."""
        tokenizer = self._learn(config)
        tokens = [_count_tokens(tokenizer, one) for one in self.measured]
        premiums, judged = (self._find_premiums(tokenizer, first) for first in (0, 1))
        values = {}
        for target in self.wishes.targets:
            where = self.where[target.text]
            own = Fraction(sum(self.sizes[i] for i in where), max(1, sum(tokens[i] for i in where)))
            values[target.text] = _find_p90(premiums) if target.level == PREMIUM else own
        return _Measured(
            sum(self.sizes),
            sum(tokens),
            values,
            premiums,
            _find_p90(judged) if judged else None,
            tokenizer.spec.fingerprint,
        )

    def _learn(self, config: BuildConfig) -> Tokenizer:
        mix = find_mix(config, self.languages)
        named = [(name_cell(config.mix_levels, one.key), one.rows) for one in self.learned]
        there = [(rows, mix.weights[name]) for name, rows in named if name in mix.weights]
        most_rows = sum(rows.num_rows for rows, _ in there)
        most_bytes = sum(rows.keys.size_bytes for rows, _ in there)
        merged = functools.partial(merge_many_rows, [[rows] for rows, _ in there], [weight for _, weight in there])
        rows = functools.partial(_gather, merged, most_rows, most_bytes, config.learn.min_documents)
        return Tokenizer(learn_from_weighted(config, mix, rows, self.threads))

    def _find_premiums(self, tokenizer: Tokenizer, first: int) -> dict[str, Fraction]:
        """Premiums on every second line. first: 0 of the odd ones, as people count, 1 of the even ones."""
        tokens = {
            lang: len(tokenizer.encode_strings([*lines[first::2]]).ids)
            for lang, lines in (self.wishes.parallel or {}).items()
        }
        base = max(1, tokens.pop(self.wishes.reference, 1))
        return {lang: Fraction(number, base) for lang, number in tokens.items()}

    def find_start(self) -> tuple[dict[str, Fraction], dict[str, int]]:
        """(factor in the mix of the build file, bytes) of each item of the level that the table itself is for."""
        mix, levels = find_mix(self.config, self.languages), self._levels
        scale = Fraction(2**mix.scale_bits, mix.scale_divisor)
        depth, named = levels.over.index(self.config.mix.own_level), self.config.mix_levels
        sizes, weighted = dict[str, int](), dict[str, Fraction]()
        for cell in list_cells(levels, self.languages):
            weight = mix.weights.get(cell.lang if named is None else levels.name_path(cell.path))
            if weight is not None and cell.sizes["bytes"]:
                item, size = cell.path[depth], cell.sizes["bytes"]
                sizes[item] = sizes.get(item, 0) + size
                weighted[item] = weighted.get(item, Fraction(0)) + size * weight / scale
        return {item: weighted[item] / sizes[item] for item in sorted(sizes)}, sizes

    @property
    def _levels(self) -> LevelsConfig:
        return make_levels_config(self.config.mix, str)

    def list_directions(self, items: Sequence[str], best: _Measured) -> list[Direction]:
        """What is moved together: the items of each target, then each item, or each family of many languages.

        best: of the best mix so far. A target of premiums moves the languages that are above it.
        """
        own = self.config.mix.own_level
        keys = [one.key for one in self.measured]
        found = [
            Direction(target.text.rpartition("=")[0], self._list_items(target, items, own, best))
            for target in self.wishes.targets
        ]
        if len(items) <= _MOST_ITEMS or own != LANG:
            found += [Direction(item, (item,)) for item in self._by_size(items, own, keys)]
        else:
            families = self._by_size(sorted({find_family(lang) for lang in items}), "family", keys)
            found += [Direction(one, tuple(lang for lang in items if find_family(lang) == one)) for one in families]
        return [one for one in dict.fromkeys(found) if 0 < len(one.items) < len(items)]

    def _list_items(self, target: Target, items: Sequence[str], own: str, best: _Measured) -> tuple[str, ...]:
        if target.level == own:
            return tuple(item for item in items if item == target.item)
        if own != LANG:
            return ()
        if target.level == PREMIUM:
            return tuple(lang for lang in items if best.premiums.get(lang, 0) > target.goal)
        return tuple(lang for lang in items if self.find_item(target.level, CountKey(lang)) == target.item)

    def _by_size(self, items: Sequence[str], level: str, keys: Sequence[CountKey]) -> list[str]:
        sizes = dict.fromkeys(items, 0)
        for key, size in zip(keys, self.sizes, strict=True):
            if (item := self.find_item(level, key)) in sizes:
                sizes[item] += size
        return sorted(items, key=lambda item: (-sizes[item], item))


def search_mix(
    config: BuildConfig, counted: CountedParts, wishes: Wishes, threads: int, progress: StageProgress
) -> dict[str, Any]:
    """All that was tried and what came of it, in values that JSON knows.

    Raises ConfigError for a target that nothing is of, and for a mix or model that has nothing to search.
    """
    if "allow_smaller" not in MODELS[config.learn.model].uses:
        raise ConfigError(f'{config.at("learn", "model")} = "{config.learn.model}": nothing is learned from counts')
    with progress.stage("read", minor=True):
        search = _Search(config, counted, wishes, threads)
    start, sizes = search.find_start()
    if len(start) < 2:
        raise ConfigError(f"{config.at('mix')}: there is one {config.mix.own_level} only, and nothing to weigh")
    found: list[_Measured] = []
    goals: dict[str, Fraction] = {}
    with progress.stage("search", wishes.most_tries, "tokenizers") as shown:

        def measure(weights: Mapping[str, Decimal]) -> Worth:
            found.append(search.measure(search.use_weights(weights)))
            if not goals:
                goals.update(_set_goals(wishes.targets, found[0]))
            shown.advance(1)
            floors, others = ([one for one in wishes.targets if one.is_relative == of] for of in (True, False))
            broken, missed = (_add_up_missed(some, goals, found[-1]) for some in (floors, others))
            return Worth(broken, missed, found[-1].tokens)

        def list_directions(best: int) -> list[Direction]:
            return search.list_directions([*start], found[best])

        tries = search_weights(start, sizes, list_directions, measure, wishes.most_tries)
    return _describe(search, tries, found, goals)


def make_weighted(mix: MixTable, weights: Mapping[str, Decimal]) -> MixTable:
    """The table with these weights of the items of its own level; what it says of other levels stays."""
    levels = dict(mix.levels)
    if (own := levels.pop(mix.own_level, None)) is not None and own.max_epochs is not None:
        levels[mix.own_level] = dataclasses.replace(own, alpha=None, weights={}, shares={})
    return MixTable(strategy="weights", weights=dict(weights), over=mix.over, levels=levels, groups=mix.groups)


def write_block(mix: MixTable) -> str:
    """The table as a build file has it."""
    lines = ["[mix]"]
    if mix.over != MixTable().over:
        lines.append(f"over = {write_value([*mix.over], ('mix', 'over'))}")
    lines.append('strategy = "weights"')
    for name, level in mix.levels.items():
        set_ = {one.name: getattr(level, one.name) for one in dataclasses.fields(level)}
        told = {key: value for key, value in set_.items() if value not in (None, {})}
        lines += ["", f"[mix.levels.{quote_key(name)}]"]
        lines += [f"{key} = {write_value(value, ('mix', key))}" for key, value in told.items()]
    if mix.groups:
        lines += ["", "[mix.groups]"]
        lines += [f"{quote_key(name)} = {write_value([*of], ('mix', name))}" for name, of in mix.groups.items()]
    lines += ["", "[mix.weights]", *(f"{quote_key(item)} = {one:f}" for item, one in mix.weights.items())]
    return "\n".join(lines) + "\n"


def _make_small(config: BuildConfig, vocab_size: int) -> BuildConfig:
    learn = dataclasses.replace(config.learn, vocab_size=(vocab_size,), allow_smaller=True)
    return dataclasses.replace(config, learn=learn, encode=dataclasses.replace(config.encode, vocab_size=None))


def _gather(merged: Callable[[], Any], most_rows: int, most_bytes: int, min_documents: int) -> Any:
    return gather_rows(merged(), most_rows, most_bytes, min_documents)


def _count_tokens(tokenizer: Tokenizer, table: KeptTable) -> int:
    encoded = tokenizer.encode_pretokens(table.rows.keys)
    lengths = np.diff(encoded.offsets).tolist()
    return sum(length * count for length, count in zip(lengths, table.rows.counts.tolist(), strict=True))


def _find_p90(premiums: Mapping[str, Fraction]) -> Fraction:
    return find_exact_quantile([*premiums.values()], _P90) if premiums else Fraction(0)


def _set_goals(targets: Sequence[Target], first: _Measured) -> dict[str, Fraction]:
    return {one.text: one.goal * first.values[one.text] if one.is_relative else one.goal for one in targets}


def _add_up_missed(targets: Sequence[Target], goals: Mapping[str, Fraction], of: _Measured) -> Fraction:
    missed = (
        (miss_at_most if one.level == PREMIUM else miss_at_least)(of.values[one.text], goals[one.text])
        for one in targets
    )
    return sum(missed, Fraction(0))


def _describe(
    search: _Search, tries: Sequence[Try], found: Sequence[_Measured], goals: Mapping[str, Fraction]
) -> dict[str, Any]:
    best = max(number for number, one in enumerate(tries) if one.is_better)
    mix = make_weighted(search.config.mix, tries[best].weights)
    return {
        "targets": {
            one.text: {"goal": _round(goals[one.text]), "most": one.level == PREMIUM} for one in search.wishes.targets
        },
        "vocab_size": search.wishes.vocab_size,
        "rows": sum(one.rows.num_rows for one in search.learned),
        "rows_there": search.rows_there,
        "measured_on": search.measured_on,
        "tries": [
            {
                "moved": one.moved,
                "better": one.is_better,
                "missed": _round(one.worth.broken + one.worth.missed),
                "bytes_per_token": _round(Fraction(of.num_bytes, max(1, of.tokens))),
                "values": {text: _round(value) for text, value in of.values.items()},
                **({"premium_even_lines": _round(of.judged)} if of.judged is not None else {}),
                "fingerprint": of.fingerprint,
                "weights": {item: str(weight) for item, weight in one.weights.items()},
            }
            for one, of in zip(tries, found, strict=True)
        ],
        "best": best,
        "mix": write_block(mix),
    }


def _round(value: Fraction) -> float:
    return float(round(value, _DIGITS))
