"""Texts of the demo, hard texts, and models that sentencepiece learns from them."""

from __future__ import annotations

import functools
import io
import json
from pathlib import Path

import sentencepiece
import zstandard

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
