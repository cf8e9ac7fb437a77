"""(c) for each learned model: the same documents in other files give the same counts, model and ids."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.builds import SETTINGS, build_file, cut_corpus, drop_result_key, find_file, run, small_corpus

import tokcore as api
from tokcore.count.pretoken_tables import read_table
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.build.commit import find_manifest
from tokcore_schemas.stage_table import TOKENIZER

MODELS = {
    "bpe": 'model = "bpe"\nvocab_size = 400',
    "wordpiece": 'model = "wordpiece"\nvocab_size = 220',
    "wordpiece-pmi": 'model = "wordpiece-pmi"\nvocab_size = 220',
    "unigram": 'model = "unigram"\nvocab_size = 440',
    "unigram, o200k": 'model = "unigram"\nvocab_size = 400\n[pretokenize]\npattern = "o200k"',
    "sentencepiece-bpe": 'model = "sentencepiece-bpe"\nvocab_size = 440',
    "character": 'model = "character"\nvocab_size = 120',
    "word": 'model = "word"\nvocab_size = 60',
}


def read_counts(output: Path) -> dict[str, list[tuple[bytes, int, int]]]:
    """The rows of each count table."""
    found = {}
    for file in sorted((output / "counts").glob("*.parquet")):
        with pa.OSFile(str(file)) as opened:
            rows = [
                (rows.keys.text(i), int(rows.counts[i]), int(rows.documents[i]))
                for rows in read_table(opened)
                for i in range(rows.num_rows)
            ]
        found[drop_result_key(file.name)] = rows
    return found


def read_ids(output: Path) -> dict[tuple[str, str | None], list[int]]:
    """The ids of each document that has an id of its own."""
    shards = api.open_shards(output)
    documents = {(shards.document(i).lang, shards.document(i).id): shards[i].tolist() for i in range(len(shards))}
    return {key: ids for key, ids in documents.items() if key[1] is not None}


@pytest.mark.parametrize("model", MODELS)
def test_the_same_documents_in_other_files_give_the_same(tmp_path, model):
    settings = SETTINGS.replace("vocab_size = 400", MODELS[model])
    outputs = []
    for name, sources, range_bytes, workers in (("one", None, "4000", 2), ("two", cut_corpus, "900", 1)):
        folder = tmp_path / name
        folder.mkdir()
        given = sources(folder) if sources else small_corpus(folder)
        ranges = settings.replace("range_bytes = 4000", f"range_bytes = {range_bytes}")
        assert f"range_bytes = {range_bytes}" in ranges
        path = build_file(folder, given, ranges) if given else build_file(folder, settings=ranges)
        run(path, folder / "out", workers=workers)
        outputs.append(folder / "out")
    one, two = outputs
    assert read_counts(one) == read_counts(two)
    assert Tokenizer.load(one) == Tokenizer.load(two)
    file = find_file(one, "tokenizer/tokcore.json").read_bytes()
    assert file == find_file(two, "tokenizer/tokcore.json").read_bytes()
    assert find_manifest(str(one), TOKENIZER).totals == find_manifest(str(two), TOKENIZER).totals
    ids = read_ids(one)
    assert len(ids) >= 60
    assert ids == read_ids(two)
