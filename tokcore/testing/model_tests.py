"""What holds for every model: rows in any order teach it the same, its file gives it back, ids are of its texts."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest

from tokcore import kernel
from tokcore.count.pretoken_rows import Counts
from tokcore.errors import FormatError, IdentityError
from tokcore.files.canonical_json import write_canonical_json
from tokcore.files.jsonable import Place
from tokcore.look.odd_tokens import find_unreachable_tokens
from tokcore.models.model import LearnOptions, Model, ModelType, find_pinned
from tokcore.text.texts import Texts, make_texts_from_strings
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import SpecialToken, make_learned_spec

_END = "<|end of a test|>"
_WORDS = ["low", "lower", "newest", "widest", "the", "there", "ab", "#", "-", "ж", "жж", "的", "的的", "lowlow", "é"]
TEXTS: list[str | bytes] = [
    *("", "low", "the newest  lower\n", "ж的é#-", "unknown: Ω🙂 qz", "a" * 300, "\u0000\U0010ffff", "a\u0301 é"),
    *(b"\xff the \xc3", b"\xed\xa0\x80", b"\xf0\x9f\x98"),
]


class ModelTests:
    """Tests of a model: derive from it, and set `model`."""

    model: ModelType
    # What is learned from, and how; the number of special tokens is filled in.
    counts: ClassVar[Mapping[str, int]] = {word: 3 + i for i, word in enumerate(_WORDS)}
    options: ClassVar[LearnOptions] = LearnOptions(vocab_size=280, min_count=1)

    def _list_rows(self) -> tuple[Texts, Counts]:
        words = [("\u2581" if self.model.marks_spaces else "") + word for word in self.counts]
        return make_texts_from_strings(words), np.array([*self.counts.values()], np.uint64)

    def _list_roles(self) -> dict[str, str]:
        return dict(self.model.own_special) or {_END: "document_end"}

    def _make_options(self) -> LearnOptions:
        """Those of the class, with a size that the model has if it leaves no choice."""
        options = dataclasses.replace(self.options, num_special=len(self._list_roles()))
        if self.model.wrong_option(options) is None:
            return options
        return dataclasses.replace(options, vocab_size=self.model.default_vocab_size(options.num_special))

    def _learn(self, rows: tuple[Texts, Counts] | None = None) -> Model:
        told = self._list_rows() if rows is None else rows
        return self.model.learn(lambda: told, self._make_options())

    def _make_tokenizer(self) -> Tokenizer:
        options = self._make_options()
        pinned = find_pinned(options, self.model.own_special)
        special = [SpecialToken(text, pinned.get(text), role) for text, role in self._list_roles().items()]
        pattern = {"name": self.model.pattern}
        return Tokenizer(make_learned_spec(self._learn(), pattern, self.model.normalizer, special))

    def _to_json(self, model: Model) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(write_canonical_json({**model.functional(), **model.informative()}))
        return found

    def test_options_fit(self) -> None:
        assert self.model.wrong_option(self._make_options()) is None
        assert self.model.text
        assert self.model.default_size

    def test_rows_may_come_in_any_order_and_several_times(self) -> None:
        texts, counts = self._list_rows()
        words = [texts.text(i) for i in range(texts.num_texts)]
        learned = self._to_json(self._learn())
        order = np.random.default_rng(3).permutation(len(words))
        assert (
            self._to_json(self._learn((make_texts_from_strings([words[i] for i in order]), counts[order]))) == learned
        )
        halves = np.concatenate([counts // 2, counts - counts // 2])
        assert self._to_json(self._learn((make_texts_from_strings([*words, *words]), halves))) == learned

    def test_its_json_form_gives_it_back(self) -> None:
        model = self._learn()
        value = self._to_json(model)
        assert value["kind"] == model.kind
        again = self.model.kinds[model.kind](value, Place("tokcore.json", "model"))
        assert (again.kind, self._to_json(again)) == (model.kind, value)
        assert (again.tokens, again.ids.tolist(), again.names) == (model.tokens, model.ids.tolist(), model.names)
        with pytest.raises(FormatError, match=r"tokcore\.json: model"):
            self.model.kinds[model.kind]({**value, "a field of nobody": 1}, Place("tokcore.json", "model"))

    def test_ids_ascend_and_every_token_has_one(self) -> None:
        tokenizer = self._make_tokenizer()
        model = tokenizer.spec.model
        model.check()
        assert model.ids.dtype == np.int32
        assert (np.diff(model.ids) > 0).all()
        assert len(model.ids) == len(model.tokens) == len(model.names) == len(model.sizes)
        assert len(set(model.tokens)) == len(set(model.names)) == len(model.ids)
        assert int(model.ids[0]) >= 0
        assert int(model.ids[-1]) < tokenizer.vocab_size
        assert not {*model.ids.tolist()} & {token.id for token in tokenizer.spec.special}
        assert model.summary

    def test_a_batch_has_the_ids_of_its_texts(self) -> None:
        tokenizer = self._make_tokenizer()
        encoded = tokenizer.encode_texts(make_texts_from_strings(TEXTS))
        assert [part.dtype.name for part in encoded[:3]] == ["int32", "int64", "int64"]
        many = tokenizer.encode_texts(make_texts_from_strings(TEXTS), 3)
        alone = [tokenizer.encode(text).tolist() for text in TEXTS]
        for found in (encoded, many):
            bounds = found.offsets.tolist()
            assert [found.ids[a:b].tolist() for a, b in itertools.pairwise(bounds)] == alone
            assert found.pretokens.tolist() == encoded.pretokens.tolist()
        assert [tokenizer.count_tokens(text) for text in TEXTS] == [*map(len, alone)]

    def test_texts_that_are_split_before_have_the_same_ids(self) -> None:
        if self.model.marks_spaces:
            return  # these split texts themselves
        model = self._learn()
        texts = make_texts_from_strings(TEXTS)
        pieces = kernel.split(self.model.pattern, texts)
        whole = model.encoder(self.model.pattern, 1 << 20).encode(texts)
        split = model.encoder(None, 1 << 20).encode_pieces(texts, *pieces)
        assert [part.tolist() for part in whole] == [part.tolist() for part in split]

    def test_texts_come_back_if_it_says_so(self) -> None:
        tokenizer = self._make_tokenizer()
        known = {*tokenizer.spec.model.ids.tolist(), *(token.id for token in tokenizer.spec.special)}
        for text in TEXTS:
            ids = tokenizer.encode(text)
            assert {*ids.tolist()} <= known
            if tokenizer.lossless and not self.model.normalizer:
                assert tokenizer.decode(ids) == (text.encode() if isinstance(text, str) else text)
        if not tokenizer.lossless and self.model.own_special:
            assert tokenizer.spec.model.unknown is not None

    def test_what_ids_add_to_a_text_is_the_text(self) -> None:
        tokenizer = self._make_tokenizer()
        special = {token.id: token.text.encode() for token in tokenizer.spec.special if token.id is not None}
        decoder = tokenizer.spec.model.decoder(special)
        for text in TEXTS:
            ids = tokenizer.encode(text).tolist()
            if tokenizer.lossless:
                assert b"".join(decoder.spell_all(ids, True)) == decoder.decode(ids)
        for id, spelled in special.items():
            assert decoder.spell(id) == spelled
        for unused in (tokenizer.vocab_size, 2**31 - 1):
            with pytest.raises(IdentityError):
                decoder.decode([unused])

    def test_a_shorter_one_is_the_one_learned_for_its_size(self) -> None:
        options = self._make_options()
        largest = self.model.learn(self._list_rows, options)
        smaller = dataclasses.replace(options, vocab_size=options.num_special + len(largest.tokens) - 1)
        if (short := self.model.shorten(largest, smaller)) is not None:
            assert self._to_json(short) == self._to_json(self.model.learn(self._list_rows, smaller))

    def test_unreachable_tokens_are_tokens(self) -> None:
        tokenizer = self._make_tokenizer()
        found = find_unreachable_tokens(tokenizer)
        assert found == sorted(found)
        assert {one.id for one in found} <= {*tokenizer.spec.model.ids.tolist()}
