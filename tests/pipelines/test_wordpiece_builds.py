"""Builds with BERT's vocabulary: unknown tokens are counted and limited, and the lossy shards are verified."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest
import zstandard
from support.builds import SOURCES, build_file, run, small_corpus, texts, tokcore, write

import tokcore as api
from tokcore.errors import ConfigError, StageError
from tokcore.formats.tokenizers.bert import read_vocab_txt
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.begin.check_build import make_check_report
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.recount_shards import HeldShards
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.check.recount import recount
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_schemas.config import load_config
from tokcore_schemas.stage_table import SHARDS

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
EXAMPLE = Path(__file__).parents[2] / "deploy" / "examples" / "bert.toml"
SETTINGS = """
[plan]
range_bytes = 4000
[tokenizer]
from = "vocab.txt"
[shards]
target_tokens = 2000
"""


def write_vocabulary(folder: Path) -> None:
    """All words of the English documents, and Latin letters: other scripts are unknown."""
    normalized = Tokenizer(read_vocab_txt(b"[UNK]\n", "x")).normalized(" ".join(texts("en", 30)).encode()).decode()
    words = sorted({word for word in normalized.replace(",", " ").replace(".", " ").split() if word.isalnum()})
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    lines = [*SPECIAL, ",", ".", *dict.fromkeys([*words, *letters]), *(f"##{letter}" for letter in letters)]
    (folder / "vocab.txt").write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wordpiece")
    small_corpus(folder)
    write_vocabulary(folder)
    run(build_file(folder, SOURCES, SETTINGS), folder / "out")
    return folder


def test_documents_begin_and_end_as_bert_s_do(folder):
    shards = api.open_shards(folder / "out")
    tokenizer = api.Tokenizer.load(folder / "out")
    stored = {shards.document(row).id: shards[row].tolist() for row in range(len(shards))}
    for i, text in enumerate(texts("en", 30)):
        assert stored[f"en-{i}"] == [2, *tokenizer.encode(text).tolist(), 3]


def test_manifests_count_the_unknown_and_say_that_text_is_lost(folder):
    shards = api.open_shards(folder / "out")
    languages = json.loads((folder / "out" / "manifest.json").read_bytes())["languages"]
    held = dict.fromkeys(languages, 0)
    for row in range(len(shards)):
        held[shards.document(row).lang] += int(np.count_nonzero(shards[row] == 1))
    assert {lang: one["unknown"] for lang, one in languages.items()} == held
    assert held["en"] == 0 < held["ru"]
    made = json.loads((folder / "out" / "tokenizer" / "manifest.json").read_bytes())
    assert made["totals"]["lossless"] is False


def test_show_and_verify_say_that_text_is_lost(folder):
    assert "tokens; lossless = false: " in tokcore("show", folder / "out").stdout
    verified = tokcore("verify", folder / "out", "--decode", "all")
    assert "102 documents encoded again, with equal tokens\n" in verified.stdout, verified.stderr


@pytest.mark.parametrize("options", [{"quick": True}, {}, {"decode": None}])
def test_it_verifies(folder, options):
    report = verify(str(folder / "out"), **{"decode": 0, **options}, options=RunOptions(here=True))
    assert report.problems == ()


def test_verify_compares_the_unknown(folder):
    stored = Stored(str(folder / "out"))
    made = stored.get(SHARDS)
    said = HeldShards.said_by(made)
    assert [*recount(stored, made, said)] == []
    russian = said.languages["ru"]
    held = {**said.languages, "ru": dataclasses.replace(russian, num_unknown=russian.num_unknown + 1)}
    (problem,) = recount(stored, made, dataclasses.replace(said, languages=held))
    unknown = made.languages["ru"].unknown
    assert problem == f"shards/manifest.json: languages.ru.unknown = {unknown}, its files give {unknown + 1}"


def test_workers_change_nothing(folder, tmp_path):
    run(folder / "build.toml", tmp_path / "one", workers=1)
    roots = [json.loads((one / "manifest.json").read_bytes())["root"] for one in (tmp_path / "one", folder / "out")]
    assert roots[0] == roots[1]


def test_too_many_unknown_tokens_fail_a_build(folder, tmp_path):
    path = build_file(folder, SOURCES, SETTINGS + "[encode]\nmax_unknown = 0.25\n", name="strict.toml")
    with pytest.raises(
        StageError, match=r"encode.max_unknown = 0.25: [\d,]+ of [\d,]+ tokens are unknown ones, .*zh: "
    ):
        run(path, tmp_path / "out")
    assert not (tmp_path / "out" / "manifest.json").exists()
    (problem,) = make_check_report(Build(load_config(str(path)), output=str(tmp_path / "other")), StageProgress(-1))[
        "problems"
    ]
    assert re.search(r"max_unknown: at most 0.25, and [\d,]+ of [\d,]+ tokens of the corpus are unknown", problem)
    relaxed = build_file(folder, SOURCES, SETTINGS + "[encode]\nmax_unknown = 1\n", name="strict.toml")
    run(relaxed, tmp_path / "out")


def test_the_normalizer_of_a_vocab_txt(folder, tmp_path):
    cased = SETTINGS.replace('"vocab.txt"', '"vocab.txt"\nnormalize = ["bert-cased"]')
    run(build_file(folder, SOURCES, cased, name="cased.toml"), tmp_path / "out")
    assert api.Tokenizer.load(tmp_path / "out").spec.normalizer == ("bert-cased",)
    wrong = cased.replace("vocab.txt", "out")
    with pytest.raises(ConfigError, match=r"tokenizer.normalize is for a vocab.txt, and .* is none: remove it"):
        run(build_file(folder, SOURCES, wrong, name="wrong.toml"), tmp_path / "wrong")


def test_a_broken_vocab_txt_stops_the_build_before_it_reads(folder, tmp_path):
    (folder / "twice.txt").write_text("[UNK]\na\na\n")
    path = build_file(folder, SOURCES, SETTINGS.replace("vocab.txt", "twice.txt"), name="twice.toml")
    with pytest.raises(ConfigError, match=r"tokenizer.from: .*twice.txt: line 3: the token 'a' stands on line 2"):
        run(path, tmp_path / "out")


def test_the_example_builds(folder, tmp_path):
    write(tmp_path / "data" / "en" / "en.jsonl.zst", zstandard.decompress((folder / "en.jsonl.zst").read_bytes()))
    (tmp_path / "vocab.txt").write_bytes((folder / "vocab.txt").read_bytes())
    path = tmp_path / "bert.toml"
    path.write_text(EXAMPLE.read_text())
    run(path, tmp_path / "out")
    shards = api.open_shards(tmp_path / "out")
    assert [shards[0][0], shards[0][-1]] == [2, 3]
    exported = tokcore("export", tmp_path / "out", "--to", "bert", "-o", tmp_path / "x")
    assert exported.returncode == 0, exported.stderr
    assert (tmp_path / "x" / "vocab.txt").read_bytes() == (tmp_path / "vocab.txt").read_bytes()
    assert load_config(str(path)).encode.max_unknown
