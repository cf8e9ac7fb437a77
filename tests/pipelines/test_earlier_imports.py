"""Builds with tokenizers that earlier releases read otherwise: new outputs have the right ids, old outputs go on."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from support.builds import jsonl, write
from support.sentencepiece_models import METASPACE, make_tokenizer_json, train
from support.vocabularies import published_encoding, rank_file_bytes, spec_of_merges
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

import tokcore as api
from tokcore.errors import ConfigError
from tokcore.files.canonical_json import hash_sha256
from tokcore.formats.tokenizers.as_earlier_releases import describe_earlier, leave_out_kept, read_as_before
from tokcore.formats.tokenizers.exports import make_huggingface_files
from tokcore.formats.tokenizers.huggingface import read_tokenizer_json, write_tokenizer_json
from tokcore.formats.tokenizers.tiktoken import read_rank_file
from tokcore.tokenizer.tokenizer_spec import SpecialToken
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.tokenizer_files import (
    find_artifact,
    find_foreign_artifacts,
    import_tokenizer,
    list_untold,
    make_artifact_files,
)
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_schemas.config import load_config

CODE = "def f(x):\n    if x:\n        return x<|endoftext|>\n"
BUILD = """version = 1
[build]
output = "out"
max_rejected = 1
[[source]]
lang = "code"
files = "a.jsonl"
[tokenizer]
from = "{}"
[encode]
special_text = "{}"
"""


def write_phi_like(folder: Path) -> Tokenizer:
    """Its tokenizer.json and what earlier releases made of it, before.json."""
    theirs = Tokenizer(models.BPE())
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=280, initial_alphabet=alphabet, special_tokens=["<|endoftext|>"], show_progress=False
    )
    theirs.train_from_iterator([CODE] * 9, trainer)
    theirs.add_tokens([AddedToken(" " * n) for n in (8, 4, 2)])
    theirs.save(str(folder / "tokenizer.json"))
    spec = read_tokenizer_json((folder / "tokenizer.json").read_bytes(), "x")
    (folder / "before.json").write_bytes(read_as_before(spec).to_json_bytes())
    theirs.encode_special_tokens = True
    return theirs


def build(folder: Path, tokenizer: str, output: str, special_text: str = "ordinary"):
    write(folder / "b.toml", BUILD.format(tokenizer, special_text).encode())
    said: list[str] = []
    progress = StageProgress()
    progress.say = said.append
    made = Build(load_config(str(folder / "b.toml")), RunOptions(1, here=True), str(folder / output), progress).run()
    return made, [line for line in said if "warning" in line]


def test_added_tokens(tmp_path):
    theirs = write_phi_like(tmp_path)
    texts = [CODE, " " * 21]
    write(tmp_path / "a.jsonl", jsonl([{"text": text} for text in texts]))
    made, warnings = build(tmp_path, "tokenizer.json", "new")
    shards = api.open_shards(tmp_path / "new")
    assert [row.tolist()[:-1] for row in shards] == [
        theirs.encode(text, add_special_tokens=False).ids for text in texts
    ]
    assert verify(str(tmp_path / "new"), decode=None).problems == ()
    assert made.totals.special_text == {"<|endoftext|>": 1}, "and no added token, which is found always"
    assert not warnings
    # Only special ones are a reason to reject.
    rejecting, _ = build(tmp_path, "tokenizer.json", "rejecting", "reject")
    assert (rejecting.totals.records.documents, rejecting.totals.records.rejected) == (1, {"special_text": 1})
    # An output of an earlier release goes on.
    before, _ = build(tmp_path, "before.json", "old")
    again, warnings = build(tmp_path, "tokenizer.json", "old")
    assert again == before != made
    assert "text that spells '        ', '    ', '  ' stays text there" in warnings[0]


def test_a_published_rank_file(tmp_path):
    write(tmp_path / "r50k.tiktoken", rank_file_bytes("r50k"))
    write(tmp_path / "cl100k.tiktoken", rank_file_bytes("cl100k"))
    write(tmp_path / "part.tiktoken", b"".join(rank_file_bytes("r50k").splitlines(keepends=True)[:300]))
    write(tmp_path / "a.jsonl", jsonl([{"text": CODE}]))
    made, warnings = build(tmp_path, "cl100k.tiktoken", "out")
    assert (made.totals.vocab_size, warnings) == (100277, [])
    (row,) = api.open_shards(tmp_path / "out")
    assert row.tolist() == [*published_encoding("cl100k").encode(CODE, disallowed_special=()), 100257]
    # What an earlier release made of it: <|endoftext|> has the first free id.
    ranks = read_rank_file(rank_file_bytes("cl100k"), "x", {"name": "cl100k"})
    before = dataclasses.replace(ranks, special=(SpecialToken("<|endoftext|>", 100256, "document_end"),))
    write(tmp_path / "before.json", before.to_json_bytes())
    build(tmp_path, "before.json", "old")
    again, warnings = build(tmp_path, "cl100k.tiktoken", "old")
    assert again.totals.vocab_size == 100257
    assert "of its special tokens '<|endoftext|>' is 100256, not 100257, '<|fim_prefix|>' is none" in warnings[0]
    # [special] may stand beside it, and not beside a file that brings its own.
    for name, message in (
        ("part.tiktoken", r"tokenizer.pattern is missing: .* is read as a rank file.* no published one that is known"),
        ("before.json", r"b.toml:12: special cannot stand beside \[tokenizer\], which brings its own"),
    ):
        with pytest.raises(ConfigError, match=message):
            build(tmp_path, name, "new", 'ordinary"\n[special]\n"<|x|>" = "document_end')
    write(
        tmp_path / "b.toml", (BUILD.format("r50k.tiktoken", "ordinary") + '[special]\n"<|x|>" = "padding"\n').encode()
    )
    spec = import_tokenizer(load_config(str(tmp_path / "b.toml")), str(tmp_path / "none"))
    assert [(token.text, token.id) for token in spec.special] == [("<|endoftext|>", 50256), ("<|x|>", 50257)]


def test_what_earlier_releases_did_otherwise_is_said():
    content = make_tokenizer_json("bpe", train("bpe", "bytes"), [], METASPACE | {"prepend_scheme": "first"})
    spec = read_tokenizer_json(json.dumps(content).encode(), "x")
    before = read_as_before(spec)
    assert before != spec
    assert api.Tokenizer(before).encode("a<s>a", True).tolist() == api.Tokenizer(spec).encode("a<s> a", True).tolist()
    assert describe_earlier(before, spec).startswith("Metaspace puts U+2581 before each part of a text there")
    assert read_as_before(before) == before


def test_files_without_a_pad_token_are_sound():
    """Earlier releases named none where no token has the role padding."""
    end = SpecialToken("<|end|>", None, "document_end")
    spec = spec_of_merges([], {"name": "gpt2"}, [], [end])
    now = {name: hash_sha256(data) for name, data in make_artifact_files(spec)}
    files = dict(make_huggingface_files(spec, write_tokenizer_json(spec), as_before=True))
    before = now | {name: hash_sha256(data) for name, data in files.items()}
    assert [name for name in now if now[name] != before[name]] == ["tokenizer_config.json", "special_tokens_map.json"]
    assert (find_foreign_artifacts(spec, now), find_foreign_artifacts(spec, before)) == ([], [])
    for name, data in files.items():
        assert find_artifact(spec, name, before[name]) == data
        assert b"pad_token" not in data


@pytest.mark.parametrize("pattern", [r"[^\n]+$|\p{L}+|\P{L}", "a*|b", r"\p{L}+|\P{L}"])
def test_files_that_earlier_releases_wrote_are_sound(pattern):
    """They told Oniguruma any pattern as it is. verify and repair know that."""
    spec = spec_of_merges([], {"regex": pattern}, [], [])
    now = {name: hash_sha256(data) for name, data in make_artifact_files(spec)}
    assert find_foreign_artifacts(spec, now) == []
    earlier = write_tokenizer_json(spec, as_before=True)
    files = dict(make_huggingface_files(spec, earlier))
    before = now | {name: hash_sha256(data) for name, data in files.items()}
    assert find_foreign_artifacts(spec, before) == []
    assert find_artifact(spec, "tokenizer.json", before["tokenizer.json"]) == earlier
    assert find_foreign_artifacts(spec, before | {"tokenizer.json": hash_sha256(b"x")}) == ["tokenizer.json"]
    assert bool(list_untold(spec)) == ("tokenizer.json" not in now) == (pattern == "a*|b")


def test_outputs_go_on_without_the_decoder_that_they_did_not_keep(tmp_path):
    """And without a post_processor that puts nothing around texts. Ids are the same, so that nothing is said."""
    write_phi_like(tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_bytes())
    content["added_tokens"] = [token for token in content["added_tokens"] if token["special"]]
    content["post_processor"] = content["pre_tokenizer"]
    data = json.dumps(content).encode()
    spec = read_tokenizer_json(data, "x")
    assert bool(spec.decoder and spec.post_processor)
    write(tmp_path / "own.json", data)
    write(tmp_path / "before.json", leave_out_kept(spec).to_json_bytes())
    write(tmp_path / "a.jsonl", jsonl([{"text": CODE}]))
    before, _ = build(tmp_path, "before.json", "old")
    assert build(tmp_path, "own.json", "old") == (before, [])
    assert json.loads((tmp_path / "old/tokenizer/tokenizer.json").read_bytes())["post_processor"] is None
    build(tmp_path, "own.json", "new")
    assert json.loads((tmp_path / "new/tokenizer/tokenizer.json").read_bytes())["post_processor"] is not None


@pytest.mark.parametrize("pattern", [r"[^\n]+$|[\s\S]", r"[a-z&&b]x|[\s\S]"])
def test_a_pattern_that_was_read_otherwise(tmp_path, pattern):
    """An output of an earlier release goes on with it; a new one has what the file means."""
    write_phi_like(tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_bytes())
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    levels = content["pre_tokenizer"] | {"use_regex": False}
    content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, levels]}
    data = json.dumps(content).encode()
    write(tmp_path / "own.json", data)
    write(tmp_path / "before.json", read_as_before(read_tokenizer_json(data, "x", as_before=True)).to_json_bytes())
    write(tmp_path / "a.jsonl", jsonl([{"text": "ab\nab"}]))
    before, _ = build(tmp_path, "before.json", "old")
    again, warnings = build(tmp_path, "own.json", "old")
    assert again == before
    assert "an earlier release read this tokenizer otherwise" in warnings[0]
    new, warnings = build(tmp_path, "own.json", "new")
    assert new.totals.fingerprint != before.totals.fingerprint
    assert warnings == []


def test_a_pattern_of_tiktoken_that_was_read_otherwise(tmp_path):
    write(tmp_path / "part.tiktoken", b"".join(rank_file_bytes("r50k").splitlines(keepends=True)[:300]))
    write(tmp_path / "a.jsonl", jsonl([{"text": "he\nhe\n"}]))
    special = SpecialToken("<|end|>", 300, "document_end")
    declared = 'ordinary"\n[special]\n"<|end|>" = "document_end'
    named = 'part.tiktoken"\npattern = "[he]+$|[\\\\s\\\\S]'
    old = read_rank_file((tmp_path / "part.tiktoken").read_bytes(), "x", {"regex": r"[he]+$|[\s\S]"}, [special])
    write(tmp_path / "before.json", old.to_json_bytes())
    before, _ = build(tmp_path, "before.json", "old")
    again, warnings = build(tmp_path, named, "old", declared)
    assert again == before
    assert "its split pattern means there what it means in another engine" in warnings[0]
    _, warnings = build(tmp_path, named, "new", declared)
    lengths = {out: [len(row) for row in api.open_shards(tmp_path / out)] for out in ("old", "new")}
    assert (lengths, warnings) == ({"old": [6], "new": [7]}, [])
    with pytest.raises(ConfigError, match=r"b.toml:10: tokenizer.pattern: .* at character 5"):
        build(tmp_path, named.replace("$", r"\\Z"), "refused", declared)
