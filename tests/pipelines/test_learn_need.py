"""The memory that learning needs is said before any work, and an error names what would do: then it does."""

from __future__ import annotations

import random
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.builds import build_file, run, small_corpus, tokcore

from tokcore.errors import StageError
from tokcore_pipelines.build.learn_need import LearnNeed, check_learn_need, estimate_rows
from tokcore_pipelines.build.plan_corpus import plan_build
from tokcore_pipelines.build.source_checks import refuse_wrong_sources
from tokcore_pipelines.local.memory import Available
from tokcore_pipelines.work.learn_from_disk import ROUNDS_BYTES
from tokcore_schemas.config import load_config

TOO_LITTLE = ROUNDS_BYTES - 1


def find(tmp_path, learn: str, need: LearnNeed, is_local: bool = True) -> str:
    config = load_config(str(build_file(tmp_path, settings=f"[learn]\nvocab_size = 300\n{learn}\n")))
    (said,) = [*check_learn_need(config, need, is_local)] or [None]
    assert said is None or not said.stops
    return "" if said is None else said.text


@pytest.mark.parametrize(
    ("learn", "then"),
    [
        (f"memory_bytes = {ROUNDS_BYTES}", "In rounds it does with that"),
        (f"memory_bytes = {TOO_LITTLE}", "is refused: learning in rounds takes 134.2 MB"),
        (f'memory_bytes = {ROUNDS_BYTES}\nmodel = "unigram"', "is refused: only bpe, if it extends nothing"),
    ],
)
def test_what_becomes_of_it_is_said(tmp_path, learn, then):
    needs = find(tmp_path, learn, LearnNeed(10**9, 10**12))
    assert needs.startswith("learning needs about 1.0 GB of memory, and learn.memory_bytes = ")
    assert then in needs


def test_an_estimate_has_a_margin_and_never_more_than_the_bound(tmp_path):
    limit = 200_000_000
    learn = f"memory_bytes = {limit}"
    assert "may need up to 240.0 MB" in find(tmp_path, learn, LearnNeed(120_000_000, 10**12))
    assert "may need up to 201.0 MB" in find(tmp_path, learn, LearnNeed(120_000_000, 201_000_000))
    assert not find(tmp_path, learn, LearnNeed(120_000_000, limit))
    assert not find(tmp_path, learn, LearnNeed(limit // 2, 10**12))
    assert not find(tmp_path, learn, LearnNeed(0, 0))


def test_of_workers_of_an_engine_only_the_build_file_tells(tmp_path, monkeypatch):
    monkeypatch.setattr("tokcore_pipelines.work.learn_memory.find_available", lambda: Available(500, "this machine"))
    need = LearnNeed(10**9, 10**9)
    assert "this machine leaves 500 bytes" in find(tmp_path, "", need)
    assert not find(tmp_path, "", need, is_local=False)
    assert "learn.memory_bytes = 900000000 leaves 900.0 MB" in find(
        tmp_path, "memory_bytes = 900_000_000", need, is_local=False
    )


def test_rows_are_estimated_from_those_seen_once():
    """Of words with Zipf's frequencies; the sample's own number where there is no more."""
    chance = np.random.default_rng(7)
    words = chance.zipf(1.5, 400_000)

    def count(num: int) -> np.ndarray:
        return np.unique(words[:num], return_counts=True)[1]

    for num in (1_000, 10_000, 100_000):
        assert 0.7 < estimate_rows(count(num), len(words) / num) / len(count(len(words))) < 1.4
    assert estimate_rows(count(1_000), 1.0) == len(count(1_000))
    assert estimate_rows(count(0), 7.0) == 0


def write_much(tmp_path, num: int = 8_000) -> None:
    """Documents of new words: a stored byte needs much memory."""
    chance = random.Random(3)
    small_corpus(tmp_path)
    for path in tmp_path.rglob("*.jsonl"):
        words = ("".join(chance.choices("abcdefghijklmnop", k=6)) for _ in range(num))
        path.write_text("".join(f'{{"id": "{i}", "text": "{word} {word[::-1]}"}}\n' for i, word in enumerate(words)))


@pytest.mark.parametrize("command", ["check", "build"])
def test_a_command_says_it_before_it_works(tmp_path, command):
    write_much(tmp_path)
    path = build_file(tmp_path, settings='[learn]\nvocab_size = 300\nmodel = "wordpiece"\nmemory_bytes = 1_100_000\n')
    done = tokcore(command, path, *(["--workers=1"] if command == "build" else []))
    said = done.stderr + done.stdout
    assert re.search(
        r"learning needs about .* of memory, and learn\.memory_bytes = 1100000 leaves 1\.1 MB\. .*refused", said
    )
    assert command == "check" or said.index("learning needs about") < said.index("count  ") < said.index("error: ")


def test_a_build_says_it_of_parquet_files_too(tmp_path):
    """Of which it looks at rows only where memory may be too little."""
    chance = random.Random(7)
    words = ["".join(chance.choices("abcdefghijklmnop", k=6)) for _ in range(20_000)]
    pq.write_table(pa.table({"text": words}), tmp_path / "a.parquet", row_group_size=5000)
    path = tmp_path / "b.toml"

    def find_warnings(memory_bytes: int) -> list[str]:
        path.write_text(
            'version = 1\n[build]\noutput = "out"\n[[source]]\nlang = "en"\nfiles = "a.parquet"\n'
            f"[learn]\nvocab_size = 300\nmemory_bytes = {memory_bytes}\n"
        )
        config = load_config(str(path))
        return refuse_wrong_sources(config, plan_build(config), 1)

    (said,) = find_warnings(1_100_000)
    assert re.search(r"learning needs about .* of memory, and learn\.memory_bytes = 1100000 leaves 1\.1 MB", said)
    assert find_warnings(10**9) == []


@pytest.mark.parametrize("learn", ['model = "wordpiece"', 'model = "pathpiece"', ""])
def test_what_an_error_says_is_enough(tmp_path, monkeypatch, learn):
    """To the figure that it names, rounded as it is: with it, the same command learns."""
    write_much(tmp_path)
    available = [Available(1 << 20, "a limit")]
    monkeypatch.setattr("tokcore_pipelines.work.learn_memory.find_available", lambda: available[0])
    path = build_file(tmp_path, settings=f"[learn]\nvocab_size = 400\n{learn}\n")
    with pytest.raises(StageError) as error:
        run(path, tmp_path / "out")
    (said,) = re.findall(r"([\d.]+) MB are enough to learn in memory", str(error.value))
    assert ("134.2 MB are enough to learn in rounds" in str(error.value)) == (not learn)
    assert ("only bpe, if it extends nothing" in str(error.value)) == bool(learn)
    available[0] = Available(int((float(said) + 0.05) * 1e6), "a limit")
    assert run(path, tmp_path / "out").totals.vocab_size == 400
