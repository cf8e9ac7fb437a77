"""`tokcore evaluate`: tokenizers beside each other, on text that was not learned from. As one value that JSON knows.

The measures are in tokcore.evaluate; which texts they are of is in judged_texts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tokcore.errors import ConfigError
from tokcore.evaluate.evaluation import evaluate
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.local.cores import count_cores
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.look.judged_texts import (
    Judged,
    TextDraw,
    draw_from_files,
    draw_validation,
    find_learned_share,
    find_output,
    has_validation,
)
from tokcore_pipelines.look.parallel_text import choose_reference, compute_premiums, read_parallel_text
from tokcore_pipelines.store.redaction import redact

SAMPLE = 400  # texts that are drawn of each language
FORMAT, VERSION = "tokcore-evaluation", 1

Source = tuple[Mapping[str, Any], str]  # settings of a [[source]], and the folder of its patterns


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """What to evaluate. named: URL of each tokenizer, by its name. sources: of --data. parallel: URL, or empty."""

    tokenizers: Mapping[str, Tokenizer]
    named: Mapping[str, str]
    sources: Sequence[Source] = ()
    parallel: str = ""
    reference: str = ""
    sample: int = SAMPLE


def evaluate_tokenizers(asked: Asked, progress: StageProgress) -> dict[str, Any]:
    """Every measure of every tokenizer, and the texts that they are of.

    The texts are those of --data, else of the validation split of the first output that has one, else the parallel
    text. Raises ConfigError if there are none of these, or they cannot be read.
    """
    lines = read_parallel_text(asked.parallel) if asked.parallel else {}
    reference = choose_reference([*lines], asked.reference) if lines else ""
    origin, judged = _draw(asked, lines, progress)
    premiums = None
    if lines:
        size_bytes = sum(len(line) for of in lines.values() for line in of)
        with progress.stage("parallel", size_bytes, minor=True) as phase:
            premiums = compute_premiums(asked.tokenizers, lines, reference, phase.advance)
        for name, url in asked.named.items():
            share = find_learned_share(url, asked.tokenizers[name], lines)
            premiums["tokenizers"][name]["learned_share"] = share
    told = tell_judged(asked.tokenizers, asked.named, judged, premiums, progress)
    return {
        "format": FORMAT,
        "format_version": VERSION,
        "text": {"from": origin, "asked": asked.sample, **told["text"]},
        "tokenizers": told["tokenizers"],
        "parallel": premiums,
    }


def tell_judged(
    tokenizers: Mapping[str, Tokenizer],
    named: Mapping[str, str],
    judged: Judged,
    premiums: Mapping[str, Any] | None,
    progress: StageProgress,
) -> dict[str, Any]:
    """What the texts are, and every measure of every tokenizer: {"text": ..., "tokenizers": {name: ...}}.

    named: URL of each tokenizer that has one, which may tell what it was learned from. premiums: of these tokenizers,
    as compute_premiums gives them, or None.
    """
    size_bytes = sum(len(text) for of in judged.texts.values() for text in of)
    with progress.stage("evaluate", len(tokenizers) * size_bytes, minor=True) as phase:
        told = evaluate(tokenizers, judged.texts, phase.advance, threads=count_cores())
    with progress.stage("learned", minor=True):
        learned = {
            name: find_learned_share(named[name], one, judged.texts) if name in named else None
            for name, one in tokenizers.items()
        }
    return {
        "text": {
            "texts": sum(map(len, judged.texts.values())),
            "bytes": size_bytes,
            "languages": {
                lang: {
                    "texts": len(of),
                    "all": judged.is_whole[lang],
                    "documents": judged.documents[lang],
                    "bytes": sum(map(len, of)),
                }
                for lang, of in judged.texts.items()
            },
        },
        "tokenizers": {
            name: {
                "named": redact(named.get(name, "")),
                "kind": tokenizer.spec.model.kind,
                "vocab_size": tokenizer.vocab_size,
                "fingerprint": tokenizer.fingerprint,
                "learned_share": learned[name],
                **_take_premiums(premiums, name),
                **told[name],
            }
            for name, tokenizer in tokenizers.items()
        },
    }


def _take_premiums(premiums: Mapping[str, Any] | None, name: str) -> dict[str, Any]:
    own = None if premiums is None else premiums["tokenizers"][name]
    return {
        "premium_p90": own and own["p90"],
        "premium_median": own and own["median"],
        "gini": own and own["gini"],
        "parallel_learned_share": own and own.get("learned_share"),
    }


def _draw(asked: Asked, lines: Mapping[str, list[bytes]], progress: StageProgress) -> tuple[str, Judged]:
    """Where the texts are from, and the texts."""
    if asked.sources:
        with progress.stage("read", minor=True) as phase:
            return "files", draw_from_files(asked.sources, asked.sample, phase.advance)
    for url in asked.named.values():
        if (output := find_output(url)) is not None and has_validation(output):
            with progress.stage("read", minor=True) as phase:
                judged = draw_validation(output, asked.sample, phase.advance)
            if judged.texts:
                return f"validation split of {redact(url)}", judged
    if not lines:
        first = redact(next(iter(asked.named.values())))
        raise ConfigError(
            f"{first}: there is no text that was not learned from: no output named here has a validation split. Name "
            f"files that no tokenizer was learned from, with --data FILES; or build with [shards] validation = 0.01"
        )
    draw = TextDraw(asked.sample)
    for lang, of in lines.items():
        for line in of:
            draw.add(lang, line)
    return "parallel text", draw.finish()
