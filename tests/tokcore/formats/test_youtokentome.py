"""YouTokenToMe's model files: ids are those of its encoder, which is written down here again, slow and obvious.

Its package does not compile with the Python of today; what it computes is stated in its public source.
"""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from tokcore.errors import FormatError
from tokcore.formats.tokenizers.foreign import read_tokenizer_file, tells_itself
from tokcore.formats.tokenizers.youtokentome import read_youtokentome_model
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec

SPACE = 9601
UNK, PAD, BOS, EOS = 1, 0, 2, 3


def write_model(alphabet: list[str], merges: list[tuple[str, str]]) -> bytes:
    """A model file: characters from id 4 on, then merges."""
    ids = {character: 4 + i for i, character in enumerate(["\u2581", *alphabet])}
    lines = [f"{len(ids)} {len(merges)}", *(f"{ord(character)} {id}" for character, id in ids.items())]
    for left, right in merges:
        ids[left + right] = len(ids) + 4
        lines.append(f"{ids[left]} {ids[right]} {ids[left + right]}")
    return "\n".join([*lines, f"{UNK} {PAD} {BOS} {EOS}", ""]).encode()


def encode_as_theirs(data: bytes, text: bytes) -> list[int]:
    """The ids by the definition: the merge of the lowest rank, the leftmost of several, until there is none."""
    rows = [[*map(int, line.split())] for line in data.decode().splitlines()]
    num_characters, num_merges = rows[0]
    id_of = {chr(code): id for code, id in rows[1 : 1 + num_characters]}
    rules = {(x, y): (rank, z) for rank, (x, y, z) in enumerate(rows[1 + num_characters :][:num_merges])}
    ids: list[int] = []
    for word in re.split("[ \t\n\v\f\r\u2581]+", text.decode(errors="ignore")):
        symbols = [id_of["\u2581"]]
        for character in word:
            known = id_of.get(character, -1)
            if known >= 0 or symbols[-1] >= 0:
                symbols.append(known)
        while True:
            pairs = [(rules[pair][0], i) for i, pair in enumerate(pairwise(symbols)) if pair in rules]
            if not pairs:
                break
            _, at = min(pairs)
            symbols[at : at + 2] = [rules[symbols[at], symbols[at + 1]][1]]
        ids += [UNK if symbol < 0 else symbol for symbol in symbols] if word else []
    return ids


SMALL = write_model(
    ["l", "o", "w", "e", "r", "é", "日"],
    [("l", "o"), ("lo", "w"), ("\u2581", "low"), ("e", "r"), ("\u2581low", "er"), ("日", "日")],
)


def test_words_become_ids_and_text_again():
    ours = Tokenizer(read_youtokentome_model(SMALL, "m.yttm"))
    assert ours.specials == {"<PAD>": 0, "<UNK>": 1, "<BOS>": 2, "<EOS>": 3}
    assert (ours.unk_id, ours.bos_id, ours.eos_id, ours.pad_id) == (1, 2, 3, 0)
    assert ours.encode("  lower low\n").tolist() == [16, 14] == encode_as_theirs(SMALL, b"  lower low\n")
    assert ours.decode([16, 14]) == b"lower low"
    assert ours.decode(ours.encode("low xyz er").tolist()) == b"low <UNK> er"
    assert ours.encode("").tolist() == ours.encode(" \t\u2581").tolist() == []
    assert ours.encode("日\u3000日日").tolist() == encode_as_theirs(SMALL, "日\u3000日日".encode())
    assert TokenizerSpec.from_json_bytes(ours.spec.to_json_bytes(), "x") == ours.spec


def test_the_content_tells_what_it_is(tmp_path):
    assert tells_itself(SMALL)
    assert read_tokenizer_file(SMALL, "any.name") == read_youtokentome_model(SMALL, "m")
    (tmp_path / "m.model").write_bytes(SMALL)
    assert Tokenizer.load(tmp_path / "m.model").encode("low").tolist() == [14]
    assert not tells_itself(b"IQ== 0\nIg== 1\n")


pieces = st.lists(st.sampled_from("abé日▁"), min_size=1, max_size=3).map("".join)
texts = st.lists(
    st.sampled_from([b"a", b"b", "é".encode(), "日".encode(), b" ", b"\n", b"x", b"\xff", "▁".encode(), b"\xe6"]),
    max_size=40,
)


@examples(300)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=14), st.lists(texts.map(b"".join), max_size=5)
)
def test_ids_are_those_of_the_definition(pairs, given_texts):
    """Merges of any earlier tokens, spaces of all kinds, unknown characters, ill-formed bytes."""
    known = ["\u2581", "a", "b", "é", "日"]
    merges = []
    for left, right in pairs:
        pair = known[left % len(known)], known[right % len(known)]
        if "".join(pair) not in known and len("".join(pair)) < 12:
            merges.append(pair)
            known.append("".join(pair))
    data = write_model(["a", "b", "é", "日"], merges)
    ours = Tokenizer(read_youtokentome_model(data, "m"))
    for text in [*given_texts, b" ".join(given_texts) * 4]:
        expected = encode_as_theirs(data, text)
        assert ours.encode(text).tolist() == expected
        assert ours.encode(text).tolist() == expected, "the second time, from the cache"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((b"8 6\n", b"9000000 6\n"), "line 1 says 9000000 characters and 6 merges, and there are 16 lines"),
        ((b"8 6\n", b"8 7\n"), "line 16 is '1 0 2 3': expected 3 numbers"),
        ((b"9601 4\n", b"97 4\n"), "no line gives the character 9601"),
        ((b"108 5\n", b"9601 5\n"), "line 3: 9601 is no code point of a character, or is there twice"),
        ((b"108 5\n", b"1114112 5\n"), "line 3: 1114112 is no code point"),
        ((b"108 5\n", b"108 4\n"), "line 3: the id 4 is given twice"),
        ((b"5 6 12\n", b"5 13 12\n"), "line 10: the id 13 is no character's, nor an earlier merge's"),
        ((b"5 6 12\n", b"5 6 x\n"), "line 10 is '5 6 x': expected 3 numbers"),
        ((b"12 7 13\n", b"5 6 13\n"), "line 11 makes 'lo' with the id 13, and the id 12 has the same text"),
        ((b"1 0 2 3\n", b"-1 0 2 3\n"), "gives unknown text the id -1"),
        ((b"1 0 2 3\n", b"1 0 2 4\n"), "line 16: the id 4 of <EOS> is another token's"),
        ((b"1 0 2 3\n", b""), "line 16 is missing: the file is cut off"),
    ],
)
def test_what_is_wrong_is_named(change, message):
    old, new = change
    assert SMALL.count(old) == 1
    with pytest.raises(FormatError, match=re.escape(message)) as error:
        read_youtokentome_model(SMALL.replace(old, new), "m.yttm")
    assert str(error.value).startswith("m.yttm: ")


def test_a_file_may_lack_special_tokens():
    ours = Tokenizer(read_youtokentome_model(SMALL.replace(b"1 0 2 3\n", b"0 -1 -1 -1\n"), "m"))
    assert ours.specials == {"<UNK>": 0}
    assert ours.encode("?").tolist() == [4, 0]
    assert np.all(np.diff(ours.spec.model.ids) > 0)
