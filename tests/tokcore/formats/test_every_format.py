"""Every format of ours passes the suite that is shipped; without the documents file, ids are read all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.token_batches import FINGERPRINT, write_shard

from tokcore import open_shards
from tokcore.errors import TokError
from tokcore.formats.shard_facts import ShardFacts
from tokcore.formats.shard_format import ShardSettings, StoredShard
from tokcore.shards.format_table import SHARD_FORMATS, find_shard_at
from tokcore.testing import FormatTests
from tokcore.testing.format_tests import ROWS, VOCAB_SIZE


class TestEveryFormat(FormatTests):
    # Between Arrow's buffers, in a version's name, in gzip's header.
    silent = (".arrow", ".parquet", ".documents", ".csv.gz")

    @pytest.fixture(autouse=True, params=SHARD_FORMATS)
    def choose(self, request):
        self.format = SHARD_FORMATS[request.param]


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
