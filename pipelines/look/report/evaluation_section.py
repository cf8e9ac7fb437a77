"""The page's table of measures: what `tokcore evaluate` tells, of the validation split or of the texts drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tokcore.evaluate.measures import MEASURES, Measure
from tokcore_pipelines.look.report.html_parts import (
    Cell,
    Html,
    Number,
    Rows,
    join,
    tag,
    write_estimate,
    write_name,
    write_table,
)

_WORD_LANGUAGES = 12  # whose words are shown under change: those with most text
_LEARNED = "*"
_KINDS = {"equal_data": "equal data", "equal_tokens": "equal tokens"}
_CHANGES = (
    ("tokens_per_word", "as it is", ".3f"),
    ("reversed", "reversed", ".3f"),
    ("one_edit", "one edit", ".3f"),
    ("kept_share", "tokens kept", ".1%"),
)


def write_evaluation(evaluation: Mapping[str, Any]) -> Html:
    """All measures, a column for each tokenizer, and words under change."""
    text, tokenizers = evaluation["text"], evaluation["tokenizers"]
    rows: Rows = [
        ["learned from this text", *(_write_learned(one["learned_share"]) for one in tokenizers.values())],
        *(
            [measure.title, *(_write_figure(measure, one) for one in tokenizers.values())]
            for measure in MEASURES
            if any(one.get(measure.key) is not None for one in tokenizers.values())
        ),
    ]
    own = next(iter(tokenizers.values()))
    marked = f" {_LEARNED} Learned from this text: other text gives other figures." if own["learned_share"] else ""
    said = f"Of the {text['from']}: {text['texts']:,} texts, {text['bytes']:,} bytes, up to {text['asked']:,} of each "
    parts = [
        tag("h3", "Beside each other, on the same text"),
        write_table(
            "Measures",
            ["measure", *map(write_name, tokenizers)],
            rows,
            note=f"{said}language.{marked} What each row means: docs/reference/evaluation.md.",
        ),
    ]
    largest = sorted(text["languages"], key=lambda lang: (-text["languages"][lang]["bytes"], lang))
    if langs := [lang for lang in largest if own["languages"][lang]["typos"] is not None][:_WORD_LANGUAGES]:
        parts.append(_write_words(tokenizers, langs))
    groups = dict.fromkeys(tuple(one["prediction"]["beside"]) for one in tokenizers.values())
    parts += [_write_prediction({name: tokenizers[name] for name in group}, largest) for group in groups]
    return join(parts)


def _write_figure(measure: Measure, one: Mapping[str, Any]) -> Cell:
    return Number(one[measure.key], measure.form, unit=_LEARNED if measure.is_of_text and one["learned_share"] else "")


def _write_learned(share: float | None) -> Cell:
    return "not known" if share is None else f"{share:.1%}" if share else "no"


def _write_prediction(tokenizers: Mapping[str, Any], largest: Sequence[str]) -> Html:
    """Bits per byte of tokenizers of one size; nothing where no language has enough texts."""
    predicted = [one["prediction"] for one in tokenizers.values()]
    langs = [lang for lang in largest if lang in predicted[0]["languages"]]
    if not langs:
        return Html("")
    sizes = {one["vocab_size"] for one in tokenizers.values()}
    rows: Rows = [
        [head, *(write_estimate(of[key]) for of in told for key in _KINDS)]
        for head, told in (
            ("mean of languages", predicted),
            *((write_name(lang), [one["languages"][lang] for one in predicted]) for lang in langs),
        )
    ]
    heads = [
        join([write_name(name), _LEARNED if one["learned_share"] else "", ", ", kind])
        for name, one in tokenizers.items()
        for kind in _KINDS.values()
    ]
    return write_table(
        f"Bits per byte, vocabularies of {' to '.join(f'{size:,}' for size in sorted({min(sizes), max(sizes)}))} ids",
        ["language", *heads],
        rows,
        langs=[None, *langs],
        note="Of a model of n-grams of the tokens, with 95 % margins. Not comparable with vocabularies of other sizes: "
        "a larger one needs more text to learn from. Defined in docs/reference/prediction.md.",
    )


def _write_words(tokenizers: Mapping[str, Any], langs: Sequence[str]) -> Html:
    rows: Rows = [
        [
            join([write_name(lang), ", ", write_name(name)]),
            Number(probed["words"]),
            *(Number(probed[key], form) for key, _, form in _CHANGES),
        ]
        for lang in langs
        for name, one in tokenizers.items()
        for probed in [one["languages"][lang]["typos"]]
    ]
    return write_table(
        "Words under change: tokens of a word",
        ["language, tokenizer", "words", *(title for _, title, _ in _CHANGES)],
        rows,
        langs=[lang for lang in langs for _ in tokenizers],
        note="One edit leaves out a letter, doubles it, or swaps it with the next, as the word's hash says. "
        "Tokens kept: of the tokens of the word, those that the edited word still has.",
    )
