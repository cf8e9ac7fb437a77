"""Files of tombstones against plain sets."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokcore.errors import ChecksumError, FormatError
from tokcore.shards import tombstone_files
from tokcore.shards.tombstone_files import (
    HashFile,
    HashSorter,
    count,
    count_bytes,
    intersect,
    iterate_blocks,
    spell_records,
    subtract,
    unite,
    write_hashes,
)

# Few different bytes, so that records are alike, and begin in each other.
RECORDS = st.lists(st.sampled_from([b"\0", b"\1", b"\x7f", b"\xff"]), min_size=16, max_size=16).map(b"".join)
SETS = st.sets(RECORDS | st.binary(min_size=16, max_size=16), max_size=60)


def spell(records):
    return sorted(one.hex() for one in records)


def write(path, records):
    with path.open("wb") as file:
        return write_hashes(file, iterate_blocks(records))


@contextlib.contextmanager
def written(folder, records):
    made = write(path := Path(folder, "hashes"), records)
    with HashFile(path, made.sha256) as file:
        assert made.num == file.num
        yield file


@given(SETS, SETS)
def test_a_file_holds_what_the_set_does(tmp_path_factory, held, others):
    folder = tmp_path_factory.mktemp("hashes")
    with written(folder, held) as file:
        asked = [*held, *others]
        assert file.find(asked).tolist() == [one in held for one in asked]
        assert [*spell_records(file.blocks())] == spell(held)
        assert file.check() == ""
    assert (folder / "hashes").stat().st_size == count_bytes(len(held))


@given(st.lists(SETS, min_size=1, max_size=4))
def test_blocks_add_up_as_sets_do(sets):
    def blocks():
        return [iterate_blocks(one) for one in sets]

    first, *rest = sets
    assert [*spell_records(unite(*blocks()))] == spell(set().union(*sets))
    assert [*spell_records(subtract(*blocks()))] == spell(first.difference(*rest))
    assert [*spell_records(intersect(iterate_blocks(first), iterate_blocks(sets[-1])))] == spell(first & sets[-1])
    assert count(iterate_blocks(first)) == len(first)


@given(st.lists(RECORDS | st.binary(min_size=16, max_size=16), max_size=80), st.integers(1, 9))
def test_sorting_in_little_memory_is_sorting(records, most):
    with pytest.MonkeyPatch.context() as patch, contextlib.closing(HashSorter()) as sorter:
        patch.setattr(tombstone_files, "SPILL_RECORDS", most)
        for one in records:
            sorter.add(one)
        assert [*spell_records(sorter.blocks())] == spell({*records})
        assert [*spell_records(sorter.blocks())] == spell({*records})  # and once more


@pytest.mark.parametrize("num", [0, 1, 256, 257, 70_000, 140_000])
def test_files_of_any_size(tmp_path, num):
    """With more than 65,536 records, whole files are gone through by where first bytes end."""
    held = {(i * 0x9E3779B97F4A7C15 % (1 << 64)).to_bytes(8, "big") + i.to_bytes(8, "big") for i in range(num)}
    with written(tmp_path, held) as file:
        assert file.check() == ""
        assert [*spell_records(file.blocks())] == spell(held)
        assert file.find(sorted(held)[::7]).all()
        assert not file.find([one[:12] + b"\xff" + one[13:] for one in sorted(held)[::13]]).any()


def test_a_record_across_two_others_is_not_there(tmp_path):
    records = [bytes([7]) * 8 + bytes([9]) * 8, bytes([9]) * 8 + bytes([7]) * 8]
    with written(tmp_path, records) as file:
        assert file.find([*records, bytes([9]) * 16]).tolist() == [True, True, False]


@pytest.mark.parametrize("num", [0, 3, 70_000])
def test_a_flipped_bit_is_found(tmp_path, num):
    records = [(i * 0x9E3779B97F4A7C15 % (1 << 64)).to_bytes(8, "big") + bytes(8) for i in range(num)]
    path = tmp_path / "hashes"
    sha256 = write(path, records).sha256
    data = path.read_bytes()
    for at in range(0, len(data), max(1, len(data) // 20)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        with pytest.raises(ChecksumError, match="The file was changed"):
            HashFile(path, sha256)


ENDS = 16 * 70_001  # where the ends of 70,000 records begin


@pytest.mark.parametrize(
    ("at", "value", "found"),
    [
        (16, 255, "records do not lie where"),
        (16 * 35_000, 0, "records do not lie where"),
        (16 * 35_000 + 1, 0, "not in order"),
        (ENDS + 8 * 300, 1, "the ends of records are not where they are"),
        (ENDS + 8 * 300 + 2, 255, "do not ascend"),
    ],
)
def test_a_file_that_was_made_wrong_is_found(tmp_path, at, value, found):
    """As by somebody who also changes the sha256 in the commit."""
    held = [(i * 0x9E3779B97F4A7C15 % (1 << 64)).to_bytes(8, "big") + bytes(8) for i in range(70_000)]
    path = tmp_path / "hashes"
    write(path, held)
    data = bytearray(path.read_bytes())
    data[at] = data[at] + value if at == ENDS + 8 * 300 else value
    path.write_bytes(data)

    def check():
        with HashFile(path) as file:
            if problem := file.check():
                raise FormatError(problem)

    with pytest.raises(FormatError, match=found):
        check()


@pytest.mark.parametrize("cut", [0, 15, 40, 47, 55])
def test_a_file_that_is_cut_off_is_refused(tmp_path, cut):
    path = tmp_path / "hashes"
    write(path, [bytes(16)])
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(FormatError, match="not a whole file of tombstones"):
        HashFile(path)
    path.unlink()
    with pytest.raises(FormatError, match="missing, and a commit names it"):
        HashFile(path)
