"""The charts of the page, as Vega-Lite: data and encodings. Colours and fonts are the page's, which knows the theme."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from tokcore_pipelines.look.report.html_parts import make_visible

_MOST_LANGUAGES = 30  # in a chart; the tables have all
_MOST_LINES = 10
OTHERS = "all others"


def make_charts(report: Mapping[str, Any]) -> dict[str, Any]:
    """Name -> specification; only of what the report has."""
    told = report["tokenizer"]
    languages = _list_largest(report, _MOST_LANGUAGES)
    charts = {
        "shares": _chart_shares(report["corpus"]["languages"], languages),
        "bytes": _chart_bytes(told["comparison"]["languages"], list(report["tokenizers"]), languages),
        "lengths": _chart_lengths(told["lengths"]),
        "scripts": _chart_scripts(told["scripts"]),
        "numbers": _chart_numbers(told["probes"]),
    }
    if told["curve"] is not None:
        charts["curve"] = _chart_curve(told["curve"], languages[:_MOST_LINES])
        charts["history"] = _chart_history(told["history"], languages[:_MOST_LINES])
    if told["premiums"] is not None:
        charts["premiums"] = _chart_premiums(told["premiums"])
    return {name: chart for name, chart in charts.items() if chart["data"]["values"]}


def _list_largest(report: Mapping[str, Any], most: int) -> list[str]:
    languages = report["corpus"]["languages"]
    return sorted(languages, key=lambda lang: (-languages[lang]["tokens"], lang))[:most]


def _axis(field: str, title: str, kind: str = "quantitative", **more: Any) -> dict[str, Any]:
    return {"field": field, "type": kind, "title": title, **more}


def _color(field: str, title: str, order: Sequence[str]) -> dict[str, Any]:
    domain = [make_visible(one) for one in order]
    legend = {"orient": "bottom", "labelLimit": 190}
    return {"field": field, "type": "nominal", "title": title, "scale": {"domain": domain}, "legend": legend}


def _chart_shares(languages: Mapping[str, Any], shown: Sequence[str]) -> dict[str, Any]:
    values = [
        {"lang": make_visible(lang), "when": when, "share": shares[key]}
        for lang in shown
        if (shares := languages[lang]["share_of_bytes"]) is not None
        for key, when in (("before", "in the corpus"), ("after", "when learning"))
    ]
    order = [make_visible(lang) for lang in shown]
    x = _axis("share", "share of bytes", axis={"format": "%", "tickCount": 8})
    y = _axis("lang", "", "nominal", sort=order)
    color = _color("when", "", ["in the corpus", "when learning"])
    return {
        "data": {"values": values},
        "height": {"step": 15},
        "layer": [
            {
                "mark": {"type": "line", "strokeWidth": 1, "opacity": 0.5},
                "encoding": {"x": x, "y": y, "detail": {"field": "lang"}},
            },
            {"mark": {"type": "point", "filled": True, "size": 50}, "encoding": {"x": x, "y": y, "color": color}},
        ],
    }


def _chart_bytes(languages: Mapping[str, Any], names: Sequence[str], shown: Sequence[str]) -> dict[str, Any]:
    values = []
    for lang in shown:
        for name, row in languages.get(lang, {"tokenizers": {}})["tokenizers"].items():
            told = row["bytes_per_token"]
            if told["value"] is not None:
                margin = told["margin"] or 0
                values.append(
                    {
                        "lang": make_visible(lang),
                        "tokenizer": make_visible(name),
                        "value": told["value"],
                        "low": told["value"] - margin,
                        "high": told["value"] + margin,
                    }
                )
    y = _axis("lang", "", "nominal", sort=[make_visible(lang) for lang in shown])
    color = _color("tokenizer", "", names)
    x = _axis("value", "bytes per token", scale={"zero": True}, axis={"tickCount": 8})
    return {
        "data": {"values": values},
        "height": {"step": 15},
        "layer": [
            {
                "mark": {"type": "rule"},
                "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y, "color": color},
            },
            {"mark": {"type": "point", "filled": True, "size": 50}, "encoding": {"x": x, "y": y, "color": color}},
        ],
    }


def _chart_lengths(lengths: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    values = [
        {"bytes": size, "what": what, "share": number / (sum(numbers) or 1)}
        for what, numbers in (("in the vocabulary", lengths["vocabulary"]), ("as written", lengths["written"]))
        for size, number in enumerate(numbers, 1)
    ]
    return {
        "data": {"values": values},
        "height": 180,
        "mark": {"type": "line", "point": {"size": 25}, "interpolate": "monotone"},
        "encoding": {
            "x": _axis("bytes", "bytes of a token (32: or more)", scale={"nice": False}),
            "y": _axis("share", "share of tokens", axis={"format": "%"}),
            "color": _color("what", "", ["in the vocabulary", "as written"]),
        },
    }


def _chart_scripts(scripts: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    totals: dict[str, float] = {}
    for of in scripts.values():
        for script, number in of.items():
            totals[script] = totals.get(script, 0) + number / (sum(of.values()) or 1)
    first = sorted(totals, key=lambda script: (-totals[script], script))[:9]
    values = []
    for name, of in scripts.items():
        total = sum(of.values()) or 1
        told = {script: of.get(script, 0) for script in first}
        told[OTHERS] = total - sum(told.values())
        values += [
            {"tokenizer": make_visible(name), "script": script, "share": number / total}
            for script, number in told.items()
        ]
    return {
        "data": {"values": values},
        "height": {"step": 26},
        "mark": {"type": "bar"},
        "encoding": {
            "x": _axis("share", "share of the vocabulary", axis={"format": "%"}, scale={"domain": [0, 1]}),
            "y": _axis("tokenizer", "", "nominal", sort=[make_visible(name) for name in scripts]),
            "color": _color("script", "", [*first, OTHERS]),
            "order": {"field": "script", "sort": "ascending"},
        },
    }


def _chart_numbers(probes: Mapping[str, Any]) -> dict[str, Any]:
    values = [
        {"digits": digits, "tokenizer": make_visible(name), "tokens": tokens}
        for name, probe in probes.items()
        for digits, tokens in enumerate(probe["numbers"], 1)
    ]
    return {
        "data": {"values": values},
        "height": 180,
        "mark": {"type": "line", "point": {"size": 25}},
        "encoding": {
            "x": _axis("digits", "digits of a number", scale={"nice": False}, axis={"format": "d"}),
            "y": _axis("tokens", "tokens, mean of 100 numbers"),
            "color": _color("tokenizer", "", list(probes)),
        },
    }


def _chart_curve(curve: Mapping[str, Any], shown: Sequence[str]) -> dict[str, Any]:
    values = [
        {"size": size, "lang": make_visible(lang), "value": round(of["bytes"] / tokens, 4)}
        for lang in shown
        if (of := curve["languages"].get(lang)) is not None
        for size, tokens in zip(curve["sizes"], of["tokens"], strict=True)
        if tokens
    ]
    return {
        "data": {"values": values},
        "height": 240,
        "mark": {"type": "line", "point": {"size": 25}},
        "encoding": {
            "x": _axis(
                "size",
                "tokens in the vocabulary",
                scale={"type": "log", "base": 2, "nice": False},
                axis={"format": ",d", "values": list(curve["sizes"])},
            ),
            "y": _axis("value", "bytes per token", scale={"zero": False}),
            "color": _color("lang", "", shown),
        },
    }


def _chart_history(history: Mapping[str, Any], shown: Sequence[str]) -> dict[str, Any]:
    values = []
    for block, (start, end) in enumerate(itertools.pairwise([0, *history["ends"]])):
        shares = {lang: of["share"][block] for lang, of in history["languages"].items()}
        told = {lang: shares.get(lang, 0.0) for lang in shown}
        told[OTHERS] = max(sum(shares.values()) - sum(told.values()), 0)
        low = 0.0
        for lang, share in told.items():
            values.append({"start": start, "end": end, "lang": make_visible(lang), "low": low, "high": low + share})
            low += share
    share = {"title": "weighted share of its use", "axis": {"format": "%"}, "scale": {"domain": [0, 1]}}
    return {
        "data": {"values": values},
        "height": 240,
        "mark": {"type": "rect"},
        "encoding": {
            "x": _axis("start", "rank of the merge", scale={"nice": False}),
            "x2": {"field": "end"},
            "y": {"field": "low", "type": "quantitative", **share},
            "y2": {"field": "high"},
            "color": _color("lang", "", [*shown, OTHERS]),
        },
    }


def _chart_premiums(premiums: Mapping[str, Any]) -> dict[str, Any]:
    values = [
        {"lang": make_visible(lang), "tokenizer": make_visible(name), "tokens": tokens}
        for name, of in premiums["tokenizers"].items()
        for lang, tokens in of["tokens"].items()
    ]
    return {
        "data": {"values": values},
        "height": {"step": 34},
        "mark": {"type": "tick", "thickness": 2, "opacity": 0.7},
        "encoding": {
            "x": _axis("premium", "tokens / tokens of the reference", scale={"type": "log", "nice": False}),
            "y": _axis("tokenizer", "", "nominal", sort=[make_visible(name) for name in premiums["tokenizers"]]),
            "color": _color("tokenizer", "", list(premiums["tokenizers"])),
        },
    }
