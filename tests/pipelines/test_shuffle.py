"""`[shuffle] seed`: the order of documents follows from the seed, their keys and texts alone, and so do all tokens."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections import Counter
from pathlib import Path, PurePath

import numpy as np
import pyarrow as pa
import pytest
from chaos.kills import check_kills
from support import eager
from support.builds import WORDS, build_file, drop_result_keys, jsonl, run, texts, tree, write
from support.builds import tokcore as command
from support.forging import Forger

import tokcore
from tokcore.formats.provenance import Provenance, ProvenanceWriter
from tokcore.shards.format_table import SHARD_FORMATS
from tokcore.shards.labels import label_strings
from tokcore.shards.token_batch import TokenBatch
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.check.rebuild import rebuild
from tokcore_pipelines.check.repair import repair
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.work import decode_item, gather_part, scatter_item
from tokcore_pipelines.work.read_plan import read_plan
from tokcore_schemas import shuffle
from tokcore_schemas.document import compute_document_key
from tokcore_schemas.shuffle import choose_num_parts, compute_place, get_interval
from tokcore_schemas.stage_table import PLAN, SHARDS

# Some have ids; of both kinds, some are there twice, and one is empty.
NAMED = [{"text": texts(lang, 1, i)[0], "l": lang, "id": f"{lang}-{i}"} for lang in WORDS for i in range(25)]
NAMED += [NAMED[0], {"text": "", "l": "en", "id": "none"}]
PLAIN = [{"text": texts(lang, 1, 100 + i)[0], "l": lang} for lang in WORDS for i in range(15)]
PLAIN += [PLAIN[1], PLAIN[1], {"text": "", "l": "en"}]
DOCUMENTS = [*NAMED, *PLAIN]

SETTINGS = """
[plan]
range_bytes = {range_bytes}
[learn]
vocab_size = 400
[shards]
target_tokens = 300
validation = 0.1
formats = {formats}
by = "{by}"
[shuffle]
seed = {seed}
"""


def settings(range_bytes=3000, by="plan", seed=7, formats=("arrow", "megatron")):
    return SETTINGS.format(range_bytes=range_bytes, by=by, seed=seed, formats=json.dumps(list(formats)))


def make_sources(named, plain):
    table = '[[source]]\nlang_field = "l"\nfiles = {}\n'
    return table.format(json.dumps(named)) + 'id = "id"\n' + table.format(json.dumps(plain))


def corpus(folder):
    """The documents in three files, one cut into ranges."""
    write(folder / "a.jsonl", jsonl(NAMED[:80]))
    write(folder / "b.jsonl.gz", jsonl(NAMED[80:]))
    write(folder / "c.jsonl.zst", jsonl(PLAIN))
    return make_sources(["a.jsonl", "b.jsonl.gz"], ["c.jsonl.zst"])


def other_corpus(folder):
    """The same documents, cut, named, ordered and compressed otherwise."""
    for name, documents, num in (("deep", NAMED, 7), ("plain", PLAIN, 2)):
        for number in range(num):
            path = folder / name / f"{9 - number}.jsonl{('', '.gz', '.zst')[number % 3]}"
            write(path, jsonl(documents[::-1][number::num]))
    return make_sources(["deep/*"], ["plain/*"])


def read_tokens(output):
    """Every file that holds tokens or describes documents, by its name without the result key.

    Indexes of folders name shards, result keys and all.
    """
    found = {}
    key = find_manifest(str(output), SHARDS).files[0].about.result_key
    for path in sorted((output / "shards").rglob("*")):
        name = str(path.relative_to(output / "shards"))
        if path.is_file() and not name.startswith(("provenance/", "manifest.json", "run.json")):
            keyless = drop_result_keys(PurePath(name))
            data = path.read_bytes()
            if keyless == name:
                data = data.replace(key.encode(), b"KEY")
            found[keyless] = hashlib.sha256(data).hexdigest()
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shuffle")
    build_file(folder, corpus(folder), settings())
    run(folder / "build.toml", folder / "out")  # with worker processes
    return folder


@pytest.fixture
def output(folder, tmp_path):
    return Path(shutil.copytree(folder / "out", tmp_path / "out"))


@pytest.mark.parametrize("by", ["plan", "lang"])
def test_every_file_of_tokens_is_equal_however_inputs_are_cut_named_ordered_and_compressed(tmp_path, by):
    found = []
    for name, make, range_bytes in (("one", corpus, 3000), ("other", other_corpus, 700)):
        place = tmp_path / name
        place.mkdir()
        build_file(place, make(place), settings(range_bytes, by, formats=sorted(SHARD_FORMATS)))
        made = run(place / "build.toml", place / "out")
        assert verify(str(place / "out")).problems == ()
        found.append((read_tokens(place / "out"), made.totals.documents_digest))
    names = found[0][0]
    assert len({name.split("-")[1] for name in names if "train-" in name}) > 1  # several parts
    assert {name.split("/")[0] for name in names} == {*SHARD_FORMATS, "documents", "token_counts.parquet"}
    assert found[0] == found[1]


def test_documents_are_in_the_order_of_their_places(folder):
    output = folder / "out"
    tokenizer = tokcore.Tokenizer.load(output)
    num_parts = choose_num_parts(sum(map(len, tokcore.open_shards(output, "all"))), 300)
    assert num_parts > 1
    seen = []
    for split in ("train", "validation"):
        shards = tokcore.open_shards(output, split)
        places = []
        for i, tokens in enumerate(shards):
            told = shards.document(i)
            text = tokenizer.decode(tokens[:-1])
            assert {"text": text.decode(), "l": told.lang, **({"id": told.id} if told.id else {})} in DOCUMENTS
            key = compute_document_key(told.lang, told.id, text)
            places.append(compute_place(7, key, text))
            seen.append((told.source[0], told.ordinal))
            part = int(Path(shards.paths[shards._place(i)[0]]).name.split("-")[1])
            first, last = get_interval(part, num_parts)
            assert first <= int.from_bytes(places[-1][:8], "big") < last
        assert places == sorted(places)
    assert len(set(seen)) == len(seen) == len(DOCUMENTS)


def test_another_seed_is_another_order_of_the_same_documents(folder):
    (folder / "other.toml").write_text((folder / "build.toml").read_text().replace("seed = 7", "seed = 8"))
    other = run(folder / "other.toml", folder / "other")
    first = json.loads((folder / "out" / "manifest.json").read_bytes())
    assert other.totals.documents_digest == first["totals"]["documents_digest"]
    one, two = (
        [tuple(tokens.tolist()) for tokens in tokcore.open_shards(folder / name, "all")] for name in ("out", "other")
    )
    assert sorted(one) == sorted(two)
    assert one != two


@pytest.mark.parametrize("seed", range(3))
def test_memory_decides_no_byte(folder, tmp_path, monkeypatch, seed):
    """However many documents wait at a time, and however many buckets there are; with bundles repeated."""
    monkeypatch.setattr(scatter_item, "SPILL_TOKENS", [100, 2000, 1 << 24][seed])
    monkeypatch.setattr(gather_part, "STEP_TOKENS", [50, 1000, 1 << 24][seed])
    monkeypatch.setattr(gather_part, "WRITTEN_DOCUMENTS", [1, 7, 4096][seed])
    monkeypatch.setattr(shuffle, "BYTES_PER_BUCKET", [100, 5000, 1 << 20][seed])
    eager.seed(seed)
    run(folder / "build.toml", tmp_path / "out", runner=eager.RUNNER)
    assert tree(tmp_path / "out") == tree(folder / "out")


def test_killed_anywhere_and_run_again(folder, tmp_path):
    points = (("encode.shard", 1), ("encode.shard", 4), ("encode.item", 2), ("encode.item", 9))
    check_kills(folder / "build.toml", points, tree(folder / "out"), tmp_path)


def test_verify_rebuild_and_repair(folder, output):
    before = tree(output)
    for decode in (10, None):
        report = verify(str(output), decode=decode, base=str(folder))
        assert report.problems == ()
        assert report.num_decoded >= (decode or len(DOCUMENTS))
    shards = sorted((output / "shards" / "arrow").iterdir())
    found = rebuild(str(output), shards[1].stem, str(folder))
    assert (found.problems, found.notes) == ((), ())
    damaged = [shards[-1], sorted((output / "shards" / "provenance").iterdir())[0]]
    for path in damaged:
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert len(verify(str(output)).problems) == 2
    assert any(
        "not the ones that were committed" in one for one in rebuild(str(output), damaged[0].stem, str(folder)).problems
    )
    assert repair(str(output), str(folder)).left == ()
    assert tree(output) == before


@pytest.mark.parametrize("decode", [10, None])
def test_decoding_reads_each_provenance_file_once_per_worker(folder, monkeypatch, decode):
    """However many work items there are, whose documents are in all parts."""
    opened = Counter()
    open_provenance = decode_item.open_provenance

    def count(file):
        opened[file] += 1
        return open_provenance(file)

    monkeypatch.setattr(decode_item, "open_provenance", count)
    report = verify(str(folder / "out"), decode=decode, base=str(folder), options=RunOptions(workers=2, here=True))
    assert report.problems == ()
    assert report.num_decoded >= (decode or len(DOCUMENTS))
    assert len(list_items(folder / "out")) > 4
    assert opened
    assert max(opened.values()) <= 2


def list_items(output):
    return read_plan(str(output), find_manifest(str(output), PLAN)).items


def test_decoding_finds_records_that_are_not_in_their_source(folder, monkeypatch):
    """And stored records that no source has."""
    find_rows = decode_item._find_rows

    def find_others(assignments, provenance):
        rows = find_rows(assignments, provenance)
        return rows[1:] if len(rows) > 1 else rows

    monkeypatch.setattr(decode_item, "_find_rows", find_others)
    problems = verify(str(folder / "out"), decode=None, base=str(folder), options=RunOptions(here=True)).problems
    assert any("stored 0 times, in 2 format(s)" in one for one in problems)
    monkeypatch.setattr(decode_item, "_find_rows", find_rows)
    monkeypatch.setattr(decode_item.WrittenRows, "take", lambda rows, source, ordinal: [])
    problems = verify(str(folder / "out"), decode=None, base=str(folder), options=RunOptions(here=True)).problems
    assert any("in a shard, but not in the source" in one for one in problems)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda sources, ordinals, places: (sources, ordinals, places[::-1]), "not in the order of the shuffle"),
        (lambda sources, ordinals, places: (sources, ordinals, places ^ 0x80), "its place in another part"),
        (lambda sources, ordinals, places: (sources, ordinals[:1].repeat(len(ordinals)), places), "there twice"),
        (lambda sources, ordinals, places: (["no.jsonl"] * len(sources), ordinals, places), "which is not planned"),
        (lambda sources, ordinals, places: (sources, ordinals + 1_000_000, places), "an ordinal is none of 0 to"),
        (lambda sources, ordinals, places: (sources[1:], ordinals[1:], places[1:]), "the shard has more"),
    ],
)
def test_provenance_that_is_wrong_is_found(output, change, message):
    """With all hashes corrected."""
    forger = Forger(output)
    path = sorted((output / "shards" / "provenance").iterdir())[0]
    old = Provenance(str(path))
    sources, ordinals, places = change(list(old.sources), np.array(old.ordinals), np.array(old.places))
    num = len(ordinals)
    data = io.BytesIO()
    writer = ProvenanceWriter(data, "zstd")
    batch = TokenBatch(
        np.zeros(0, np.int32),
        np.zeros(num + 1, np.int64),
        [None] * num,
        label_strings(["en"] * num),
        label_strings(sources),
        ordinals,
    )
    writer.write(batch, places)
    content = writer.close()
    forger.write(path, data.getvalue())
    for entry in forger.manifests["shards"]["files"]:
        if entry["path"] == f"provenance/{path.name}":
            entry["content_sha256"] = content
            entry["sha256"], entry["size_bytes"] = hashlib.sha256(data.getvalue()).hexdigest(), len(data.getvalue())
    forger.write_manifests(chain=True, contents=True)
    problems = verify(str(output)).problems
    assert any(message in problem for problem in problems), problems


def test_what_a_provenance_file_says(folder):
    """The columns that readers of Arrow find, and that the shards themselves name no source."""
    (path, *_) = sorted((folder / "out" / "shards" / "provenance").iterdir())
    table = pa.ipc.open_file(path).read_all()
    assert table.schema.names == ["source", "ordinal", "place"]
    shard = pa.ipc.open_file(str(path).replace("provenance", "arrow")).read_all()
    assert len(table) == len(shard)
    assert set(shard["source"].to_pylist()) == {""}
    assert shard["ordinal"].to_pylist() == list(range(len(shard)))


def test_conversion_keeps_sources(folder, tmp_path):
    done = command("convert", folder / "out", "--to", "parquet", "-o", tmp_path / "parquet")
    assert done.returncode == 0, done.stderr
    for split in ("train", "validation"):
        there, here = (tokcore.open_shards(path, split) for path in (folder / "out", tmp_path / "parquet"))
        assert [there.document(i) for i in range(len(there))] == [here.document(i) for i in range(len(here))]
