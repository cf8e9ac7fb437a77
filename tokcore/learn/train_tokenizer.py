"""A tokenizer learned from texts in memory: what a build does in its stages count and learn, in one call.

Equal to the build over the same documents: the settings mean what they mean in a build file, and have its defaults.
Leaves to others: reading tables (count.text_sources), counting and spilling (count.language_counts), learning (models).
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from tokcore.count.language_counts import Counted, CountingRules, count_languages
from tokcore.count.sum_of_runs import merge_many_rows
from tokcore.count.text_sources import count_texts, read_batches
from tokcore.errors import ConfigError, LearnError
from tokcore.learn import language_weights, parity
from tokcore.learn.parallel_text import OddLines, parse_parallel_text, take_odd_lines
from tokcore.learn.weighted_rows import gather_rows, require_size
from tokcore.look.progress_bar import Tell, find_teller, telling
from tokcore.models import DEFAULT_MODEL, MODELS, LearnOptions, ModelType
from tokcore.models.model import DEFAULT_COVERAGE, DEFAULT_SUPERSET, find_pinned
from tokcore.models.sentencepiece.piece_options import PieceOptions
from tokcore.text.normalize import Normalizer, name_space_step
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.text.sentencepiece_tables import NORMALIZER
from tokcore.tokenizer.tokenizer_spec import (
    PLAIN,
    SpecialToken,
    TokenizerSpec,
    make_learned_spec,
    parse_special_tokens,
)

_DEFAULT_SPECIAL = {"<|endoftext|>": "document_end"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TrainSettings:
    """What Tokenizer.train takes besides texts; by the names of a build file, which says more about each.

    vocab_size: special tokens included; None: the model's own. special: texts and roles, or a list of texts and
    SpecialTokens; None: <|endoftext|>, unless the model has tokens of its own. pattern: the name of a split pattern or
    a regular expression, and normalizer: steps; None: the model's own. pieces: for unigram and sentencepiece-bpe.
    superset: for pathpiece. mix: keys of [mix], such as {"strategy": "natural"}; parallel: a folder, or a mapping of
    languages to lists of sentences. threads: None: one for each core.
    memory_bytes: of the counters, which go to temporary files beyond it; learning itself takes 168 to 233 bytes for
    each distinct pre-token.
    """

    vocab_size: int | None = None
    model: str = DEFAULT_MODEL
    special: Mapping[str, str] | Iterable[str | SpecialToken] | None = None
    pattern: str | None = None
    normalizer: Sequence[str] | None = None
    min_count: int = 2
    min_documents: int = 0
    max_token_bytes: int = 0
    end_of_word: str = ""
    allow_smaller: bool = False
    character_coverage: Decimal | str = DEFAULT_COVERAGE
    superset: Decimal | int | str = DEFAULT_SUPERSET
    pieces: PieceOptions = dataclasses.field(default_factory=PieceOptions)
    mix: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    mask: Sequence[str] = ()
    max_pretoken_bytes: int = 1024
    threads: int | None = None
    memory_bytes: int = 1 << 30


def parse_settings(settings: Mapping[str, Any]) -> TrainSettings:
    """Settings by name. Raises ConfigError for an unknown one and for a value that is out of range."""
    known = [one.name for one in dataclasses.fields(TrainSettings)]
    for name in settings:
        if name not in known:
            nearest = difflib.get_close_matches(name, known, 1)
            hint = f" Did you mean {nearest[0]}?" if nearest else ""
            raise ConfigError(f"there is no setting {name!r}: expected some of {', '.join(known)}.{hint}")
    made = TrainSettings(**settings)
    if made.model not in MODELS:
        raise ConfigError(f"model = {made.model!r}: expected one of {', '.join(MODELS)}")
    for name, least in (("vocab_size", 1), ("threads", 1), ("min_count", 0), ("min_documents", 0)):
        value = getattr(made, name)
        if value is not None and (not isinstance(value, int) or value < least):
            raise ConfigError(f"{name} = {value!r}: expected a whole number of at least {least}")
    if made.max_pretoken_bytes < 0 or 0 < made.max_pretoken_bytes < 4:
        raise ConfigError(f"max_pretoken_bytes = {made.max_pretoken_bytes}: must be 0 (never cut) or at least 4")
    return made


def train_tokenizer(
    texts: Any,
    langs: str | Iterable[str] | None,
    column: str,
    settings: TrainSettings,
    progress: Tell | bool | None,
    count_tokens: Callable[[TokenizerSpec, Sequence[bytes]], int],
) -> TokenizerSpec:
    """The tokenizer of these texts. texts, langs, column: as count.text_sources.read_batches takes them.

    count_tokens: how many tokens a tokenizer gives for lines, asked where weights follow the premium.

    Raises ConfigError for settings that exclude each other, LearnError if the texts do not give the vocabulary.
    """
    plan = _Plan(settings)
    tell = find_teller(progress)
    threads = settings.threads or _count_cores()
    done = [0]

    def advance(num: int) -> None:
        done[0] += num

    with contextlib.ExitStack() as stack:
        batches = read_batches(texts, langs, column)
        with telling(tell, "count", count_texts(texts), "documents", lambda: done[0]):
            counting = count_languages(batches, plan.rules, threads, settings.memory_bytes, advance)
            counted = stack.enter_context(counting)
        mix, sizes_bytes = _weigh_languages(counted, settings)

        def learn(mix: language_weights.Mix) -> TokenizerSpec:
            return _learn(plan, counted, mix, threads, tell)

        if plan.odd is None:
            return learn(mix)
        target = Decimal(_make_decimal(settings.mix.get("target_premium", parity.DEFAULT_TARGET)))
        return parity.learn_by_premium(mix, sizes_bytes, plan.odd, target, learn, count_tokens)[1]


def _learn(plan: _Plan, counted: Counted, mix: language_weights.Mix, threads: int, tell: Tell | None) -> TokenizerSpec:
    """The tokenizer of counts with these weights."""
    settings, options = plan.settings, plan.options(mix, threads)

    def rows() -> Any:
        weights = [mix.weights[lang] for lang, _ in counted.runs if lang in mix.weights]
        runs = [run for lang, run in counted.runs if lang in mix.weights]
        bounds = counted.most_rows, counted.most_bytes
        return gather_rows(merge_many_rows(runs, weights), *bounds, settings.min_documents)

    assert options.merges_done is not None
    merges_done = options.merges_done
    with telling(tell, "learn", plan.type.count_merges(options), "merges", lambda: int(merges_done[0])):
        model = plan.type.learn(rows, options)
    if not settings.allow_smaller:
        limits = {name: getattr(settings, name) for name in ("min_count", "min_documents", "max_token_bytes")}
        require_size(settings.model, model, options.vocab_size, options.num_special, limits, "vocab_size")
    pattern, steps = plan.text_rules
    return make_learned_spec(model, pattern, steps, plan.special)


class _Plan:
    """What follows from settings and the model before anything is counted."""

    def __init__(self, settings: TrainSettings) -> None:
        self.settings = settings
        self.type: ModelType = MODELS[settings.model]
        self.pretokenizer = Pretokenizer.of(settings.pattern or self.type.pattern)
        own = self.pretokenizer.spec == {"name": self.type.pattern}
        named = "name" in self.pretokenizer.spec
        self.in_bytes = self.type.marks_spaces and self.type.splits_by_any and named and not own
        if self.type.marks_spaces and not self.type.splits_by_any and named and not own:
            raise ConfigError(
                f"pattern = {settings.pattern!r}: the model {settings.model} splits text by {self.type.pattern}. "
                f"Leave pattern out, or give a regular expression of your own"
            )
        given = settings.normalizer
        if isinstance(given, str):
            raise ConfigError(f"normalizer = {given!r}: expected a list of steps")
        self.steps = tuple(given) if given is not None else (() if self.in_bytes else self.type.normalizer)
        self.special = _complete_special(self.type, settings.special)
        self.pieces = dataclasses.replace(
            settings.pieces,
            reserved=tuple(token.text for token in self.special),
            has_charsmap=self.steps[-1:] == (NORMALIZER,) and not self.in_bytes,
            as_bytes=self.in_bytes,
        )
        if settings.end_of_word and "end_of_word" not in self.type.uses:
            raise ConfigError(
                f"end_of_word = {settings.end_of_word!r}: is for {DEFAULT_MODEL}, and model is {settings.model}"
            )
        if (wrong := self.type.wrong_option(self.options(None, 1))) is not None:
            raise ConfigError(" ".join(wrong))
        self.odd = _take_odd_lines(settings)

    @property
    def rules(self) -> CountingRules:
        """How texts are counted."""
        steps = self.steps
        if self.type.marks_spaces and not self.in_bytes:
            steps += (name_space_step(self.pieces.add_dummy_prefix, self.pieces.remove_extra_whitespaces),)
        settings = self.settings
        return CountingRules(self.pretokenizer, Normalizer(steps), settings.max_pretoken_bytes, tuple(settings.mask))

    @property
    def text_rules(self) -> tuple[Mapping[str, str], tuple[str, ...]]:
        """(split pattern, normalizer) of the tokenizer. A model that marks spaces has a step and a pattern itself."""
        if not self.type.marks_spaces or self.in_bytes:
            return self.pretokenizer.spec, self.steps
        return {"name": self.type.pattern}, self.steps[:-1] if self.pieces.has_charsmap else self.steps

    def options(self, mix: language_weights.Mix | None, threads: int) -> LearnOptions:
        """What the model is told. mix: None before languages are weighed."""
        settings, num_special = self.settings, len(self.special)
        heeded = settings.vocab_size if "vocab_size" in self.type.uses else None
        return LearnOptions(
            vocab_size=heeded if heeded is not None else self.type.default_vocab_size(num_special),
            num_special=num_special,
            min_count=settings.min_count if mix is None else mix.scaled_min_count(settings.min_count),
            max_token_bytes=settings.max_token_bytes,
            end_of_word=settings.end_of_word,
            scale=1 if mix is None else mix.scale,
            min_seed_count=2 if mix is None else mix.scaled_min_count(2),
            pieces=self.pieces,
            threads=threads,
            character_coverage=Decimal(settings.character_coverage),
            superset=Decimal(settings.superset),
            pinned={token.text: token.id for token in self.special if token.id is not None},
            merges_done=np.zeros(1, np.int64),
        )


def _complete_special(
    model: ModelType, given: Mapping[str, str] | Iterable[str | SpecialToken] | None
) -> list[SpecialToken]:
    """The special tokens, those that the model always has first, with their ids."""
    ends = "document_end" in model.own_special.values()
    declared = parse_special_tokens(given if given is not None else ({} if ends else _DEFAULT_SPECIAL))
    by_text = {token.text: token for token in declared}
    pinned = {token.text: token.id for token in declared if token.id is not None}
    ids = find_pinned(LearnOptions(vocab_size=0, pinned=pinned), model.own_special)
    own = []
    for text, role in model.own_special.items():
        named = by_text.pop(text, None)
        if named is not None and named.role != PLAIN:
            role = named.role
        own.append(SpecialToken(text, ids[text], role))
    return [*own, *by_text.values()]


def _take_odd_lines(settings: TrainSettings) -> OddLines | None:
    """What weights follow; None if they follow no premium."""
    if settings.mix.get("strategy") != "parity":
        return None
    if not MODELS[settings.model].follows_premium:
        raise ConfigError(f'mix.strategy = "parity": its weights cannot follow what {settings.model} learns')
    given = settings.mix.get("parallel")
    if given is None:
        raise ConfigError("mix.parallel is missing: a folder, or a mapping of languages to lists of sentences")
    if isinstance(given, Mapping):
        return take_odd_lines({lang: [_encode(line) for line in lines] for lang, lines in given.items()})
    folder = Path(given)
    try:
        names = [path.name for path in folder.iterdir() if path.is_file()]
        text = parse_parallel_text(names, lambda name: (folder / name).read_bytes(), f"mix.parallel = {folder}")
    except OSError as error:
        raise ConfigError(f"mix.parallel = {folder}: cannot be read: {error.strerror}") from error
    return take_odd_lines(text)


def _encode(line: str | bytes) -> bytes:
    return line.encode() if isinstance(line, str) else line


def _weigh_languages(counted: Counted, settings: TrainSettings) -> tuple[language_weights.Mix, dict[str, int]]:
    """The weight of each language, as a build with the same [mix] has it, before any premium; and sizes in bytes."""
    how = dict(settings.mix)
    if how.get("strategy") == "parity":
        how = {name: value for name, value in how.items() if name not in ("strategy", "parallel", "target_premium")}
    unit = how.pop("unit", "bytes")
    preset = how.pop("preset", None)
    exponents = language_weights.DEFAULT if preset is None else language_weights.PRESETS.get(preset)
    if unit not in ("bytes", "pretokens", "documents"):
        raise ConfigError(f"mix.unit = {unit!r}: expected bytes, pretokens or documents")
    if exponents is None:
        raise ConfigError(f"mix.preset = {preset!r}: expected {', '.join(language_weights.PRESETS)}")
    there = {lang: sizes for lang, sizes in counted.sizes.items() if sizes.bytes and getattr(sizes, unit)}
    if not there:
        raise LearnError("there is no text to learn from: texts has none, or they are all empty")
    defaults = {"alpha": exponents.alpha, "density": exponents.density, "density_cap": exponents.density_cap}
    sizes_bytes = {lang: sizes.bytes for lang, sizes in there.items()}
    try:
        mixed = language_weights.mix(
            {lang: getattr(sizes, unit) for lang, sizes in there.items()},
            sizes_bytes,
            pretokens={lang: sizes.pretokens for lang, sizes in there.items()},
            **{**defaults, **{name: _make_decimal(value) for name, value in how.items()}},
        )
    except TypeError as error:
        raise ConfigError(f"mix = {settings.mix!r}: {error}") from error
    return mixed, sizes_bytes


def _make_decimal(value: Any) -> Any:
    """Numbers with a point as a build file has them: by how they are spelled."""
    if isinstance(value, Mapping):
        return {name: _make_decimal(one) for name, one in value.items()}
    return Decimal(repr(value)) if isinstance(value, float) else value


def _count_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
