"""tekken.json: ids are those of tiktoken with the file's ranks, after the special tokens."""

from __future__ import annotations

import base64
import dataclasses
import json

import pytest
import tiktoken
from support.json_changes import change_json
from support.vocabularies import ranks, spec_of_merges

from tokcore.errors import FormatError
from tokcore.formats.tokenizers.tekken import describe_left_out, read_tekken, write_tekken
from tokcore.formats.tokenizers.tiktoken import read_split_pattern
from tokcore.text.patterns import PATTERNS
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import SpecialToken

TEXTS = ["", "Straße 2024 naïve", "HTTPServer's don't", "  two\n\n\tlines/\n/", "日本語 한국어", "१२३ 45678", "é" * 300]
FEW = [{"rank": 0, "token_str": "<unk>"}, {"rank": 1, "token_str": "<s>"}, {"rank": 2, "token_str": "[X]"}]


def make_tekken(num_tokens: int = 2000, num_special: int = 40, **changes) -> dict:
    """A tekken.json of the published r50k tokens in another order: the bytes by value, then the merges."""
    longer = [token for token in ranks("r50k") if len(token) > 1]
    tokens = [*(bytes([byte]) for byte in range(256)), *longer[: num_tokens - 256 + 300]]
    content = {
        "config": {
            "pattern": PATTERNS["tekken"],
            "num_vocab_tokens": len(tokens),
            "default_vocab_size": num_tokens + num_special,
            "default_num_special_tokens": num_special,
            "version": "v3",
        },
        "vocab": [
            {"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
            for rank, token in enumerate(tokens)
        ],
    }
    change_json(content, changes)
    return content


def test_ids_are_ranks_after_the_special_tokens(tmp_path):
    content = make_tekken()
    (tmp_path / "tekken.json").write_text(json.dumps(content))
    ours = Tokenizer.load(tmp_path)
    known = {base64.b64decode(one["token_bytes"]): one["rank"] for one in content["vocab"][:2000]}
    theirs = tiktoken.Encoding("t", pat_str=PATTERNS["tekken"], mergeable_ranks=known, special_tokens={})
    for text in TEXTS:
        assert ours.encode(text).tolist() == [40 + rank for rank in theirs.encode_ordinary(text)]
        assert ours.decode(ours.encode(text), "strict") == text
    assert ours.vocab_size == 2040
    assert ours.spec.pattern == {"name": "tekken"}
    assert (ours.bos_id, ours.eos_id, ours.pad_id) == (1, 2, 11)
    assert ours.spec.texts_of("unknown") == ("<unk>",)
    assert ours.id_to_token(3) == "[INST]"
    assert ours.id_to_token(39) == "<SPECIAL_39>"


def test_listed_special_tokens():
    spec = read_tekken(make_tekken(special_tokens=FEW, config__version="v13"), "t")
    assert [token.text for token in spec.special][:5] == ["<unk>", "<s>", "[X]", "<SPECIAL_3>", "<SPECIAL_4>"]
    assert len(spec.special) == 40


def test_another_pattern_is_kept_as_its_text():
    assert read_tekken(make_tekken(config__pattern=r"\p{L}+|\P{L}"), "t").pattern == {"regex": r"\p{L}+|\P{L}"}
    assert read_tekken(make_tekken(config__pattern=PATTERNS["o200k"]), "t").pattern == {"name": "o200k"}
    # $ is before a last line feed for us, and not for the engine that these files are for.
    ends = make_tekken(config__pattern=r"\p{L}+$|\P{L}|\p{L}")
    assert read_tekken(ends, "t").pattern == {"regex": r"\p{L}+(?![\s\S])|\P{L}|\p{L}"}
    assert read_tekken(ends, "t", as_before=True).pattern == {"regex": ends["config"]["pattern"]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config__default_vocab_size": 10**9}, r"vocab: found \d+, and default_vocab_size"),
        ({"config__default_vocab_size": 10**12}, "config.default_vocab_size = 1000000000000"),
        ({"config__default_vocab_size": 100}, "config.default_vocab_size = 100: expected 296 to"),
        ({"config__default_num_special_tokens": -1}, "config.default_num_special_tokens = -1"),
        ({"config__default_num_special_tokens": 10**9}, "config.default_num_special_tokens = 1000000000"),
        ({"config__default_num_special_tokens": True}, "config.default_num_special_tokens = True"),
        ({"config__default_num_special_tokens": 5}, "special_tokens: found 20, and default_num_special_tokens is 5"),
        ({"config__version": "v11"}, "special_tokens is missing: only files up to config.version v7"),
        ({"config__pattern": None}, "config.pattern = None"),
        ({"config__pattern": r"\w+|\W"}, r"config.pattern: '\\\\w' at character 0"),
        ({"vocab": {}}, "vocab: found dict"),
        ({"vocab__7": 7}, r"vocab\[7\].rank: expected 7"),
        ({"vocab__7__rank": 8}, r"vocab\[7\].rank: expected 7"),
        ({"vocab__0__rank": False}, r"vocab\[0\].rank: expected 0"),
        ({"vocab__300__token_bytes": "YQ="}, r"vocab\[300\].token_bytes = 'YQ=': not base64"),
        ({"vocab__300__token_bytes": None}, r"vocab\[300\].token_bytes = None: not base64"),
        ({"vocab__65__token_bytes": "Yg=="}, r"vocab\[65\].token_bytes is b'b'"),
        ({"vocab__300__token_bytes": "YQ=="}, "t: .*b'a'"),
        ({"vocab__300__token_bytes": ""}, "t: "),
        ({"special_tokens": [{"rank": 1, "token_str": "x"}]}, r"special_tokens\[0\].rank: expected 0"),
        ({"special_tokens": [{"rank": 0, "token_str": ""}]}, r"special_tokens\[0\].token_str = ''"),
        ({"special_tokens": [*FEW, {"rank": 3, "token_str": "<s>"}]}, r"special_tokens\[3\].token_str is '<s>', as is"),
        ({"special_tokens": [{"rank": 0, "token_str": "<SPECIAL_9>"}]}, r"special_tokens\[9\].token_str is"),
    ],
)
def test_what_is_wrong_is_named(changes, message):
    with pytest.raises(FormatError, match=message):
        read_tekken(make_tekken(**changes), "t")


# ------------------------------------------------------------------------------------------------------------- written


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", "o200k", "tekken", r"\p{N}{2}|\p{L}+$|[\s\S]"])
def test_what_is_written_gives_the_same_tokens(pattern):
    """By tiktoken, which mistral-common uses, with the ranks and the pattern that the file has; and read again."""
    special = [SpecialToken("</s>", None, "document_end"), SpecialToken("<x>", None)]
    spec = spec_of_merges([(b"t", b"h"), (b"th", b"e"), (b" ", b"the"), (b"\n", b"\n")], {"name": "gpt2"}, [], special)
    ours = Tokenizer(dataclasses.replace(spec, pattern=read_split_pattern(pattern).spec))
    content = json.loads(write_tekken(ours.spec))
    config = content["config"]
    assert config["default_num_special_tokens"] == 2
    assert config["default_vocab_size"] == config["num_vocab_tokens"] + 2 == 262
    known = {base64.b64decode(one["token_bytes"]): one["rank"] for one in content["vocab"]}
    theirs = tiktoken.Encoding("t", pat_str=config["pattern"], mergeable_ranks=known, special_tokens={})
    again = Tokenizer(read_tekken(content, "x"))
    for text in [*TEXTS, "the the\n\n"]:
        tokens = [ours.token_bytes(id) for id in ours.encode(text).tolist()]
        assert [theirs.decode_single_token_bytes(id) for id in theirs.encode_ordinary(text)] == tokens
        assert [again.token_bytes(id) for id in again.encode(text).tolist()] == tokens
        assert again.encode(text).tolist() == [rank + 2 for rank in theirs.encode_ordinary(text)]
    assert [token.text for token in again.spec.special] == ["</s>", "<x>"]
    assert again.eos_id == 0
    assert "special tokens are 0 to 1, in their order, and the bytes 2 to 257" in describe_left_out(ours.spec)
    assert describe_left_out(again.spec) == ""
    assert {one["token_str"] for one in content["vocab"] if one["rank"] >= 128} >= {None, "the", " the"}


def test_what_a_tekken_json_cannot_hold():
    spec = spec_of_merges([], {"name": "gpt2"}, [], [])
    added = (SpecialToken("x y", 300, is_special=False),)
    for changed, message in (
        (dataclasses.replace(spec, normalizer=("nfc",)), "cannot hold the normalizer nfc"),
        (dataclasses.replace(spec, special=added), "'x y' is not special"),
        (dataclasses.replace(spec, pattern=Pretokenizer.named("digits-from-right").spec), "is a list of steps"),
    ):
        with pytest.raises(FormatError, match=message):
            write_tekken(changed)
