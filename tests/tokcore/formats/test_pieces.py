"""Pieces files: damage is an error that names the file, never a guess, and takes no memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.token_batches import write_shard

from tokcore.errors import FormatError
from tokcore.formats.pieces import Pieces, PiecesFile, PiecesWriter
from tokcore.shards.labels import repeat_label
from tokcore.train.loader import Loader

LENGTH = 4


def write_pieces(path: Path, rows: list[int], lengths: list[int]) -> str:
    num = len(rows)
    none, same = np.zeros(num, np.int64), repeat_label("x", num)
    columns = (np.array(rows, np.int64), same, none, none, np.array(lengths, np.int64), [None] * num, same, same, none)
    with path.open("wb") as file:
        writer = PiecesWriter(file, LENGTH, "none")
        writer.write(Pieces(*columns))
        writer.close()
    return str(path)


@pytest.mark.parametrize(
    ("rows", "lengths", "message"),
    [
        ([0, 2**60], [4, 4], f"piece 1 is damaged: 4 ids in row {2**60}"),
        ([0, 2**33], [4, 4], "piece 1 is damaged"),
        ([0, 2], [4, 4], "piece 1 is damaged: 4 ids in row 2"),
        ([-1, 0], [1, 1], "piece 0 is damaged: 1 ids in row -1"),
        ([1], [1], "piece 0 is damaged"),
        ([0, 1, 0], [1, 1, 1], "piece 2 is damaged"),
        ([0, 0], [2, -1], "piece 1 is damaged: -1 ids"),
        ([0, 0, 0], [2, 2, 1], "row 0 has more than 4 ids"),
        ([0, 0], [2**62, 2**62], "row 0 has more than 4 ids"),
    ],
)
def test_damage_is_found(tmp_path, rows, lengths, message):
    path = write_pieces(tmp_path / "x.pieces", rows, lengths)
    with pytest.raises(FormatError, match=message) as caught:
        PiecesFile(path).read()
    assert path in str(caught.value)


@pytest.mark.parametrize("name", ["arrow", "megatron", "nanogpt"])
def test_pieces_of_another_shard_are_not_those_of_a_shard(tmp_path, name):
    rows = [(ids, None, "en", "s", i) for i, ids in enumerate([[1, 2, 3, 4], [5, 6, 7, 7]])]
    path = Path(write_shard(name, tmp_path / "train-00000-00000", rows))
    pieces = tmp_path / "train-00000-00000.pieces"
    write_pieces(pieces, [0, 1, 1], [4, 1, 1])
    loader = Loader(path, LENGTH, 2, shuffle=False)
    assert loader[0].cu_seqlens.tolist() == [0, 4, 5, 6, 8]
    for wrong in ([0], [0, 1, 2]):
        write_pieces(pieces, wrong, [4] * len(wrong))
        with pytest.raises(FormatError, match=rf"has {len(wrong)} rows of 4 ids, and .* has 8 ids") as caught:
            _ = Loader(path, LENGTH, 2, shuffle=False)[0]
        assert str(pieces) in str(caught.value)


def test_rows_are_read_where_no_file_says_where_they_end(tmp_path):
    """A format without bounds, whose documents file is gone: rows follow from the pieces."""
    rows = [(ids, None, "en", "s", i) for i, ids in enumerate([[1, 2, 3, 4], [5, 6, 7, 7]])]
    path = Path(write_shard("llmc", tmp_path / "train-00000-00000", rows))
    for documents in tmp_path.rglob("*.documents"):
        documents.unlink()
    write_pieces(tmp_path / "train-00000-00000.pieces", [0, 0, 1], [1, 3, 2])
    assert Loader(path, LENGTH, 2, shuffle=False)[0].cu_seqlens.tolist() == [0, 1, 4, 6, 8]
