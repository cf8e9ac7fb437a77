"""TokcoreTokenizer: what transformers' users know as PreTrainedTokenizerFast, encoding and decoding by this kernel.

It is one, so it loads, saves, adds tokens and fills chat templates as all do, and everything that this kernel does not
do is done by tokenizers, which is there in any case: words that are split already, tokens that overflow, spans of
normalized text, decoders other than those of bytes. Needs transformers 5: pip install 'tokcore[transformers]'.
"""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tokcore.errors import ConfigError, TokError
from tokcore.tokenizer.model_inputs import Rows, Sequences, Shape
from tokcore.tokenizer.text_template import TextTemplate
from tokcore.tokenizer.tokenizer import Tokenizer

try:
    from transformers import BatchEncoding, PreTrainedTokenizerFast
except ImportError as error:
    raise ImportError("tokcore.transformers needs transformers 5: pip install 'transformers>=5'") from error

_STRATEGIES = ("padding_strategy", "truncation_strategy")
# What a call may ask for beyond ids, masks and types.
_MORE = ("return_tensors", "return_special_tokens_mask", "return_offsets_mapping", "return_length")
_FEW_BYTES = 1 << 16  # of texts, which one thread encodes


class TokcoreTokenizer(PreTrainedTokenizerFast):
    """A tokenizer of transformers at this library's speed; everything else is as PreTrainedTokenizerFast has it.

    What it saves, others load as PreTrainedTokenizerFast.

    >>> from tokcore.transformers import TokcoreTokenizer
    >>> tokenizer = TokcoreTokenizer.from_pretrained("out/first/tokenizer")
    >>> tokenizer("low lower")["input_ids"], tokenizer.decode([257, 258, 259])
    ([257, 258, 259], 'low lower')
    """

    @classmethod
    def from_tokcore(cls, tokenizer: Tokenizer, **settings: Any) -> TokcoreTokenizer:
        """A tokenizer of this library. settings: as from_pretrained takes them.

        Raises FormatError if a tokenizer.json cannot hold it.

        >>> import tokcore
        >>> TokcoreTokenizer.from_tokcore(tokcore.Tokenizer.load("out/first")).eos_token
        '<|endoftext|>'
        """
        with tempfile.TemporaryDirectory(prefix="tokcore-") as folder:
            tokenizer.export("huggingface", folder)
            made: TokcoreTokenizer = cls.from_pretrained(folder, **settings)
        made.name_or_path = made.init_kwargs["name_or_path"] = ""
        return made

    def save_pretrained(self, *arguments: Any, **named: Any) -> Any:
        """As in transformers; the class that the files name is one that is there without tokcore.

        >>> len(tokenizer.save_pretrained("saved")) > 0
        True
        >>> TokcoreTokenizer.from_pretrained("saved")("low lower")["input_ids"]
        [257, 258, 259]
        """
        saved = copy.copy(self)
        saved.__class__ = _Saved
        return super(TokcoreTokenizer, saved).save_pretrained(*arguments, **named)

    def push_to_hub(
        self, repo_id: str, *, texts: Any = None, text: str = "text", allow_one_document: bool = False, **named: Any
    ) -> Any:
        """As in transformers, but refused as Tokenizer.push_to_hub refuses; texts, text, allow_one_document: as there.

        Raises ConfigError, too, for a tokenizer of which this library has no form, as it cannot look into it.

        >>> tokenizer.push_to_hub("org/name")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        tokcore.errors.ConfigError: push_to_hub: texts are missing: ...
        """
        if not allow_one_document:
            if (held := self._hold()) is None:
                raise ConfigError(
                    "push_to_hub: whether this tokenizer tells a document cannot be seen: tokcore has no form of it. "
                    "Set allow_one_document=True if you know"
                )
            held.tokenizer.check_documents(texts, text=text)
        return super().push_to_hub(repo_id, **named)

    @property
    def backend_tokenizer(self) -> Any:
        """That of tokenizers. What is changed in it is seen if it was asked for since the last call.

        >>> type(tokenizer.backend_tokenizer).__module__
        'tokenizers'
        """
        self.__dict__["_may_have_changed"] = True
        return self._tokenizer

    def _encode_plus(self, text: Any, text_pair: Any = None, **how: Any) -> BatchEncoding:
        asked = dict(how)

        def ask() -> BatchEncoding:
            return super(TokcoreTokenizer, self)._encode_plus(text, text_pair, **asked)

        is_one = isinstance(text, str)
        first = [text] if is_one else text
        second = [text_pair] if is_one and text_pair else (None if is_one else text_pair)
        if how.get("is_split_into_words") or how.get("stride") or how.get("return_overflowing_tokens"):
            return ask()
        if how.get("sanitize_control_tokens") or not all(
            map(_are_strings, (first, first if second is None else second))
        ):
            return ask()
        if second is not None and len(first) != len(second):
            return ask()
        try:
            if is_one and second is None and (data := self._make_one(text, how)) is not None:
                return _LazyBatch(data, ask, 1, None)
            rows = self._make_rows(first, second, how)
        except (TokError, UnicodeEncodeError):
            return ask()  # which says what is wrong as transformers' users know it
        if rows is None:
            return ask()
        return self._make_batch(rows, 1 if second is None else 2, is_one, how, ask)

    def _make_one(self, text: str, how: dict[str, Any]) -> dict[str, Any] | None:
        """What is asked for of one text that is neither cut nor padded: most calls of those who serve; else None."""
        if any(how.get(name) for name in _MORE) or any(_spell_strategy(how, name) for name in _STRATEGIES):
            return None
        if (held := self._hold()) is None:
            return None
        template = held.template if how.get("add_special_tokens", True) else held.template.without_added()
        sequences = held.tokenizer.encode_sequences([text], template, self._finds_special(how), False)
        assert sequences is not None, "there are always ids"
        ids = sequences.ids.tolist()
        found: list[int] = []
        types: list[int] = []
        for piece in template.single:
            part = ids if piece.id < 0 else [piece.id]
            found += part
            types += [piece.type_id] * len(part)
        self._eventual_warn_about_too_long_sequence(found, how.get("max_length"), how.get("verbose", True))
        data = {"input_ids": found}
        if self._is_wanted("token_type_ids", how):
            data["token_type_ids"] = types
        if self._is_wanted("attention_mask", how):
            data["attention_mask"] = [1] * len(found)
        return data

    def _finds_special(self, how: dict[str, Any]) -> bool:
        splits = how.get("split_special_tokens")
        return not (self.split_special_tokens if splits is None else splits)

    def _is_wanted(self, name: str, how: dict[str, Any]) -> bool:
        asked = how.get(f"return_{name}")
        return name in self.model_input_names if asked is None else bool(asked)

    def _make_rows(self, first: Sequence[str], second: Sequence[str] | None, how: dict[str, Any]) -> Rows | None:
        """What is asked for; None if only tokenizers knows it."""
        held = self._hold()
        if held is None:
            return None
        template = held.template if how.get("add_special_tokens", True) else held.template.without_added()
        with_special = self._finds_special(how)
        spans = bool(how.get("return_offsets_mapping"))
        found: list[Sequences] = []
        for texts in (first, second):
            if texts is None:
                continue
            threads = 1 if sum(map(len, texts)) < _FEW_BYTES else _count_threads()
            sequences = held.tokenizer.encode_sequences(texts, template, with_special, spans, threads)
            if sequences is None:
                return None
            found.append(sequences)
        return Rows.of(found[0], found[1] if second is not None else None, template, self._make_shape(how))

    def _make_shape(self, how: dict[str, Any]) -> Shape:
        padding, truncation = (_spell_strategy(how, name) for name in _STRATEGIES)
        return Shape(
            padding=padding,
            truncation=truncation,
            max_length=how.get("max_length"),
            truncation_side=self.truncation_side,
            padding_side=how.get("padding_side") or self.padding_side,
            pad_id=self.pad_token_id if padding else 0,
            pad_type_id=self.pad_token_type_id,
            multiple=how.get("pad_to_multiple_of") or 1,
        )

    def _make_batch(
        self, rows: Rows, n_sequences: int, is_one: bool, how: dict[str, Any], ask: Callable[[], BatchEncoding]
    ) -> BatchEncoding:
        wanted = {
            "input_ids": True,
            "token_type_ids": self._is_wanted("token_type_ids", how),
            "attention_mask": self._is_wanted("attention_mask", how),
            "special_tokens_mask": how.get("return_special_tokens_mask"),
            "offset_mapping": how.get("return_offsets_mapping"),
        }
        columns = rows.columns([name for name, is_wanted in wanted.items() if is_wanted])
        widths = np.diff(rows.bounds)
        longest = int(widths.argmax())
        ids = rows.ids[rows.bounds[longest] : rows.bounds[longest + 1]]
        self._eventual_warn_about_too_long_sequence(ids, how.get("max_length"), how.get("verbose", True))
        tensors = how.get("return_tensors")
        is_even = bool((widths == widths[0]).all())
        make = rows.stack if tensors is not None and is_even else rows.list
        data = {name: make(column) for name, column in columns.items()}
        if how.get("return_length"):
            data["length"] = widths.tolist()
        if is_one and tensors is None:
            data = {name: one[0] if isinstance(one[0], list) else one for name, one in data.items()}
        return _LazyBatch(data, ask, n_sequences, tensors)

    def _decode(
        self,
        token_ids: Any,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
        **more: Any,
    ) -> str:
        asked = clean_up_tokenization_spaces
        cleans = self.clean_up_tokenization_spaces if asked is None else asked
        if isinstance(token_ids, list) and not cleans and (held := self._hold()) is not None and held.spells_bytes:
            ids = token_ids
            if skip_special_tokens:
                special = held.special
                ids = [id for id in ids if id not in special]
            try:
                return held.tokenizer.decode(ids, errors="replace")
            except (TokError, TypeError):
                pass  # an unknown id, which tokenizers leaves out
        decoded: str = super()._decode(token_ids, skip_special_tokens, asked, **more)
        return decoded

    def _add_tokens(self, *arguments: Any, **named: Any) -> int:
        self.__dict__["_may_have_changed"] = True
        added: int = super()._add_tokens(*arguments, **named)
        return added

    def _hold(self) -> _Held | None:
        """The tokenizer of this library that the backend is now; None if it is none that can be followed exactly."""
        backend = self._tokenizer
        processor = _spell(backend.post_processor)
        kept: tuple[Any, _Held | None] = self.__dict__.get("_kept", ((), None))
        if kept[0][:2] == (backend, processor) and not self.__dict__["_may_have_changed"]:
            return kept[1]
        parts = [_spell(getattr(backend, part)) for part in ("pre_tokenizer", "decoder", "normalizer")]
        now = (backend, processor, backend.get_vocab_size(), getattr(backend.model, "dropout", None), *parts)
        if kept[0] != now:
            kept = self.__dict__["_kept"] = now, _Held.of(backend, processor)
        self.__dict__["_may_have_changed"] = False
        return kept[1]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_kept"}


class _Saved(TokcoreTokenizer):
    # What a tokenizer is while it is saved.

    can_save_slow_tokenizer = False


_Saved.__name__ = "PreTrainedTokenizerFast"


class _Held(NamedTuple):
    """A backend in this library's form."""

    tokenizer: Tokenizer
    template: TextTemplate
    special: frozenset[int]
    spells_bytes: bool  # whether decoding is spelling the bytes of tokens, for added ones too

    @classmethod
    def of(cls, backend: Any, post_processor: str) -> _Held | None:
        if getattr(backend.model, "dropout", None):
            return None
        try:
            with tempfile.TemporaryDirectory(prefix="tokcore-") as folder:
                file = Path(folder, "tokenizer.json")
                file.write_text(backend.to_str(), encoding="utf-8")
                tokenizer = Tokenizer.from_huggingface(file)
            template = TextTemplate.parse(post_processor)
        except TokError:
            return None
        spells = type(backend.decoder).__name__ == "ByteLevel" and all(map(str.isascii, tokenizer.added))
        return cls(tokenizer, template, frozenset(tokenizer.specials.values()), spells)


class _LazyBatch(BatchEncoding):
    """A batch whose encodings, which few look at, are made by tokenizers when they are asked for."""

    def __init__(
        self, data: dict[str, Any], ask: Callable[[], BatchEncoding], n_sequences: int, tensor_type: Any
    ) -> None:
        self._ask: Callable[[], BatchEncoding] | None = ask
        super().__init__(data, None, tensor_type, n_sequences=n_sequences)

    @property
    def _encodings(self) -> Any:
        ask = self.__dict__.get("_ask")
        if self.__dict__.get("_made") is None and ask is not None:
            self.__dict__["_made"] = ask()._encodings
        return self.__dict__.get("_made")

    @_encodings.setter
    def _encodings(self, made: Any) -> None:
        self.__dict__["_made"] = made

    @property
    def is_fast(self) -> bool:
        return True


def _are_strings(texts: Any) -> bool:
    return isinstance(texts, list | tuple) and len(texts) > 0 and all(type(text) is str for text in texts)


def _spell_strategy(how: dict[str, Any], name: str) -> str:
    """How to pad or cut, which is an enumeration of transformers; empty: not at all."""
    value = how.get(name)
    spelled = str(getattr(value, "value", value))
    return "" if spelled in ("None", "do_not_pad", "do_not_truncate") else spelled


def _spell(part: Any) -> str:
    return "" if part is None else part.__getstate__().decode()


def _count_threads() -> int:
    """As many as tokenizers would take."""
    if os.environ.get("TOKENIZERS_PARALLELISM", "true").lower() in ("false", "off", "no", "n", "f", "0"):
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
