"""BPE of symbols that are not the 256 bytes, as Hugging Face's tokenizers has it: CLIP's, GPT-1's, Gemini's.

Symbols are characters, or bytes (by their printable names). One that ends a word may have a suffix, `</w>`, one that
goes on with a word a prefix. The bytes of a token are those of its name. Texts do not come back as they were. Leaves to
others: tokenizer.json (tokcore.formats.tokenizers.symbol_bpe_json), BPE over all bytes (tokcore.models.bpe), what was
made from a SentencePiece model (tokcore.models.sentencepiece.converted).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from tokcore import kernel
from tokcore.errors import ConfigError, FormatError
from tokcore.files.jsonable import Place, from_jsonable
from tokcore.kernel import TokenTable
from tokcore.models.bpe import BpeModel, Pairs, TokensAndIds, write_tokens
from tokcore.models.defaults import ListedVocabulary
from tokcore.models.model import Decoder, Encode, Encoder, Ids, Model, Rules, Unreachable, describe_kind
from tokcore.models.sentencepiece.piece_text import BYTE_NAMES
from tokcore.models.token_decoders import TableDecoder
from tokcore.text.byte_alphabet import from_printable, to_printable
from tokcore.text.texts import make_texts_from_strings

_ALONE, _FIRST, _WITHIN, _LAST = range(4)  # places of a character in a pre-token


@dataclasses.dataclass(frozen=True, eq=False)
class SymbolBpeModel(ListedVocabulary):
    """A vocabulary of symbols and what merges make of them.

    tokens, ids: in the order of ids. merges: int32 [m, 2], pairs of ids, first merged first. unknown: the id of the
    special token for characters without a symbol, with fuses_unknown for several side by side; None: they are left out.
    bytewise: characters are bytes, by their printable names. spells_bytes: a character without a symbol becomes its
    bytes, <0x00> to <0xFF>, if all are tokens. ignore_merges: a pre-token that is a token is emitted as such.
    Raises FormatError for merges whose result is no token, and for a prefix or suffix that cannot be followed.
    """

    kind: ClassVar[str] = "symbols"

    tokens: tuple[bytes, ...]
    ids: Ids
    merges: Ids
    unknown: int | None
    bytewise: bool
    prefix: str = ""
    suffix: str = ""
    fuses_unknown: bool = False
    spells_bytes: bool = False
    ignore_merges: bool = False

    def __post_init__(self) -> None:
        if not self.tokens:
            raise FormatError("there is no ordinary token")
        if not self.prefix.isascii():
            raise FormatError(f"the prefix {self.prefix!r} of tokens that go on with a word is not ASCII")
        if self.spells_bytes and (self.prefix or self.suffix):
            raise FormatError("byte_fallback together with a prefix or a suffix is not supported: set it to false")
        if (
            self.spells_bytes
            and self.bytewise
            and not self._places.keys() >= {to_printable(bytes([b])) for b in range(256)}
        ):
            raise FormatError("byte_fallback of a byte-level vocabulary in which bytes are missing: set it to false")
        self._results  # noqa: B018 - checked by being made

    @functools.cached_property
    def _places(self) -> dict[str, int]:
        """Name -> place in tokens."""
        return {name: i for i, name in enumerate(self.names)}

    @functools.cached_property
    def _results(self) -> list[tuple[int, int, int]]:
        """Merges as places in tokens: left, right, result. Of merges of one pair, the last counts."""
        place_of = {id: i for i, id in enumerate(self.ids.tolist())}
        found: dict[tuple[int, int], int] = {}
        for i, (left, right) in enumerate(self.merges.tolist()):
            if left not in place_of or right not in place_of:
                raise FormatError(f"merge {i} is of the ids {left} and {right}, of which one is no ordinary token")
            pair = place_of[left], place_of[right]
            name = self.names[pair[0]] + self.names[pair[1]][len(self.prefix) :]
            if name not in self._places:
                raise FormatError(f"merge {i}, of ids {left} and {right}, makes {name!r:.80}, which is no token")
            found.pop(pair, None)
            found[pair] = self._places[name]
        return [(*pair, result) for pair, result in found.items()]

    @property
    def summary(self) -> str:
        made = {result for _, _, result in self._results}
        return f"{len(self.tokens) - len(made)} symbols, {len(self._results)} merges"

    @property
    def sizes(self) -> Ids:
        return np.array([len(self.spell(name).removesuffix(b" ")) for name in self.names], np.int32)

    def spell(self, name: str) -> bytes:
        """The text that a token stands for; with a suffix, that and a blank."""
        if self.spells_bytes and (byte := _BYTE_OF_NAME.get(name)) is not None:
            return bytes([byte])
        ends = bool(self.suffix) and name.endswith(self.suffix)
        text = name.removesuffix(self.suffix) if ends else name
        if self.prefix and text.startswith(self.prefix):
            text = text[len(self.prefix) :]
        data = from_printable(text) if self.bytewise else None
        return (text.encode() if data is None else data) + b" " * ends

    def encoder(self, pattern: str | None, cache_bytes: int) -> Encoder:
        return kernel.SymbolBpeEncoder(pattern, self._list_symbols(), cache_bytes)

    def _list_symbols(self) -> kernel.Symbols:
        characters: list[tuple[int, int, int]] = []
        for name, symbol in self._places.items():
            for place in (_ALONE, _FIRST, _WITHIN, _LAST):
                prefix = self.prefix if place in (_WITHIN, _LAST) else ""
                suffix = self.suffix if place in (_ALONE, _LAST) else ""
                bare = name[len(prefix) : len(name) - len(suffix)]
                if len(bare) != 1 or name != prefix + bare + suffix:
                    continue
                data = from_printable(bare) if self.bytewise else None
                if data is not None or not self.bytewise:
                    characters.append((ord(bare) if data is None else data[0], place, symbol))
        found, places, symbols = (*zip(*characters, strict=True),) if characters else ((), (), ())
        ids, unknown = self.ids, -1
        if self.unknown is not None:
            ids, unknown = np.append(ids, np.int32(self.unknown)), len(ids)
        left, right, result = np.array(self._results, np.uint32).reshape(-1, 3).T.copy()
        byte_symbols = [self._places.get(name.decode(), -1) for name in BYTE_NAMES] if self.spells_bytes else []
        whole = self._list_whole() if self.ignore_merges else {}
        return kernel.Symbols(
            make_texts_from_strings([*whole]),
            np.ascontiguousarray(ids, np.int32),
            np.array(found, np.uint32),
            np.array(places, np.uint8),
            np.array(symbols, np.uint32),
            self.bytewise,
            np.array(byte_symbols, np.int32),
            unknown,
            self.fuses_unknown,
            left,
            right,
            result,
            np.array([*whole.values()], np.uint32),
        )

    def _list_whole(self) -> dict[bytes, int]:
        """The pre-tokens that are tokens, by their own names."""
        spelled = ((from_printable(name) if self.bytewise else name.encode(), i) for name, i in self._places.items())
        return {data: i for data, i in spelled if data is not None}

    def decoder(self, special: Mapping[int, bytes]) -> Decoder:
        return _SuffixedTokens(self, special)

    def facts(self) -> dict[str, Any]:
        return {"lossless": False, "merges": len(self._results)}

    def rules(self) -> Rules:
        return Rules("merge", [(self.tokens[left], self.tokens[right]) for left, right, _ in self._results])

    def unreachable(self, encode: Encode) -> list[Unreachable]:
        """Tokens that neither are a character nor come of a merge of such as can be reached."""
        known = set(self._list_symbols().symbols.tolist())
        known |= {i for name, i in self._places.items() if self.spells_bytes and name.encode() in BYTE_NAMES}
        for left, right, result in self._results:
            if left in known and right in known:
                known.add(result)
        return [Unreachable(id, ()) for i, id in enumerate(self.ids.tolist()) if i not in known]

    def as_bpe(self) -> BpeModel:
        raise FormatError("the merges are of symbols that are not the 256 bytes: no merges of bytes give the same ids")

    def functional(self) -> dict[str, Any]:
        own = dataclasses.asdict(self) | {"tokens": write_tokens(self.tokens, self.ids), "merges": self.merges.tolist()}
        del own["ids"]
        return {"kind": self.kind, "lossless": False, **own}

    @classmethod
    def from_json(cls, value: Any, place: Place) -> SymbolBpeModel:
        """The model whose functional() is value."""
        read = from_jsonable(_SymbolsJson, value, place)
        fields = {field.name: getattr(read, field.name) for field in dataclasses.fields(cls) if field.name != "ids"}
        try:
            return cls(**(fields | dict(zip(("tokens", "ids"), read.tokens, strict=True))))
        except FormatError as error:
            raise FormatError(f"{place}: {error}") from error


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class _SymbolsJson:
    kind: str
    lossless: Literal[False]
    tokens: TokensAndIds
    merges: Pairs
    unknown: int | None
    bytewise: bool
    prefix: str
    suffix: str
    fuses_unknown: bool
    spells_bytes: bool
    ignore_merges: bool


_BYTE_OF_NAME = {name.decode(): byte for byte, name in enumerate(BYTE_NAMES)}


class _SuffixedTokens(TableDecoder):
    """The decoder: a blank after each word but the last."""

    def __init__(self, model: SymbolBpeModel, special: Mapping[int, bytes]) -> None:
        ends = [bool(model.suffix) and name.endswith(model.suffix) for name in model.names]
        flags = np.array(ends, np.uint8) * TokenTable.ENDS
        super().__init__([*map(model.spell, model.names)], model.ids, special, flags)


def find_symbol_bpe(model: Model) -> SymbolBpeModel | None:
    """The model itself, if it is a BPE of symbols."""
    return model if isinstance(model, SymbolBpeModel) else None


def require_symbol_bpe(model: Model, what: str) -> SymbolBpeModel:
    """The model itself. what: needs it, for the error. Raises ConfigError if it is another kind."""
    if not isinstance(model, SymbolBpeModel):
        raise ConfigError(f"{what} needs a BPE of symbols, and this tokenizer is {describe_kind(model.kind)}")
    return model
