"""Which documents of a sample are duplicates of others in it, with examples: for `tokcore check`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tokcore_pipelines.build.filter_samples import NUM_EXAMPLES, read_sampled
from tokcore_pipelines.build.samples import SourceSample
from tokcore_pipelines.reading.records import Batch, make_printable
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.work.candidates import find_staying, join_candidates, sort_candidates
from tokcore_pipelines.work.find_duplicates import make_candidates
from tokcore_pipelines.work.pieces import cut_pieces
from tokcore_schemas.plan import AssignedRange
from tokcore_schemas.prefer import PIECES, parse_preferences
from tokcore_schemas.stage_manifests import DedupConfig


def tell_duplicates(
    config: DedupConfig | None, samples: Sequence[SourceSample], most: int = NUM_EXAMPLES
) -> dict[str, Any] | None:
    """The sampled documents that are compared, the duplicates among them, and some examples beside what stays."""
    if config is None:
        return None
    preferences = parse_preferences(config.prefer)
    batches: list[tuple[str, Batch]] = []
    parts = []
    for sample in samples:
        r = AssignedRange(0, "", 0, "", 0, 0, sample.settings)
        for uri, batch in read_sampled([sample]):
            parts.append(make_candidates(config, preferences, r, batch, (0, len(batches))))
            batches.append((uri, batch))
    rows = sort_candidates(join_candidates(parts, 1 + len(preferences)).rows)
    stays = find_staying(rows)
    firsts = np.maximum.accumulate(np.where(stays, np.arange(len(rows)), 0))

    def place(number: int) -> dict[str, Any]:
        uri, _ = batches[int(rows["range"][number])]
        return {"file": redact(uri), "record": int(rows["ordinal"][number])}

    def describe(number: int) -> dict[str, Any]:
        _, batch = batches[int(rows["range"][number])]
        i = int(np.searchsorted(batch.ordinals, rows["ordinal"][number]))
        text = batch.texts.text(i)
        if config.by in PIECES:
            text = cut_pieces(text, config.by)[int(rows["piece"][number])]
        told = {"lang": batch.langs[i], "text": make_printable(text)}
        return {**place(number), **told, "stays": place(int(firsts[number]))}

    dropped = np.flatnonzero(~stays)
    return {
        "of": config.by if config.by in PIECES else "document",
        "documents": len(rows),
        "duplicates": len(dropped),
        "examples": [describe(number) for number in dropped[:most].tolist()],
    }
