"""What a task leaves in memory: no cycle, which would wait for a collector that hardly comes to large arrays."""

from __future__ import annotations

import gc

import pytest
from support.builds import build_file, run, small_corpus

from tokcore_pipelines.run.here import Here

SETTINGS = """
[plan]
range_bytes = 3000
[learn]
vocab_size = 400
[shards]
target_tokens = 300
validation = 0.1
formats = ["arrow", "megatron"]
by = "lang"
"""
DERIVED = """
[shuffle]
seed = 7
[dedup]
by = "text"
[mixture]
strategy = "temperature"
[pack]
length = 64
"""


@pytest.mark.parametrize("more", ["", DERIVED], ids=["shards", "all stages"])
def test_tasks_leave_no_cycles(more, tmp_path, monkeypatch):
    """One that held the open shards of an item took 3 MB an item, of a crawl, and so hundreds of MB of a worker."""
    left: dict[str, set[str]] = {}
    done = set()

    def do(_, step, attempts, _on_progress, measured):
        for number, task in enumerate(step.list_tasks()):
            gc.collect()
            gc.disable()
            gc.set_debug(gc.DEBUG_SAVEALL)
            try:
                result = task.function(*task.arguments)
                gc.collect()
            finally:
                gc.set_debug(0)
                gc.enable()
            if gc.garbage and number:  # the first one makes what a process makes once
                left.setdefault(step.name, set()).update(type(one).__qualname__ for one in gc.garbage)
            gc.garbage.clear()
            done.add(step.name)
            if task.measure is not None:
                measured.update(task.measure(result))
        return False

    monkeypatch.setattr(Here, "do", do)
    small_corpus(tmp_path)
    run(build_file(tmp_path, settings=SETTINGS + more), tmp_path / "out")
    assert len(done) >= (10 if more else 3), done
    assert left == {}
