"""tokcore.json: one byte form, an identity that covers what decides ids, and no damaged file that loads."""

from __future__ import annotations

import json
from collections import namedtuple

import numpy as np
import pytest
from hypothesis import given
from support.examples import examples
from support.vocabularies import models, spec_of_merges

from tokcore import kernel
from tokcore.errors import ChecksumError, ConfigError, FormatError, LearnError, VersionError
from tokcore.files.canonical_json import hash_sha256, write_canonical_json
from tokcore.models.bpe import LearnedModel, MergesModel, RanksModel
from tokcore.text import unicode
from tokcore.tokenizer import tokenizer_spec
from tokcore.tokenizer.tokenizer_spec import SpecialToken, TokenizerSpec, make_learned_spec

Merge = namedtuple("Merge", "left right count")

MERGES = [Merge(b"a", b"b", 9), Merge(b"ab", b" ", 4), Merge(b"\xc3", b"\xa9", 2**60)]


def spec_of(special=(), merges=MERGES, pattern=None, normalizer=()):
    return spec_of_merges(merges, pattern or {"name": "cl100k"}, normalizer, special)


def test_ids_of_a_learned_tokenizer():
    """Bytes in hf order, merges in rank order, then special tokens: unpinned ones take the lowest free ids."""
    spec = spec_of(
        [
            SpecialToken("<|a|>", None, "document_end"),
            SpecialToken("<|pinned|>", 260, "padding"),
            SpecialToken("<|b|>", None),
            SpecialToken("<|far|>", 1000),
            SpecialToken("<|c|>", None),
        ]
    )
    assert spec.model.tokens[:3] == (b"!", b'"', b"#")
    assert spec.model.tokens[256:] == (b"ab", b"ab ", "é".encode())
    assert [(token.text, token.id) for token in spec.special] == [
        ("<|a|>", 259),
        ("<|pinned|>", 260),
        ("<|b|>", 261),
        ("<|c|>", 262),
        ("<|far|>", 1000),
    ]
    assert spec.vocab_size == 1001
    assert spec_of().vocab_size == 259


@pytest.mark.parametrize("id", [0, 258, 2**31, -1])
def test_a_pinned_id_must_be_free(id):
    with pytest.raises(ConfigError, match="special"):
        spec_of([SpecialToken("<|x|>", id)])


def test_two_special_tokens_with_one_id_or_text():
    with pytest.raises(ConfigError, match="already the id"):
        spec_of([SpecialToken("<|x|>", 300), SpecialToken("<|y|>", 300)])
    with pytest.raises(FormatError, match="given twice"):
        spec_of([SpecialToken("<|x|>", 300), SpecialToken("<|x|>", 301)])


@pytest.mark.parametrize("text", ["ab", "abĠ", "a", "Ġ"])
def test_a_special_token_named_like_a_learned_one(text):
    """tokenizer.json names tokens by strings, ours by bytes: neither may collide."""
    with pytest.raises(LearnError, match="has the name of the learned token"):
        spec_of([SpecialToken(text, None)])


@pytest.mark.parametrize("pairs", [[[256, 0]], [[64, 65], [257, 0]], [[64, -1]]])
def test_merges_must_follow_from_earlier_ones(pairs):
    with pytest.raises(FormatError, match=f"merge {len(pairs) - 1} is of the ids"):
        LearnedModel(np.array(pairs, np.int32))


def test_no_two_merges_give_the_same_token():
    with pytest.raises(FormatError, match="id 257 is the token b'ab', as is id 256"):
        make_learned_spec(LearnedModel(np.array([[64, 65], [64, 65]], np.int32)), {"name": "gpt2"}, (), ())


@given(models())
@examples(50)
def test_read_is_the_inverse_of_write(model):
    spec = TokenizerSpec(("nfc",), {"regex": r"\S+|\s+"}, model, (SpecialToken("<|é|>", 2**31 - 1, "document_end"),))
    data = spec.to_json_bytes()
    again = TokenizerSpec.from_json_bytes(data, "x")
    assert again == spec
    assert again.to_json_bytes() == data
    assert (again.normalizer, again.pattern, again.special) == (spec.normalizer, spec.pattern, spec.special)
    assert again.model.tokens == spec.model.tokens
    np.testing.assert_array_equal(again.model.ids, spec.model.ids)
    for name in ("left", "right", "result", "priority"):
        np.testing.assert_array_equal(getattr(again.model.merge_table, name), getattr(spec.model.merge_table, name))


def test_counts_of_merges_are_kept_but_are_no_identity():
    spec = spec_of()
    other = spec_of(merges=[merge._replace(count=1) for merge in MERGES])
    assert spec == other
    assert spec.to_json_bytes() != other.to_json_bytes()
    assert TokenizerSpec.from_json_bytes(spec.to_json_bytes(), "x").model.counts == (9, 4, 2**60)


def test_everything_that_decides_ids_is_identity():
    specs = [
        spec_of(),
        spec_of(merges=MERGES[:2]),
        spec_of(pattern={"name": "gpt2"}),
        spec_of(pattern={"regex": "a"}),
        spec_of(normalizer=("nfc",)),
        spec_of(normalizer=("nfc", "lowercase")),
        spec_of([SpecialToken("<|x|>", None)]),
        spec_of([SpecialToken("<|x|>", 300)]),
        spec_of([SpecialToken("<|x|>", None, "padding")]),
    ]
    assert len({spec.fingerprint for spec in specs}) == len(specs)


def test_golden_fingerprint():
    """It may never change: shards name it."""
    content = json.loads(spec_of([SpecialToken("<|x|>", None, "document_end")]).to_json_bytes())
    assert content.pop("fingerprint") == spec_of([SpecialToken("<|x|>", None, "document_end")]).fingerprint
    assert content == {
        "format": "tokcore-tokenizer",
        "format_version": 1,
        "model": {
            "kind": "learned",
            "byte_order": "hf",
            "merges": [[64, 65], [256, 220], [127, 102]],
            "counts": [9, 4, 2**60],
        },
        "normalizer": [],
        "pattern": {"name": "cl100k"},
        "special": [{"text": "<|x|>", "id": 259, "role": "document_end"}],
        "unicode": {"version": unicode.VERSION, "tables_sha256": unicode.TABLES_SHA256},
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"format": "other"}, "format"),
        ({"normalizer": None}, "normalizer is missing"),
        ({"normalizer": "nfc"}, "normalizer: expected a list"),
        ({"normalizer": [1]}, r"normalizer\[0\]: expected str, found 1"),
        ({"surprise": 1}, "unknown field 'surprise'"),
        ({"model.surprise": 1}, "model: unknown field 'surprise'"),
        ({"model.kind": "grammar"}, r"model\.kind: expected one of"),
        ({"model.kind": []}, r"model\.kind: expected one of"),
        ({"model.byte_order": "bytes"}, "byte_order"),
        ({"model.merges": [[64, 300], [256, 220], [127, 102]]}, "merge 0"),
        ({"model.merges": [[64, 256], [256, 220], [127, 102]]}, "merge 0"),
        ({"model.merges": [[64, 65], [64, 65], [127, 102]]}, "as is id 256"),
        ({"model.merges": [[64, -1]]}, "pair of ids"),
        ({"model.merges": [[64, 65, 66]]}, "pair of ids"),
        ({"model.merges": [[64, True]]}, "pair of ids"),
        ({"model.merges": [[64, 2**31]]}, "pair of ids"),
        ({"model.counts": [1]}, "counts"),
        ({"model.counts": [1, 2, -3]}, r"model\.counts\[2\]: expected a count of 64 bits, found -3"),
        ({"special.0.id": 5}, "already an ordinary token"),
        ({"special.0.id": 2**31}, "2147483648"),
        ({"special.0.role": "queen"}, "role"),
        ({"special.0.text": ""}, "empty"),
        ({"pattern": {"name": 1}}, r"pattern\.name: expected str"),
        ({"unicode": []}, "unicode: expected an object"),
    ],
)
def test_what_is_wrong_is_named(changes, expected):
    with pytest.raises(FormatError, match=expected) as raised:
        TokenizerSpec.from_json_bytes(rewritten(changes), "/some/tokcore.json")
    assert "/some/tokcore.json" in str(raised.value)


def rewritten(changes) -> bytes:
    """A tokcore.json with changed fields, by dotted names; None removes one."""
    content = json.loads(spec_of([SpecialToken("<|x|>", None)]).to_json_bytes())
    for key, value in changes.items():
        *path, last = key.split(".")
        inner = content
        for name in path:
            inner = inner[int(name)] if isinstance(inner, list) else inner[name]
        if value is None:
            del inner[last]
        else:
            inner[last] = value
    return write_canonical_json(content)


def test_doubling_merges_do_not_unfold_without_limit():
    merges = [[64, 64]] + [[256 + i, 256 + i] for i in range(60)]
    with pytest.raises(FormatError, match="limits"):
        LearnedModel(np.array(merges, np.int32)).tokens  # noqa: B018


@pytest.mark.parametrize(
    "changes", [{"format_version": 2}, {"unicode.version": "15.0.0"}, {"unicode.tables_sha256": "0"}]
)
def test_other_versions_are_named(changes):
    with pytest.raises(VersionError, match=r"tokcore\.json"):
        TokenizerSpec.from_json_bytes(rewritten(changes), "tokcore.json")


@pytest.mark.parametrize("changes", [{"fingerprint": "0" * 64}, {"normalizer": ["nfc"]}, {"pattern": {"name": "gpt2"}}])
def test_a_changed_file_is_noticed(changes):
    with pytest.raises(ChecksumError, match="it was changed"):
        TokenizerSpec.from_json_bytes(rewritten(changes), "tokcore.json")


def test_only_the_canonical_form_is_read():
    data = spec_of().to_json_bytes()
    for other in (data[:-1], b" " + data, json.dumps(json.loads(data)).encode(), b"[]\n", b"", b"\xff"):
        with pytest.raises(FormatError):
            TokenizerSpec.from_json_bytes(other, "tokcore.json")


def test_imported_models_are_checked():
    tokens = tuple(bytes([byte]) for byte in range(256))
    ids = np.arange(256, dtype=np.int32)
    with pytest.raises(FormatError, match="no token for the byte 0xff"):
        TokenizerSpec((), {"name": "gpt2"}, RanksModel(tokens[:-1], ids[:-1]))
    with pytest.raises(FormatError, match="given twice or out of order"):
        TokenizerSpec((), {"name": "gpt2"}, RanksModel(tokens, ids[::-1].copy()))
    with pytest.raises(FormatError, match="makes no token"):
        TokenizerSpec((), {"name": "gpt2"}, MergesModel(tokens, ids, np.array([[1, 2]], np.int32), False))
    with pytest.raises(FormatError, match="one is no token"):
        TokenizerSpec((), {"name": "gpt2"}, MergesModel(tokens, ids, np.array([[1, 999]], np.int32), False))


def test_byte_order_is_the_learners():
    """The ids of bytes are those that kernel.learn_merges uses."""
    from tokcore.text.texts import make_texts_from_strings

    left, right, _ = kernel.learn_merges(make_texts_from_strings([b"\xc3\xa9"]), np.array([3], np.uint64), 1, 1)
    model = LearnedModel(np.array([[left[0], right[0]]], np.int32))
    assert model.tokens[256] == b"\xc3\xa9"
    assert tokenizer_spec.FORMAT_VERSION == 1


def test_a_file_that_was_checked_before_is_known_by_its_hash():
    spec = spec_of(normalizer=("nfc",))
    data = spec.to_json_bytes()
    again = TokenizerSpec.from_json_bytes(data, "x", hash_sha256(data))
    assert (again, again.fingerprint, again.to_json_bytes()) == (spec, spec.fingerprint, data)
    with pytest.raises(ChecksumError, match="was changed after it was checked"):
        TokenizerSpec.from_json_bytes(data.replace(b"nfc", b"nfd"), "x", hash_sha256(data))
