"""TokcoreTokenizer does what PreTrainedTokenizerFast does with the same files: a table of behaviours by tokenizers.

So does a Tokenizer of this library, called, as far as it takes the same arguments.
"""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.builds import texts
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

import tokcore
from tokcore.errors import ConfigError
from tokcore.transformers import TokcoreTokenizer

CORPUS = [text for lang in ("en", "ru", "zh", "hi") for text in texts(lang, 12)]
SPECIAL = {"<|begin|>": "document_begin", "<|end|>": "document_end", "<|pad|>": "padding", "<|mask|>": "mask"}
CHAT = "{% for one in messages %}<|begin|>{{ one.role }}: {{ one.content }}<|end|>{% endfor %}"
TEXTS = [
    *CORPUS[::9],
    *("", " ", "  two  spaces ", "one", "é e\u0301 ß 你好 👩‍👩‍👧", "tabs\tand\nlines\r\n", "Ünïcödé", "don't we'll"),
    *("a<|end|>b <|mask|> c", "<|end|>", "[SEP] here", "x<|pad|>"),
]
Edit = Callable[[dict[str, Any]], None]


def _template(content: dict[str, Any]) -> dict[str, Any]:
    ids = {token["content"]: token["id"] for token in content["added_tokens"]}
    special = {text: {"id": text, "ids": [ids[text]], "tokens": [text]} for text in ("<|begin|>", "<|end|>")}

    def piece(text: str, type_id: int = 0) -> dict[str, Any]:
        kind = "Sequence" if text in "AB" else "SpecialToken"
        return {kind: {"id": text, "type_id": type_id}}

    single = [piece("<|begin|>"), piece("A")]
    pair = [*single, piece("<|end|>", 1), piece("B", 1), piece("<|end|>", 1)]
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special}


def _put_template(content: dict[str, Any]) -> None:
    content["post_processor"] = _template(content)


def _put_llama(content: dict[str, Any]) -> None:
    trim = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    content["post_processor"] = {"type": "Sequence", "processors": [trim, _template(content)]}


def _put_roberta(content: dict[str, Any]) -> None:
    ids = {token["content"]: token["id"] for token in content["added_tokens"]}
    next(token for token in content["added_tokens"] if token["content"] == "<|mask|>")["lstrip"] = True
    content["post_processor"] = {
        "type": "RobertaProcessing",
        "sep": ["<|end|>", ids["<|end|>"]],
        "cls": ["<|begin|>", ids["<|begin|>"]],
        "trim_offsets": True,
        "add_prefix_space": True,
    }


# Name -> settings of learning, the export, and what is changed in its tokenizer.json.
MADE: dict[str, tuple[dict[str, Any], str, Edit | None]] = {
    "bpe": ({"vocab_size": 500, "special": SPECIAL}, "huggingface", None),
    "nfc": ({"vocab_size": 500, "special": SPECIAL, "normalizer": ["nfc"]}, "huggingface", _put_template),
    "llama": ({"vocab_size": 400, "special": SPECIAL, "pattern": "llama3"}, "huggingface", _put_llama),
    "roberta": ({"vocab_size": 450, "special": SPECIAL, "pattern": "gpt2"}, "huggingface", _put_roberta),
    "bert": ({"model": "wordpiece", "vocab_size": 190}, "bert", None),
    "t5": ({"model": "unigram", "vocab_size": 450}, "huggingface", None),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    for name, (settings, to, edit) in MADE.items():
        folder = made[name] = tmp_path_factory.mktemp(name)
        tokcore.Tokenizer.train(CORPUS, **settings).export(to, folder)
        if edit is not None:
            file = folder / "tokenizer.json"
            content = json.loads(file.read_text())
            edit(content)
            file.write_text(json.dumps(content))
        config = json.loads((folder / "tokenizer_config.json").read_text())
        config |= {"model_max_length": 12, "chat_template": CHAT}
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return made


def _add(tokenizer: Any) -> Any:
    tokenizer("a newtoken")  # it is known from now on, and changes
    tokenizer.add_tokens(["newtoken", "zwei"])
    tokenizer.add_special_tokens({"pad_token": "<new pad>"})
    return [len(tokenizer), tokenizer("a newtoken zwei<new pad>", "x"), tokenizer(["a", "b c"], padding=True)]


def _begin_and_end(tokenizer: Any) -> Any:
    tokenizer.add_eos_token = True
    return tokenizer(TEXTS), tokenizer("a", "b")


def _change_backend(tokenizer: Any) -> Any:
    from tokenizers import normalizers

    before = tokenizer("ABC abc")
    tokenizer.backend_tokenizer.normalizer = normalizers.Lowercase()
    return before, tokenizer("ABC abc")


def _left(tokenizer: Any) -> Any:
    tokenizer.padding_side = tokenizer.truncation_side = "left"
    return tokenizer(TEXTS, padding=True, truncation=True, max_length=7, return_offsets_mapping=True)


def _look(batch: Any) -> Any:
    words = [batch.word_ids(i) for i in range(len(TEXTS))]
    return [batch.tokens(3), words, batch.sequence_ids(5), batch.char_to_token(4, 1), batch[4].offsets, batch.is_fast]


def _save(tokenizer: Any, folder: Path) -> Any:
    tokenizer.add_tokens(["later"])
    tokenizer.save_pretrained(folder)
    loaded = AutoTokenizer.from_pretrained(folder)
    again = type(tokenizer).from_pretrained(folder)
    files = {path.name: path.read_text() for path in folder.iterdir()}
    return files["tokenizer.json"], loaded("later on <|end|>"), again("later on <|end|>"), again.chat_template


CHATS = [{"role": "user", "content": "hello there"}, {"role": "assistant", "content": "good day"}]
IDS = [[70, 71, 260, 4, 255], [1], [], [300, 2, 80]]
PAIRS = {"text": TEXTS, "text_pair": TEXTS[::-1]}

# Behaviour -> what a tokenizer gives.
BEHAVIOURS: dict[str, Callable[[Any], Any]] = {
    "one text": lambda t: [t(text) for text in TEXTS],
    "several": lambda t: t(TEXTS),
    "a tuple of texts": lambda t: t(tuple(TEXTS)),
    "encode": lambda t: [t.encode(text) for text in TEXTS],
    "tokenize": lambda t: [t.tokenize(text) for text in TEXTS],
    "without special tokens": lambda t: t(TEXTS, add_special_tokens=False),
    "special text as text": lambda t: t(TEXTS, split_special_tokens=True),
    "padding": lambda t: t(TEXTS, padding=True),
    "padding to a length": lambda t: t(TEXTS, padding="max_length", max_length=9),
    "padding to the model's length": lambda t: t(TEXTS, padding="max_length"),
    "padding to a multiple": lambda t: t(TEXTS, padding=True, pad_to_multiple_of=8),
    "padding on the left": lambda t: t(TEXTS, padding=True, padding_side="left"),
    "truncation": lambda t: t(TEXTS, truncation=True),
    "truncation to a length": lambda t: [t(TEXTS, truncation=True, max_length=length) for length in (4, 5, 30)],
    "max_length alone": lambda t: t(TEXTS, max_length=6),
    "only_first of one": lambda t: t(TEXTS[:2], truncation="only_first", max_length=6),
    "both on the left": _left,
    "arrays": lambda t: t(TEXTS, padding=True, truncation=True, return_tensors="np"),
    "an array of one": lambda t: t("one text", return_tensors="np"),
    "ragged arrays": lambda t: t(TEXTS, return_tensors="np"),
    "all that may be returned": lambda t: t(
        TEXTS,
        padding=True,
        return_token_type_ids=True,
        return_special_tokens_mask=True,
        return_offsets_mapping=True,
        return_length=True,
    ),
    "all of one": lambda t: t(
        "a<|end|> b", return_special_tokens_mask=True, return_length=True, return_token_type_ids=True
    ),
    "no masks": lambda t: t(TEXTS, return_attention_mask=False),
    "offsets": lambda t: [t(text, return_offsets_mapping=True) for text in TEXTS],
    "pairs": lambda t: t(**PAIRS, return_token_type_ids=True, return_offsets_mapping=True, padding=True),
    "one pair": lambda t: [t("a b", "c"), t("a", ""), t("", "b")],
    "pairs without special tokens": lambda t: t(**PAIRS, add_special_tokens=False, return_token_type_ids=True),
    "pairs cut": lambda t: [t(**PAIRS, truncation=True, max_length=length) for length in (4, 5, 6, 9, 10, 11, 40)],
    "only_first": lambda t: t("a b c d e f g", "x y", truncation="only_first", max_length=9),
    "only_second": lambda t: t("a b", "c d e f g h i", truncation="only_second", max_length=9),
    "only_second too short": lambda t: t("a b c d e f g h i j k", "c", truncation="only_second", max_length=5),
    "a length below the special tokens": lambda t: t("a", "b", truncation=True, max_length=1),
    "an odd multiple": lambda t: t(TEXTS, padding=True, truncation=True, max_length=9, pad_to_multiple_of=2),
    "an unknown padding": lambda t: t(TEXTS, padding="shortest"),
    "tokens that overflow": lambda t: t(TEXTS, truncation=True, max_length=5, stride=1, return_overflowing_tokens=True),
    "words": lambda t: t([["two", "words"], ["one"]], is_split_into_words=True),
    "pairs in a list": lambda t: t([("a", "b"), ("c", "d e")]),
    "target": lambda t: t("a b", text_target="c"),
    "no text": lambda t: t([]),
    "bytes": lambda t: t([b"a"]),
    "half a character": lambda t: t("\ud800"),
    "encodings": lambda t: _look(t(TEXTS)),
    "decode": lambda t: [t.decode(ids) for ids in IDS],
    "decode one": lambda t: [t.decode(70), t.decode(np.array([70, 71])), t.decode([70, 10**6])],
    "batch_decode": lambda t: t.batch_decode(IDS),
    "round trip": lambda t: t.batch_decode(t(TEXTS)["input_ids"], skip_special_tokens=True),
    "round trip with special tokens": lambda t: t.batch_decode(t(TEXTS, padding=True)["input_ids"]),
    "clean up": lambda t: t.batch_decode(t(TEXTS)["input_ids"], clean_up_tokenization_spaces=True),
    "special tokens": lambda t: [
        *(t.special_tokens_map, t.all_special_ids, t.eos_token_id, t.bos_token, t.pad_token_id, t.mask_token_id),
        *(t.unk_token, t.num_special_tokens_to_add(), t.num_special_tokens_to_add(pair=True)),
    ],
    "vocabulary": lambda t: [len(t), t.vocab_size, t.get_vocab(), t.convert_ids_to_tokens(IDS[0]), t.is_fast],
    "tokens and ids": lambda t: [t.convert_tokens_to_ids(["<|end|>", "e"]), t.convert_tokens_to_string(["e", "n"])],
    "pad": lambda t: t.pad({"input_ids": IDS}, padding=True, return_tensors="np"),
    "chat": lambda t: t.apply_chat_template(CHATS, tokenize=False),
    "chat ids": lambda t: t.apply_chat_template([CHATS, CHATS[:1]], padding=True, return_dict=True),
    "added tokens": _add,
    "an end that is added": _begin_and_end,
    "a changed backend": _change_backend,
    "pickled": lambda t: pickle.loads(pickle.dumps(t))(TEXTS),
    "copied": lambda t: copy.deepcopy(t)(TEXTS),
}


def make_plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return "array", value.dtype.name, make_plain(value.tolist())
    if hasattr(value, "items"):
        return {name: make_plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [*map(make_plain, value)]
    return value


def observe(behaviour: Callable[[Any], Any], tokenizer: Any) -> Any:
    """What it gives, or the error that it raises."""
    try:
        return make_plain(behaviour(tokenizer))
    except Exception as error:
        return type(error), str(error)


CHANGE_IT = ("added tokens", "an end that is added", "a changed backend", "both on the left")


@pytest.fixture(scope="module")
def loaded(folders: dict[str, Path]) -> dict[str, tuple[Any, Any]]:
    """Ours and theirs."""
    both = TokcoreTokenizer, PreTrainedTokenizerFast
    return {name: tuple(cls.from_pretrained(folder) for cls in both) for name, folder in folders.items()}


@pytest.mark.filterwarnings("ignore::UserWarning")  # of transformers: max_length without effect
@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_it_behaves_as_theirs(loaded, name, behaviour):
    ours, theirs = map(copy.deepcopy, loaded[name]) if behaviour in CHANGE_IT else loaded[name]
    assert isinstance(ours, PreTrainedTokenizerBase)
    assert observe(BEHAVIOURS[behaviour], ours) == observe(BEHAVIOURS[behaviour], theirs)


@pytest.mark.parametrize("name", MADE)
def test_what_it_saves_others_load(folders, tmp_path, name):
    ours, theirs = (
        _save(cls.from_pretrained(folders[name]), tmp_path / cls.__name__)
        for cls in (TokcoreTokenizer, PreTrainedTokenizerFast)
    )
    assert make_plain(ours) == make_plain(theirs)
    assert json.loads((tmp_path / "TokcoreTokenizer" / "tokenizer_config.json").read_text())["tokenizer_class"] == (
        "PreTrainedTokenizerFast"
    )


FAST = (
    *("one text", "several", "encode", "without special tokens", "special text as text", "padding", "truncation"),
    *("padding to a multiple", "arrays", "pairs cut", "only_second", "chat ids", "added tokens", "pickled"),
)
WITH_SPANS = ("both on the left", "pairs")
# Others normalize some of these texts, or leave white space out, so that tokenizers is asked for spans.
KEEPS_TEXT = ("bpe", "llama")
BY_THIS_KERNEL = [(name, one) for name in MADE for one in FAST + (WITH_SPANS if name in KEEPS_TEXT else ())]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("name", "behaviour"), BY_THIS_KERNEL)
def test_this_kernel_does_it(loaded, monkeypatch, name, behaviour):
    tokenizer = copy.deepcopy(loaded[name][0])

    monkeypatch.setattr(PreTrainedTokenizerFast, "_encode_plus", None)  # so asking tokenizers fails
    BEHAVIOURS[behaviour](tokenizer)


def test_decoding_bytes_is_done_by_this_kernel(folders, monkeypatch):
    tokenizer = TokcoreTokenizer.from_pretrained(folders["llama"])
    monkeypatch.setattr(PreTrainedTokenizerFast, "_decode", None)
    assert tokenizer.batch_decode(tokenizer(TEXTS)["input_ids"], skip_special_tokens=True)[:4] == TEXTS[:4]


def test_a_tokenizer_of_this_library_becomes_one():
    trained = tokcore.Tokenizer.train(CORPUS, vocab_size=400, special=SPECIAL)
    made = TokcoreTokenizer.from_tokcore(trained, model_max_length=77)
    assert (made.name_or_path, made.model_max_length, made.pad_token) == ("", 77, "<|pad|>")
    assert made(TEXTS, split_special_tokens=True)["input_ids"] == trained.encode_batch(TEXTS).to_pylist()


# Arguments of a call that a Tokenizer takes, too.
CALLS: dict[str, dict[str, Any]] = {
    "one text": {"text": TEXTS[0]},
    "several": {"text": TEXTS},
    "without special tokens": {"text": TEXTS, "add_special_tokens": False},
    "special text as text": {"text": TEXTS, "split_special_tokens": True},
    "padding": {"text": TEXTS, "padding": True, "pad_to_multiple_of": 4, "padding_side": "left"},
    "padding to a length": {"text": TEXTS, "padding": "max_length", "max_length": 9},
    "truncation": {"text": TEXTS, "truncation": True},
    "max_length alone": {"text": TEXTS, "max_length": 6},
    "only_second": {"text": "a b", "text_pair": "c d e f g h i", "truncation": "only_second", "max_length": 9},
    "pairs": {**PAIRS, "truncation": True, "max_length": 10, "padding": True, "return_token_type_ids": True},
    "arrays": {"text": TEXTS, "padding": True, "truncation": True, "return_tensors": "np"},
    "masks": {"text": TEXTS, "return_special_tokens_mask": True, "return_attention_mask": False},
    "spans": {"text": TEXTS, "padding": True, "return_offsets_mapping": True},
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", KEEPS_TEXT)
@pytest.mark.parametrize("call", CALLS)
def test_a_tokenizer_is_called_as_theirs(folders, loaded, name, call):
    ours = tokcore.Tokenizer.load(folders[name])
    given = {"return_token_type_ids": False, **CALLS[call]}
    named = {"max_length": 12, **given} if given.get("truncation") else given  # which the model's length is for theirs
    assert make_plain(ours(**named)) == make_plain(loaded[name][1](**given))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"padding": "shortest"}, "padding = 'shortest': expected one of "),
        ({"truncation": "first"}, "truncation = 'first': expected one of "),
        ({"padding_side": "top"}, "padding_side = 'top': expected 'left' or 'right'"),
        ({"padding": True, "truncation": True, "max_length": 9, "pad_to_multiple_of": 2}, "no multiple of"),
        ({"return_tensors": "tf"}, "return_tensors = 'tf': expected 'np', 'pt' or None"),
        ({"text": ["a", "b c d"], "return_tensors": "np"}, "rows have 2 to 6 tokens, which are no array"),
        ({"text": ["a"], "text_pair": ["b", "c"]}, "text_pair has 2 texts, and text has 1"),
        ({"truncation": "only_second", "text_pair": "b", "max_length": 3}, "too short"),
        ({"truncation": True, "max_length": 0}, "need 1 more"),
    ],
)
def test_what_is_wrong_with_a_call_is_said(folders, wrong, message):
    with pytest.raises(ConfigError, match=message):
        tokcore.Tokenizer.load(folders["llama"])(**{"text": "a b c", **wrong})


def test_spans_that_are_not_known_are_refused(folders):
    with pytest.raises(ConfigError, match=r"use tokcore\.transformers\.TokcoreTokenizer"):
        tokcore.Tokenizer.load(folders["bert"])("Ab", return_offsets_mapping=True)
