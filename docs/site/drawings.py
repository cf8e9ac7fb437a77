"""The drawings of the pages, from text: rows of boxes, and arrows between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import schemdraw
from schemdraw import elements, flow

schemdraw.use("svg")

_WIDTH, _HEIGHT, _GAP = 3.3, 1.5, 1.1  # of a box, in units of 1/2 inch

# What is read -> what is written: a row of boxes for each kind of output. In italics is what lies in a folder.
PIPELINE = [
    ["files", "plan", "count", "learn", "encode", "pack"],
    ["in a bucket", "plan/\nrejected/", "counts/", "tokenizer/", "shards/", "packed/"],
]
COMMITS = [
    ["build", "update", "remove", "update"],
    ["log: commit 0", "log/1.json", "log/2.json", "log/3.json"],
    ["the output's\nown stages", "parts/A", "parts/B\ninstead of A", "parts/C"],
]
TABLES = [
    ["corpus, read once", "count tables", "BPE, 32,768"],
    ["", "", "BPE, 131,072"],
    ["", "", "WordPiece"],
    ["", "", "Unigram"],
]


def list_drawings() -> Mapping[str, str]:
    """The path of each picture in the site -> its SVG."""
    return {
        "drawings/pipeline.svg": _draw_rows(PIPELINE, flows=(0,)),
        "drawings/commits.svg": _draw_rows(COMMITS, flows=(0,)),
        "drawings/tables.svg": _draw_rows(TABLES, flows=(0,), fan=1),
    }


def _draw_rows(rows: Sequence[Sequence[str]], flows: Sequence[int], fan: int = -1) -> str:
    """Boxes in rows and columns. flows: rows whose boxes follow one another; a row below says what a box leaves.

    fan: the column of a box from which an arrow leads to each box of the next column; -1: none.
    """
    drawing = schemdraw.Drawing(show=False, fontsize=13, font="sans-serif", lw=1.4, bgcolor="white", margin=0.2)
    boxes = {}
    for y, row in enumerate(rows):
        for x, text in enumerate(row):
            if text:
                box = flow.RoundBox(w=_WIDTH, h=_HEIGHT).label(text).anchor("W")
                box.at((x * (_WIDTH + _GAP), -y * (_HEIGHT + 0.7))).fill("#e0f2f1" if y in flows else "#f7f7f7")
                boxes[y, x] = drawing.add(box)
    for (y, x), box in boxes.items():
        if (right := boxes.get((y, x + 1))) and y in flows:
            drawing.add(flow.Arrow().at(box.E).to(right.W))
        if fan < 0 and (below := boxes.get((y + 1, x))):
            drawing.add(elements.Line().at(box.S).to(below.N).linestyle(":"))
    for (y, x), box in boxes.items():
        if x == fan + 1 and fan >= 0 and y:
            drawing.add(flow.Arrow().at(boxes[0, fan].E).to(box.W))
    return str(drawing.get_imagedata("svg").decode())
