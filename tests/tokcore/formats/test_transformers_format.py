"""The exported folder for Hugging Face: what transformers and gguf read from it."""

from __future__ import annotations

import dataclasses
import json
from collections import namedtuple

import pytest
import tokenizers
from support.vocabularies import spec_of_merges

from tokcore.formats.tokenizers.exports import EXPORTS
from tokcore.formats.tokenizers.huggingface import read_tokenizer_json
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import SpecialToken, TokenizerSpec

Merge = namedtuple("Merge", "left right count")

SPECIAL = [
    SpecialToken("<|end|>", None, "document_end"),
    SpecialToken("<|begin|>", None, "document_begin"),
    SpecialToken("<|pad|>", None, "padding"),
    SpecialToken("<|x|>", None),
    SpecialToken("<|far|>", 400, "document_end"),
]
SPEC = spec_of_merges([Merge(b"a", b"b", 5), Merge(b" ", b"ab", 3)], {"name": "llama3"}, ["nfc"], SPECIAL)
CHAT = "{% for message in messages %}{{ message.content }}{{ eos_token }}{% endfor %}"


def files_of(spec: TokenizerSpec) -> dict[str, bytes]:
    return dict(EXPORTS["huggingface"].files(spec))


def test_special_tokens_follow_from_the_roles():
    files = files_of(SPEC)
    assert list(files) == ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"]
    config, names = (json.loads(files[name]) for name in ("tokenizer_config.json", "special_tokens_map.json"))
    assert names == {
        "bos_token": "<|begin|>",
        "eos_token": "<|end|>",
        "pad_token": "<|pad|>",
        "additional_special_tokens": ["<|x|>", "<|far|>"],
    }
    assert names.items() <= config.items()
    assert (config["add_bos_token"], config["add_eos_token"]) == (False, False), "ids are those of the text"
    assert {int(id): token["content"] for id, token in config["added_tokens_decoder"].items()} == {
        token.id: token.text for token in SPEC.special
    }
    assert "chat_template" not in config


def test_trainers_find_what_they_expect():
    """A pad_token: that of role padding, or else the end of a document; and the length of a model."""
    spec = dataclasses.replace(SPEC, max_length=4096)
    assert spec.fingerprint == SPEC.fingerprint
    assert TokenizerSpec.from_json_bytes(spec.to_json_bytes(), "x").max_length == 4096
    config = json.loads(files_of(spec)["tokenizer_config.json"])
    assert (config["model_max_length"], config["pad_token"]) == (4096, "<|pad|>")
    plain = spec_of_merges([], {"name": "gpt2"}, [], [SpecialToken("<|end|>", None, "document_end")])
    files = files_of(plain)
    assert json.loads(files["tokenizer_config.json"])["pad_token"] == "<|end|>"
    assert "model_max_length" not in json.loads(files["tokenizer_config.json"])
    assert json.loads(files["special_tokens_map.json"]) == {"eos_token": "<|end|>", "pad_token": "<|end|>"}


def test_without_roles_there_are_no_names():
    spec = spec_of_merges([], {"name": "gpt2"}, [], [])
    assert json.loads(files_of(spec)["special_tokens_map.json"]) == {}


def test_the_chat_template_is_kept_and_decides_no_id():
    spec = dataclasses.replace(SPEC, chat_template=CHAT)
    assert spec.fingerprint == SPEC.fingerprint
    again = TokenizerSpec.from_json_bytes(spec.to_json_bytes(), "x")
    assert again.chat_template == CHAT
    assert json.loads(files_of(again)["tokenizer_config.json"])["chat_template"] == CHAT


def test_transformers_and_gguf_take_the_folder(tmp_path):
    transformers = pytest.importorskip("transformers")
    gguf = pytest.importorskip("gguf")
    for name, data in files_of(dataclasses.replace(SPEC, chat_template=CHAT)).items():
        (tmp_path / name).write_bytes(data)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert (theirs.bos_token_id, theirs.eos_token_id, theirs.pad_token_id) == (259, 258, 260)
    padded = theirs(["ab ab", "a"], padding=True)
    assert padded["input_ids"] == [Tokenizer(SPEC).encode("ab ab").tolist(), [64, 260]]
    assert padded["attention_mask"] == [[1, 1], [1, 0]]
    assert theirs.decode([256, 257]) == "ab ab"
    assert theirs.chat_template == CHAT
    theirs.save_pretrained(tmp_path / "saved")
    saved = transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert (saved.eos_token, saved("ab ab")["input_ids"]) == ("<|end|>", [256, 257])
    # What they write is read back, roles aside.
    data = (tmp_path / "saved" / "tokenizer.json").read_bytes()
    assert Tokenizer(read_tokenizer_json(data, "x")).encode("ab ab").tolist() == [256, 257]
    vocab = gguf.SpecialVocab(tmp_path, load_merges=True)
    assert vocab.special_token_ids == {"bos": 259, "eos": 258, "pad": 260}
    assert vocab.merges == ["a b", "Ġ ab"]
    assert vocab.chat_template == CHAT


def test_an_import_that_is_exported_gives_auto_tokenizer_the_same_ids(tmp_path):
    """As RoBERTa: <mask> takes the white space before it, and tokens stand around each text and each pair."""
    transformers = pytest.importorskip("transformers")
    special = [SpecialToken("<s>", None), SpecialToken("</s>", None), SpecialToken("<mask>", None, lstrip=True)]
    spec = spec_of_merges([Merge(b"a", b"b", 5)], {"name": "gpt2"}, [], special)
    content = json.loads(files_of(spec)["tokenizer.json"])
    around = {"type": "RobertaProcessing", "sep": ["</s>", 258], "cls": ["<s>", 257], "trim_offsets": True}
    content["post_processor"] = around | {"add_prefix_space": False}
    content["decoder"] = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    original = json.dumps(content)
    for name, data in files_of(read_tokenizer_json(original.encode(), "x")).items():
        (tmp_path / name).write_bytes(data)
    theirs, ours = tokenizers.Tokenizer.from_str(original), transformers.AutoTokenizer.from_pretrained(tmp_path)
    for texts in (("ab  <mask> ab",), ("<mask>",), ("ab", " <mask>b")):
        expected = theirs.encode(*texts)
        assert ours(*texts)["input_ids"] == expected.ids
        assert ours.decode(expected.ids) == theirs.decode(expected.ids, skip_special_tokens=False)
