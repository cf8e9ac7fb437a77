"""The page's sections about the health of the vocabulary, and about money."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tokcore_pipelines.look.report.html_parts import (
    Cell,
    Html,
    Number,
    Rows,
    join,
    make_visible,
    tag,
    write_estimate,
    write_name,
    write_section,
    write_table,
    write_token,
)

_MOST_TOKENS = 60
_MOST_GROUPS = 60
_TITLES = {
    "never": "Never written",
    "rare": "Rarely written",
    "unreachable": "Unreachable: their own bytes become other tokens",
    "partial_utf8": "Parts of characters",
    "mostly_one_document": "More than half of it in one document",
    "mostly_one_source": "More than nine tenths of it in one file",
    "invisible_tokens": "With characters that are not seen",
}


def write_health(report: Mapping[str, Any], own: str) -> Html:
    """The audit's lists, near-duplicates, languages that fall back to bytes."""
    told = report["health"]
    shown = [key for key in _TITLES if key in told]
    total = report["tokenizers"][own]["tokens"]
    summary: Rows = [
        [_title(key, told), Number(told[key]["number"]), Number(told[key]["number"] / total, ".2%")] for key in shown
    ]
    near = told["near_duplicates"]
    summary.append(
        ["Equal but for case and space, with another", Number(near["tokens"]), Number(near["tokens"] / total, ".2%")]
    )
    parts: list[str] = [
        write_table("Tokens that need a look", ["kind", "tokens", "share of the vocabulary"], summary),
        *(_write_list(_title(key, told), told[key]) for key in shown if told[key]["number"]),
    ]
    if near["groups"]:
        parts.append(_write_near_duplicates(near))
    parts.append(_write_fall_back(report, own))
    parts += [tag("p", f"Left out: {section.replace('_', ' ')}: {why}.") for section, why in told["missing"].items()]
    return write_section("health", "The health of the vocabulary", *parts)


def _title(key: str, told: Mapping[str, Any]) -> str:
    return f"{_TITLES[key]}, {told['rare_at_most']} times or less" if key == "rare" else _TITLES[key]


def _write_list(title: str, told: Mapping[str, Any]) -> Html:
    rows: Rows = []
    has_counts = any("count" in one for one in told["first"])
    for one in told["first"][:_MOST_TOKENS]:
        row: list[Cell] = [write_token(one["token"]), Number(one["id"], "d")]
        if has_counts:
            row += [Number(one.get("count")), Number(one.get("documents")), Number(one.get("max_in_document"))]
        if "becomes" in one:
            row.append(" ".join(map(str, one["becomes"])))
        if "top_source" in one:
            row.append(write_name(one["top_source"]))
        if "kinds" in one:
            row.append(", ".join(kind.replace("_", " ") for kind in one["kinds"]))
        rows.append(row)
    heads = ["token", "id"] + (["times", "documents", "most in one document"] if has_counts else [])
    for key, head in (("becomes", "becomes"), ("top_source", "file"), ("kinds", "kinds")):
        heads += [head] if any(key in one for one in told["first"]) else []
    for row in rows:
        row += [""] * (len(heads) - len(row))
    note = f"The first {len(rows)} of {told['number']:,}." if told["number"] > len(rows) else ""
    return tag("details", tag("summary", f"{title}: {told['number']:,}"), write_table(title, heads, rows, note=note))


def _write_near_duplicates(near: Mapping[str, Any]) -> Html:
    rows: Rows = [
        [
            join([part for one in group for part in (write_token(one["token"]), " ")]),
            Number(len(group)),
            Number(sum(one["count"] for one in group)),
        ]
        for group in near["first"][:_MOST_GROUPS]
    ]
    title = "Equal but for case and space"
    return tag(
        "details",
        tag("summary", f"{title}: {near['groups']:,} groups of {near['tokens']:,} tokens"),
        write_table(title, ["tokens", "how many", "times written"], rows),
    )


def _write_fall_back(report: Mapping[str, Any], own: str) -> Html:
    names = list(report["tokenizers"])
    groups = report["tokenizer"]["comparison"]["languages"]
    order = sorted(groups, key=lambda lang: (-(groups[lang]["tokenizers"][own]["partial_share"]["value"] or 0), lang))
    rows: Rows = [
        [write_name(lang), *(write_estimate(groups[lang]["tokenizers"][one]["partial_share"], ".2%") for one in names)]
        for lang in order
    ]
    fall = report["health"]["fall_back"]
    said = f"{len(fall)} languages fall back to bytes" if fall else "No language falls back to bytes"
    return write_table(
        "Tokens that are parts of characters",
        ["language", *map(write_name, names)],
        rows,
        langs=order,
        note=f"{said}: more than 5 % of their tokens are parts of characters in this build.",
    )


def write_money(report: Mapping[str, Any]) -> Html:
    """Tokens per million words, contexts, cache, embeddings, bits per byte."""
    told = report["money"]
    names = list(report["tokenizers"])
    order: Sequence[str] = sorted(
        told["documents"], key=lambda group: (group != "all", -told["documents"][group]["documents"], group)
    )
    spans = [f"{context:,}" for context in told["contexts"]]
    estimated = [group for group in order if group in told["tokens_per_million_words"]]
    return write_section(
        "money",
        "What tokens cost",
        _write_words(told, names, estimated),
        _write_contexts(told, order, spans),
        *_write_models(told, names, spans),
        _write_calculator(told["words"], names),
        _write_converter(report, names),
        _write_bits(told, names, estimated),
    )


def _list_langs(groups: Sequence[str]) -> list[str | None]:
    """The language of each group; None of all together."""
    return [None if group == "all" else group for group in groups]


def _write_words(told: Mapping[str, Any], names: Sequence[str], groups: Sequence[str]) -> Html:
    rows: Rows = [
        [write_name(group), *(write_estimate(told["tokens_per_million_words"][group][one], ",.0f") for one in names)]
        for group in groups
    ]
    heads = ["language", *map(write_name, names)]
    return write_table("Tokens per million words", heads, rows, langs=_list_langs(groups))


def _write_contexts(told: Mapping[str, Any], groups: Sequence[str], spans: Sequence[str]) -> Html:
    rows: Rows = []
    for group in groups:
        own = told["documents"][group]
        shares = [number / own["documents"] if own["documents"] else None for number in own["fit"]]
        rows.append(
            [
                write_name(group),
                Number(own["mean_tokens"], ",.1f"),
                *(Number(number, ",.2f") for number in own["per_context"]),
                *(Number(share, ".1%") for share in shares),
            ]
        )
    return write_table(
        "Documents and contexts",
        [
            "language",
            "tokens of a document",
            *(f"documents in {span}" for span in spans),
            *(f"fit in {span}" for span in spans),
        ],
        rows,
        langs=_list_langs(groups),
        note="Exact, of this build's tokens, from all shards.",
    )


def _write_bits(told: Mapping[str, Any], names: Sequence[str], groups: Sequence[str]) -> Html:
    perplexities = told["perplexities"]
    unknown = [None] * len(perplexities)
    rows: Rows = [
        [
            write_name(group),
            *(Number(value, ".4f") for one in names for value in (told["bits_per_byte"][group][one] or unknown)),
        ]
        for group in groups
    ]
    heads = ["language", *(join([write_name(one), f" at {p}"]) for one in names for p in perplexities)]
    return write_table("Bits per byte at a perplexity per token", heads, rows, langs=_list_langs(groups))


def _write_models(told: Mapping[str, Any], names: Sequence[str], spans: Sequence[str]) -> list[Html]:
    cache: Rows = [
        [
            write_name(model["name"]),
            Number(model["layers"]),
            Number(model["kv_heads"]),
            Number(model["head_size"]),
            Number(model["cache_bytes_per_token"]),
            *(Number(size / 1e6, ",.1f") for size in model["cache_bytes_of_contexts"]),
            *(
                Number(None if size is None else size / 1e9, ",.1f")
                for size in model["cache_bytes_per_million_words"].values()
            ),
        ]
        for model in told["models"]
    ]
    embeddings: Rows = [
        [
            write_name(model["name"]),
            Number(model["width"]),
            *(Number(model["embedding_parameters"][one]) for one in names),
        ]
        for model in told["models"]
    ]
    return [
        write_table(
            "Cache of keys and values",
            [
                *("model", "layers", "heads", "head size", "bytes per token"),
                *(f"MB at {span}" for span in spans),
                *(join(["GB per million words, ", write_name(one)]) for one in names),
            ],
            cache,
            note="Values of 16 bits; words of the whole corpus.",
        ),
        write_table(
            "Parameters of one embedding table",
            ["model", "width", *map(write_name, names)],
            embeddings,
            note="Twice as many if the output layer has a table of its own.",
        ),
        _write_operations(told, names),
    ]


def _write_operations(told: Mapping[str, Any], names: Sequence[str]) -> Html:
    rows: Rows = []
    for model in told["models"]:
        cells: list[Number] = []
        for one in names:
            of = model["operations"][one]
            total = None if of is None else sum(of.values())
            shares = [None if not total else of[key] / total for key in ("attention", "output")]
            cells += [Number(None if total is None else total / 1e9, ",.1f"), *(Number(one, ".1%") for one in shares)]
        rows.append([write_name(model["name"]), *cells, Number(model["cheapest_vocab_size"])])
    heads = [
        join([write_name(one), f": {what}"])
        for one in names
        for what in ("billion multiply-adds", "in attention", "in the output layer")
    ]
    return write_table(
        f"One pass over a text of {told['words']:,} words",
        ["model", *heads, "cheapest vocabulary of the curve"],
        rows,
        note="12 x layers x width² for each token, 2 x layers x width for each pair of tokens, and width x vocabulary "
        "for each token. A larger vocabulary makes fewer tokens, and each costs more at the end. The cheapest is one "
        "of the sizes at which the curve of this build's vocabulary was measured.",
    )


def _write_calculator(words: int, names: Sequence[str]) -> Html:
    """What report.js fills in by the formulas of tokcore_pipelines.look.report.money, for a model of one's own."""
    options = [tag("option", make_visible(one), value=make_visible(one)) for one in names]
    sizes = (("layers", "Layers", 16), ("width", "Width", 2048), ("words", "Words of the text", words))
    return tag(
        "fieldset",
        tag("legend", "What one pass costs a model of your size"),
        tag("label", "Tokenizer: ", tag("select", *options, id="cost-tokenizer")),
        *(
            tag("label", f"{label}: ", tag("input", id=f"cost-{name}", type="number", min="1", value=str(value)))
            for name, label, value in sizes
        ),
        tag("output", "", id="cost-output", for_="cost-tokenizer cost-layers cost-width cost-words"),
    )


def _write_converter(report: Mapping[str, Any], names: Sequence[str]) -> Html:
    options = [tag("option", make_visible(one), value=make_visible(one)) for one in names]
    groups = ["all", *sorted(report["tokenizer"]["comparison"]["languages"])]
    return tag(
        "fieldset",
        tag("legend", "Convert between perplexity and bits per byte"),
        tag("label", "Tokenizer: ", tag("select", *options, id="convert-tokenizer")),
        tag(
            "label",
            "Text: ",
            tag(
                "select",
                *(tag("option", make_visible(one), value=make_visible(one)) for one in groups),
                id="convert-group",
            ),
        ),
        tag(
            "label",
            "Perplexity per token: ",
            tag("input", id="convert-perplexity", type="number", min="1", step="any", value="10"),
        ),
        tag("label", "Bits per byte: ", tag("input", id="convert-bits", type="number", min="0", step="any")),
        tag("output", "", id="convert-output", for_="convert-tokenizer convert-group convert-perplexity convert-bits"),
    )
