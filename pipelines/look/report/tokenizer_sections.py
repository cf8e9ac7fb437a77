"""The page's section about the tokenizer, beside others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tokcore_pipelines.look.report.evaluation_section import write_evaluation
from tokcore_pipelines.look.report.html_parts import (
    Html,
    Number,
    Rows,
    join,
    make_visible,
    place_chart,
    tag,
    write_estimate,
    write_name,
    write_section,
    write_table,
)
from tokcore_pipelines.look.report.probes import list_emoji

_MOST_SOURCES = 60
_MEASURES = (
    ("bytes_per_token", "bytes per token", ".3f"),
    ("characters_per_token", "characters per token", ".3f"),
    ("tokens_per_word", "tokens per word", ".3f"),
)


def write_tokenizer(report: Mapping[str, Any]) -> Html:
    """Measures, comparison, premiums, curve, history, lengths, scripts, probes."""
    told = report["tokenizer"]
    names = list(report["tokenizers"])
    languages = report["corpus"]["languages"]
    order = sorted(told["comparison"]["languages"], key=lambda lang: (-languages[lang]["tokens"], lang))
    parts: list[str] = [_write_tokenizers(report)]
    if told["evaluation"] is not None:
        parts.append(write_evaluation(told["evaluation"]))
    parts.append(_write_sample(report))
    for key, title, form in _MEASURES:
        parts.append(_compare(told["comparison"], key, title, form, names, order))
    parts.append(_compare_others(told["comparison"], names))
    if told["premiums"] is not None:
        parts.append(_write_premiums(told["premiums"]))
    if told["curve"] is not None:
        parts += [
            tag("h3", "The vocabulary as it grew"),
            place_chart("curve", "Bytes per token at each size of the vocabulary, of the languages with most tokens."),
            _write_curve(told["curve"], order),
        ]
        if told["history"]["ends"]:  # a table of letters alone merges nothing
            legend = "Which language uses the merges, from the first to the last, weighted as in learning."
            parts += [place_chart("history", legend), _write_history(told["history"])]
    parts += [
        tag("h3", "What the vocabulary holds"),
        place_chart("lengths", "Tokens by their number of bytes."),
        _write_lengths(told["lengths"]),
        place_chart("scripts", "The vocabulary by script."),
        _write_scripts(told["scripts"], names),
        _write_probes(told["probes"], names),
    ]
    return write_section("tokenizer", "The tokenizer", *parts)


def _write_tokenizers(report: Mapping[str, Any]) -> Html:
    rows: Rows = [
        [
            write_name(one),
            about["kind"],
            write_name(about["pattern"]),
            Number(about["vocab_size"]),
            tag("code", about["fingerprint"][:16]),
        ]
        for one, about in report["tokenizers"].items()
    ]
    own = report["tokenizer"]["efficiency"]["corpus"]
    return write_table(
        "Tokenizers",
        ["tokenizer", "kind", "pattern", "vocabulary", "fingerprint"],
        rows,
        note=f"Of the whole corpus, this build has a Rényi efficiency of {own['renyi']}, of order 2.5, and a Shannon "
        f"efficiency of {own['shannon']}; it uses {own['used']:,} of {own['vocabulary']:,} ordinary tokens.",
    )


def _write_sample(report: Mapping[str, Any]) -> Html:
    sample = report["sample"]
    whole = sum(one["all"] for one in sample["languages"].values())
    return tag(
        "p",
        f"Below, {sample['texts']:,} texts speak for the corpus: {sample['documents']:,} documents with "
        f"{sample['bytes']:,} bytes. They were drawn by hash, up to {sample['asked']:,} of each language; of {whole} "
        f"of {len(sample['languages'])} languages these are all. ± is the margin of a 95 % confidence interval. "
        "Tokens are counted without the document delimiters that the shards also hold.",
    )


def _compare(
    comparison: Mapping[str, Any], key: str, title: str, form: str, names: Sequence[str], order: Sequence[str]
) -> Html:
    rows: Rows = [
        [
            write_name(lang),
            Number(about["drawn_texts"]),
            *(write_estimate(about["tokenizers"][one][key], form) for one in names),
        ]
        for lang in order
        for about in [comparison["languages"][lang]]
    ]
    every = comparison["all"]
    rows.append(
        ["all", Number(every["drawn_texts"]), *(write_estimate(every["tokenizers"][one][key], form) for one in names)]
    )
    note = (
        "A word is what stands between white space, so this says little where none is written."
        if key == "tokens_per_word"
        else ""
    )
    heads = ["language", "texts drawn", *map(write_name, names)]
    return write_table(f"{title.capitalize()}, by language", heads, rows, langs=[*order, None], note=note)


def _compare_others(comparison: Mapping[str, Any], names: Sequence[str]) -> Html:
    sources = comparison["sources"]
    largest = sorted(sources, key=lambda source: (-sources[source]["drawn_bytes"], source))[:_MOST_SOURCES]
    scripts = sorted(comparison["scripts"], key=lambda script: -comparison["scripts"][script]["drawn_bytes"])
    tables = []
    for title, groups, order in (("source", sources, largest), ("script", comparison["scripts"], scripts)):
        rows: Rows = [
            [
                write_name(group),
                Number(groups[group]["drawn_bytes"]),
                *(
                    write_estimate(groups[group]["tokenizers"][one][key], form)
                    if one in groups[group]["tokenizers"]
                    else Number(None)
                    for key, _, form in _MEASURES
                    for one in names
                ),
            ]
            for group in order
        ]
        heads = [
            title,
            "bytes drawn",
            *(join([short, ", ", write_name(one)]) for _, short, _ in _MEASURES for one in names),
        ]
        tables.append(write_table(f"By {title}", heads, rows))
    return join(tables)


def _write_premiums(premiums: Mapping[str, Any]) -> Html:
    names = list(premiums["tokenizers"])
    langs = list(premiums["languages"])
    summary: Rows = [
        [
            write_name(one),
            Number(premiums["tokenizers"][one]["median"], ".3f"),
            Number(premiums["tokenizers"][one]["p90"], ".3f"),
            Number(premiums["tokenizers"][one]["gini"], ".3f"),
        ]
        for one in names
    ]
    rows: Rows = [
        [
            write_name(lang),
            Number(premiums["languages"][lang]["bytes"]),
            *(Number(premiums["tokenizers"][one]["premiums"][lang], ".3f") for one in names),
        ]
        for lang in langs
    ]
    choices = [
        tag("option", make_visible(lang), value=make_visible(lang), selected=lang == premiums["reference"])
        for lang in langs
    ]
    return join(
        [
            tag("h3", "What the same sentences cost"),
            tag(
                "p",
                f"{premiums['lines']:,} sentences in {len(langs)} languages. A premium is the tokens of a language "
                "divided by those of the reference. ",
                "These are the even lines: weights of languages were tuned on the odd ones. "
                if premiums.get("even_lines")
                else "",
                tag("label", "Reference: ", tag("select", *choices, id="reference")),
            ),
            place_chart("premiums", "Premium of every language, a line for each."),
            write_table(
                "Premiums in short",
                ["tokenizer", "median", "90th percentile", "Gini coefficient of tokens"],
                summary,
                kind="premium-summary",
            ),
            write_table("Premiums", ["language", "bytes", *map(write_name, names)], rows, langs=langs, kind="premiums"),
        ]
    )


def _write_curve(curve: Mapping[str, Any], order: Sequence[str]) -> Html:
    shown = [lang for lang in order if lang in curve["languages"]]
    rows: Rows = [
        [
            write_name(lang),
            *(
                Number(of["bytes"] / tokens if tokens else None, ".3f")
                for of in [curve["languages"][lang]]
                for tokens in of["tokens"]
            ),
        ]
        for lang in shown
    ]
    heads = ["language", *(f"{size:,}" for size in curve["sizes"])]
    return write_table(
        "Bytes per token by size of the vocabulary", heads, rows, langs=shown, note="Exact, from the count tables."
    )


def _write_history(history: Mapping[str, Any]) -> Html:
    ends = history["ends"]
    thirds = sorted({len(ends) // 3, 2 * len(ends) // 3, len(ends)} - {0})
    bounds = [0, *thirds]
    langs = sorted(history["languages"], key=lambda lang: (-sum(history["languages"][lang]["led"]), lang))
    rows: Rows = [
        [
            write_name(lang),
            *(Number(sum(history["languages"][lang]["led"][a:b])) for a, b in zip(bounds, thirds, strict=False)),
            Number(sum(history["languages"][lang]["led"])),
        ]
        for lang in langs
    ]
    spans = [f"to merge {ends[b - 1]:,}" for b in thirds]
    return write_table("Merges by the language that uses them most", ["language", *spans, "all"], rows, langs=langs)


def _write_lengths(lengths: Mapping[str, Sequence[int]]) -> Html:
    rows: Rows = [
        [str(size), Number(held), Number(written)]
        for size, (held, written) in enumerate(zip(lengths["vocabulary"], lengths["written"], strict=True), 1)
        if held or written
    ]
    longest = len(lengths["vocabulary"])
    return tag(
        "details",
        tag("summary", "Tokens by their number of bytes"),
        write_table(
            "Tokens by their number of bytes",
            ["bytes", "in the vocabulary", "times written"],
            rows,
            note=f"{longest}: {longest} bytes or more.",
        ),
    )


def _write_scripts(scripts: Mapping[str, Mapping[str, int]], names: Sequence[str]) -> Html:
    every = sorted(
        {script for of in scripts.values() for script in of}, key=lambda s: (-scripts[names[0]].get(s, 0), s)
    )
    rows: Rows = [[script, *(Number(scripts[one].get(script, 0)) for one in names)] for script in every]
    return write_table("Tokens of the vocabulary by script", ["script", *map(write_name, names)], rows)


def _write_probes(probes: Mapping[str, Any], names: Sequence[str]) -> Html:
    first = probes[names[0]]
    parts: list[str] = [tag("h3", "Probes"), place_chart("numbers", "Tokens of a number, by its digits.")]
    numbers: Rows = [
        [str(digits), *(Number(probes[one]["numbers"][digits - 1], ".2f") for one in names)]
        for digits in range(1, len(first["numbers"]) + 1)
    ]
    parts.append(
        write_table(
            "Numbers: tokens",
            ["digits", *map(write_name, names)],
            numbers,
            note="The mean of 100 numbers of each length, drawn by hash.",
        )
    )
    formats: Rows = [[what, *(Number(probes[one]["formats"][what]) for one in names)] for what in first["formats"]]
    parts.append(write_table("One record in several formats: tokens", ["format", *map(write_name, names)], formats))
    emoji: Rows = [
        [join([tag("span", shown, class_="emoji"), " ", what]), *(Number(probes[one]["emoji"][what]) for one in names)]
        for what, shown in list_emoji().items()
    ]
    parts.append(write_table("Emoji: tokens", ["emoji", *map(write_name, names)], emoji))
    return join(parts)
