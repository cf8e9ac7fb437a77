"""Legal tokenizer.json files of any shape, as drawn: ids are those of `tokenizers`, and so are those of our exports."""

from __future__ import annotations

import json
import warnings

import pytest
import tokenizers
from hypothesis import assume, given
from hypothesis import strategies as st
from support.examples import examples
from support.published_shapes import byte_level, split

from tokcore import kernel
from tokcore.errors import FormatError
from tokcore.formats.tokenizers.huggingface import read_tokenizer_json, write_tokenizer_json
from tokcore.models.symbol_bpe import find_symbol_bpe
from tokcore.text.byte_alphabet import to_printable
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec

SPACE = "▁"
CHARACTERS = ["a", "b", "c", " ", "é", "A", "1", "2", "字", "\u0301", "\u200b", "-", "\n"]
ADDED = ["<s>", "ab", "  ", "é", "c<s>", "\n\n", "bé", "1"]
text_of = st.lists(st.sampled_from([*CHARACTERS, *ADDED, "abab", " a", SPACE]), max_size=20).map("".join)
flag = st.booleans()


@st.composite
def bpe_models(draw, is_of_bytes: bool) -> dict:
    """A model of a few symbols and merges of them; of bytes, by their printable names."""
    prefix, suffix = draw(st.sampled_from(["", "", "##"])), draw(st.sampled_from(["", "", "</w>"]))
    spells_bytes = not (prefix or suffix) and draw(flag)
    known = draw(st.lists(st.sampled_from(CHARACTERS), min_size=1, max_size=8, unique=True))
    bare = [to_printable(bytes([byte])) for c in known for byte in c.encode()] if is_of_bytes else known
    symbols = [*dict.fromkeys(before + c + after for c in bare for before in {"", prefix} for after in {"", suffix})]
    merges: list[list[str]] = []
    for _ in range(draw(st.integers(0, 8))):
        left, right = draw(st.sampled_from(symbols)), draw(st.sampled_from(symbols))
        if (suffix and left.endswith(suffix)) or not right.startswith(prefix):
            continue
        merges.append([left, right])
        symbols = [*dict.fromkeys([*symbols, left + right[len(prefix) :]])]
    if spells_bytes:
        symbols += [f"<0x{byte:02X}>" for byte in range(256) if byte % 7 or draw(st.just(True))]
        symbols = symbols[: len(symbols) - draw(st.sampled_from([0, 0, 100]))]
        merges = [merge for merge in merges if "".join(merge) in symbols and {*merge} <= {*symbols}]
    has_unknown = draw(flag)
    vocab = {text: id for id, text in enumerate([*(["<unk>"] if has_unknown else []), *symbols])}
    options = {"continuing_subword_prefix": prefix or None, "end_of_word_suffix": suffix or None}
    options |= {"byte_fallback": spells_bytes, "fuse_unk": draw(flag), "ignore_merges": draw(flag), "dropout": None}
    unknown = {"unk_token": "<unk>" if has_unknown else None}
    return {"type": "BPE", **options, **unknown, "vocab": vocab, "merges": merges}


behaviors = st.sampled_from(["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"])
pre_tokenizers = st.lists(
    st.one_of(
        st.builds(split, st.sampled_from([r"\s+", r"\p{L}+", r"\w+", r"[\p{L}&&[^\p{Han}]]+"]), behaviors, flag),
        st.builds(
            lambda text, *how: split(text, *how, kind="String"), st.sampled_from([" ", "a", "ab"]), behaviors, flag
        ),
        st.builds(lambda behavior: {"type": "Punctuation", "behavior": behavior}, behaviors),
        st.sampled_from(
            [{"type": kind} for kind in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer", "UnicodeScripts")]
            + [{"type": "CharDelimiterSplit", "delimiter": "a"}, {"type": "FixedLength", "length": 3}]
        ),
        st.builds(lambda alone: {"type": "Digits", "individual_digits": alone}, flag),
        st.builds(
            lambda scheme, splits: {
                "type": "Metaspace",
                "replacement": SPACE,
                "prepend_scheme": scheme,
                "split": splits,
            },
            st.sampled_from(["always", "never"]),
            flag,
        ),
    ),
    max_size=2,
)
normalizers = st.lists(
    st.sampled_from(
        [
            *({"type": form} for form in ("NFC", "NFD", "NFKC", "NFKD", "Nmt")),
            {"type": "Lowercase"},
            {"type": "StripAccents"},
            {"type": "Strip", "strip_left": True, "strip_right": True},
            {"type": "Strip", "strip_left": False, "strip_right": True},
            {"type": "Replace", "pattern": {"String": " "}, "content": SPACE},
            {"type": "Replace", "pattern": {"Regex": "b+"}, "content": "a"},
            {"type": "Prepend", "prepend": SPACE},
            {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None}
            | {"lowercase": True},
        ]
    ),
    max_size=2,
)


@st.composite
def added_tokens(draw, vocab: dict) -> list[dict]:
    """Some of ADDED, with any flags; those of one kind are different once they are normalized."""
    chosen = draw(st.lists(st.sampled_from(ADDED), max_size=3, unique=True))
    listed = [{"content": "<unk>", "special": True}] if "<unk>" in vocab else []
    for text in chosen:
        flags = {name: draw(flag) for name in ("single_word", "lstrip", "rstrip", "normalized", "special")}
        flags["special"] &= text not in vocab  # merges may be of it
        listed.append({"content": text, **flags})
    next_id = len(vocab)
    for token in listed:
        token["id"] = vocab.get(token["content"], next_id)
        next_id += token["content"] not in vocab
        for name in ("single_word", "lstrip", "rstrip", "normalized"):
            token.setdefault(name, False)
    return sorted(listed, key=lambda token: token["id"])


@st.composite
def files(draw) -> dict:
    is_of_bytes = draw(flag)
    steps = draw(pre_tokenizers)
    if is_of_bytes:
        steps = [*steps, byte_level(prefix=draw(flag), splits=draw(flag))]
    model = draw(bpe_models(is_of_bytes))
    listed = draw(normalizers)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": draw(added_tokens(model["vocab"])),
        "normalizer": {"type": "Sequence", "normalizers": listed} if listed else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps} if steps else None,
        "post_processor": None,
        "decoder": None,
        "model": model,
    }


def is_refused(content: dict, theirs: tokenizers.Tokenizer) -> bool:
    """Whether it is one of the few files that we do not follow: tokcore/README.md names them."""
    model, added = content["model"], content["added_tokens"]
    steps = (content["pre_tokenizer"] or {}).get("pretokenizers", [])
    all_bytes = {to_printable(bytes([byte])) for byte in range(256)}
    lacks_bytes = any(step["type"] == "ByteLevel" for step in steps) and not {*model["vocab"]} >= all_bytes
    strips = {one["normalized"] for one in added if one["rstrip"]}
    normalize = theirs.normalizer.normalize_str if theirs.normalizer else str
    forms = [normalize(one["content"]) for one in added if one["normalized"]]
    if "" in forms or len({*forms}) < len(forms):
        return True
    return (lacks_bytes and model["byte_fallback"]) or any(
        one["content"][0].isspace() and one["normalized"] in strips for one in added
    )


REFUSALS = r"which both would take|all 256|bytes are missing|is empty once|as another one does"


def encode(tokenizer: tokenizers.Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False).ids


@given(files(), st.lists(text_of, min_size=1, max_size=4))
@examples(300)
def test_any_legal_file_gives_its_ids(content, texts):
    theirs = tokenizers.Tokenizer.from_str(json.dumps(content))
    if is_refused(content, theirs):
        with pytest.raises(
            FormatError, match=r"which both would take|all 256|bytes are missing|is empty once|as another one does"
        ):
            read_tokenizer_json(json.dumps(content).encode(), "x")
        return
    ours = Tokenizer(read_tokenizer_json(json.dumps(content).encode(), "x"))
    exported = write_tokenizer_json(ours.spec)
    again = tokenizers.Tokenizer.from_str(exported.decode())
    assert read_tokenizer_json(exported, "again") == ours.spec
    assert TokenizerSpec.from_json_bytes(ours.spec.to_json_bytes(), "ours") == ours.spec
    for text in texts:
        expected = encode(theirs, text)
        assert ours.encode(text, "all").tolist() == expected
        assert encode(again, text) == expected


@given(bpe_models(False), text_of)
@examples(100)
def test_the_kernel_is_its_slow_twin(model, text):
    content = {"model": model, "added_tokens": [], "pre_tokenizer": {"type": "Metaspace"}}
    try:
        spec = read_tokenizer_json(json.dumps(content).encode(), "x")
    except FormatError:
        assume(False)
    assume(find_symbol_bpe(spec.model) is not None)
    fast = Tokenizer(spec).encode(text * 9)
    with kernel.force("reference"):
        assert Tokenizer(spec).encode(text * 9).tolist() == fast.tolist()


def make_small(**options) -> dict:
    vocab = {"<unk>": 0, "l": 1, "o": 2, "w</w>": 3, "lo": 4, "low</w>": 5}
    model = {"type": "BPE", "vocab": vocab, "merges": [["l", "o"], ["lo", "w</w>"]], "unk_token": "<unk>"}
    model |= {"end_of_word_suffix": "</w>"} | options
    return {"model": model, "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}}


def test_an_added_token_that_merges_make_of_a_part_with_a_prefix():
    """The generator found it: the prefix was taken for a part of the name."""
    model = {"type": "BPE", "vocab": {"a": 0, "##b": 1, "ab": 2}, "merges": [["a", "##b"]]}
    model |= {"continuing_subword_prefix": "##"}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    content = {"version": "1.0", "model": model, "added_tokens": [{"id": 2, "content": "ab", **flags}]}
    data = json.dumps(content)
    theirs = tokenizers.Tokenizer.from_str(data)
    ours = Tokenizer(read_tokenizer_json(data.encode(), "x"))
    for text in ("ab", "aab", "abb", "b"):
        assert ours.encode(text, "all").tolist() == encode(theirs, text)


def test_words_that_end():
    ours = Tokenizer(read_tokenizer_json(json.dumps(make_small()).encode(), "x"))
    assert ours.encode("low lo xw").tolist() == [5, 1, 0, 0, 3]
    assert ours.decode([5, 4, 3]) == b"low low"
    assert [ours.stream_decoder().feed(5), ours.spec.model.sizes.tolist()] == ["low ", [1, 1, 1, 2, 3]]
    assert [one.id for one in ours.spec.model.unreachable(None)] == []
    with pytest.raises(FormatError, match="no merges of bytes give the same ids"):
        ours.spec.model.as_bpe()


def test_dropout_of_a_file_is_said_to_be_left_out():
    with pytest.warns(UserWarning, match=r"model.dropout = 0.5: ids are those without it"):
        spec = read_tokenizer_json(json.dumps(make_small(dropout=0.5)).encode(), "x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_tokenizer_json(json.dumps(make_small()).encode(), "x") == spec


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"merges": [["l", "w</w>"]]}, "makes 'lw</w>', which is no token"),
        ({"merges": [["l", "x"]]}, r"model.merges\[0\] = \['l', 'x'\]: expected two ordinary tokens"),
        ({"unk_token": "x"}, "model.vocab has no 'x'"),
        ({"vocab": {"a": -1}}, "token 'a' has the id -1"),
        ({"byte_fallback": True}, "byte_fallback together with"),
        ({"continuing_subword_prefix": "é"}, "is not ASCII"),
    ],
)
def test_what_is_wrong_is_named(options, message):
    with pytest.raises(FormatError, match=message):
        read_tokenizer_json(json.dumps(make_small(**options)).encode(), "x")
