"""What holds for every step of [[map]]: each document alone decides, whatever its text, its batch and its process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from tokcore.plugins.map_outcome import apply_map, cut_otherwise, find_difference, join_outcomes
from tokcore.plugins.map_step import MapStep

ODD_TEXTS = (
    "",
    " ",
    "\0",
    "\n\n\n",
    "é",
    "e\u0301",
    "\u202eabc",
    "\U0001f468\u200d\U0001f469",
    "x" * 100_000,
    "नमस्ते",
    "0",
)
_CHILD = """
import importlib, os, sys
import pyarrow.ipc
from tokcore.plugins.map_outcome import apply_map
step = getattr(importlib.import_module(sys.argv[1]), sys.argv[2])()
out = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
made = apply_map(step.run, pyarrow.ipc.open_stream(sys.stdin.buffer).read_next_batch())
with pyarrow.ipc.new_stream(out, made.schema) as writer:
    writer.write_batch(made)
out.flush()
"""


def _find_root(module: str) -> str:
    """The folder from which a module that is loaded was imported."""
    place = Path(str(sys.modules[module].__file__)).resolve()
    return str(place.parents[module.count(".") + (place.name == "__init__.py")])


class MapTests:
    """Tests of a step: derive from it, and set `step` and `documents`.

    documents: rows of a batch, each with text, and id, lang (or "en") and other fields as the step needs them.
    """

    step: MapStep
    documents: Sequence[Mapping[str, Any]]

    def make_batch(self, documents: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
        """A batch as a build gives it. Override it for fields whose types do not follow from the values."""
        own = {"record", "text", "id", "lang"}
        others = dict.fromkeys(name for one in self.documents for name in one if name not in own)
        examples = {name: pa.array([one.get(name) for one in self.documents]).type for name in others}
        return pa.record_batch(
            {
                "record": pa.array(range(3, 3 + 2 * len(documents), 2), pa.int64()),
                "text": pa.array([one["text"] for one in documents], pa.large_string()),
                "id": pa.array([one.get("id") for one in documents], pa.string()),
                "lang": pa.array([one.get("lang", "en") for one in documents], pa.string()),
                **{name: pa.array([one.get(name) for one in documents], kind) for name, kind in examples.items()},
            }
        )

    def test_it_returns_what_a_step_may(self) -> None:
        assert self.documents
        apply_map(self.step.run, self.make_batch(self.documents))

    def test_it_does_something(self) -> None:
        batch = self.make_batch(self.documents)
        made = apply_map(self.step.run, batch)
        is_same = made.drop_columns("reject").equals(batch) and made.column("reject").null_count == batch.num_rows
        assert not is_same, "none of the documents is dropped or changed: give one that is"

    def test_each_document_alone_decides(self) -> None:
        batch = self.make_batch(self.documents)
        together = apply_map(self.step.run, batch)
        alone = [apply_map(self.step.run, batch.slice(i, 1)) for i in range(batch.num_rows)]
        assert find_difference(together, join_outcomes(alone)) is None
        for seed in range(20):
            parts = [apply_map(self.step.run, part) for part in cut_otherwise(batch, seed)]
            assert find_difference(together, join_outcomes(parts)) is None

    def test_another_process_makes_the_same(self) -> None:
        """With other hashes of strings, by which sets and whatever follows from them have another order."""
        batch = self.make_batch(self.documents)
        here = apply_map(self.step.run, batch)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        kind = type(self.step)
        path = os.pathsep.join([_find_root(kind.__module__), *(one for one in sys.path if one)])
        for hash_seed in ("1", "2"):
            done = subprocess.run(
                [sys.executable, "-P", "-c", _CHILD, kind.__module__, kind.__qualname__],
                input=sink.getvalue().to_pybytes(),
                capture_output=True,
                env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": hash_seed},
                check=False,
            )
            assert not done.returncode, done.stderr.decode(errors="replace")
            there = pa.ipc.open_stream(done.stdout).read_next_batch()
            assert find_difference(here, there) is None

    def test_it_takes_any_text(self) -> None:
        """Also of documents without an id, and without the fields that records may lack."""
        batch = self.make_batch([{"text": text} for text in ODD_TEXTS])
        apply_map(self.step.run, batch)
        for i in range(batch.num_rows):
            apply_map(self.step.run, batch.slice(i, 1))
