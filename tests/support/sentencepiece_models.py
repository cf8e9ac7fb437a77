"""Texts of the demo, hard texts, and models that sentencepiece learns from them."""

from __future__ import annotations

import base64
import functools
import io
import json
from pathlib import Path

import sentencepiece
import zstandard

from tokcore.formats.tokenizers.sentencepiece import read_sentencepiece_model

SPACE = "▁"
METASPACE = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True}
SPECIAL = ("<unk>", "<s>", "</s>")
DEMO = Path(__file__).parents[2] / "deploy" / "demo" / "data"


@functools.cache
def demo_texts() -> list[str]:
    """The documents of the demo that are in compressed JSON lines."""
    files = sorted(DEMO.glob("*/*.jsonl.zst"))
    data = b"\n".join(zstandard.ZstdDecompressor().stream_reader(file.read_bytes()).read() for file in files)
    return [json.loads(line)["text"] for line in data.split(b"\n") if line]


HARD = [
    *["", " ", "   ", "a", " a", "a ", "  a  b  ", "\t\n", "▁", "▁▁a▁", "a▁", "▁ ▁", "ａｂｃ", "ﬁ", "①", "e\u0301"],
    *[
        "か\u3099",
        "\u200b",
        "\u200b \u200b",
        "\ufeffx",
        "\x00a",
        "𝔘𝔫𝔦",
        "😀😀 😀x",
        "日本語 テスト",
        "<s>",
        "</s> <unk>",
    ],
    *[
        "<0x41>",
        "\u3000a\u3000",
        "한국어",
        "I\u0307",
        "\U0010ffff",
        "a\u00a0b",
        "foo<sep>bar <sep> baz",
        "<sep>",
        "C++ is",
    ],
    *["\r\n\r\nx", "ก็", "\u0301", "a" * 1000, "ab" * 500, "1234567890" * 20, " " * 300 + "x", "x" + " " * 300],
    *["x" * 100 + " " + "y" * 600, "𐍈𐍈𐍈", "c'est ▁x▁ ça" * 40],
]
MALFORMED = [b"\xff", b"a\xffb", b"\xe2\x96", b"\xe2\x96\x81\xe2", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80 x"]
MALFORMED += [b"\xf0\x9f\x98", b"ok \x80\x80 ok"]

OPTIONS = {
    "plain": {},
    "bytes": {"byte_fallback": True},
    "crossing": {"split_by_whitespace": False},
    "user-defined": {
        "user_defined_symbols": ["<sep>", "C++", "  ", "▁x▁"],
        "control_symbols": ["<c1>"],
        "pad_id": 3,
    },
    "identity": {
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "allow_whitespace_only_pieces": True,
        "byte_fallback": True,
    },
    "nfkc": {"normalization_rule_name": "nfkc", "add_dummy_prefix": False},
    "suffix": {"treat_whitespace_as_suffix": True, "normalization_rule_name": "nfkc_cf"},
}


@functools.cache
def train(kind: str, option: str) -> bytes:
    """A model that sentencepiece learned from some of the demo."""
    out = io.BytesIO()
    lines = [line for text in demo_texts()[::5] for line in text.split("\n") if line]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=out,
        minloglevel=2,
        model_type=kind,
        vocab_size=2200,
        character_coverage=0.98,
        **OPTIONS[option],
    )
    return out.getvalue()


def make_tokenizer_json(kind: str, data: bytes, normalizer, pre_tokenizer) -> dict:
    """A tokenizer.json of a .model, as transformers converts it."""
    proto = sentencepiece.SentencePieceProcessor(model_proto=data)
    pieces = [(proto.id_to_piece(id), proto.get_score(id)) for id in range(len(proto))]
    has_bytes = any(map(proto.is_byte, range(len(proto))))
    normalizers = list(normalizer)
    if "Precompiled" in normalizers:
        charsmap = base64.b64encode(read_sentencepiece_model(data, "x").model.text_rules.charsmap).decode()
        normalizers[normalizers.index("Precompiled")] = {"type": "Precompiled", "precompiled_charsmap": charsmap}
    ids = {piece: id for id, (piece, _) in enumerate(pieces)}
    if kind == "unigram":
        model = {"type": "Unigram", "unk_id": 0, "vocab": pieces, "byte_fallback": has_bytes}
    else:
        merges = []
        for id, (piece, score) in enumerate(pieces):
            if not (id < 3 or proto.is_byte(id) or proto.is_unused(id)):
                cuts = [(piece[:i], piece[i:]) for i in range(1, len(piece))]
                found = [pair for pair in cuts if pair[0] in ids and pair[1] in ids]
                merges += [(-score, ids[left], ids[right], [left, right]) for left, right in found]
        merges.sort()
        model = {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": has_bytes,
            "ignore_merges": False,
            "vocab": ids,
            "merges": [merge[-1] for merge in merges],
        }
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": id, "content": pieces[id][0], **flags} for id in range(3)],
        "normalizer": {"type": "Sequence", "normalizers": normalizers} if normalizers else None,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": None,
        "decoder": None,
        "model": model,
    }
