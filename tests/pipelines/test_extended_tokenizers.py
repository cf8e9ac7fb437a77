"""`learn.extend`: a tokenizer goes on from another one, all of whose ids stay."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from support.builds import SETTINGS, build_file, run, small_corpus, texts, tree
from support.examples import examples

import tokcore
from tokcore import kernel
from tokcore.errors import ConfigError, FormatError
from tokcore.models.bpe import LearnedModel, MergesModel, RanksModel
from tokcore.models.extended_bpe import learn_further, order_by_making, shorten_further
from tokcore.models.model import LearnOptions
from tokcore.text.texts import make_texts_from_strings
from tokcore.tokenizer.tokenizer_spec import FILE_NAME, TokenizerSpec
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_schemas.config import load_config
from tokcore_schemas.stage_table import TOKENIZERS, WHOLE

SPECIAL = '[special]\n"<|end|>" = "document_end"\n"<|pad|>" = "padding"\n'
EXTEND = SETTINGS.replace("vocab_size = 400", 'vocab_size = 400\nextend = "base"')


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus; `base`, learned from it, of 320 tokens, two of them special; `out`, extended from that; and `whole`."""
    folder = tmp_path_factory.mktemp("extended")
    small_corpus(folder)
    base = SETTINGS.replace("400", "320") + SPECIAL
    run(build_file(folder, settings=base, name="base.toml"), folder / "base")
    run(build_file(folder, settings=EXTEND), folder / "out")
    run(build_file(folder, settings=SETTINGS + SPECIAL, name="whole.toml"), folder / "whole")
    return folder


def load(output: Path) -> TokenizerSpec:
    return TokenizerSpec.from_json_bytes((output / "tokenizer" / FILE_NAME).read_bytes(), "tokcore.json")


def test_all_ids_stay_and_further_ones_come_last(corpus):
    base, spec = load(corpus / "base"), load(corpus / "out")
    assert (base.vocab_size, spec.vocab_size) == (320, 400)
    assert spec.special == base.special
    assert [token.id for token in spec.special] == [318, 319]
    assert spec.model.ids.tolist() == [*range(318), *range(320, 400)]
    assert spec.model.tokens[:318] == base.model.tokens
    assert (spec.pattern, spec.normalizer) == (base.pattern, base.normalizer)


def test_the_same_counts_give_the_merges_of_a_larger_vocabulary(corpus):
    assert load(corpus / "out").model.rules() == load(corpus / "whole").model.rules()
    assert load(corpus / "out").model.tokens == load(corpus / "whole").model.tokens


def test_documents_are_cut_as_by_the_larger_vocabulary(corpus):
    extended, whole = (tokcore.Tokenizer.load(corpus / name) for name in ("out", "whole"))
    seen = set()
    for text in texts("en", 30) + texts("hi", 12) + ["Straße <|end|>", ""]:
        ids, theirs = extended.encode(text), whole.encode(text)
        assert [extended.decode([id]) for id in ids] == [whole.decode([id]) for id in theirs]
        assert extended.decode(ids) == text.encode()
        seen.update(ids)
    assert max(seen) >= 320
    totals = [find_manifest(str(corpus / name), WHOLE).totals for name in ("out", "whole")]
    assert totals[0].tokens == totals[1].tokens


def test_the_build_is_sound_and_marks_the_ends_of_documents(corpus):
    assert verify(str(corpus / "out"), decode=None, options=RunOptions(here=True)).problems == ()
    shards = tokcore.open_shards(corpus / "out", split="all")
    assert {int(shards[i][-1]) for i in range(len(shards))} == {318}


def test_other_libraries_read_it(corpus):
    theirs = tokenizers.Tokenizer.from_file(str(corpus / "out" / "tokenizer" / "tokenizer.json"))
    ours = tokcore.Tokenizer.load(corpus / "out")
    for text in texts("en", 10) + texts("ru", 10) + texts("zh", 10):
        assert theirs.encode(text, add_special_tokens=False).ids == list(ours.encode(text))
    assert theirs.token_to_id("<|pad|>") == 319


def test_it_can_be_extended_again(corpus, tmp_path):
    settings = SETTINGS.replace("vocab_size = 400", f'vocab_size = 440\nextend = "{corpus}/out/tokenizer/tokcore.json"')
    run(build_file(corpus, settings=settings, name="again.toml"), tmp_path / "again")
    again, once = load(tmp_path / "again"), load(corpus / "out")
    assert again.model.tokens[: len(once.model.tokens)] == once.model.tokens
    assert again.model.ids.tolist() == [*once.model.ids.tolist(), *range(400, 440)]
    whole = SETTINGS.replace("400", "440") + SPECIAL
    run(build_file(corpus, settings=whole, name="whole440.toml"), tmp_path / "whole")
    assert again.model.rules() == load(tmp_path / "whole").model.rules()


def test_several_sizes(corpus, tmp_path):
    settings = EXTEND.replace("vocab_size = 400", "vocab_size = [400, 360]")
    manifest = run(build_file(corpus, settings=settings, name="sizes.toml"), tmp_path / "out")
    assert manifest.totals.fingerprint == load(corpus / "out").fingerprint
    alone = EXTEND.replace("vocab_size = 400", "vocab_size = 360")
    run(build_file(corpus, settings=alone, name="360.toml"), tmp_path / "360")
    sizes = find_manifest(str(tmp_path / "out"), TOKENIZERS).totals.sizes
    assert sizes["360"].fingerprint == load(tmp_path / "360").fingerprint
    assert verify(str(tmp_path / "out"), decode=None, options=RunOptions(here=True)).problems == ()


def test_it_is_part_of_the_identity(corpus, tmp_path):
    """Not its path: an equal tokenizer elsewhere changes nothing, another one does."""
    shutil.copytree(corpus / "base" / "tokenizer", tmp_path / "elsewhere")
    settings = EXTEND.replace('"base"', f'"{tmp_path}/elsewhere"')
    path = build_file(corpus, settings=settings, name="elsewhere.toml")
    before = tree(corpus / "out")
    run(path, corpus / "out")
    assert tree(corpus / "out") == before
    settings = EXTEND.replace("vocab_size = 400", "vocab_size = 450").replace('"base"', '"whole"')
    with pytest.raises(ConfigError, match=r"learn.extend was \"tokenizer [0-9a-f]{16}\", now \"tokenizer [0-9a-f]{16}"):
        run(build_file(corpus, settings=settings, name="other.toml"), corpus / "out")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (EXTEND.replace("400", "320"), r"vocab_size = 320: the tokenizer that learn.extend names has 320 tokens"),
        (EXTEND + SPECIAL, r"special cannot stand beside learn.extend, whose tokenizer brings its own: remove it"),
        (EXTEND + '[pretokenize]\npattern = "gpt2"\n', "pretokenize cannot stand beside learn.extend"),
        (EXTEND + '[normalize]\nsteps = ["nfc"]\n', "normalize cannot stand beside learn.extend"),
        (
            EXTEND.replace("[learn]", '[learn]\nmodel = "word"'),
            "learn.extend is for bpe, whose merges can go on, and learn.model is word",
        ),
        (EXTEND.replace('"base"', '"nothing"'), "learn.extend = nothing: there is no tokenizer: No such file"),
        (EXTEND.replace('"base"', '"ru.jsonl"'), "learn.extend = ru.jsonl: "),
        (
            EXTEND + '[encode]\nappend = ["<|x|>"]\n',
            r"encode.append: '<\|x\|>' is not a special token of the tokenizer",
        ),
    ],
)
def test_what_cannot_be_extended_is_named(corpus, settings, message):
    with pytest.raises(ConfigError, match=message):
        load_config(str(build_file(corpus, settings=settings, name="wrong.toml")))


def test_another_kind_of_model_is_refused(corpus, tmp_path):
    settings = SETTINGS.replace("[learn]\nvocab_size = 400", '[learn]\nmodel = "byte"')
    Build(load_config(str(build_file(corpus, settings=settings, name="byte.toml"))), RunOptions(1), str(tmp_path)).run()
    path = build_file(corpus, settings=EXTEND.replace('"base"', f'"{tmp_path}"'), name="wrong.toml")
    with pytest.raises(ConfigError, match=r"cannot be extended: learn\.extend needs a byte-level BPE"):
        load_config(str(path))


# --------------------------------------------------------------------------------------------------------- the learner

NATIVE = kernel.list_available()[0]
words = st.lists(st.tuples(st.text("abc ", min_size=1, max_size=12), st.integers(1, 9)), min_size=3, max_size=25).map(
    dict
)


def learn(rows: dict[str, int], num: int) -> LearnedModel:
    pretokens = make_texts_from_strings(rows)
    left, right, _ = kernel.learn_merges(pretokens, np.array([*rows.values()], np.uint64), num, 1)
    return LearnedModel(np.stack([left, right], axis=1))


def extend(model, rows: dict[str, int], num: int, pinned: dict[str, int] | None = None, threads: int = 1):
    pinned = pinned or {}
    size = len(model.tokens) + len(pinned) + num
    options = LearnOptions(vocab_size=size, num_special=len(pinned), min_count=1, pinned=pinned, threads=threads)
    return learn_further(model, make_texts_from_strings(rows), np.array([*rows.values()], np.uint64), options)


@given(words, st.integers(0, 8), st.integers(0, 8))
def test_learning_goes_on_where_it_stopped(rows, first, further):
    extended = extend(learn(rows, first), rows, further)
    assert extended.rules() == learn(rows, first + further).rules()


@examples(40)
@given(words, words, st.integers(0, 8), st.integers(0, 8))
def test_other_counts_the_kernel_and_the_reference(rows, others, first, further):
    base = learn(rows, first)
    pinned = {"<x>": len(base.tokens) + 3}
    extended = extend(base, others, further, pinned, threads=3)
    with kernel.force("reference"):
        slow = extend(base, others, further, pinned)
    assert (extended.tokens, extended.merges.tolist()) == (slow.tokens, slow.merges.tolist())
    assert extended.ids.tolist()[len(base.tokens) :] == [*range(len(base.tokens) + 4, len(extended.tokens) + 4)]
    # What is learned is what encoding does: of the pairs that are left, none is more frequent than was allowed.
    order_by_making(extended)
    for num in range(len(extended.tokens) - len(base.tokens)):
        options = LearnOptions(vocab_size=len(base.tokens) + 1 + num, num_special=1, min_count=1, pinned=pinned)
        shorter = shorten_further(extended, base, options)
        assert shorter.rules() == extend(base, others, num, pinned).rules()


@examples(40)
@given(words, words, st.integers(1, 8))
def test_a_rank_file_can_be_extended(rows, others, first):
    base = learn(rows, first)
    ranks = RanksModel(base.tokens, base.ids)
    assert extend(ranks, others, 5).rules() == extend(base, others, 5).rules()


def test_tokens_that_merges_do_not_make_are_named():
    base = learn({"abab": 5}, 2)
    tokens, ids = (*base.tokens, b"xyz"), np.arange(len(base.tokens) + 1, dtype=np.int32)
    with pytest.raises(FormatError, match=r"token 258, b'xyz', is made by no merge"):
        order_by_making(MergesModel(tokens, ids, base.merges, False))
    # "ab" is merged before "bc" in every text, so "abc" is never made of a and bc.
    tokens = (*base.tokens[:256], b"ab", b"bc", b"abc")
    number = {token: i for i, token in enumerate(tokens)}
    pairs = [(b"a", b"b"), (b"b", b"c"), (b"a", b"bc")]
    merges = np.array([[number[one], number[other]] for one, other in pairs], np.int32)
    with pytest.raises(FormatError, match=r"token 258, b'abc', is not what merges make of its bytes"):
        order_by_making(MergesModel(tokens, np.arange(259, dtype=np.int32), merges, False))


@given(words, st.integers(0, 6), st.integers(2, 9))
def test_limits_are_heeded(rows, first, most):
    base = learn(rows, first)
    pretokens, counts = make_texts_from_strings(rows), np.array([*rows.values()], np.uint64)
    options = LearnOptions(vocab_size=400, min_count=4, max_token_bytes=most)
    extended = learn_further(base, pretokens, counts, options)
    assert max(map(len, extended.tokens[len(base.tokens) :]), default=0) <= most
    with kernel.force("reference"):
        assert learn_further(base, pretokens, counts, options).rules() == extended.rules()


def test_symbols_are_checked():
    def call(symbols, lengths=(1, 1), num=1):
        offsets = np.array([0, len(symbols)], np.int64)
        rules = (np.array([2], np.uint64), np.array(lengths, np.int64), num, 1)
        return kernel.learn_symbol_merges(np.array(symbols, np.uint32), offsets, *rules)

    with kernel.force(NATIVE):
        assert json.dumps([one.tolist() for one in call([0, 1, 0, 1])]) == "[[0], [1], [4]]"
        with pytest.raises(ValueError, match=r"symbols\[1\] = 2: expected one below 2"):
            call([0, 2])
        with pytest.raises(ValueError, match="num_merges = 2147483647: ids are below"):
            call([0, 1], num=2**31 - 1)
