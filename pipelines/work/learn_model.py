"""The learn stage: weigh the count tables and learn a model from them. No Beam: one machine, all its cores."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore.count.pretoken_rows import CountRows, Counts
from tokcore.count.sum_of_runs import merge_many_rows
from tokcore.errors import ConfigError, LearnError
from tokcore.learn import language_weights as mixing
from tokcore.learn import parity
from tokcore.learn.rounds import MergesSoFar, TooLittleRoomError
from tokcore.learn.weighted_rows import gather_rows, require_size
from tokcore.models import MODELS, LearnOptions, Model
from tokcore.models.bpe import require_bpe
from tokcore.models.extended_bpe import learn_further, shorten_further
from tokcore.text.texts import Texts
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec, make_learned_spec
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.terminal import format_size
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.work.counted_parts import CountedParts
from tokcore_pipelines.work.learn_from_disk import (
    LEAST_BYTES,
    READ_BYTES,
    can_learn_from_disk,
    describe_round,
    spill,
)
from tokcore_pipelines.work.learn_memory import (
    LEAST_LEFT_BYTES,
    NOT_IN_ROUNDS,
    TooLittleMemoryError,
    find_learn_memory,
    find_read_bytes,
    find_row_bytes,
    require_memory,
    require_memory_to_go_on,
    require_memory_to_read,
)
from tokcore_pipelines.work.make_jobs import make_special_tokens
from tokcore_pipelines.work.mix_by_level import Levels, mix_by_level
from tokcore_pipelines.work.stored_tables import StoredTable
from tokcore_schemas.config import BuildConfig, check_dtype_of, make_pretokenizer
from tokcore_schemas.count_key import CountKey
from tokcore_schemas.levels import LevelsConfig
from tokcore_schemas.stage_manifests import CountedLanguage, MixedLanguage

UNITS = ("bytes", "pretokens", "documents")


@dataclasses.dataclass(frozen=True, slots=True)
class Learned:
    """Tokenizers and what the manifest says about how they came to be."""

    specs: dict[int, TokenizerSpec]  # by the vocab_size that was asked for, ascending; of an imported one its own
    mix: dict[str, str | int | dict[str, int]]
    languages: dict[str, MixedLanguage]
    levels: Levels | None = None  # only where more than languages are mixed


def learn_tokenizers(
    config: BuildConfig,
    sizes: Sequence[int],
    counted: CountedParts,
    threads: int,
    progress: StageProgress | None = None,
    merges_done: npt.NDArray[np.int64] | None = None,
    merges: MergesSoFar | None = None,
) -> Learned:
    """Learn tokenizers of these sizes from committed count tables, all with the same weights of languages.

    progress: shows how far reading the tables is. merges_done: see LearnOptions. merges: those of the largest size, if
    they have been learned already.
    Raises LearnError if the tables cannot give a vocabulary, naming languages without documents.
    """
    weighed = weigh_tables(config, counted)
    progress = progress or StageProgress(-1)
    learn = functools.partial(_learn_with, config, sizes, weighed, threads, progress, merges_done, merges)
    mix, languages = weighed.mix, weighed.languages
    if config.mix.strategy != "parity":
        specs = learn(mix)
    elif config.parallel is None:
        raise ConfigError(
            "mix.parallel: the tokenizer's weights followed parallel text, and where that is was not kept. Name it: "
            "--set mix.parallel=FOLDER; or choose other weights: --set mix.strategy=temperature"
        )
    else:
        (size,) = sizes
        of_languages = _measure_sizes(weighed.counted.languages, config.mix.unit)
        mix, specs = parity.learn_by_premium(
            mix,
            of_languages["bytes"],
            config.parallel,
            config.mix.target_premium,
            learn,
            lambda learned, lines: len(Tokenizer(learned[size]).encode_strings(lines, threads).ids),
            functools.partial(_tell_round, progress),
        )
        languages = _describe_languages(mix, of_languages)
    if config.vocab_size in specs:
        check_dtype_of(specs[config.vocab_size], config)
    return Learned(specs, mix.describe(), languages, weighed.levels)


def _tell_round(progress: StageProgress, told: parity.Round) -> None:
    progress.say(parity.describe_round(told))
    reach("learn.round")


def _learn_with(
    config: BuildConfig,
    sizes: Sequence[int],
    weighed: WeighedTables,
    threads: int,
    progress: StageProgress,
    merges_done: npt.NDArray[np.int64] | None,
    merges: MergesSoFar | None,
    mix: mixing.Mix,
) -> dict[int, TokenizerSpec]:
    """The tokenizer of each size, of counts with these weights. merges: as for learn_tokenizers."""
    options = _make_options(config, mix, threads, merges_done)
    if merges is None:
        models = _learn_from_tables(config, options, sizes, weighed._replace(mix=mix), progress)
    else:
        models = _learn_models(config, options, sizes, functools.partial(_make_of_merges, config, merges))
    pattern, steps = _find_text_rules(config)
    specs = {}
    for size in sorted(sizes):
        spec = make_learned_spec(models[size], pattern, steps, make_special_tokens(config))
        specs[size] = dataclasses.replace(spec, chat_template=config.chat_template, max_length=config.learn.max_length)
    return specs


class WeighedTables(NamedTuple):
    """What is learned from, and how it is weighed."""

    counted: CountedParts
    mix: mixing.Mix  # weights by the names that name_cell gives
    languages: dict[str, MixedLanguage]
    levels: Levels | None

    def find_weight(self, config: BuildConfig, key: CountKey) -> int | None:
        """Of a count table; None if it is left out."""
        return self.mix.weights.get(name_cell(config.mix_levels, key))


def weigh_tables(config: BuildConfig, counted: CountedParts) -> WeighedTables:
    """How a build's count tables are weighed. Raises LearnError if there is no text to learn from."""
    counted = dataclasses.replace(counted, split=config.learned_splits)
    of_languages = _measure_sizes(counted.languages, config.mix.unit)
    if not of_languages["documents"]:
        if counted.split and any(of.counted_bytes for of in dataclasses.replace(counted, split="").languages.values()):
            raise LearnError(
                "all text is of the validation split, which is not learned from. Lower shards.validation, add a source "
                'without validation = true, or write count.splits = "all".'
            )
        raise LearnError("the corpus is empty: no text was counted. Check source.files and the rejects.")
    if (levels := config.mix_levels) is not None:
        by_level = mix_by_level(config, levels, counted.languages)
        return WeighedTables(counted, by_level.mix, by_level.languages, by_level.levels)
    mix = _mix_languages(config, of_languages, counted.languages)
    return WeighedTables(counted, mix, _describe_languages(mix, of_languages), None)


def find_rounds_options(config: BuildConfig, mix: mixing.Mix, size: int) -> LearnOptions:
    """How a vocabulary of that size is learned, wherever it is."""
    return dataclasses.replace(_make_options(config, mix, 1, None), vocab_size=size)


def _learn_from_tables(
    config: BuildConfig, options: LearnOptions, sizes: Sequence[int], weighed: WeighedTables, progress: StageProgress
) -> dict[int, Model]:
    # Several models that are learned one by one share the rows; a single one may drop them when it has its own form.
    merge = functools.partial(_merge_tables, weighed.counted, weighed.mix.weights, progress, config.mix_levels)
    rows = functools.partial(_weight_rows, config, weighed.counted, merge)
    try:
        learn = functools.partial(_learn_from_rows, config, functools.cache(rows) if len(sizes) > 1 else rows)
        return _learn_models(config, options, sizes, learn)
    except TooLittleMemoryError as error:
        too_little = error.with_traceback(None)  # which holds rows
    return _learn_from_disk(config, options, sizes, merge, too_little, weighed.counted, progress)


def find_mix(config: BuildConfig, languages: Mapping[str, CountedLanguage]) -> mixing.Mix:
    """The weights of counts, by the names that name_cell gives. languages: what was counted."""
    if (levels := config.mix_levels) is not None:
        return mix_by_level(config, levels, languages).mix
    return _mix_languages(config, _measure_sizes(languages, config.mix.unit), languages)


def name_cell(levels: LevelsConfig | None, key: CountKey) -> str:
    """What a count table is weighed by: its language, or what it is at each level."""
    return key.lang if levels is None else levels.name_path(levels.find_path(key.lang, key.source))


def learn_from_weighted(
    config: BuildConfig, mix: mixing.Mix, rows: Callable[[], tuple[Texts, Counts]], threads: int
) -> TokenizerSpec:
    """A tokenizer of the largest size, from rows that are weighed already; a smaller one where they give no more."""
    options = dataclasses.replace(_make_options(config, mix, threads, None), vocab_size=max(config.vocab_sizes))
    model = _learn_from_rows(config, rows, options, None)
    return make_learned_spec(model, *_find_text_rules(config), make_special_tokens(config))


def _learn_models(
    config: BuildConfig,
    options: LearnOptions,
    sizes: Sequence[int],
    learn: Callable[[LearnOptions, Model | None], Model],
) -> dict[int, Model]:
    """The model of each size. learn: gives one, from the largest, which comes first, or without it."""
    models: dict[int, Model] = {}
    for size in sorted(sizes, reverse=True):
        models[size] = learn(dataclasses.replace(options, vocab_size=size), models.get(max(sizes)))
        if not config.learn.allow_smaller:
            limits = {name: getattr(config.learn, name) for name in ("min_count", "min_documents", "max_token_bytes")}
            at = config.at("learn", "vocab_size")
            require_size(config.learn.model, models[size], size, len(config.special), limits, at)
    return models


def _learn_from_rows(
    config: BuildConfig, rows: Callable[[], tuple[Texts, Counts]], options: LearnOptions, larger: Model | None
) -> Model:
    if config.extended is not None:
        return _extend_model(config.extended.model, larger, rows, options)
    model_type = MODELS[config.learn.model]
    shorter = None if larger is None else model_type.shorten(larger, options)
    return model_type.learn(rows, options) if shorter is None else shorter


def _make_of_merges(config: BuildConfig, merges: MergesSoFar, options: LearnOptions, larger: Model | None) -> Model:
    model_type = MODELS[config.learn.model]
    shorter = None if larger is None else model_type.shorten(larger, options)
    return model_type.make_of_merges(merges, options) if shorter is None else shorter


def _learn_from_disk(
    config: BuildConfig,
    options: LearnOptions,
    sizes: Sequence[int],
    weigh: Callable[[], Iterator[CountRows]],
    too_little: TooLittleMemoryError,
    counted: CountedParts,
    progress: StageProgress,
) -> dict[int, Model]:
    """The models that rows in memory would give, in rounds. Where that is not possible, raises what says how much would
    do instead of too_little.
    """
    available = find_learn_memory(config) or too_little.available
    memory_bytes = available.size_bytes - READ_BYTES
    all_rows = find_row_bytes(config, counted.most_rows, counted.most_bytes) * counted.most_rows + LEAST_LEFT_BYTES
    read_bytes = find_read_bytes(counted.rows_of_tables)
    in_memory = f"{format_size(max(all_rows, read_bytes))} are enough to learn in memory"
    if not can_learn_from_disk(config):
        raise TooLittleMemoryError(too_little.lack, too_little.available, f"{in_memory}; {NOT_IN_ROUNDS}. ")
    if available.size_bytes < (least := max(LEAST_BYTES + READ_BYTES, read_bytes)):
        enough = f"{format_size(least)} are enough to learn in rounds, from a temporary file; {in_memory}. "
        raise TooLittleMemoryError(too_little.lack, too_little.available, enough)
    progress.say(
        f"note: the pre-tokens do not fit in memory ({available.limit} leaves {format_size(available.size_bytes)}). "
        f"They are weighed into a file, and learned from in rounds: the same merges, in several times as long"
    )
    model_type = MODELS[config.learn.model]
    with spill(weigh(), config.learn.min_documents) as read:

        def learn(of_size: LearnOptions, larger: Model | None) -> Model:
            shorter = None if larger is None else model_type.shorten(larger, of_size)
            if shorter is not None:
                return shorter
            try:
                return model_type.learn_in_rounds(
                    read, memory_bytes, of_size, lambda told: progress.say(describe_round(told))
                )
            except TooLittleRoomError as error:
                raise LearnError(f"{error} {in_memory}.") from error

        return _learn_models(config, options, sizes, learn)


def _extend_model(
    base: Model, larger: Model | None, rows: Callable[[], tuple[Texts, Counts]], options: LearnOptions
) -> Model:
    """The base with further merges; larger: what came of a larger size, of which this is the beginning."""
    model = require_bpe(base, "learn.extend")
    if larger is not None:
        return shorten_further(require_bpe(larger, "learn.extend"), model, options)
    return learn_further(model, *rows(), options)


def _make_options(
    config: BuildConfig, mix: mixing.Mix, threads: int, merges_done: npt.NDArray[np.int64] | None
) -> LearnOptions:
    return LearnOptions(
        vocab_size=config.vocab_size,
        num_special=len(config.special),
        min_count=mix.scaled_min_count(config.learn.min_count),
        max_token_bytes=config.learn.max_token_bytes,
        scale=mix.scale,
        min_seed_count=mix.scaled_min_count(2),
        pieces=config.piece_options,
        threads=threads,
        end_of_word=config.end_of_word,
        layout=config.layout,
        character_coverage=config.learn.character_coverage,
        superset=config.learn.superset,
        pinned={token.text: token.id for token in config.special if token.id is not None},
        merges_done=merges_done,
    )


def _find_text_rules(config: BuildConfig) -> tuple[dict[str, str], tuple[str, ...]]:
    """(split pattern, normalizer) of the tokenizer: those of the build file, or what a model leaves of them.

    A model that marks spaces also applies the last step of the normalizer, and splits by a pattern of its own.
    """
    model = MODELS[config.learn.model]
    if not model.marks_spaces or config.learns_bytes:
        return make_pretokenizer(config).spec, config.normalize.steps
    steps = config.normalize.steps
    return {"name": model.pattern}, steps[:-1] if config.piece_options.has_charsmap else steps


def _weight_rows(
    config: BuildConfig, counted: CountedParts, merge: Callable[[], Iterator[CountRows]]
) -> tuple[Texts, Counts]:
    """The pre-tokens of all languages with their weighted counts. merge: gives them in pieces.

    Raises LearnError if learn.min_documents leaves none, StageError if there is not the memory to learn from them.
    """
    row_bytes = find_row_bytes(config, counted.most_rows, counted.most_bytes)
    if config.learn.min_documents <= 1:  # these rows are distinct
        require_memory(counted.least_rows, row_bytes, available=find_learn_memory(config))
    read_bytes = require_memory_to_read(counted.rows_of_tables, find_learn_memory(config))

    def watch(rows: int, held: int) -> None:
        available = find_learn_memory(config, held)
        require_memory_to_go_on(rows, counted.most_rows, row_bytes, held + read_bytes, available)

    texts, weighted = gather_rows(
        merge(),
        counted.most_rows,
        counted.most_bytes,
        config.learn.min_documents,
        watch,
    )
    held = texts.size_bytes + texts.offsets.nbytes + weighted.nbytes
    require_memory(len(weighted), row_bytes, held, find_learn_memory(config, held))
    return texts, weighted


def _merge_tables(
    counted: CountedParts, weights: Mapping[str, int], progress: StageProgress, levels: LevelsConfig | None
) -> Iterator[CountRows]:
    """The pre-tokens of all languages in order, each once, with their weighted counts.

    weights: of languages; of paths if there are levels.
    """
    tables = [(named, table) for key, table in counted.keyed_tables if (named := name_cell(levels, key)) in weights]
    with progress.stage("weigh", counted.most_rows, "rows", minor=True) as shown:
        read = [_read_table(table, shown.advance) for _, table in tables]
        yield from merge_many_rows(read, [weights[named] for named, _ in tables])


def _measure_sizes(languages: Mapping[str, CountedLanguage], balanced: str) -> dict[str, dict[str, int]]:
    """Unit -> size per language over what was counted. balanced: unit that is mixed by.

    A language that has no bytes, or nothing of that unit, weighs nothing, and is left out: one empty text is no reason
    to end a build.
    """
    sizes = {
        lang: {"bytes": of.counted_bytes, "pretokens": of.pretokens, "documents": of.counted_documents}
        for lang, of in languages.items()
    }
    there = {lang: size for lang, size in sizes.items() if size["bytes"] and size[balanced]}
    return {unit: {lang: size[unit] for lang, size in there.items()} for unit in UNITS}


def _mix_languages(
    config: BuildConfig, sizes: Mapping[str, Mapping[str, int]], languages: Collection[str]
) -> mixing.Mix:
    """languages: all that were counted, those that weigh nothing included."""
    chosen = sizes[config.mix.unit]
    return mixing.mix(
        chosen,
        sizes["bytes"],
        strategy=config.mix.begins_with,
        alpha=config.mix.exponents.alpha,
        density=config.mix.exponents.density,
        density_cap=config.mix.exponents.density_cap,
        pretokens=sizes["pretokens"],
        weights={lang: one for lang, one in config.mix.weights.items() if lang in chosen or lang not in languages},
        max_epochs=config.mix.max_epochs,
        budget=config.mix.budget,
    )


def _read_table(table: StoredTable, on_rows: Callable[[int], None]) -> Iterator[CountRows]:
    for rows in table.read():
        yield rows
        on_rows(rows.num_rows)


def _describe_languages(mix: mixing.Mix, sizes: Mapping[str, Mapping[str, int]]) -> dict[str, MixedLanguage]:
    shares = {unit: mixing.compute_shares(sizes[unit], mix.weights) for unit in UNITS}
    return {
        lang: MixedLanguage(
            mix.weights[lang], shares["bytes"][lang], shares["pretokens"][lang], shares["documents"][lang]
        )
        for lang in sorted(mix.weights)
    }
