"""A manifest that is read in blocks is the one that JSON's reader gives."""

from __future__ import annotations

import tracemalloc

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokcore.files.canonical_json import write_canonical_json
from tokcore_schemas.cut_manifest import ManifestStream, read_files, read_head

# Texts that look like what stands between files.
_TEXTS = st.one_of(
    st.text(max_size=5), st.sampled_from(['},{"about":', '],"format":"tokcore-manifest"', '"files":[', "\\"])
)
_FILES = st.lists(
    st.fixed_dictionaries({"about": st.dictionaries(_TEXTS, _TEXTS, max_size=2), "path": _TEXTS}), max_size=6
)


@pytest.mark.parametrize("block_bytes", [1, 40, 1 << 18])
@given(files=_FILES, names=st.lists(_TEXTS, max_size=3))
def test_files_are_those_of_the_manifest(block_bytes, files, names):
    made = {
        "config": {"formats": names},
        "files": files,
        "format": "tokcore-manifest",
        "totals": dict.fromkeys(names, 1),
    }
    data = write_canonical_json(made)
    for chunks in ([data], [data[:30], data[30:]]):
        assert [*read_files(chunks, block_bytes)] == files
        assert read_head(chunks) == {**made, "files": []}


def test_one_chunk_is_not_copied_again_for_each_block():
    """What a store gives is one chunk; with a copy for each block, a manifest of 435 MB took minutes."""
    files = [{"about": {}, "path": f"{number:09d}"} for number in range(1 << 16)]
    data = write_canonical_json({"config": {}, "files": files, "format": "tokcore-manifest", "totals": {}})
    stream = ManifestStream([data])
    tracemalloc.start()
    try:
        assert sum(len(block) + 1 for block in stream.cut(1 << 12)) > 0.99 * len(data)
        assert tracemalloc.get_traced_memory()[1] < 1.5 * len(data)
    finally:
        tracemalloc.stop()


@given(files=_FILES, size=st.integers(1, 60))
def test_files_of_settings_are_not_those_of_the_manifest(files, size):
    pin = {"sha256": "0" * 64, "size_bytes": 7, "uri": "scores.parquet"}
    settings = {"attributes": {"fields": ["score"], "files": [pin]}, "filters": [{"field": "q", "files": []}]}
    made = {"config": {"settings": [settings]}, "files": files, "format": "tokcore-manifest", "totals": {}}
    data = write_canonical_json(made)
    assert ([*read_files([data])], read_head([data])["config"]) == (files, made["config"])
    stream = ManifestStream(data[at : at + size] for at in range(0, len(data), size))
    assert orjson.loads(b"[%b]" % b",".join(stream.cut())) == files
    assert orjson.loads(stream.before + stream.after) == {**made, "files": []}
