"""The page's sections about the corpus and about where the build came from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tokcore_pipelines.look.report.html_parts import (
    Html,
    Number,
    Rows,
    join,
    make_visible,
    place_chart,
    tag,
    write_facts,
    write_name,
    write_section,
    write_table,
)

_MOST_FILTERED = 200
_MOST_SOURCES = 100
_MOST_CHARACTERS = 60


def write_corpus(report: Mapping[str, Any]) -> Html:
    """Languages, sources, rejects, special text, copies, masked and invisible text."""
    told = report["corpus"]
    languages = told["languages"]
    order = sorted(languages, key=lambda lang: (-languages[lang]["tokens"], lang))
    parts: list[str] = [_write_languages(languages, order)]
    if any(one["share_of_bytes"] for one in languages.values()):
        parts.append(place_chart("shares", "Share of each language in the corpus, and when the tokenizer was learned."))
    if told["validation"] is not None:
        parts.append(_write_validation(told["validation"]))
    if told["mixture"] is not None:
        parts += _write_mixture(told["mixture"])
    parts += [
        _write_sources(told),
        *_write_partitions(told),
        *_write_metadata(told),
        _write_rejects(told),
        *_write_dropped(told),
    ]
    parts += [_write_copies(told["copies"], order)]
    if told["mask"]:
        parts.append(_write_masked(told, order))
    parts.append(_write_invisible(told["invisible"]))
    return write_section("corpus", "The corpus", *parts)


def _write_languages(languages: Mapping[str, Any], order: Sequence[str]) -> Html:
    rows: Rows = []
    for lang in order:
        one = languages[lang]
        shares = one["share_of_bytes"] or {"before": None, "after": None}
        per_token = one["text_bytes"] / one["tokens"] if one["tokens"] else None
        rows.append(
            [
                write_name(lang),
                Number(one["documents"]),
                Number(one["text_bytes"]),
                Number(one["tokens"]),
                Number(per_token, ".3f"),
                Number(shares["before"], ".2%"),
                Number(shares["after"], ".2%"),
            ]
        )
    return write_table(
        "Languages",
        [
            "language",
            "documents",
            "bytes of text",
            "tokens",
            "bytes per token",
            "share of bytes",
            "share when learning",
        ],
        rows,
        langs=order,
        note="Exact, from the manifests. Tokens include those at the ends of documents.",
    )


def _write_validation(told: Mapping[str, Any]) -> Html:
    order = sorted(told["languages"], key=lambda lang: (-told["languages"][lang]["tokens"], lang))
    rows: Rows = [
        [
            name,
            Number(of["documents"]),
            Number(of["text_bytes"]),
            Number(of["tokens"]),
            Number(of["bytes_per_token"], ".3f"),
        ]
        for name, of in [*((write_name(lang), told["languages"][lang]) for lang in order), ("all", told)]
    ]
    learned = "learned from, too" if told["is_learned_from"] else "not learned from"
    return write_table(
        f"The validation split, {learned}",
        ["language", "documents", "bytes of text", "tokens", "bytes per token"],
        rows,
        langs=[*order, None],
        note="Exact, from the shards. Tokens include those at the ends of documents.",
    )


def _write_mixture(mixture: Mapping[str, Any]) -> list[Html]:
    tables = []
    for what in ("languages", "sources", "partitions", "paths"):
        of = mixture.get(what, {})
        order = sorted(of, key=lambda name: (-of[name]["mixed_tokens"], name))
        rows: Rows = [
            [
                write_name(name),
                Number(of[name]["tokens"]),
                Number(of[name]["share_before"], ".2%"),
                Number(of[name]["mixed_tokens"]),
                Number(of[name]["share_after"], ".2%"),
                Number(of[name]["share_wanted"], ".2%"),
                Number(of[name]["epochs"], ".3f"),
                Number(of[name]["left_out"]),
                Number(of[name]["repeated"]),
            ]
            for name in order
        ]
        if rows:
            tables.append(
                write_table(
                    f"{what.capitalize()} before and after mixing",
                    [
                        what.removesuffix("s"),
                        "tokens",
                        "share before",
                        "tokens in the mixture",
                        "share after",
                        "share wanted",
                        "epochs",
                        "documents left out",
                        "documents repeated",
                    ],
                    rows,
                    langs=order if what == "languages" else [],
                    note="Exact, from the receipt of the mixture: of training documents. The rest of this report is "
                    "about the shards, before they were mixed.",
                )
            )
    return tables


def _write_sources(told: Mapping[str, Any]) -> Html:
    sources = told["sources"]
    order = sorted(sources, key=lambda source: (-sources[source]["tokens"], source))
    rows: Rows = [
        [
            write_name(source),
            join(
                [
                    make_visible(", ".join(sources[source]["languages"][:6])),
                    "…" if len(sources[source]["languages"]) > 6 else "",
                ]
            ),
            Number(sources[source]["documents"]),
            Number(sources[source]["text_bytes"]),
            Number(sources[source]["tokens"]),
        ]
        for source in order[:_MOST_SOURCES]
    ]
    kind = "Folders of sources" if told["sources_are_folders"] else "Sources"
    more = f" The {_MOST_SOURCES} largest of {len(sources):,}." if len(sources) > _MOST_SOURCES else ""
    return write_table(
        kind,
        ["source", "languages", "documents", "bytes of text", "tokens"],
        rows,
        note=f"Exact, from all shards.{more}",
    )


def _write_rejects(told: Mapping[str, Any]) -> Html:
    rows: Rows = [
        [reason, what, Number(number)]
        for what, reasons in (("records", told["records"]["rejected"]), ("files", told["files"]["rejected"]))
        for reason, number in reasons.items()
    ]
    spelled: Rows = [[write_name(repr(text)), Number(number)] for text, number in told["special_text"].items()]
    parts: list[str] = [
        tag("p", f"{told['records']['read']:,} records were read, {told['documents']:,} became documents."),
        write_table("What was rejected", ["reason", "of", "number"], rows)
        if rows
        else tag("p", "Nothing was rejected."),
    ]
    if spelled:
        parts.append(write_table("Text that spells a special token", ["special token", "times"], spelled))
    else:
        parts.append(tag("p", "No text spells a special token."))
    return join(parts)


def _write_partitions(told: Mapping[str, Any]) -> list[Html]:
    """The largest partitions; nothing if shards are not kept apart by these."""
    partitions = told.get("partitions", {})
    order = sorted(partitions, key=lambda name: (-partitions[name]["tokens"], name))
    rows: Rows = [
        [write_name(name), *(Number(partitions[name][what]) for what in ("shards", "documents", "tokens"))]
        for name in order[:_MOST_SOURCES]
    ]
    more = f" The {_MOST_SOURCES} largest of {len(partitions):,}." if len(partitions) > _MOST_SOURCES else ""
    heads = ["partition", "shards", "documents", "tokens"]
    return [write_table("Partitions", heads, rows, note=f"Exact, from the manifests.{more}")] if rows else []


def _write_metadata(told: Mapping[str, Any]) -> list[Html]:
    """The columns of [metadata]; nothing if there are none."""
    rows: Rows = []
    for name, one in told.get("metadata", {}).items():
        if "least" in one:
            held = "" if one["least"] is None else f"{one['least']:.6g} to {one['most']:.6g}"
        else:
            values = ", ".join(f"{value}: {number:,}" for value, number in one["values"].items())
            more = "" if one["different"] == len(one["values"]) else ", ..."
            held = "too many different ones to tell" if one["different"] is None else values + more
        rows.append([name, one["type"], Number(one["documents"]), held])
    note = "Exact, over all documents: those that have a value, and what the values are."
    return [write_table("Metadata", ["field", "type", "documents", "values"], rows, note=note)] if rows else []


def _write_dropped(told: Mapping[str, Any]) -> list[Html]:
    """What filters dropped and masks found; nothing of either that did nothing."""
    dropped = "Exact, from the ledger: records that were documents and are in no count and no shard."
    masked = "Exact, from the ledger: spans that no text has any more, those of documents that are dropped included."
    cut = "Exact, from the ledger: lines or paragraphs that stay elsewhere in their source, and their bytes."
    return [
        *_write_by_source(told["filtered"], "What was dropped", "rule and reason", "records", dropped),
        *_write_by_source(told["masked"], "What [mask] found", "kind", "spans", masked),
        *_write_by_source(told["cut"], "Duplicates left out of documents", "of what", "number", cut),
    ]


def _write_by_source(told: Mapping[str, Any] | None, title: str, named: str, counted: str, said: str) -> Iterator[Html]:
    if told is None:
        return
    for what in ("language", "source"):
        rows: Rows = [
            [write_name(name), reason, Number(number)]
            for name, by_reason in told[f"{what}s"].items()
            for reason, number in by_reason.items()
        ]
        more = f" The first {_MOST_FILTERED} of {len(rows):,} rows." if len(rows) > _MOST_FILTERED else ""
        columns = [what, named, counted]
        yield write_table(f"{title}, by {what}", columns, rows[:_MOST_FILTERED], note=said + more)


def _write_copies(copies: Mapping[str, Mapping[str, int]], order: Sequence[str]) -> Html:
    shown = [lang for lang in order if lang in copies]
    rows: Rows = [
        [
            write_name(lang),
            Number(copies[lang]["texts"]),
            Number(copies[lang]["documents"]),
            Number(copies[lang]["repeated_texts"]),
            Number(copies[lang]["extra_documents"]),
            Number(
                copies[lang]["extra_documents"] / copies[lang]["documents"] if copies[lang]["documents"] else None,
                ".2%",
            ),
        ]
        for lang in shown
    ]
    return write_table(
        "Exact duplicates",
        ["language", "texts drawn", "documents with them", "texts that repeat", "copies", "share of copies"],
        rows,
        langs=shown,
        note="Texts are drawn by their hash, all copies of a text together. A copy has the same language and tokens.",
    )


def _write_masked(told: Mapping[str, Any], order: Sequence[str]) -> Html:
    presets = told["mask"]
    rows: Rows = [
        [
            write_name(lang),
            Number(told["languages"][lang]["masked_bytes"]),
            *(Number((told["languages"][lang]["masked_spans"] or {}).get(preset, 0)) for preset in presets),
        ]
        for lang in order
    ]
    return write_table("Masked spans", ["language", "bytes left out", *presets], rows, langs=order)


def _write_invisible(invisible: Mapping[str, Any]) -> Html:
    found = [(about["occurrences"], kind, lang, about) for kind, of in invisible.items() for lang, about in of.items()]
    if not found:
        return tag("p", "The counted text has no invisible or control characters.")
    found.sort(key=lambda one: (-one[0], *one[1:3]))
    rows: Rows = []
    for times, kind, lang, about in found[:_MOST_CHARACTERS]:
        most = sorted(about["characters"].items(), key=lambda item: (-item[1], item[0]))
        shown = ", ".join(f"{character} {number:,}" for character, number in most[:4])
        rows.append([kind.replace("_", " "), write_name(lang), Number(times), Number(about["pretokens"]), shown])
    note = f"The {_MOST_CHARACTERS} largest of {len(found):,} rows." if len(found) > _MOST_CHARACTERS else ""
    return write_table(
        "Invisible and control characters",
        ["kind", "language", "times", "different pre-tokens", "characters"],
        rows,
        langs=[lang for _, _, lang, _ in found[:_MOST_CHARACTERS]],
        note=f"Exact, from the count tables. {note}",
    )


def write_provenance(report: Mapping[str, Any]) -> Html:
    """Root, identities, inputs, versions, the receipt of the mixture."""
    told = report["provenance"]
    stages: Rows = [
        [stage, tag("code", one["identity"]), tag("code", one["content"]), Number(one["files"])]
        for stage, one in told["stages"].items()
    ]
    inputs: Rows = [
        [write_name(one["uri"]), Number(one["stored_bytes"]), tag("bdi", make_visible(one["version"]))]
        for one in told["inputs"]["first"][:_MOST_SOURCES]
    ]
    more = f"The first {len(inputs)} of {told['inputs']['files']:,}." if len(inputs) < told["inputs"]["files"] else ""
    settings = {"tokenizer": told["tokenizer_settings"], "shards": told["shard_settings"]}
    parts: list[str] = [
        write_facts(
            [("root", tag("code", told["root"])), ("name", write_name(told["name"])), ("finished", told["finished"])]
        ),
        write_table("Stages", ["stage", "identity", "content", "files"], stages, kind="hashes"),
        write_table("Inputs", ["file", "bytes as stored", "version"], inputs, note=more),
        write_table(
            "Versions", ["of", "version"], [[key, make_visible(str(value))] for key, value in told["versions"].items()]
        ),
        tag(
            "details",
            tag("summary", "Settings that decide the bytes"),
            tag(
                "pre", make_visible(json.dumps(settings, ensure_ascii=False, indent=1)).replace("\\n", "\n"), tabindex=0
            ),
        ),
    ]
    if (mixture := report["corpus"]["mixture"]) is not None:
        parts += _write_mixture_receipt(mixture)
    if told["mixture"].get("weights"):
        parts += _write_mix_receipt(told["mixture"], report["corpus"]["languages"])
        parts += [_write_level(level, shares) for level, shares in told["mix_levels"].items()]
    return write_section("provenance", "Where it came from", *parts)


def _write_mixture_receipt(mixture: Mapping[str, Any]) -> list[Html]:
    """Of the documents that were taken and repeated."""
    settings = {key: value for key, value in mixture["settings"].items() if value not in (None, "")}
    facts = [
        (key.replace("_", " "), make_visible(f"{value:,}" if isinstance(value, int) else str(value)))
        for key, value in {**settings, **mixture["totals"]}.items()
    ]
    return [
        tag("h3", "Receipt of the mixture of documents"),
        write_facts(facts),
        tag("p", "What it holds of each language and source is in the tables about mixing, above."),
    ]


def _write_mix_receipt(mix: Mapping[str, Any], languages: Mapping[str, Any]) -> list[Html]:
    """Of the counts that the tokenizer was learned from. languages: of the corpus."""
    weights = mix["weights"]
    order = sorted(weights, key=lambda lang: (-weights[lang], lang))
    rows: Rows = []
    for lang in order:
        shares = languages.get(lang, {}).get("share_of_bytes") or {"after": None}
        rows.append([write_name(lang), Number(weights[lang]), Number(shares["after"], ".4%")])
    settings = {key: value for key, value in mix.items() if not isinstance(value, Mapping)}
    return [
        tag("h3", "Receipt of the mix that was learned from"),
        write_facts([(key.replace("_", " "), make_visible(str(value))) for key, value in settings.items()]),
        *(_write_parity(mix) if "parallel_tokens" in mix else []),
        write_table(
            "Weights", ["language", "weight", "share when learning"], rows, langs=() if "over" in mix else order
        ),
    ]


def _write_level(level: str, shares: Mapping[str, Any]) -> Html:
    """What the items of a level have of the bytes, before and after mixing."""
    order = sorted(shares, key=lambda item: (-float(shares[item]["share_of_bytes"][1]), item))
    rows: Rows = []
    for item in order:
        before, after = map(float, shares[item]["share_of_bytes"])
        rows.append([write_name(item), Number(before, ".2%"), Number(after, ".2%")])
    headings = [level, "share of bytes", "share when learning"]
    langs = order if level == "lang" else ()  # which the choice of a language then leaves alone
    return write_table(f"Shares by {level}, before and after mixing", headings, rows, langs=langs)


def _write_parity(mix: Mapping[str, Any]) -> list[Html]:
    """Premiums that weights followed, before and after, the highest first."""
    tokens = mix["parallel_tokens_at_first"], mix["parallel_tokens"]
    first, last = ({lang: num / max(1, of[mix["reference"]]) for lang, num in of.items()} for of in tokens)
    order = sorted(last, key=lambda lang: (-last[lang], lang))
    rows: Rows = [[write_name(lang), Number(first[lang], ".3f"), Number(last[lang], ".3f")] for lang in order]
    lines, target = mix["parallel_lines"], make_visible(str(mix["target_premium"]))
    note = (
        f"Weights were tuned on these {lines:,} odd lines of parallel text, for premiums of at most {target}: on other "
        f"sentences premiums are a little higher. Above it: {make_visible(mix['above_target']) or 'none'}."
    )
    return [
        write_table("Premiums that weights followed", ["language", "at first", "last"], rows, langs=order, note=note)
    ]
