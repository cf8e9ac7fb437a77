"""tokcore.open_shards of a build in a store: the requests and the bytes that a few documents cost."""

from __future__ import annotations

import hashlib
import pickle

import numpy as np
import pytest
from stores.files import put
from stores.servers import Store
from support.token_batches import FINGERPRINT, shard_bytes

from tokcore import open_shards
from tokcore.files.canonical_json import write_canonical_json
from tokcore.formats.documents import SUFFIX as DOCUMENTS
from tokcore.formats.documents import get_documents_path
from tokcore.shards.format_table import SHARD_FORMATS, list_paths
from tokcore.shards.labels import repeat_label
from tokcore.shards.opened_shards import ShardDocument, Shards
from tokcore.shards.token_batch import TokenBatch
from tokcore.train.loader import Loader

NUM, LENGTH = 5000, 800  # documents of a shard, ids of a document: 16 MB of ids, four record batches
VOCAB_SIZE = 60_000

# Requests for three documents of two shards, and their share of all bytes: indexes and footers, how many documents each
# record batch has, and the blocks or batches that hold the documents.
_MOST = {"megatron": (16, 0.08), "arrow": (40, 0.5), "parquet": (40, 0.5)}


def make_shard(number: int) -> TokenBatch:
    tokens = np.random.default_rng(number).integers(0, VOCAB_SIZE, NUM * LENGTH, np.int32)
    ids = [f"{number}-{i}" for i in range(NUM)]
    labels = repeat_label("en", NUM), repeat_label("en.jsonl", NUM)
    return TokenBatch(tokens, np.arange(NUM + 1, dtype=np.int64) * LENGTH, ids, *labels, np.arange(NUM))


def upload(store: Store, url: str, format: str) -> int:
    """The shards of a build in one format; the size of all files."""
    entries = []
    for number in range(2):
        stem = f"train-00000-{number:05d}"
        suffixes = SHARD_FORMATS[format].suffixes
        paths = dict(zip(suffixes, list_paths(SHARD_FORMATS[format], stem), strict=True))
        paths[DOCUMENTS] = get_documents_path(stem)
        about = {"shard": stem, "item": 0, "lang": "", "split": "train", "documents": NUM, "tokens": NUM * LENGTH}
        for suffix, data in shard_bytes(format, [make_shard(number)], vocab_size=VOCAB_SIZE).items():
            put(store, f"{url}/shards/{paths[suffix]}", data)
            sha256 = hashlib.sha256(data).hexdigest()
            facts = {**about, "max_token_id": VOCAB_SIZE - 1}
            entries.append({"path": paths[suffix], "size_bytes": len(data), "sha256": sha256, "about": facts})
    manifest = {"stage": "shards", "format": "tokcore-manifest", "format_version": 1, "files": entries}
    put(
        store,
        f"{url}/shards/manifest.json",
        write_canonical_json({**manifest, "totals": {"fingerprint": FINGERPRINT, "shards": 1}}),
    )
    return sum(one["size_bytes"] for one in entries)


@pytest.mark.usefixtures("s3_here")
def test_a_loader_asks_for_ranges_ahead(s3: Store) -> None:
    """Of what it needs, and at once for several batches; no shard is read whole."""
    url = s3.fresh()
    size_bytes = upload(s3, url, "megatron")
    loader = Loader(url, length=LENGTH, batch_size=1)
    s3.proxy.reset()
    batches = iter(loader)
    first = next(batches)
    received = sum(one.received_bytes for one in s3.proxy.requests)
    assert received < size_bytes / 2, f"{received} of {size_bytes}"
    direct = Loader(url, length=LENGTH, batch_size=1, read_ahead=0)
    assert first.tokens.tolist() == direct[0].tokens.tolist()
    assert [next(batches).tokens.tolist() for _ in range(20)] == [direct[i].tokens.tolist() for i in range(1, 21)]
    del batches  # which waits for what it reads ahead
    s3.proxy.reset()
    _ = direct[5]
    assert not s3.proxy.requests, "its blocks are kept"


@pytest.mark.parametrize("format", list(_MOST))
@pytest.mark.usefixtures("s3_here")
def test_three_documents_do_not_cost_a_shard(s3: Store, format: str) -> None:
    url = s3.fresh()
    size_bytes = upload(s3, url, format)
    s3.proxy.reset()
    shards = open_shards(url)
    # It looks for a commit; s3fs asks twice for what is not there, the second time for a folder of that name.
    opened = [(one.operation, one.key.rpartition("/")[2]) for one in s3.proxy.requests]
    assert {name for operation, name in opened if operation != "ListObjects"} == {"1.json", "manifest.json"}, opened
    assert len(opened) == 4, "opening reads nothing else"
    s3.proxy.reset()
    rows = [0, 1, 2 * NUM - 1]
    expected = [make_shard(i // NUM).tokens[i % NUM * LENGTH :][:LENGTH] for i in rows]
    assert [shards[i].tolist() for i in rows] == [ids.tolist() for ids in expected]
    asked = {(one.operation, one.key.rpartition("/")[2] == "manifest.json") for one in s3.proxy.requests}
    assert asked <= {("HeadObject", True), ("GetObject", True), ("GetObject", False)}, "the manifest has the sizes"
    most_requests, most_share = _MOST[format]
    received = sum(one.received_bytes for one in s3.proxy.requests)
    assert s3.proxy.count().total() <= most_requests
    assert received <= most_share * size_bytes, f"{received} of {size_bytes}"
    s3.proxy.reset()
    again: Shards = pickle.loads(pickle.dumps(shards))
    assert again[1].tolist() == expected[1].tolist()
    assert not s3.proxy.requests, "its blocks are kept"
    assert shards.document(NUM + 1) == ShardDocument("1-1", "en", "en.jsonl", 1)
