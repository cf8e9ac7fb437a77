"""Slices that learn together, where rows do not fit in memory: the merges of learning at once, also if one is lost."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.builds import build_file, run, run_once, small_corpus, tree
from support.slices import SliceProcesses

from tokcore import kernel
from tokcore.count.pretoken_rows import make_rows
from tokcore.count.pretoken_tables import assign_partitions, write_table
from tokcore.errors import LearnError, StageError
from tokcore.learn.rounds import MergesSoFar, RoundSizes
from tokcore.text.texts import make_texts_from_strings
from tokcore_pipelines.build import learn_together
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.local.memory import Available
from tokcore_pipelines.local.run_options import RunOptions, Slice
from tokcore_pipelines.run.here import Here
from tokcore_pipelines.run.task import do_steps
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.crashpoints import SHARED_LEARNING_POINTS
from tokcore_pipelines.work import learn_rounds
from tokcore_pipelines.work.learn_rounds import PartOfRound, RoundsJob, list_groups
from tokcore_schemas.config import load_config

SETTINGS = {
    "plain": "vocab_size = 500",
    "several sizes": "vocab_size = [400, 500]",
    "all that there are": "vocab_size = 9000\nallow_smaller = true\nmin_count = 3",
    "short tokens": "vocab_size = 350\nmax_token_bytes = 4\nmin_documents = 2",
    "words with ends": 'vocab_size = 700\nend_of_word = "</w>"',
}

Tables = list[dict[bytes, int]]

tables = st.lists(st.dictionaries(st.text("abc é", max_size=9).map(str.encode), st.integers(1, 9)), max_size=4)


def learn(folder: Path, counted: Tables, weights: list[int], parts: int, pieces: int, dealt_rows: int) -> MergesSoFar:
    """60 merges, of all tables with their weights, in parts."""
    named = []
    for number, counts in enumerate(counted):
        path = folder / f"{number}.parquet"
        with path.open("wb") as file:
            write_table(file, [make_rows(sorted((text, count, 1) for text, count in counts.items()))])
        named.append((str(path), weights[number], len(counts)))
    groups = list_groups(named, parts)
    attempts = Attempts(str(folder / "out"), "tokenizer", "0" * 64)
    sizes = [RoundSizes(8, room, 40 * room) for room in (pieces, 2 * pieces)]
    job = RoundsJob(attempts, len(groups), parts, *sizes, dealt_rows, 2, 60, 1, 0, 0, False, 10**9)
    found = do_steps(Here(), learn_together.make_steps(job, groups, lambda told: None), attempts)
    left = [path.name for path in (folder / "out/_attempts/tokenizer-0000000000000000/files").iterdir()]
    assert not [name for name in left if name.startswith(("bounds", "pieces", "floor"))]
    return found


@example([{b"abab": 3, b"ba": 3}, {b"aaaa": 2, b"aaaaa": 1, b"abab": 1}], 1, 20, 1)
@given(tables, st.integers(0, 3), st.integers(1, 20), st.integers(1, 8))
def test_any_dealing_gives_the_merges_of_learning_at_once(tmp_path_factory, counted, bits, pieces, dealt_rows):
    """A pre-token of several languages is in one part, with the sum of its weighted counts."""
    weights = [1, 3, 1000, 7]
    sums: dict[bytes, int] = {}
    for counts, weight in zip(counted, weights, strict=False):
        for text, count in counts.items():
            sums[text] = sums.get(text, 0) + weight * count
    texts, numbers = make_texts_from_strings(list(sums)), np.array(list(sums.values()), np.uint64)
    folder = tmp_path_factory.mktemp("dealt")
    if not sum(map(len, sums)):
        with pytest.raises(LearnError, match="no pre-token is in that many documents"):
            learn(folder, counted, weights, 1 << bits, pieces, dealt_rows)
        return
    try:
        found = learn(folder, counted, weights, 1 << bits, pieces, dealt_rows)
    except LearnError as error:
        assert str(error).startswith("the memory is too small")  # noqa: PT017
        assert str(error).endswith("1.0 GB are enough to learn in memory.")  # noqa: PT017
        return
    for own, expected in zip(found, kernel.learn_merges(texts, numbers, 60, 1), strict=False):
        assert own.tolist() == expected.tolist()


def test_counts_that_do_not_add_up_in_64_bits_are_refused(tmp_path):
    """Each part fits; all parts together do not. So with rows of the same pre-token in two tables."""
    most = 2**62
    words = [bytes([97 + i, 98 + i]) for i in range(20)]
    parts = assign_partitions(make_texts_from_strings(words), 4).tolist()
    one_of_each = dict(zip(parts, words, strict=True)).values()
    assert len(one_of_each) == 4
    with pytest.raises(LearnError, match=r"more than 2\*\*63 - 1"):
        learn(tmp_path, [dict.fromkeys(one_of_each, most)], [1], 4, 50, 9)
    (tmp_path / "weighted").mkdir()
    with pytest.raises(LearnError, match=r"weighted counts are too large.*Use smaller weights"):
        learn(tmp_path / "weighted", [{b"ab": most}, {b"ab": most}], [3, 2], 2, 50, 9)


@pytest.fixture
def too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """No memory for the rows of the small corpus, and what is left is enough for rounds."""
    monkeypatch.setattr(learn_together, "find_learn_memory", lambda config: Available(500, "a limit"))
    monkeypatch.setattr(learn_together, "READ_BYTES", 0)
    monkeypatch.setattr(learn_together, "LEAST_BYTES", 1)
    monkeypatch.setattr(learn_together, "find_read_bytes", lambda rows: 0)


def run_as_slice(path: Path, output: Path) -> str:
    """Run a build as its only slice, all in this thread; its root."""
    return Build(load_config(str(path)), RunOptions(1, here=True, share=Slice(1, 1)), str(output)).run().root


@pytest.mark.parametrize("name", SETTINGS)
def test_the_same_bytes_as_from_memory(tmp_path, too_little, monkeypatch, name):
    small_corpus(tmp_path)
    path = build_file(tmp_path, settings=f"[learn]\n{SETTINGS[name]}\n")
    seen = []
    monkeypatch.setattr(learn_together, "describe_round", lambda told: seen.append(told) or "")
    root = run_as_slice(path, tmp_path / "together")
    assert root == run(path, tmp_path / "alone").root
    assert seen[-1].num_merges > 0
    assert not (tmp_path / "together/_attempts").exists()


def test_workers_of_an_engine_learn_together_where_the_build_file_bounds_them(tmp_path, monkeypatch):
    small_corpus(tmp_path)
    path = build_file(tmp_path, settings="[learn]\nvocab_size = 400\n")
    monkeypatch.setattr(learn_together, "READ_BYTES", 0)
    monkeypatch.setattr(learn_together, "LEAST_BYTES", 1)
    monkeypatch.setattr(learn_together, "find_read_bytes", lambda rows: 0)
    monkeypatch.setattr(learn_together, "find_row_bytes", lambda *_: 1 << 20)
    seen = []
    monkeypatch.setattr(learn_together, "describe_round", lambda told: seen.append(told) or "")
    runner = ("--runner=FnApiRunner",)
    run(path, tmp_path / "alone", runner=runner)
    assert not seen
    limited = build_file(
        tmp_path, settings="[learn]\nvocab_size = 400\nmemory_bytes = 268_435_456\n", name="limited.toml"
    )
    run(limited, tmp_path / "together", runner=runner)
    assert seen
    assert tree(tmp_path / "together") == tree(tmp_path / "alone")


def test_one_that_was_overtaken_finds_the_record_of_the_other(tmp_path, monkeypatch):
    """Its files are gone, as the round is over; without a record it would be an error."""
    attempts = Attempts(str(tmp_path / "out"), "tokenizer", "0" * 64)
    job = RoundsJob(attempts, 1, 1, *[RoundSizes(8, 50, 500)] * 2, 9, 1, 60, 1, 0, 0, False, 10**9)
    with pytest.raises(StageError):
        learn_rounds.cut_part(job, PartOfRound("pieces", 1))
    learn(tmp_path, [{b"abab": 3}], [1], 1, 50, 9)
    piece = PartOfRound("pieces", 1)
    made = attempts.result(piece.key, learn_rounds.PartPieces)
    find, asked = Attempts.result, []

    def find_late(self, key, cls):
        asked.append(key)
        return None if asked.count(key) == 1 and key == piece.key else find(self, key, cls)

    monkeypatch.setattr(Attempts, "result", find_late)
    assert learn_rounds.cut_part(job, piece) == made


# What each of these processes does before it is the command.
SMALL = """
import sys
from tokcore_pipelines.build import learn_together
from tokcore_pipelines.cli import main
from tokcore_pipelines.local.memory import Available
learn_together.READ_BYTES, learn_together.LEAST_BYTES = 0, 1
learn_together.find_read_bytes = lambda rows: 0
learn_together.find_learn_memory = lambda config: Available(500, "a limit")
if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("point", SHARED_LEARNING_POINTS)
def test_a_slice_that_is_lost_in_the_middle_is_replaced(tmp_path, point):
    """It is killed at that point; another does its tasks, and learns the merges of the round if that was its task."""
    small_corpus(tmp_path)
    path = build_file(tmp_path, settings="[learn]\nvocab_size = 500\n")
    run_once(path, tmp_path / "local")
    program = tmp_path / "small.py"
    program.write_text(SMALL)
    with SliceProcesses(path, tmp_path / "out", 2, lease=1) as slices:

        def start(number, **variables):
            words = [sys.executable, program, *slices.command, f"--slice={number}/2", "--lease=1", "--workers=1"]
            return slices.run(words, {**os.environ, **variables})

        ended = [start(1, TOKCORE_CRASH=point).wait(), start(2).wait()]
    assert ended[0][0] in (3, -signal.SIGKILL), ended[0]
    assert ended[1][0] == 0, ended[1]
    assert "All slices learn from them, in rounds" in ended[1][2]
    assert tree(tmp_path / "out") == tree(tmp_path / "local")
