"""`tokcore report`: everything that the report says, as one value that JSON knows. The page shows what is here."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tokcore.evaluate.spread import compute_efficiency
from tokcore.learn.parallel_text import take_odd_lines
from tokcore.look.vocabulary_curve import count_tokens_by_size
from tokcore.models.bpe import is_learned
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.build.output import Output
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.look.curve import count_table_ids
from tokcore_pipelines.look.evaluate import tell_judged
from tokcore_pipelines.look.judged_texts import Judged, TextDraw, draw_validation, has_validation
from tokcore_pipelines.look.parallel_text import choose_reference, compute_premiums, read_parallel_text
from tokcore_pipelines.look.report.corpus_facts import (
    tell_by_source,
    tell_corpus,
    tell_mixture,
    tell_partitions,
    tell_validation,
)
from tokcore_pipelines.look.report.estimates import Drawing
from tokcore_pipelines.look.report.health import examine_health
from tokcore_pipelines.look.report.merge_history import tell_history
from tokcore_pipelines.look.report.money import MODEL_SIZES, ModelSize, tell_costs
from tokcore_pipelines.look.report.origin import tell_origin
from tokcore_pipelines.look.report.probes import probe_tokenizer
from tokcore_pipelines.look.report.shard_pass import DrawnText, ShardPass, read_all_shards
from tokcore_pipelines.look.report.text_measures import measure_texts
from tokcore_pipelines.look.report.tokenizer_tables import compare_tokenizers, find_copies
from tokcore_pipelines.look.report.verdict import judge
from tokcore_pipelines.look.report.vocabulary_facts import count_scripts, measure_lengths
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.store.tokenizers import load_tokenizer
from tokcore_schemas.stage_manifests import BuildManifest, LearnedConfig, MixedLanguage
from tokcore_schemas.stage_table import MIXED, SHARDS, TOKENIZER

FORMAT, VERSION = "tokcore-report", 2

SAMPLE = 400  # texts that are drawn of each language
OWN = "this build"


@dataclasses.dataclass(frozen=True, slots=True)
class Wishes:
    """What the user asked for. against: name -> tokenizer. parallel: URL of a folder, or empty."""

    against: Mapping[str, Tokenizer] = dataclasses.field(default_factory=dict)
    parallel: str = ""
    reference: str = ""
    sample: int = SAMPLE
    models: Sequence[ModelSize] = MODEL_SIZES


def make_report(output: Output, wishes: Wishes, progress: StageProgress) -> dict[str, Any]:
    """The report of a finished build, or of a commit of its output. Nothing is written.

    Raises ConfigError if the build is not finished or a wish cannot be met, FormatError for a damaged file.
    """
    build = output.add_up_build()
    own = load_tokenizer(output.url)
    tokenizers = {OWN: own, **wishes.against}
    parallel = _read_parallel(wishes, output)  # what may be refused comes before what takes long
    with progress.stage("read", build.totals.records.documents, "documents") as phase:
        read = read_all_shards(output.require_all(SHARDS), own, wishes.sample, phase.advance)
    drawn = _spell_drawn(read, own, build)
    with progress.stage("compare", sum(map(len, drawn.spelled)), minor=True) as phase:
        measured = measure_texts(drawn.spelled, list(tokenizers.values()), phase.advance)
        comparison = compare_tokenizers(list(tokenizers), read, drawn.texts, measured, drawn.drawing)
    table = output.read_token_counts()
    written = dict(zip(table["id"].to_pylist(), table["count"].to_pylist(), strict=True))
    with progress.stage("tables", minor=True):
        vocabulary = _tell_vocabulary(output, own)
    premiums = None if parallel is None else parallel.compare(tokenizers, progress)
    with progress.stage("probe", minor=True):
        probes = {name: probe_tokenizer(one) for name, one in tokenizers.items()}
    evaluation = _evaluate(output, tokenizers, drawn, wishes.sample, premiums, progress)
    with progress.stage("health", minor=True):
        health = examine_health(output, own, written, comparison["languages"], OWN)
    report: dict[str, Any] = {
        "format": FORMAT,
        "format_version": VERSION,
        "output": redact(output.url),
        "tokenizers": {name: _describe_tokenizer(one) for name, one in tokenizers.items()},
        "sample": _tell_sample(wishes.sample, read, drawn),
        "corpus": {
            **tell_corpus(build, read, own.lossless),
            **({"partitions": partitions} if (partitions := tell_partitions(output.require_all(SHARDS))) else {}),
            "filtered": tell_by_source(output, build, "filtered"),
            "masked": tell_by_source(output, build, "masked"),
            "cut": tell_by_source(output, build, "cut"),
            "validation": tell_validation(read, own.lossless, _find_learned_splits(output)),
            "mixture": tell_mixture(next((made for _, made in output.find_all(MIXED)), None)),
            "copies": find_copies(drawn.texts),
            "invisible": health.pop("invisible_in_text"),
        },
        "tokenizer": {
            "comparison": comparison,
            "premiums": premiums,
            "evaluation": evaluation,
            "efficiency": _tell_efficiency(own, written),
            **vocabulary,
            "lengths": measure_lengths(own, written),
            "scripts": {name: count_scripts(one) for name, one in tokenizers.items()},
            "probes": probes,
        },
        "health": health,
        "money": _tell_money(comparison, tokenizers, build, read, wishes.models, vocabulary["curve"]),
        "provenance": tell_origin(output),
    }
    return {**report, "verdict": judge(report, OWN)}


def _find_learned_splits(output: Output) -> str:
    """Which documents the tokenizer was learned from: train, all, or none where it was imported."""
    made = find_manifest(output.url, TOKENIZER)
    if made is None or not isinstance(made.config, LearnedConfig):
        return "none"
    return made.config.splits or "all"


class _ParallelText(NamedTuple):
    """Language -> the same sentences, and the language that the others are compared with."""

    lines: dict[str, list[bytes]]
    reference: str
    even: bool  # whether these are the even lines alone, as weights followed the odd ones

    def compare(self, tokenizers: Mapping[str, Tokenizer], progress: StageProgress) -> dict[str, Any]:
        """The premiums of every tokenizer."""
        size_bytes = sum(len(line) for lines in self.lines.values() for line in lines)
        with progress.stage("parallel", size_bytes, minor=True) as phase:
            told = compute_premiums(tokenizers, self.lines, self.reference, phase.advance)
        return {**told, "even_lines": True} if self.even else told


def _read_parallel(wishes: Wishes, output: Output) -> _ParallelText | None:
    if not wishes.parallel:
        return None
    lines = read_parallel_text(wishes.parallel)
    made = find_manifest(output.url, TOKENIZER)
    tuned_on = made.totals.mix.get("parallel_sha256") if made is not None else None
    even = take_odd_lines(lines).sha256 == tuned_on
    if even:
        lines = {lang: of[1::2] for lang, of in lines.items()}
    return _ParallelText(lines, choose_reference(list(lines), wishes.reference), even)


class _Drawn(NamedTuple):
    """The drawn texts, what their ids spell, and how they were drawn."""

    texts: Sequence[DrawnText]
    spelled: Sequence[bytes]
    drawing: Drawing


def _spell_drawn(read: ShardPass, own: Tokenizer, build: BuildManifest) -> _Drawn:
    texts = [text for of in read.drawn.values() for text in of]
    drawing = Drawing(
        [text.lang for text in texts],
        np.array([text.copies for text in texts], np.int64),
        {lang: one.documents for lang, one in build.languages.items()},
        read.is_whole,
    )
    return _Drawn(texts, [own.decode(text.ids) for text in texts], drawing)


def _tell_sample(asked: int, read: ShardPass, drawn: _Drawn) -> dict[str, Any]:
    """How many texts were drawn. asked: texts to draw of each language."""
    return {
        "asked": asked,
        "texts": len(drawn.texts),
        "documents": int(drawn.drawing.copies.sum()),
        "bytes": sum(map(len, drawn.spelled)),
        "languages": {lang: {"texts": len(of), "all": read.is_whole[lang]} for lang, of in sorted(read.drawn.items())},
    }


def _tell_efficiency(own: Tokenizer, written: Mapping[int, int]) -> dict[str, Any]:
    """Of this build over the corpus. written: id -> how often."""
    ordinary = [count for id, count in written.items() if id not in own.specials.values()]
    return {"corpus": compute_efficiency(ordinary, len(own.spec.model.ids))}


def _tell_money(
    comparison: Mapping[str, Any],
    tokenizers: Mapping[str, Tokenizer],
    build: BuildManifest,
    read: ShardPass,
    models: Sequence[ModelSize],
    curve: Mapping[str, Any] | None,
) -> dict[str, Any]:
    vocab_sizes = {name: one.vocab_size for name, one in tokenizers.items()}
    lengths = {lang: (one.documents, one.tokens) for lang, one in build.languages.items() if lang in read.fits}
    return tell_costs(comparison, vocab_sizes, lengths, read.fits, models, curve)


def _describe_tokenizer(tokenizer: Tokenizer) -> dict[str, Any]:
    spec = tokenizer.spec
    return {
        "fingerprint": tokenizer.fingerprint,
        "kind": spec.model.kind,
        "vocab_size": tokenizer.vocab_size,
        "tokens": len(spec.model.ids),
        "special": len(spec.special),
        "pattern": spec.pattern_name,
        "normalizer": list(spec.normalizer),
        "lossless": tokenizer.lossless,
    }


def _evaluate(
    output: Output,
    tokenizers: Mapping[str, Tokenizer],
    drawn: _Drawn,
    sample: int,
    premiums: Mapping[str, Any] | None,
    progress: StageProgress,
) -> dict[str, Any] | None:
    """What `tokcore evaluate` tells, of the validation split; where there is none, of the drawn texts. None of no text.

    drawn: read from the shards of both splits.
    """
    judged, origin = Judged({}, {}, {}), "validation split"
    if tokenizers[OWN].spec.keeps_text and has_validation(output):
        with progress.stage("validation", minor=True) as phase:
            judged = draw_validation(output, sample, phase.advance)
    if not judged.texts:
        judged, origin = _gather_drawn(drawn, sample), "texts drawn from all shards"
    if not judged.texts:
        return None
    told = tell_judged(tokenizers, {OWN: output.url}, judged, premiums, progress)
    return {"text": {"from": origin, "asked": sample, **told["text"]}, "tokenizers": told["tokenizers"]}


def _gather_drawn(drawn: _Drawn, sample: int) -> Judged:
    draw = TextDraw(sample)
    for text, spelled in zip(drawn.texts, drawn.spelled, strict=True):
        draw.add(text.lang, spelled)
    return draw.finish()


def _tell_vocabulary(output: Output, tokenizer: Tokenizer) -> dict[str, Any]:
    """The vocabulary curve and the history of merges; None for a tokenizer that was not learned by BPE here."""
    model = tokenizer.spec.model
    made = find_manifest(output.url, TOKENIZER)
    if not is_learned(model) or output.find_counted() is None or made is None:
        return {"curve": None, "history": None}
    most = 256 + len(model.merges)
    sizes = [*(2**power for power in range(9, 32) if 2**power < most), most]
    num_by_lang, curve = {}, {}
    for lang, num_bytes, num_by_id in count_table_ids(output, tokenizer):
        num_by_lang[lang] = num_by_id
        curve[lang] = {"bytes": num_bytes, "tokens": count_tokens_by_size(model.merges, num_by_id[:most], sizes)}
    # A language that came after the tokenizer was learned weighed nothing.
    weights = _find_weights({lang: one for lang, one in made.languages.items() if lang in num_by_lang})
    return {
        "curve": {"sizes": sizes, "languages": curve},
        "history": tell_history(model, num_by_lang, weights),
    }


def _find_weights(languages: Mapping[str, MixedLanguage]) -> dict[str, float]:
    """Weights of languages up to a common factor; where sources of one have several, its mean over pre-tokens."""
    weights = {lang: one.weight for lang, one in languages.items() if one.weight is not None}
    if len(weights) == len(languages):
        return {**weights}
    shares = {lang: [*map(float, one.share_of_pretokens)] for lang, one in languages.items()}
    return {lang: after / before if before else 0.0 for lang, (before, after) in shares.items()}
