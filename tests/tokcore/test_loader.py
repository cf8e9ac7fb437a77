"""The loader: each row once, on whatever ranks; the order and bounds that its slow twin gives; formats, resuming."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import pickle
import resource
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.token_batches import Document, write_shard

from tokcore.errors import ConfigError, FormatError
from tokcore.formats import flat_ids
from tokcore.formats.flat_ids import find_bounds_in
from tokcore.shards.format_table import SHARD_FORMATS
from tokcore.train import loader as loader_module
from tokcore.train import row_streams
from tokcore.train.loader import Loader
from tokcore.train.row_order import Permutation, RowOrder, spread


def make_rows(num: int, seed: int, lang: str = "en") -> list[Document]:
    chance = np.random.default_rng(seed)
    lengths = chance.choice([0, 0, 1, 2, 3, 9, 40], num)
    return [
        (chance.integers(0, 60_000, length).tolist(), str(i), lang, "s.jsonl", i) for i, length in enumerate(lengths)
    ]


def write_corpus(
    folder: Path, name: str = "megatron", nums: tuple[int, ...] = (30, 0, 1, 50), **more
) -> list[list[int]]:
    """Shards of a split in a format; the documents, in order."""
    documents = []
    for number, num in enumerate(nums):
        rows = make_rows(num, number, **more)
        place = folder / more["lang"] if more else folder
        write_shard(name, place / f"train-{number:05d}-00000", rows, vocab_size=60_000, dtype="uint16")
        documents += [row[0] for row in rows]
    return documents


def expected_rows(documents: list[list[int]], length: int) -> list[tuple[list[int], list[int]]]:
    """Slow and obvious: of each row its ids, and the places in it at which a document, or the row, begins."""
    ids = [(id, i) for i, document in enumerate(documents) for id in document]
    rows = []
    for start in range(0, len(ids) - length + 1, length):
        row = ids[start : start + length]
        begins = [place for place in range(length) if place == 0 or row[place][1] != row[place - 1][1]]
        rows.append(([id for id, _ in row], begins))
    return rows


def split_batch(batch, length: int) -> list[tuple[list[int], list[int]]]:
    """A batch in rows, each with its bounds."""
    bounds = batch.cu_seqlens.tolist()
    assert bounds[0] == 0
    assert bounds[-1] == batch.tokens.size
    assert all(one < other for one, other in itertools.pairwise(bounds))
    return [
        (row.tolist(), [bound - i * length for bound in bounds[:-1] if i * length <= bound < (i + 1) * length])
        for i, row in enumerate(batch.tokens)
    ]


@pytest.mark.parametrize("name", SHARD_FORMATS)
def test_rows_and_bounds_are_those_of_the_documents(tmp_path, name, monkeypatch):
    monkeypatch.setattr(loader_module, "CHUNK_ROWS", 11)
    documents = write_corpus(tmp_path, name)
    for length in (1, 7, 64):
        batches = list(loader := Loader(tmp_path, length, batch_size=3, shuffle=False))
        found = [row for batch in batches for row in split_batch(batch, length)]
        assert found == expected_rows(documents, length)
        assert all(batch.tokens.dtype == batch.cu_seqlens.dtype == np.int32 for batch in batches)
        assert [batch.step for batch in batches] == list(range(len(loader)))
        shuffled = Loader(tmp_path, length, batch_size=3, seed=5)
        assert sorted(row for batch in shuffled for row in split_batch(batch, length)) == sorted(found)


@examples(200)
@given(st.integers(1, 5000), st.integers(0, 2**70), st.integers(0, 3), st.integers(0, 3))
def test_a_shuffle_is_a_bijection(size, seed, epoch, stream):
    rows = Permutation(size, seed, epoch, stream)(np.arange(size))
    assert np.array_equal(np.sort(rows), np.arange(size))
    assert np.array_equal(Permutation(size, seed, epoch, stream)(np.arange(size)[::-1]), rows[::-1])


def test_a_shuffle_stays_what_it_is():
    """Another order would let runs that resume read rows twice."""
    assert Permutation(10, 7, 0, 0)(np.arange(10)).tolist() == GOLDEN_SHUFFLE
    assert Permutation(2**40, 7, 1, 0)(np.arange(3)).tolist() == GOLDEN_LARGE


GOLDEN_SHUFFLE = [4, 9, 1, 2, 5, 8, 0, 6, 3, 7]
GOLDEN_LARGE = [757_099_222_024, 948_977_871_989, 559_114_883_363]


def test_a_shuffle_mixes():
    """Neighbours come apart, each row is as likely at each place, and seeds and epochs give other orders."""
    size = 1 << 16
    rows = Permutation(size, 1, 0, 0)(np.arange(size))
    steps = np.abs(np.diff(rows))
    assert abs(float(steps.mean()) - size / 3) < size * 0.01
    counts = np.bincount(rows[: size // 2] // (size // 64), minlength=64)
    assert counts.max() < 1.25 * counts.mean()
    first = [Permutation(100, seed, epoch, 0)(np.arange(100)).tolist() for seed in range(3) for epoch in range(3)]
    assert len({tuple(order) for order in first}) == 9


@examples(60)
@given(
    st.integers(1, 5),
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 6)), max_size=5),
    st.booleans(),
    st.data(),
)
def test_any_sequence_of_world_sizes_reads_each_row_once(corpus_of_100_rows, batch_size, runs, shuffle, data):
    """Each run has a number of ranks and stops after some steps; the last one reads to the end."""
    folder, rows = corpus_of_100_rows
    seen: list[tuple] = []
    state = None
    for world_size, steps in [*runs, (data.draw(st.integers(1, 5)), None)]:
        loaders = [
            Loader(folder, 4, batch_size, rank, world_size, seed=3, shuffle=shuffle) for rank in range(world_size)
        ]
        for loader in loaders:
            if state is not None:
                loader.load_state_dict(json.loads(json.dumps(state)))
        assert len({len(loader) for loader in loaders}) == 1
        num = len(loaders[0]) if steps is None else min(steps, len(loaders[0]))
        for step in range(num):
            batches = [loader[step] for loader in loaders]
            full = step < loaders[0].num_full_steps
            assert all((len(batch.tokens) == batch_size) for batch in batches) or not full
            seen += [tuple(row) for batch in batches for row in batch.tokens.tolist()]
        state = loaders[0].state_dict(num)
        assert all(loader.state_dict(num) == state for loader in loaders)
    assert Counter(seen) == Counter(map(tuple, rows))


@pytest.fixture(scope="module")
def corpus_of_100_rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    ids = list(range(403))
    write_shard(
        "megatron", folder / "train-00000-00000", [(ids[:150], "a", "en", "s", 0), (ids[150:], "b", "en", "s", 1)]
    )
    return folder, [ids[i : i + 4] for i in range(0, 400, 4)]


def test_row_k_goes_to_rank_k_by_batch_size_modulo_world_size(corpus_of_100_rows):
    folder, rows = corpus_of_100_rows
    for rank in range(3):
        own = [row for batch in Loader(folder, 4, 5, rank, 3, shuffle=False) for row in batch.tokens.tolist()]
        assert own == [row for k, row in enumerate(rows) if k // 5 % 3 == rank]
    state = Loader(folder, 4, 5, 0, 4, shuffle=False).state_dict(1)
    assert state["rows"] == 20
    for rank in range(3):
        loader = Loader(folder, 4, 5, rank, 3, shuffle=False)
        loader.load_state_dict(state)
        own = [row for batch in loader for row in batch.tokens.tolist()]
        assert own == [row for k, row in enumerate(rows) if k >= 20 and k // 5 % 3 == rank]


def test_iterating_counts_what_is_consumed(corpus_of_100_rows):
    loader = Loader(corpus_of_100_rows[0], 4, 8, world_size=2)
    assert loader.state_dict()["rows"] == 0
    first = list(itertools.islice(loader, 3))
    state = loader.state_dict()
    assert state["rows"] == 48
    loader.load_state_dict(state)
    assert loader[0].tokens.tolist() not in [batch.tokens.tolist() for batch in first]
    assert (len(loader), loader.num_full_steps) == (4, 3)
    loader.set_epoch(1)
    assert loader.state_dict()["rows"] == 0
    assert loader[0].tokens.tolist() != first[0].tokens.tolist()
    for name, other in (("seed", 9), ("length", 5), ("shuffle", False)):
        arguments = {"length": 4, "seed": 0, "shuffle": True} | {name: other}
        with pytest.raises(ConfigError, match=f"the state has {name} = "):
            Loader(corpus_of_100_rows[0], batch_size=8, **arguments).load_state_dict(state)


def test_weights_are_spread_evenly():
    assert spread([3, 1]) == [0, 0, 1, 0]
    for weights in ([1], [5, 2, 1], [7, 7], [1, 100]):
        pattern = spread(weights)
        assert [pattern.count(i) for i in range(len(weights))] == weights
        for i, weight in enumerate(weights):
            for end in range(len(pattern) + 1):
                assert abs(pattern[:end].count(i) * len(pattern) - end * weight) <= len(pattern)


@examples(60)
@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 6)), min_size=1, max_size=4), st.booleans())
def test_a_mixture_repeats_no_row_before_all_have_come_over_epochs(streams, shuffle):
    sizes, weights = [size for size, _ in streams], [weight for _, weight in streams]
    total, seen = sum(sizes), []
    for epoch in range(5):
        order = RowOrder(sizes, 7, epoch, shuffle, weights)
        assert order.num_rows == total
        of_rows, rows = order(np.arange(total))
        seen += list(zip(of_rows.tolist(), rows.tolist(), strict=True))
    counts = Counter(seen)
    for stream, size in enumerate(sizes):
        of_stream = [counts[stream, row] for row in range(size)]
        assert max(of_stream) - min(of_stream) <= 1
    whole = 5 * total // sum(weights) * sum(weights)
    common = np.gcd.reduce(weights)
    assert (
        Counter(stream for stream, _ in seen[:whole])
        == {i: whole * weight // sum(weights) for i, weight in enumerate(weights) if whole and common}
        or not whole
    )


def test_a_mixture_takes_languages_from_their_folders(tmp_path):
    for lang in ("en", "sw"):
        write_corpus(tmp_path, nums=(60,), lang=lang)
    loader = Loader(tmp_path, 4, 6, mixture={"en": 2, "sw": 4}, shuffle=False)
    alone = {lang: expected_rows(write_corpus(tmp_path / "alone", nums=(60,), lang=lang), 4) for lang in ("en", "sw")}
    first = split_batch(loader[0], 4)
    assert first == [alone["sw"][0], alone["en"][0], alone["sw"][1], alone["sw"][2], alone["en"][1], alone["sw"][3]]
    for mixture, what in (
        ({"de": 1}, r"mixture: no shards of 'de': there are 'en', 'sw'. .* by = \"lang\""),
        ({"en": 0}, "mixture: en = 0: expected a positive integer"),
        ({"en": 0.5}, "mixture: en = 0.5: expected a positive integer"),
        ({"en": 1, "sw": 1 << 16}, "mixture: its weights sum up to 65537"),
        ({}, "mixture: names no language or partition"),
    ):
        with pytest.raises(ConfigError, match=what):
            Loader(tmp_path, 4, 6, mixture=mixture)


def test_it_pickles_and_other_processes_give_the_same(tmp_path):
    write_corpus(tmp_path)
    loader = Loader(tmp_path, 8, 4, seed=1)
    loader[0]
    assert len(pickle.dumps(loader)) < 10_000
    same = pickle.loads(pickle.dumps(loader))
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        others = pool.map(loader.__getitem__, range(len(loader)))
    for batch, twin, other in zip(loader, same, others, strict=True):
        assert batch.tokens.tolist() == twin.tokens.tolist() == other.tokens.tolist()
        assert batch.cu_seqlens.tolist() == twin.cu_seqlens.tolist() == other.cu_seqlens.tolist()


def test_a_damaged_shard_is_named_not_skipped(tmp_path):
    write_corpus(tmp_path)
    loader = Loader(tmp_path, 8, 4)
    path = tmp_path / "train-00003-00000_text_document.bin"
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(FormatError, match=r"train-00003-00000_text_document\.bin: .* bytes"):
        pickle.loads(pickle.dumps(loader))[0]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"length": 0}, "length = 0: must be at least 1"),
        ({"batch_size": 0}, "batch_size = 0"),
        ({"world_size": 0}, "world_size = 0"),
        ({"rank": 2, "world_size": 2}, "rank = 2: must be from 0 to 1"),
        ({"epoch": -1}, "epoch = -1"),
        ({"length": 10**6}, "no row of length = 1000000"),
    ],
)
def test_mistakes_are_named(tmp_path, arguments, what):
    write_corpus(tmp_path)
    with pytest.raises(ConfigError, match=what):
        Loader(tmp_path, **{"length": 8, "batch_size": 4, **arguments})
    with pytest.raises(IndexError):
        Loader(tmp_path, 8, 4)[10**6]


def test_more_shards_than_files_may_be_open(tmp_path, monkeypatch):
    documents = write_corpus(tmp_path, nums=(3,) * 80)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (0, 0))
    monkeypatch.setattr(row_streams, "count_openable", lambda: 16)
    loader = Loader(tmp_path, 4, 2)
    found = sorted(row for batch in loader for row in split_batch(batch, 4))
    assert found == sorted(expected_rows(documents, 4))


@given(
    st.lists(st.integers(0, 50), max_size=30).map(sorted),
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50))),
    st.sampled_from([0, 8]),
)
def test_bounds_are_found_at_any_address(bounds, parts, copied):
    aligned = np.array(bounds, np.int64)
    odd = np.frombuffer(b"xx" + aligned.tobytes(), np.int64, offset=2, count=len(bounds))
    starts, ends = (np.array([part[i] for part in parts], np.int64) for i in range(2))
    expected = [[bound for bound in bounds if start < bound < end] for start, end in parts]
    for array in (aligned, odd):
        with mock.patch.object(flat_ids, "_COPIED_PER_STEP", copied):
            counts, places = find_bounds_in(array, starts, ends)
        assert counts.tolist() == [len(one) for one in expected]
        assert places.tolist() == [bound for one in expected for bound in one]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_torch_reads_it(tmp_path, num_workers):
    torch = pytest.importorskip("torch")
    write_corpus(tmp_path)
    loader = Loader(tmp_path, 8, 4, seed=1)
    found = list(torch.utils.data.DataLoader(loader, batch_size=None, num_workers=num_workers))
    assert len(found) == len(loader)
    for batch, expected in zip(found, loader, strict=True):
        assert batch.tokens.tolist() == expected.tokens.tolist()
        assert batch.cu_seqlens.tolist() == expected.cu_seqlens.tolist()
        assert (batch.tokens.dtype, batch.step) == (torch.int32, expected.step)


def test_importing_it_imports_no_torch():
    code = "import sys, tokcore.train.loader; assert 'torch' not in sys.modules and 'fsspec' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_reading_ahead_changes_no_batch_and_is_bounded(tmp_path, monkeypatch):
    """Threads read the next batches, no more than asked for; what they find damaged is raised in its turn."""
    write_corpus(tmp_path, nums=(60, 60))
    expected = [(batch.tokens.tolist(), batch.cu_seqlens.tolist(), batch.step) for batch in Loader(tmp_path, 4, 2)]
    assert len(expected) > 20
    given, taken, threads = 0, [], set()
    take = loader_module._Chunk.take

    def count(chunk, number, step):
        taken.append(step)
        threads.add(threading.current_thread().name)
        assert step <= given + 3, "more than are to be read ahead"
        return take(chunk, number, step)

    monkeypatch.setattr(loader_module._Chunk, "take", count)
    monkeypatch.setattr(loader_module, "CHUNK_ROWS", 6)
    loader = Loader(tmp_path, 4, 2, read_ahead=3)
    found = []
    for given, batch in enumerate(loader, 1):
        found.append((batch.tokens.tolist(), batch.cu_seqlens.tolist(), batch.step))
        assert loader.state_dict()["rows"] == min(2 * given, loader.num_rows)
    assert found == expected
    assert sorted(taken) == [*range(len(expected))]
    assert all(name.startswith("tokcore-loader") for name in threads)
    given = 0
    for _ in loader:  # given up half-way
        break
    assert not [one for one in threading.enumerate() if one.name.startswith("tokcore-loader")]
    Path(tmp_path / "train-00001-00000_text_document.bin").unlink()
    given = 1000
    with pytest.raises(FormatError, match=r"train-00001-00000_text_document\.bin"):
        list(Loader(tmp_path, 4, 2, read_ahead=3))
    with pytest.raises(ConfigError, match=r"read_ahead = -1: must be at least 0"):
        Loader(tmp_path, 4, 2, read_ahead=-1)
