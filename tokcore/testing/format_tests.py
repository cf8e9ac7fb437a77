"""What holds for every format of shards: read gives what was written, whatever is damaged is found, ids are checked."""

from __future__ import annotations

import io
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from tokcore.errors import TokError
from tokcore.formats.shard_format import ShardFormat, ShardSettings
from tokcore.testing.shard_examples import (
    FINGERPRINT,
    Document,
    compute_content,
    cut_batch,
    draw_documents,
    flip_bit,
    list_documents,
    make_batch,
    make_files,
    open_files,
    write_files,
)

VOCAB_SIZE = 60_000
ROWS: list[Document] = [
    ([1, 2, 3], "a", "en", "s", 0),
    ([], None, "sw", "s", 1),
    (list(range(300)), "c", "en", "s", 2),
    ([59_999, 0], "", "en", "s", 3),
]
_EXAMPLES = 40
_PLACES = 200  # of a file, at which a bit is flipped
_CUTS = 60


class FormatTests:
    """Tests of a format: derive from it, and set `format`."""

    format: ShardFormat
    # Ends of files in which a bit may say nothing of the documents: in padding, or in the name of a version.
    silent: ClassVar[tuple[str, ...]] = ()

    def _list_settings(self, vocab_size: int = VOCAB_SIZE) -> list[ShardSettings]:
        """One for each dtype that a build file can ask for."""
        dtypes = self.format.dtypes or ("int32",)
        return [ShardSettings(FINGERPRINT, vocab_size, "zstd", dtype) for dtype in dtypes]

    def test_read_gives_what_was_written_however_it_arrives(self, tmp_path: Path) -> None:
        chance = np.random.default_rng(1)
        for settings in self._list_settings():
            for number in range(_EXAMPLES):
                rows = draw_documents(chance, VOCAB_SIZE)
                cuts = chance.integers(0, 20, chance.integers(0, 5)).tolist()
                whole = make_files(self.format, [make_batch(rows)], settings)
                assert make_files(self.format, cut_batch(make_batch(rows), cuts), settings) == whole
                path = write_files(self.format, tmp_path / settings.dtype / f"{number}", rows, settings)
                self._compare(path, rows, settings, chance)

    def _compare(self, path: str, rows: list[Document], settings: ShardSettings, chance: np.random.Generator) -> None:
        shard = open_files(self.format, path)
        assert list_documents(shard.batches()) == rows
        assert [(shard.tokens(i).tolist(), *shard.columns(i)) for i in range(len(shard))] == rows
        ids = [id for row in rows for id in row[0]]
        assert (shard.num_tokens, shard.fingerprint) == (len(ids), FINGERPRINT)
        if ids:
            assert shard.dtype == self.format.dtype(settings)
        for start, end in ((0, len(rows)), (1, 3), (len(rows), len(rows) + 2)):
            found, lengths = shard.span(start, end)
            assert found.dtype == np.int32
            assert found.tolist() == [id for row in rows[start:end] for id in row[0]]
            assert lengths.tolist() == [len(row[0]) for row in rows[start:end]]
        starts = np.sort(chance.integers(0, len(ids) + 1, 3))
        ends = np.minimum(starts + chance.integers(0, 9, 3), len(ids))
        bounds = np.cumsum([len(row[0]) for row in rows])
        counts, places = shard.find_bounds(starts, ends)
        within = [[int(at) for at in bounds if a < at < b] for a, b in zip(starts, ends, strict=True)]
        assert counts.tolist() == [*map(len, within)]
        assert places.tolist() == [at for part in within for at in part]
        assert all(shard.part(a, b).tolist() == ids[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True))

    def test_documents_of_every_size_of_length(self, tmp_path: Path) -> None:
        lengths = [0, 1, 255, 256, 65_535, 65_536, 0]
        rows: list[Document] = [([i % 7] * length, str(i), "en", "s", i) for i, length in enumerate(lengths)]
        for settings in self._list_settings():
            shard = open_files(self.format, write_files(self.format, tmp_path / settings.dtype / "x", rows, settings))
            assert list_documents(shard.batches()) == rows
            assert shard.tokens(4).tolist() == rows[4][0]
            assert not shard.tokens(2).flags.writeable

    @pytest.mark.parametrize("num", [0, 1, 2, 5000])
    def test_shards_of_empty_documents(self, tmp_path: Path, num: int) -> None:
        rows: list[Document] = [([], None, "en", "s", i) for i in range(num)]
        (settings, *_) = self._list_settings()
        shard = open_files(self.format, write_files(self.format, tmp_path / "x", rows, settings))
        assert list_documents(shard.batches()) == rows
        assert (len(shard), shard.num_tokens, len(shard.part(0, 0))) == (num, 0, 0)
        counts, places = shard.find_bounds(np.zeros(1, np.int64), np.zeros(1, np.int64))
        assert (counts.tolist(), places.tolist()) == ([0], [])

    def test_a_flipped_bit_never_passes_for_the_content(self, tmp_path: Path) -> None:
        """Bits that say nothing of the documents may pass; then the documents are the same."""
        for settings in self._list_settings():
            path = write_files(self.format, tmp_path / settings.dtype / "x", ROWS, settings)
            content = compute_content(open_files(self.format, path))
            for suffix in self.format.suffixes:
                file = tmp_path / settings.dtype / f"x{suffix}"
                sound = file.read_bytes()
                for position, bit in _choose_bits(sound):
                    file.write_bytes(flip_bit(sound, position, bit))
                    try:
                        same = compute_content(open_files(self.format, path)) == content
                    except TokError:
                        continue
                    assert not same or suffix.endswith(self.silent), (suffix, position)
                file.write_bytes(sound)
            assert compute_content(open_files(self.format, path)) == content

    def test_a_cut_or_grown_file_is_refused(self, tmp_path: Path) -> None:
        for settings in self._list_settings():
            path = write_files(self.format, tmp_path / settings.dtype / "x", ROWS, settings)
            for suffix in self.format.suffixes:
                file = tmp_path / settings.dtype / f"x{suffix}"
                sound = file.read_bytes()
                cut = (sound[:size] for size in range(0, len(sound), max(1, len(sound) // _CUTS)))
                for changed in (*cut, sound + b"\1"):
                    file.write_bytes(changed)
                    with pytest.raises(TokError, match=r"x"):
                        compute_content(open_files(self.format, path))
                file.unlink()
                with pytest.raises(TokError):
                    compute_content(open_files(self.format, path))
                file.write_bytes(sound)

    def test_an_id_that_does_not_fit_is_refused_before_anything_is_written(self) -> None:
        """In fewer bits it would become another id."""
        for settings in self._list_settings():
            for vocab_size, id in ((300, 300), (300, -1), (2**31 - 1, 65_536)):
                settings = settings._replace(vocab_size=vocab_size)
                if self.format.dtype(settings) != "uint16":
                    continue
                files = [io.BytesIO() for _ in self.format.suffixes]
                writer = self.format.open_writer(files, settings)
                with pytest.raises(TokError, match=f"id {id}: the vocabulary has"):
                    writer.write(make_batch([([1, 2], None, "en", "a", 0), ([3, id], None, "en", "a", 1)]))
                writer.write(make_batch([([5], None, "en", "a", 0)]))
                writer.close()
                assert len(files[0].getvalue()) < 1 << 18  # some formats fill up blocks

    def test_a_dtype_that_a_format_lacks_falls_back_to_one_that_holds_every_id(self) -> None:
        for asked in ("int32", "uint16", "uint32"):
            for vocab_size in (300, 65_536, 65_537):
                if asked == "uint16" and vocab_size > 65_536:
                    continue  # refused at planning
                dtype = self.format.dtype(ShardSettings(FINGERPRINT, vocab_size, "zstd", asked))
                assert vocab_size - 1 <= np.iinfo(dtype).max
                if asked in self.format.dtypes:
                    assert dtype == asked

    def test_a_shard_goes_by_its_first_file(self, tmp_path: Path) -> None:
        (settings, *_) = self._list_settings()
        path = write_files(self.format, tmp_path / "train-00000-00000", ROWS, settings)
        for place in (path, str(tmp_path / "train-00000-00000")):
            assert self.format.main_file(place) == path
        assert self.format.main_file(str(tmp_path / "train-00000-00001")) is None


def _choose_bits(data: bytes) -> list[tuple[int, int]]:
    """(place, bit): of all bytes of a small file; of a large one its start, some places, and some that are no zeros."""
    chance = np.random.default_rng(7)
    places = range(len(data)) if len(data) < _PLACES else chance.integers(0, len(data), _PLACES).tolist()
    # Some files are padded with zeros to many times what they hold.
    told = np.flatnonzero(np.frombuffer(data, np.uint8))
    more = chance.choice(told, _PLACES).tolist() if len(told) < len(data) // 2 else []
    return [(at, int(chance.integers(8))) for at in (*range(min(40, len(data))), *places, *more)]
