"""`tokcore curve` equals tokenizers that were learned for each size."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from support.builds import build_file, find_file, run, small_corpus

import tokcore as api
from tokcore.errors import ConfigError
from tokcore.look.vocabulary_curve import count_tokens_by_size
from tokcore.text.texts import make_texts_from_strings
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.cli import commands
from tokcore_pipelines.look.curve import compute_curve

SIZES = (256, 257, 300, 390)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("curve")
    small_corpus(folder)
    run(build_file(folder, settings="[learn]\nvocab_size = 400\n[shards]\ntarget_tokens = 2000"), folder / "out")
    return folder


def test_each_size_is_that_of_a_tokenizer_learned_for_it(built):
    report = compute_curve(
        read_output(str(built / "out")), api.Tokenizer.load(built / "out"), [390, 256, 300, 257, 300]
    )
    assert report["sizes"] == list(SIZES)
    assert list(report["languages"]) == ["en", "hi", "ru", "zh"]
    for place, size in enumerate(SIZES):
        settings = f"[learn]\nvocab_size = {size + 1}\n[shards]\ntarget_tokens = 2000"  # and the end of documents
        run(build_file(built, settings=settings, name="one.toml"), built / f"out-{size}")
        learned = api.Tokenizer.load(built / f"out-{size}")
        assert learned.vocab_size == size + 1
        for lang, found in report["languages"].items():
            rows = pq.read_table(find_file(built / "out", f"counts/{lang}.parquet")).to_pylist()
            encoded = learned.encode_pretokens(make_texts_from_strings([row["pretoken"] for row in rows]))
            lengths = np.diff(encoded.offsets).tolist()
            counts = [row["count"] for row in rows]
            assert found["tokens"][place] == sum(n * count for n, count in zip(lengths, counts, strict=True)), lang
            assert found["bytes"] == sum(len(row["pretoken"]) * row["count"] for row in rows)
            if size == 256:
                assert found["tokens"][place] == found["bytes"]


def test_the_full_size_is_what_the_shards_hold(built):
    report = compute_curve(read_output(str(built / "out")), api.Tokenizer.load(built / "out"))
    assert report["sizes"] == [399]
    held = Counter()
    shards = api.open_shards(built / "out", split="all")
    for i in range(len(shards)):
        document = shards.document(i)
        held[document.lang] += len(shards[i]) - 1  # without the end
    assert held == {lang: one["tokens"][0] for lang, one in report["languages"].items()}


def test_the_command(built):
    def call(*arguments):
        return CliRunner().invoke(commands, ["curve", str(built / "out"), *arguments])

    report = json.loads(call("--sizes", "256,390", "--json").stdout)
    assert report == compute_curve(read_output(str(built / "out")), api.Tokenizer.load(built / "out"), [256, 390])
    table = call("--sizes", "256,390").stdout.splitlines()
    assert table[0].split() == ["bytes", "per", "token", "256", "390"]
    assert [line.split()[:2] for line in table[1:]] == [[lang, "1.0000"] for lang in ("en", "hi", "ru", "zh", "all")]
    failed = call("--sizes", "256,500")
    assert failed.exit_code == 2
    assert "--sizes 500: this tokenizer has merges for 256 to 399" in failed.stderr
    assert call("--sizes", "many").exit_code == 2


def test_what_has_no_curve(built):
    loaded = api.Tokenizer.load(built / "out")
    with pytest.raises(ConfigError, match=r"--sizes 400: this tokenizer has merges for 256 to 399"):
        compute_curve(read_output(str(built / "out")), loaded, [400])
    with pytest.raises(ConfigError, match=r"--sizes 255"):
        compute_curve(read_output(str(built / "out")), loaded, [255])
    settings = '[learn]\nmodel = "byte"\n[shards]\ntarget_tokens = 2000'
    run(build_file(built, settings=settings, name="byte.toml"), built / "byte")
    with pytest.raises(
        ConfigError, match="a curve needs a BPE that was learned, and this tokenizer is of the kind byte"
    ):
        compute_curve(read_output(str(built / "byte")), api.Tokenizer.load(built / "byte"))


def test_counts_are_exact_beyond_floats():
    merges = np.array([[0, 1], [256, 256]], np.int32)
    huge = np.array([0] * 257 + [2**64 - 1], np.uint64)
    assert count_tokens_by_size(merges, huge, [256, 257, 258]) == [4 * (2**64 - 1), 2 * (2**64 - 1), 2**64 - 1]
    with pytest.raises(ValueError, match="size 259: expected 256 to 258"):
        count_tokens_by_size(merges, huge, [259])
