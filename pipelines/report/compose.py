"""`tokcore report`: everything that the report says, as one value that JSON knows. The page shows what is here."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipelines.inspect.curve import count_table_ids
from pipelines.local.progress import StageProgress
from pipelines.report.corpus_facts import tell_corpus, tell_mixture
from pipelines.report.estimates import Drawing
from pipelines.report.health import examine_health
from pipelines.report.merge_history import tell_history
from pipelines.report.money import MODEL_SIZES, ModelSize, tell_costs
from pipelines.report.origin import tell_origin
from pipelines.report.parallel_text import choose_reference, compute_premiums, read_parallel_text
from pipelines.report.probes import draw_words, probe_tokenizer
from pipelines.report.shard_pass import DrawnText, ShardPass, read_all_shards
from pipelines.report.text_measures import measure_texts
from pipelines.report.tokenizer_tables import compare_tokenizers, find_copies
from pipelines.report.vocabulary_facts import compute_efficiency, count_scripts, measure_lengths
from pipelines.stages.commit import find_manifest, require_manifest
from pipelines.stages.token_count_table import read_token_counts
from pipelines.store.redaction import redact
from pipelines.store.tokenizers import load_tokenizer
from tokcore.curve import count_tokens_by_size
from tokcore.models.bpe import is_learned
from tokcore.tokenizer import Tokenizer

FORMAT, VERSION = "tokcore-report", 1

SAMPLE = 400  # texts that are drawn of each language
OWN = "this build"

_WORD_LANGUAGES = 12  # whose words are probed, those with most tokens


@dataclasses.dataclass(frozen=True, slots=True)
class Wishes:
    """What the user asked for. against: name -> tokenizer. parallel: URL of a folder, or empty."""

    against: Mapping[str, Tokenizer] = dataclasses.field(default_factory=dict)
    parallel: str = ""
    reference: str = ""
    sample: int = SAMPLE
    models: Sequence[ModelSize] = MODEL_SIZES


def make_report(output: str, wishes: Wishes, progress: StageProgress) -> dict[str, Any]:
    """The report of a finished build. Nothing is written.

    Raises ConfigError if the build is not finished or a wish cannot be met, FormatError for a damaged file.
    """
    build = require_manifest(output, "build", "build")
    shards = require_manifest(output, "shards", "build")
    own = load_tokenizer(output)
    tokenizers = {OWN: own, **wishes.against}
    # First what may be refused, then what takes long.
    parallel = read_parallel_text(wishes.parallel) if wishes.parallel else {}
    reference = choose_reference(list(parallel), wishes.reference) if parallel else ""

    with progress.stage("read", build.totals.records.documents, "documents") as phase:
        read = read_all_shards(output, shards, own, wishes.sample, phase.advance)
    texts = [text for of in read.drawn.values() for text in of]
    spelled = [own.decode(text.ids) for text in texts]
    drawing = Drawing(
        [text.lang for text in texts],
        np.array([text.copies for text in texts], np.int64),
        {lang: one.documents for lang, one in build.languages.items()},
        read.is_whole,
    )
    with progress.stage("compare", sum(map(len, spelled)), minor=True) as phase:
        measured = measure_texts(spelled, drawing.copies, list(tokenizers.values()), phase.advance)
        comparison = compare_tokenizers(list(tokenizers), read, texts, measured, drawing)
    table = read_token_counts(output)
    written = dict(zip(table["id"].to_pylist(), table["count"].to_pylist(), strict=True))
    with progress.stage("tables", minor=True):
        vocabulary = _tell_vocabulary(output, own)
    premiums = None
    if parallel:
        total = sum(len(line) for lines in parallel.values() for line in lines)
        with progress.stage("parallel", total, minor=True) as phase:
            premiums = compute_premiums(tokenizers, parallel, reference, phase.advance)
    with progress.stage("probe", minor=True):
        words = _choose_words(read, texts, spelled)
        probes = {name: probe_tokenizer(one, words) for name, one in tokenizers.items()}
    with progress.stage("health", minor=True):
        health = examine_health(output, own, written, comparison["languages"], OWN)
    ordinary = {id: count for id, count in written.items() if id not in own.specials.values()}
    return {
        "format": FORMAT,
        "format_version": VERSION,
        "output": redact(output),
        "tokenizers": {name: _describe_tokenizer(one) for name, one in tokenizers.items()},
        "sample": {
            "asked": wishes.sample,
            "texts": len(texts),
            "documents": int(drawing.copies.sum()),
            "bytes": sum(map(len, spelled)),
            "languages": {
                lang: {"texts": len(of), "all": read.is_whole[lang]} for lang, of in sorted(read.drawn.items())
            },
        },
        "corpus": {
            **tell_corpus(build, find_manifest(output, "counts"), read, own.lossless),
            "mixture": tell_mixture(find_manifest(output, "mixed")),
            "copies": find_copies(texts),
            "invisible": health.pop("invisible_in_text"),
        },
        "tokenizer": {
            "comparison": comparison,
            "premiums": premiums,
            "efficiency": {
                "corpus": compute_efficiency(list(ordinary.values()), len(own.spec.model.ids)),
                "drawn": {
                    name: compute_efficiency(counts.tolist(), len(one.spec.model.ids))
                    for (name, one), counts in zip(tokenizers.items(), measured.id_counts, strict=True)
                },
            },
            **vocabulary,
            "lengths": measure_lengths(own, written),
            "scripts": {name: count_scripts(one) for name, one in tokenizers.items()},
            "probes": probes,
        },
        "health": health,
        "money": tell_costs(
            comparison,
            {name: one.vocab_size for name, one in tokenizers.items()},
            {lang: (one.documents, one.tokens) for lang, one in build.languages.items() if lang in read.fits},
            read.fits,
            wishes.models,
        ),
        "provenance": tell_origin(output),
    }


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


def _choose_words(read: ShardPass, texts: Sequence[DrawnText], spelled: Sequence[bytes]) -> dict[str, list[str]]:
    """The words to probe, of the languages with most tokens that have words."""
    tokens: dict[str, int] = {}
    for (lang, _), amount in read.amounts.items():
        tokens[lang] = tokens.get(lang, 0) + amount.tokens
    words: dict[str, list[str]] = {}
    for lang in sorted(tokens, key=lambda lang: (-tokens[lang], lang)):
        drawn = draw_words([data for text, data in zip(texts, spelled, strict=True) if text.lang == lang])
        if len(drawn) >= 20 and len(words) < _WORD_LANGUAGES:
            words[lang] = drawn
    return words


def _tell_vocabulary(output: str, tokenizer: Tokenizer) -> dict[str, Any]:
    """The vocabulary curve and the history of merges; None for a tokenizer that was not learned by BPE here."""
    model = tokenizer.spec.model
    made = find_manifest(output, "tokenizer")
    if not is_learned(model) or find_manifest(output, "counts") is None or made is None:
        return {"curve": None, "history": None}
    most = 256 + len(model.merges)
    sizes = [*(2**power for power in range(9, 32) if 2**power < most), most]
    num_by_lang, curve = {}, {}
    for lang, num_bytes, num_by_id in count_table_ids(output, tokenizer):
        num_by_lang[lang] = num_by_id
        curve[lang] = {"bytes": num_bytes, "tokens": count_tokens_by_size(model.merges, num_by_id[:most], sizes)}
    weights = {lang: one.weight for lang, one in made.languages.items()}
    return {
        "curve": {"sizes": sizes, "languages": curve},
        "history": tell_history(model, num_by_lang, weights),
    }
