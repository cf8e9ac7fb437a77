"""A build with a model other than BPE: every command works on it as on any other build."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.builds import SETTINGS, build_file, run, run_once, small_corpus, tokcore

import tokcore as api
from tokcore.errors import ConfigError
from tokcore.models.byte import ByteModel
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.look.audit import audit
from tokcore_pipelines.look.diff import diff
from tokcore_schemas.config import load_config

BYTE = SETTINGS.replace("vocab_size = 400", 'model = "byte"')


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build of bytes and one of BPE over the same inputs."""
    folder = tmp_path_factory.mktemp("byte")
    small_corpus(folder)
    run_once(build_file(folder, settings=BYTE, name="byte.toml"), folder / "byte")
    run_once(build_file(folder), folder / "bpe")
    return folder


def test_its_manifest_and_its_files(folder):
    made = json.loads((folder / "byte" / "tokenizer" / "manifest.json").read_bytes())
    assert made["totals"].keys() == {"fingerprint", "vocab_size", "mix"}
    assert made["totals"]["vocab_size"] == 257
    assert made["config"].keys() == {"mix", "model", "normalize", "pretokenize", "special", "vocab_size"}
    written = {"tokcore.json", "tokenizer.json", "tokenizer.tiktoken", "vocab.json", "merges.txt"}
    written |= {"tokenizer_config.json", "special_tokens_map.json", "token_bytes.npy"}
    assert {entry["path"] for entry in made["files"]} == written
    of_bpe = json.loads((folder / "bpe" / "tokenizer" / "manifest.json").read_bytes())
    assert of_bpe["totals"].keys() == {"fingerprint", "merges", "vocab_size", "mix"}
    assert of_bpe["totals"]["merges"] == 143


def test_shards_hold_the_bytes(folder):
    shards = api.open_shards(folder / "byte")
    tokenizer = api.Tokenizer.load(folder / "byte")
    documents = [shards[i].tolist() for i in range(len(shards))]
    assert all(document[-1] == 256 and max(document[:-1]) < 256 for document in documents)
    texts = {tokenizer.decode(document[:-1]) for document in documents}
    from_bpe = api.open_shards(folder / "bpe")
    bpe = api.Tokenizer.load(folder / "bpe")
    assert texts == {bpe.decode(from_bpe[i][:-1]) for i in range(len(from_bpe))}


@pytest.mark.parametrize("options", [{"quick": True}, {}, {"decode": None}])
def test_it_verifies(folder, options):
    report = verify(str(folder / "byte"), **{"decode": 0, **options}, options=RunOptions(here=True))
    assert report.problems == ()


def test_damage_is_found(folder, tmp_path):
    output = tmp_path / "out"
    run(folder / "byte.toml", output)
    manifest = output / "tokenizer" / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"vocab_size":257', b'"vocab_size":258'))
    assert verify(str(output), decode=0, options=RunOptions(1)).problems


def test_a_shard_is_rebuilt(folder):
    shard = next((folder / "byte" / "shards" / "arrow").rglob("*.arrow"))
    done = tokcore("verify", folder / "byte", "--rebuild", shard.relative_to(folder / "byte" / "shards"))
    assert done.returncode == 0, done.stderr + done.stdout


def test_audit(folder):
    tokenizer = api.Tokenizer.load(folder / "byte")
    report = audit(read_output(str(folder / "byte")), tokenizer)
    assert (report["ordinary_tokens"], report["special_tokens"], report["unused_ids"]) == (256, 1, 0)
    assert report["unreachable"] == []
    assert len(report["partial_utf8"]) == 128
    assert {one["id"] for one in report["never"]} >= {0xC0, 0xC1, *range(0xF5, 0x100)}


def test_diff(folder, tmp_path):
    run(folder / "byte.toml", tmp_path / "again")
    assert diff(str(folder / "byte"), str(tmp_path / "again")) == {}
    found = diff(str(folder / "byte"), str(folder / "bpe"))
    assert found["configuration"]["tokenizer.model"] == ["byte", "bpe"]
    assert found["tokenizer"]["model"] == ["256 bytes", "256 bytes, 143 merges"]
    assert found["tokenizer"]["merges"] == [None, 143]
    assert "counts" not in found
    special = BYTE + '[special]\n"<|x|>" = "document_end"\n'
    run(build_file(folder, settings=special, name="special.toml"), tmp_path / "special")
    found = diff(str(folder / "byte"), str(tmp_path / "special"))
    assert found["tokenizer"].keys() == {"fingerprint", "special"}
    shown = tokcore("diff", folder / "byte", folder / "bpe")
    assert shown.returncode == 1
    assert "model: 256 bytes / 256 bytes, 143 merges" in shown.stdout


@pytest.mark.parametrize("target", ["huggingface", "tiktoken", "gpt2"])
def test_export(folder, tmp_path, target):
    done = tokcore("export", folder / "byte", "--to", target, "-o", tmp_path / "x")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    if target == "gpt2":
        assert json.loads((tmp_path / "x" / "vocab.json").read_text())["Ġ"] == 0x20


def test_settings_that_it_does_not_use_change_nothing(folder, tmp_path):
    unused = BYTE.replace(
        '"byte"',
        '"byte"\nmin_count = 99\nmin_documents = 9999\nmax_token_bytes = 1\nallow_smaller = true\nvocab_size=257',
    )
    run(build_file(folder, settings=unused, name="unused.toml"), tmp_path / "out")
    assert diff(str(folder / "byte"), str(tmp_path / "out")) == {}


@pytest.mark.parametrize("size", [256, 258, 32768])
def test_another_size_is_refused(folder, size):
    path = build_file(folder, settings=BYTE.replace('"byte"', f'"byte"\nvocab_size = {size}'), name="size.toml")
    with pytest.raises(ConfigError) as raised:
        load_config(str(path))
    assert (
        f"learn.vocab_size = {size}: a vocabulary of bytes has exactly 257 tokens (256 for bytes, 1 for special "
        "tokens). Set it to 257, or remove it." in str(raised.value)
    )


def test_pinned_special_tokens_come_after_the_bytes(folder):
    def loaded(id: int):
        settings = f'{BYTE}\n[special]\n"<a>" = {{ role = "document_end", id = {id} }}\n'
        return load_config(str(build_file(folder, settings=settings, name="pinned.toml")))

    assert loaded(1000).vocab_size == 257
    with pytest.raises(ConfigError, match="ids below 256 belong to ordinary tokens"):
        loaded(255)


HERE = RunOptions(here=True)  # patches do not reach other processes


def test_a_lossy_tokenizer_is_verified_by_its_encodings(folder, tmp_path, monkeypatch):
    """A byte model that claims to lose text: its ids must be those of the source, and are never decoded."""
    monkeypatch.setattr(ByteModel, "lossless", False)
    monkeypatch.setattr(Tokenizer, "decode", None)
    small_corpus(tmp_path)
    output = tmp_path / "out"
    run(build_file(tmp_path, settings=BYTE), output)
    report = verify(str(output), decode=None, options=HERE)
    assert (report.problems, report.num_decoded) == ((), 102)
    source = tmp_path / "ru.jsonl"
    lines, stat = source.read_bytes().splitlines(keepends=True), source.stat()
    source.write_bytes(b"".join([lines[1], lines[0], *lines[2:]]))
    os.utime(source, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    found = verify(str(output), decode=None, options=HERE).problems
    assert any("ru.jsonl, record 0: its tokens are not those of the text" in problem for problem in found), found
