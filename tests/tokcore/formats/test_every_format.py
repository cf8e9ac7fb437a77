"""What holds for every format of shards: read gives what was written, whatever is damaged is found, ids are checked."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.token_batches import (
    FINGERPRINT,
    batch_of,
    content_of,
    dealt,
    documents,
    open_shard,
    rows_of,
    shard_bytes,
    with_flipped_bit,
    write_shard,
)

from tokcore import open_shards
from tokcore.errors import TokError
from tokcore.formats.shard_facts import ShardFacts
from tokcore.formats.shard_format import ShardSettings, StoredShard
from tokcore.shards.format_table import SHARD_FORMATS, find_shard_at

VOCAB_SIZE = 60_000
ROWS = [
    ([1, 2, 3], "a", "en", "s", 0),
    ([], None, "sw", "s", 1),
    (list(range(300)), "c", "en", "s", 2),
    ([59_999, 0], "", "en", "s", 3),
]
CHOICES = [(name, dtype) for name, one in SHARD_FORMATS.items() for dtype in one.dtypes or ("int32",)]

# A bit of these may say nothing of the documents: between Arrow's buffers, in a version's name, in gzip's header.
_SILENT = (".arrow", ".parquet", ".documents", ".csv.gz")


def chosen_dtype(name: str, dtype: str, vocab_size: int = VOCAB_SIZE) -> str:
    return SHARD_FORMATS[name].dtype(ShardSettings(FINGERPRINT, vocab_size, "zstd", dtype))


@pytest.mark.parametrize(("name", "dtype"), CHOICES)
@examples(40)
@given(documents, st.lists(st.integers(0, 20), max_size=4))
def test_read_gives_what_was_written_however_it_arrives(tmp_path_factory, name, dtype, rows, cuts):
    rows = [([id % VOCAB_SIZE for id in row[0]], *row[1:]) for row in rows]
    files = shard_bytes(name, [batch_of(rows)], vocab_size=VOCAB_SIZE, dtype=dtype)
    assert shard_bytes(name, dealt(batch_of(rows), cuts), vocab_size=VOCAB_SIZE, dtype=dtype) == files
    folder = tmp_path_factory.mktemp("shards")
    path = write_shard(name, folder / "x", rows, vocab_size=VOCAB_SIZE, dtype=dtype)
    shard = open_shard(name, path)
    assert rows_of(shard.batches()) == rows
    assert [(shard.tokens(i).tolist(), *shard.columns(i)) for i in range(len(shard))] == rows
    assert (shard.num_tokens, shard.fingerprint) == (sum(len(row[0]) for row in rows), FINGERPRINT)
    if shard.num_tokens:
        assert shard.dtype == chosen_dtype(name, dtype)
    for start, end in ((0, len(rows)), (1, 3), (len(rows), len(rows) + 2)):
        ids, lengths = shard.span(start, end)
        assert ids.dtype == np.int32
        assert ids.tolist() == [id for row in rows[start:end] for id in row[0]]
        assert lengths.tolist() == [len(row[0]) for row in rows[start:end]]


@pytest.mark.parametrize(("name", "dtype"), CHOICES)
def test_documents_of_every_size_of_length(tmp_path, name, dtype):
    lengths = [0, 1, 255, 256, 65_535, 65_536, 0]
    rows = [([i % 7] * length, str(i), "en", "s", i) for i, length in enumerate(lengths)]
    shard = open_shard(name, write_shard(name, tmp_path / "x", rows, vocab_size=VOCAB_SIZE, dtype=dtype))
    assert rows_of(shard.batches()) == rows
    assert shard.tokens(4).tolist() == rows[4][0]
    assert not shard.tokens(2).flags.writeable


@pytest.mark.parametrize("name", SHARD_FORMATS)
def test_a_shard_without_documents(tmp_path, name):
    shard = open_shard(name, write_shard(name, tmp_path / "x", [], vocab_size=VOCAB_SIZE))
    assert (len(shard), shard.num_tokens, list(shard.batches())) == (0, 0, [])


@pytest.mark.parametrize(("name", "dtype"), CHOICES)
def test_a_flipped_bit_never_passes_for_the_content(tmp_path, name, dtype):
    """Bits that say nothing of the documents may pass; then the documents are the same."""
    path = write_shard(name, tmp_path / "x", ROWS, vocab_size=VOCAB_SIZE, dtype=dtype)
    content = content_of(name, path).hexdigest()
    sound = Path(path).read_bytes()
    chance = np.random.default_rng(7)
    for suffix in SHARD_FORMATS[name].suffixes:
        file = tmp_path / f"x{suffix}"
        sound = file.read_bytes()
        places = range(len(sound)) if len(sound) < 200 else chance.integers(0, len(sound), 200).tolist()
        # Some files are padded with zeros to many times what they hold.
        told = np.flatnonzero(np.frombuffer(sound, np.uint8))
        places = [*places, *(chance.choice(told, 200).tolist() if len(told) < len(sound) // 2 else ())]
        for position in [*range(min(40, len(sound))), *places]:
            file.write_bytes(with_flipped_bit(sound, position, int(chance.integers(8))))
            try:
                same = content_of(name, path).hexdigest() == content
            except TokError:
                continue
            assert not same or suffix.endswith(_SILENT), (suffix, position)
        file.write_bytes(sound)
    assert content_of(name, path).hexdigest() == content


@pytest.mark.parametrize(("name", "dtype"), CHOICES)
def test_a_cut_or_grown_file_is_refused(tmp_path, name, dtype):
    path = write_shard(name, tmp_path / "x", ROWS, vocab_size=VOCAB_SIZE, dtype=dtype)
    for suffix in SHARD_FORMATS[name].suffixes:
        file = tmp_path / f"x{suffix}"
        sound = file.read_bytes()
        for changed in (*(sound[:size] for size in range(0, len(sound), max(1, len(sound) // 60))), sound + b"\1"):
            file.write_bytes(changed)
            with pytest.raises(TokError, match=r"x"):
                content_of(name, path)
        file.unlink()
        with pytest.raises(TokError):
            content_of(name, path)
        file.write_bytes(sound)


@pytest.mark.parametrize(("name", "dtype"), [(name, dtype) for name, dtype in CHOICES if dtype == "uint16"])
def test_an_id_that_does_not_fit_is_refused_before_anything_is_written(name, dtype):
    """In fewer bits it would become another id."""
    one = SHARD_FORMATS[name]
    for vocab_size, id in ((300, 300), (2**31 - 1, 65_536), (300, -1)):
        files = [io.BytesIO() for _ in one.suffixes]
        writer = one.open_writer(files, ShardSettings(FINGERPRINT, vocab_size, "zstd", dtype))
        with pytest.raises(TokError, match=f"id {id}: the vocabulary has"):
            writer.write(batch_of([([1, 2], None, "en", "a", 0), ([3, id], None, "en", "a", 1)]))
        writer.write(batch_of([([5], None, "en", "a", 0)]))
        writer.close()
        assert len(files[0].getvalue()) < 1024 + 512


@pytest.mark.parametrize("name", [name for name, one in SHARD_FORMATS.items() if not one.has_columns])
def test_without_the_documents_file_there_are_ids_and_as_many_bounds_as_the_format_has(tmp_path, name):
    """What indexes of the folder say is there."""
    one = SHARD_FORMATS[name]
    stem = tmp_path / "train-00000-00000"
    path = Path(write_shard(name, stem, ROWS, vocab_size=VOCAB_SIZE))
    Path(f"{stem}.documents").unlink()
    facts = ShardFacts("train-00000-00000", 0, "", "train", 4, 305, 59_999)
    told = ShardSettings(FINGERPRINT, VOCAB_SIZE, "zstd")
    for file, data in one.folder_index([StoredShard(facts, path.stat().st_size, "ab" * 32)], told).items():
        (tmp_path / Path(file).name).write_bytes(data)
    found = [tokens.tolist() for tokens in open_shards(path)]
    of_rows = [row[0] for row in ROWS]
    assert found in (of_rows, [[id for row in of_rows for id in row]])
    assert (found == of_rows) == (name not in ("llmc", "nanogpt"))
    with pytest.raises(TokError, match="documents file is not there"):
        open_shards(path).document(0)
    assert find_shard_at(str(stem)) == (name, str(path))
    assert find_shard_at(str(path)) == (name, str(path))


@pytest.mark.parametrize("name", SHARD_FORMATS)
def test_a_dtype_that_a_format_lacks_falls_back_to_one_that_holds_every_id(name):
    for asked in ("int32", "uint16", "uint32"):
        for vocab_size in (300, 65_536, 65_537):
            if asked == "uint16" and vocab_size > 65_536:
                continue  # refused at planning
            dtype = chosen_dtype(name, asked, vocab_size)
            assert vocab_size - 1 <= np.iinfo(dtype).max
            if asked in SHARD_FORMATS[name].dtypes:
                assert dtype == asked
