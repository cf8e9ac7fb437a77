"""PathPiece: the fewest tokens, as tokenizers' Unigram of equal scores, of a vocabulary that rounds made smaller."""

from __future__ import annotations

import random
from decimal import Decimal

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.sentencepiece_models import demo_texts

import tokcore
from tokcore import kernel
from tokcore.count.counting import count_pretokens
from tokcore.count.pretoken_tables import read_counts_of_table
from tokcore.errors import ConfigError, FormatError, LearnError
from tokcore.formats.tokenizers.exports import EXPORTS
from tokcore.formats.tokenizers.huggingface import read_tokenizer_json, write_tokenizer_json
from tokcore.models import MODELS
from tokcore.models.model import LearnOptions
from tokcore.models.unigram.pathpiece import PathpieceModel
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.text.texts import Texts, make_texts_from_strings
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import SpecialToken, TokenizerSpec, make_learned_spec

PATHPIECE = MODELS["pathpiece"]
BYTES = tuple(bytes([byte]) for byte in range(256))
ODD = ["", " ", "\n\n", "a" * 3000, "  two  blanks", "日本語😀", "e\u0301", "\x00\x7f", "naïve Straße"]


def make_model(*further: bytes) -> PathpieceModel:
    return PathpieceModel((*BYTES, *further), np.arange(256 + len(further), dtype=np.int32))


def make_spec(model: PathpieceModel) -> TokenizerSpec:
    return make_learned_spec(model, Pretokenizer.named("o200k").spec, (), [SpecialToken("<|end|>", None)])


@pytest.fixture(scope="module")
def table() -> tuple[Texts, np.ndarray]:
    return read_counts_of_table(count_pretokens(demo_texts()[::3], pattern="o200k"))


@pytest.fixture(scope="module")
def learned(table) -> Tokenizer:
    return Tokenizer(make_spec(PATHPIECE.learn(lambda: table, LearnOptions(vocab_size=3001, num_special=1))))


# ------------------------------------------------------------------------------------------------------------ encoding


def cut_by_definition(text: bytes, tokens: set[bytes]) -> list[bytes]:
    """The fewest tokens; of such cuts the one with the longest last token, then the longest before it, and so on."""
    cuts: list[list[list[bytes]]] = [[[]]]
    for end in range(1, len(text) + 1):
        starts = [start for start in range(end) if text[start:end] in tokens]
        cuts.append([[*cut, text[start:end]] for start in starts for cut in cuts[start]])
    return min(cuts[-1], key=lambda cut: (len(cut), [-len(token) for token in reversed(cut)]))


letters = st.sampled_from([b"a", b"b", b"\xe6"])
words = st.lists(letters, max_size=9).map(b"".join)
longer = st.lists(letters, min_size=2, max_size=5).map(b"".join)


@examples(200)
@given(st.lists(longer, unique=True, max_size=12), words)
def test_the_cut_is_that_of_the_definition(further, text):
    model = make_model(*further)
    texts = make_texts_from_strings([text])
    ends, firsts = np.array([len(text)] * bool(text), np.int64), np.array([0, bool(text)], np.int64)
    for name in ("portable", "reference"):
        with kernel.force(name):
            ids = model.encoder(None, 0).encode_pieces(texts, ends, firsts)[0]
        assert [model.tokens[id] for id in ids.tolist()] == cut_by_definition(text, set(model.tokens))


def test_ids_are_those_of_tokenizers_for_thousands_of_texts_and_vocabularies():
    chance = random.Random(50)
    for _ in range(150):
        alphabet = "".join(chance.sample("ab e\u0301ñ的ж😀1.\n", chance.randint(2, 6)))

        def draw(most: int, letters: str = alphabet) -> str:
            return "".join(chance.choices(letters, k=chance.randint(0, most)))

        parts = {part.encode() for part in (draw(5) for _ in range(chance.randint(1, 40)))}
        # Some are parts of characters.
        parts |= {part[1:] for part in parts if chance.random() < 0.2}
        spec = make_spec(make_model(*sorted(part for part in parts if len(part) > 1)))
        theirs = tokenizers.Tokenizer.from_str(write_tokenizer_json(spec).decode())
        texts = [draw(40) for _ in range(40)]
        ours = Tokenizer(spec).encode_batch(texts).to_pylist()
        assert ours == [one.ids for one in theirs.encode_batch(texts, add_special_tokens=False)]


def test_a_learned_one_has_their_ids_and_comes_back(learned):
    data = write_tokenizer_json(learned.spec)
    theirs = tokenizers.Tokenizer.from_str(data.decode())
    texts = [*demo_texts()[1::3], *ODD]
    ours = learned.encode_batch(texts, threads=2).to_pylist()
    assert ours == [one.ids for one in theirs.encode_batch(texts, add_special_tokens=False)]
    assert [learned.decode(ids, "strict") for ids in ours] == texts
    assert read_tokenizer_json(data, "again") == learned.spec
    assert TokenizerSpec.from_json_bytes(learned.spec.to_json_bytes(), "x") == learned.spec


def test_transformers_loads_its_files(learned, tmp_path):
    from transformers import AutoTokenizer

    for name, data in EXPORTS["huggingface"].files(learned.spec):
        (tmp_path / name).write_bytes(data)
    theirs = AutoTokenizer.from_pretrained(str(tmp_path))
    texts = demo_texts()[1::9]
    assert theirs(texts, add_special_tokens=False)["input_ids"] == learned.encode_batch(texts).to_pylist()
    assert theirs.decode(learned.encode(texts[0]).tolist()) == texts[0]


def test_other_scores_are_another_model(learned):
    data = write_tokenizer_json(learned.spec).replace(b"-1.0", b"-1.5", 1)
    again = read_tokenizer_json(data, "changed")
    assert (again.model.kind, learned.spec.model.kind) == ("unigram-bytes", "pathpiece")
    assert again.model.tokens == learned.spec.model.tokens


# ------------------------------------------------------------------------------------------------------------ learning


@examples(150)
@given(
    st.lists(longer, unique=True, max_size=14),
    st.lists(st.tuples(words, st.integers(0, 9)), max_size=7),
    st.integers(0, 14),
    st.randoms(use_true_random=False),
)
def test_the_kernel_drops_what_its_slow_twin_drops(further, rows, num_longer, chance):
    """Also tokens that a word holds twice, and equal losses, whatever the order of rows and the number of threads."""
    tokens = [*BYTES, *further]
    chance.shuffle(tokens)
    given_tokens, num = make_texts_from_strings(tokens), 256 + num_longer
    rows += [(b"abab" * 3, 2)]

    def drop(some: list[tuple[bytes, int]], threads: int) -> list[int]:
        counts = np.array([count for _, count in some], np.uint64)
        return kernel.drop_least_needed(
            make_texts_from_strings([word for word, _ in some]), counts, given_tokens, num, threads
        ).tolist()

    with kernel.force("reference"):
        expected = drop(rows, 1)
    assert len(expected) == min(num, len(tokens))
    assert drop(rows, 1) == expected
    cut = [(word, part) for word, count in rows for part in (count // 3, count - count // 3)]
    chance.shuffle(cut)
    assert drop(cut, 3) == expected


def test_what_a_token_is_worth_is_counted_over_whole_words():
    """Of ab, abc, bc and bcd, bc goes first, as no cut has it, then ab (6), as "abc" does without; bcd now costs 8."""
    model = PATHPIECE.learn(
        lambda: (make_texts_from_strings(["abc", "bcd", "ab"]), np.array([9, 4, 6], np.uint64)),
        LearnOptions(vocab_size=257, min_count=1, superset=Decimal("1.02")),
    )
    assert model.tokens[256:] == (b"abc",)


def list_dropped(tokens: str, words: dict[str, int], num: int) -> list[str]:
    """Those of a few tokens that a vocabulary of num longer ones has no more."""
    longer = tokens.split()
    counts = np.array([*words.values()], np.uint64)
    every = make_texts_from_strings([*BYTES, *longer])
    kept = kernel.drop_least_needed(make_texts_from_strings([*words]), counts, every, 256 + num)
    return [token for place, token in enumerate(longer) if place + 256 not in kept]


def test_another_token_may_begin_where_the_dropped_one_did():
    """Without "ab", "abcd" is "abc" and "d": no loss, as for "cd" and "abc", and "ab" is the last of these."""
    assert list_dropped("cd abc ab xy", {"abcd": 5, "xy": 1}, 3) == ["ab"]
    assert list_dropped("cd ab abc xy", {"abcd": 5, "xy": 1}, 3) == ["abc"]


def test_a_loss_is_of_tokens_not_of_words():
    """Without "abcd", five words take three tokens more each; without "xy", nine take one more each."""
    assert list_dropped("abcd xy", {"abcd": 5, "xy": 9}, 1) == ["xy"]


def test_a_quarter_goes_before_losses_are_computed_again():
    """Three of twelve have no loss, "abc" among them. Without it "ab" and "cd" cost 9, so the fourth is another one."""
    fillers = {f"{letter}!": count for count, letter in enumerate("klmnopq", 2)}
    tokens = " ".join(["cd", "ab", "abc", *fillers, "y!", "z!"])
    words = {"abcd": 9, **fillers}
    assert list_dropped(tokens, words, 9) == ["abc", "y!", "z!"]
    assert list_dropped(tokens, words, 8) == ["abc", "k!", "y!", "z!"]
    assert list_dropped(tokens, words, 0) == tokens.split()


def test_it_is_what_remains_of_a_larger_bpe(table, learned):
    model = learned.spec.model
    larger = MODELS["bpe"].learn(lambda: table, LearnOptions(vocab_size=6000)).tokens
    assert (len(model.tokens), model.summary) == (3000, "256 bytes, 2744 longer tokens")
    assert [token for token in larger if token in set(model.tokens)] == [*model.tokens]
    assert model.tokens[:256] == larger[:256]
    # It spells the text that it was learned from in fewer tokens than BPE of its size does.
    bpe = Tokenizer(make_spec(MODELS["bpe"].learn(lambda: table, LearnOptions(vocab_size=3000))))
    texts = demo_texts()[::3]
    assert len(learned.encode_batch(texts).values) < 0.98 * len(bpe.encode_batch(texts).values)


@pytest.mark.parametrize("superset", ["1", "1.5", "3"])
def test_superset_says_how_much_larger(table, superset):
    options = LearnOptions(vocab_size=1000, superset=Decimal(superset))
    model = PATHPIECE.learn(lambda: table, options)
    larger = MODELS["bpe"].learn(lambda: table, LearnOptions(vocab_size=int(1000 * float(superset)))).tokens
    assert PATHPIECE.count_merges(options) == len(larger) - 256
    assert len(model.tokens) == 1000
    assert set(model.tokens) <= set(larger)
    assert (model.tokens == larger) is (superset == "1")


def test_a_table_that_gives_less_gives_all_of_it():
    rows = make_texts_from_strings(["abc"]), np.array([9], np.uint64)
    assert PATHPIECE.learn(lambda: rows, LearnOptions(vocab_size=300)).tokens[256:] == (b"ab", b"abc")


def test_train_learns_it():
    texts = demo_texts()[::9]
    one, two = (tokcore.Tokenizer.train(texts, vocab_size=800, model="pathpiece", threads=n) for n in (1, 2))
    assert one.spec == two.spec
    assert one.spec.model.kind == "pathpiece"
    less = tokcore.Tokenizer.train(texts, vocab_size=800, model="pathpiece", superset=1, mix={"strategy": "natural"})
    assert less.vocab_size == 800
    with pytest.raises(ConfigError, match=r"superset = 0\.5: must be at least 1"):
        tokcore.Tokenizer.train(texts, vocab_size=800, model="pathpiece", superset="0.5")


# ------------------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize("to", ["tiktoken", "gpt2", "tekken"])
def test_files_of_merges_cannot_hold_it(learned, to):
    with pytest.raises(FormatError, match="fewest tokens that spell a pre-token: no merges give the same ids"):
        EXPORTS[to].files(learned.spec)


def test_what_cannot_be_is_refused():
    with pytest.raises(FormatError, match="the byte 0x00 is no token"):
        PathpieceModel((b"a",), np.array([0], np.int32))
    rows, one = make_texts_from_strings([b"ab"]), np.array([1], np.uint64)
    for tokens, message in [
        (BYTES[:-1], "expected each of the 256 bytes"),
        ((*BYTES, b""), "one is empty"),
        ((*BYTES, b"ab", b"ab"), "one is there twice"),
    ]:
        with pytest.raises(ValueError, match=message):
            kernel.drop_least_needed(rows, one, make_texts_from_strings(tokens), 256)
    with pytest.raises(ValueError, match="threads = 0"):
        kernel.drop_least_needed(rows, one, make_texts_from_strings(BYTES), 256, 0)
    with pytest.raises(OverflowError, match=r"more than 2\*\*63 - 1"):
        kernel.drop_least_needed(rows, one << np.uint64(62), make_texts_from_strings(BYTES), 256)
    with pytest.raises(LearnError, match="too large"):
        PATHPIECE.learn(lambda: (rows, one << np.uint64(62)), LearnOptions(vocab_size=300))
