"""The path of a search for weights as a picture: an SVG that stands alone, in the colours of the report."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

_WIDTH, _PLOT, _HEIGHT, _LEFT, _TOP, _GAP = 760, 520, 190, 64, 28, 58  # in pixels
_COLORS = ("#1b6ac9", "#c2571a", "#1a8754", "#8a3ffc", "#b3261e", "#00687a", "#7a5c00", "#5c5c5c")
_STYLE = (
    "text{font:12px system-ui,'Noto Sans',sans-serif;fill:#333}.t{font-weight:600}.g{stroke:#ddd}.r{stroke:#999;"
    "stroke-dasharray:4 3}polyline{fill:none;stroke-width:1.8}"
)


def draw_search(told: Mapping[str, Any]) -> str:
    """Bytes per token of each try, and how far it is from each target. Points are tries, lines join the better ones.

    told: of search_mix.
    """
    tries, targets = told["tries"], told["targets"]
    upper = [("all text", [one["bytes_per_token"] for one in tries])]
    lower = [
        (text, [_find_part(one["values"][text], of) for one in tries]) for text, of in targets.items()
    ]  # in percent of the goal
    height = 2 * (_HEIGHT + _GAP) + _TOP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="Path of a search for weights">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
        *_draw_panel("bytes per token", upper, tries, told["best"], _TOP, None),
        *_draw_panel(
            "percent of the target: 100 or more is reached", lower, tries, told["best"], _TOP + _HEIGHT + _GAP, 100.0
        ),
        f'<text x="{_LEFT + _PLOT / 2}" y="{height - 8}" text-anchor="middle">tokenizers tried</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _find_part(value: float, target: Mapping[str, Any]) -> float:
    """How much of a target is reached, in percent; of premiums, which are to be small, the inverse."""
    goal = float(target["goal"])
    if target["most"]:
        return 100 * goal / value if value else 0.0
    return 100 * value / goal


def _draw_panel(
    title: str,
    lines: Sequence[tuple[str, Sequence[float]]],
    tries: Sequence[Mapping[str, Any]],
    best: int,
    top: int,
    rule: float | None,
) -> list[str]:
    every = [value for _, values in lines for value in values] + ([rule] if rule is not None else [])
    low, high = min(every), max(every)
    margin = (high - low) * 0.06 or high * 0.01 or 1.0
    low, high = low - margin, high + margin

    def x(number: int) -> str:
        return f"{_LEFT + _PLOT * number / max(1, len(tries) - 1):.1f}"

    def y(value: float) -> str:
        return f"{top + _HEIGHT * (high - value) / (high - low):.1f}"

    parts = [f'<text class="t" x="{_LEFT}" y="{top - 9}">{title}</text>']
    for step in range(5):
        value = low + (high - low) * step / 4
        parts.append(f'<line class="g" x1="{_LEFT}" x2="{_LEFT + _PLOT}" y1="{y(value)}" y2="{y(value)}"/>')
        label = f"{value:.0f}" if rule is not None else f"{value:.3f}"
        parts.append(f'<text x="{_LEFT - 8}" y="{y(value)}" dy="4" text-anchor="end">{label}</text>')
    for number in sorted({0, (len(tries) - 1) // 2, len(tries) - 1}):
        parts.append(f'<text x="{x(number)}" y="{top + _HEIGHT + 17}" text-anchor="middle">{number + 1}</text>')
    if rule is not None:
        parts.append(f'<line class="r" x1="{_LEFT}" x2="{_LEFT + _PLOT}" y1="{y(rule)}" y2="{y(rule)}"/>')
    for place, (name, values) in enumerate(lines):
        color = _COLORS[place % len(_COLORS)]
        path = " ".join(f"{x(n)},{y(value)}" for n, value in enumerate(values) if tries[n]["better"])
        parts.append(f'<polyline points="{path}" stroke="{color}"/>')
        for n, value in enumerate(values):
            size = 5 if n == best else 2.5
            faint = "" if tries[n]["better"] else ' fill-opacity=".35"'
            parts.append(f'<circle cx="{x(n)}" cy="{y(value)}" r="{size}" fill="{color}"{faint}/>')
        shown = html.escape(name)
        parts.append(f'<text x="{_LEFT + _PLOT + 26}" y="{top + 14 + 18 * place}">{shown}</text>')
        parts.append(f'<circle cx="{_LEFT + _PLOT + 16}" cy="{top + 10 + 18 * place}" r="4" fill="{color}"/>')
    return parts
