"""Documents of 2^31 ids, in each format: held, or refused before a byte is written. No test has the bytes."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np
import pytest
from support.token_batches import FINGERPRINT, batch_of, write_shard

from tokcore.errors import FormatError
from tokcore.formats.shard_format import ShardReader, ShardSettings
from tokcore.shards.format_table import SHARD_FORMATS, FormatFile
from tokcore.shards.labels import repeat_label
from tokcore.shards.token_batch import TokenBatch

HUGE = 2**31
# Formats whose bounds are of 64 bits; nanoGPT has them in its documents file.
UNLIMITED = ("datatrove", "nanogpt", "olmo")


@pytest.mark.parametrize("name", [name for name in SHARD_FORMATS if name not in UNLIMITED])
def test_a_document_of_2_31_ids_is_refused_before_anything_is_written(name):
    """Its ids are one number seen 2^31 times, which takes four bytes."""
    tokens = np.broadcast_to(np.int32(5), HUGE)
    label = repeat_label("en", 1)
    batch = TokenBatch(tokens, np.array([0, HUGE]), [None], label, label, np.zeros(1, np.int64))
    one = SHARD_FORMATS[name]
    files = [io.BytesIO() for _ in one.suffixes]
    writer = one.open_writer(files, ShardSettings(FINGERPRINT, 300, "zstd"))
    with pytest.raises(FormatError, match=r"max_document_bytes"):
        writer.write(batch)
    rows = [([1, 2], "a", "en", "s", 0)]
    writer.write(batch_of(rows))
    writer.close()
    assert 0 < sum(len(file.getvalue()) for file in files) < 1 << 18  # some formats fill up blocks


def _open_with_hole(folder: Path, name: str) -> ShardReader:
    """A shard whose one document has 2^31 + 3 ids, in a file that is a hole."""
    one = SHARD_FORMATS[name]
    path = Path(write_shard(name, folder / "train-0", [([], None, "en", "s", 0)], vocab_size=300))
    with path.open("r+b") as file:
        file.truncate(2 * (HUGE + 3))
        file.seek(2 * HUGE)
        file.write(np.array([7, 8, 9], "<u2").tobytes())
    if name == "datatrove":
        (folder / f"train-0{one.suffixes[1]}").write_bytes(np.array([HUGE + 3], "<u8").tobytes())
    elif name == "olmo":
        (folder / f"train-0{one.suffixes[1]}").write_bytes(gzip.compress(b"0,%d\n" % (HUGE + 3)))
    else:
        index = '{"format":"tokcore-nanogpt-index","dtype":"uint16"}'
        (folder / "index.json").write_text(index)
    (folder / "train-0.documents").unlink()
    return FormatFile(name, str(path)).open()


@pytest.mark.parametrize("name", UNLIMITED)
def test_a_document_of_more_than_2_31_ids_is_read_where_the_layout_has_room(tmp_path, name):
    shard = _open_with_hole(tmp_path, name)
    assert (len(shard), shard.num_tokens, shard.dtype) == (1, HUGE + 3, "uint16")
    assert np.asarray(shard.part(HUGE - 1, HUGE + 3)).tolist() == [0, 7, 8, 9]
    counts, _ = shard.find_bounds(np.array([HUGE]), np.array([HUGE + 3]))
    assert counts.tolist() == [0]
