"""Files of other libraries that tell what they are: small valid ones, and what holds for any that can be read."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tokcore.formats.tokenizers.foreign import read_tokenizer_file
from tokcore.formats.tokenizers.sentencepiece import write_sentencepiece_model
from tokcore.kernel import PieceRules
from tokcore.models.sentencepiece.piece_text import BYTE_NAMES
from tokcore.models.sentencepiece.scored_pieces import PieceModel, SentencepieceBpeModel, UnigramModel
from tokcore.text.patterns import PATTERNS
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import SpecialToken, TokenizerSpec

TEXT = "abab aba é 日本 <s></s>\0  ▁x\n"
PIECES = ["▁", "a", "b", "ab", "▁ab", "aba", "é"]


def use(data: bytes, folder: Path) -> None:
    """Read, write as tokcore.json, read that; encode and decode."""
    spec = read_tokenizer_file(data, "file")
    again = TokenizerSpec.from_json_bytes(spec.to_json_bytes(), "again")
    assert again == spec, "written as tokcore.json and read, it is the same"
    tokenizer = Tokenizer(spec)
    ids = tokenizer.encode(TEXT)
    assert Tokenizer(again).encode(TEXT).tolist() == ids.tolist()
    assert set(ids.tolist()) <= {*spec.model.ids.tolist(), *(token.id for token in spec.special)}
    tokenizer.decode(ids)


def _tekken() -> bytes:
    tokens = [*(bytes([byte]) for byte in range(256)), b"ab", b"aba", b" ab"]
    return json.dumps(
        {
            "config": {
                "pattern": PATTERNS["tekken"],
                "num_vocab_tokens": len(tokens),
                "default_vocab_size": 24 + 258,
                "default_num_special_tokens": 24,
                "version": "v3",
            },
            "vocab": [
                {"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
                for rank, token in enumerate(tokens)
            ],
        }
    ).encode()


def _make_model(kind: type[PieceModel], has_bytes: bool) -> bytes:
    pieces = [*BYTE_NAMES, *(piece.encode() for piece in PIECES)] if has_bytes else [p.encode() for p in PIECES]
    types = np.array([6 if piece in BYTE_NAMES else 1 for piece in pieces], np.uint8)
    scores = -np.arange(len(pieces), dtype=np.float32) / 4
    ids = np.arange(3, 3 + len(pieces), dtype=np.int32)
    special = (
        SpecialToken("<unk>", 0, "unknown"),
        SpecialToken("<s>", 1, "document_begin"),
        SpecialToken("</s>", 2, "document_end"),
    )
    rules = PieceRules(b"", True, True, True, False)
    model = kind(tuple(pieces), ids, scores, types, 0, (1, 2), rules)
    return write_sentencepiece_model(TokenizerSpec((), {"name": "metaspace"}, model, special))


def _make_json(is_unigram: bool) -> bytes:
    vocab = ["<unk>", "<s>", "</s>", *PIECES]
    model: dict[str, object] = (
        {"type": "Unigram", "unk_id": 0, "vocab": [[piece, -i / 4] for i, piece in enumerate(vocab)]}
        if is_unigram
        else {
            "type": "BPE",
            "unk_token": "<unk>",
            "fuse_unk": True,
            "byte_fallback": True,
            "vocab": {piece: i for i, piece in enumerate(vocab)},
            "merges": [["a", "b"], ["▁", "ab"], ["ab", "a"]],
        }
    )
    if is_unigram:
        model["vocab"][0][1] = 0.0  # type: ignore[index]
    table = np.zeros(256, "<u4")
    table[0] = 1 << 10
    charsmap = base64.b64encode((1024).to_bytes(4, "little") + table.tobytes() + b"x\0").decode()
    steps = [{"type": "Replace", "pattern": {"String": "x"}, "content": "y"}, {"type": "Prepend", "prepend": "▁"}]
    return json.dumps(
        {
            "version": "1.0",
            "added_tokens": [{"id": i, "content": vocab[i], "special": True} for i in range(3)],
            "normalizer": {
                "type": "Sequence",
                "normalizers": [*steps, {"type": "Precompiled", "precompiled_charsmap": charsmap}][: 2 + is_unigram],
            },
            "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": is_unigram},
            "post_processor": None,
            "decoder": None,
            "model": model,
        }
    ).encode()


def _vocab_txt() -> bytes:
    return "".join(f"{token}\n" for token in ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ab", "##a", "é"]).encode()


def _byt5() -> bytes:
    return json.dumps({"tokenizer_class": "ByT5Tokenizer", "eos_token": "</s>", "extra_ids": 125}).encode()


# kind -> (how it is read, how a valid one is made)
KINDS: dict[str, tuple[Callable[[bytes, Path], None], Callable[[], bytes]]] = {
    "tekken": (use, _tekken),
    "unigram_model": (use, lambda: _make_model(UnigramModel, True)),
    "bpe_model": (use, lambda: _make_model(SentencepieceBpeModel, False)),
    "unigram_json": (use, lambda: _make_json(True)),
    "piece_bpe_json": (use, lambda: _make_json(False)),
    "vocab_txt": (use, _vocab_txt),
    "byt5_config": (use, _byt5),
}
