"""What models are given: ids with special tokens around them, cut, padded, with masks and spans, as in transformers.

All texts of a batch are one array each of ids, types, masks and spans; lists or tensors are made of it at the end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore.errors import ConfigError
from tokcore.kernel import Ids
from tokcore.text.texts import Offsets
from tokcore.tokenizer.encoded_batch import compute_starts
from tokcore.tokenizer.text_template import FIRST, SECOND, Piece, TextTemplate
from tokcore.tokenizer.token_spans import Spans

Numbers = npt.NDArray[np.int64]

_PADDING: dict[bool | str | None, str] = {
    **dict.fromkeys((None, False, "do_not_pad"), ""),
    **dict.fromkeys((True, "longest"), "longest"),
    "max_length": "max_length",
}
_TRUNCATION: dict[bool | str | None, str] = {
    **dict.fromkeys((None, False, "do_not_truncate"), ""),
    **dict.fromkeys((True, "longest_first"), "longest_first"),
    **{name: name for name in ("only_first", "only_second")},
}


class Sequences(NamedTuple):
    """The ids of a batch of texts, and where the tokens are in them."""

    ids: Ids
    offsets: Offsets  # n + 1
    spans: Spans | None  # int64 [ids, 2], in characters; None: not asked for

    def cut(self, lengths: Numbers, side: str) -> Sequences:
        """Of each text so many tokens. side: the one that loses them."""
        own = np.diff(self.offsets)
        starts = self.offsets[:-1] + (own - lengths if side == "left" else 0)
        places = np.repeat(starts - compute_starts(lengths)[:-1], lengths) + np.arange(int(lengths.sum()))
        return Sequences(self.ids[places], compute_starts(lengths), None if self.spans is None else self.spans[places])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How inputs are cut and padded; checked by make_shape."""

    truncation: str = ""  # longest_first, only_first or only_second
    padding: str = ""  # longest or max_length
    max_length: int | None = None
    truncation_side: str = "right"
    padding_side: str = "right"
    pad_id: int = 0
    pad_type_id: int = 0
    multiple: int = 1  # of which padded rows have a number of tokens


def make_shape(
    padding: bool | str | None,
    truncation: bool | str | None,
    max_length: int | None,
    longest: int | None,
    pad_id: int | None,
    multiple: int | None,
    padding_side: str = "right",
    truncation_side: str = "right",
) -> Shape:
    """The shape that these arguments of a call mean, as in transformers. longest: that the model takes, if it is known.

    Raises ConfigError for another value, and if there is no token to pad with.
    """
    for name, value, known in (("padding", padding, _PADDING), ("truncation", truncation, _TRUNCATION)):
        if value not in known:
            names = ", ".join(repr(one) for one in known if one is not None)
            raise ConfigError(f"{name} = {value!r}: expected one of {names}")
    for name, side in (("padding_side", padding_side), ("truncation_side", truncation_side)):
        if side not in ("left", "right"):
            raise ConfigError(f"{name} = {side!r}: expected 'left' or 'right'")
    if max_length is not None and not _PADDING[padding] and truncation is None:
        truncation = True
    pads, cuts = _PADDING[padding], _TRUNCATION[truncation]
    length = longest if max_length is None else max_length
    if length is None:
        cuts, pads = "", "" if pads == "max_length" else pads
    if pads and pad_id is None:
        raise ConfigError("padding: this tokenizer has no special token of role padding or document_end to pad with")
    if pads and cuts and multiple and length is not None and length % multiple:
        raise ConfigError(
            f"max_length = {length} is no multiple of pad_to_multiple_of = {multiple}: change one of them"
        )
    return Shape(
        truncation=cuts,
        padding=pads,
        max_length=length,
        truncation_side=truncation_side,
        padding_side=padding_side,
        pad_id=pad_id or 0,
        multiple=multiple or 1,
    )


class Rows(NamedTuple):
    """A batch of inputs: neighbouring rows of one array each."""

    bounds: Offsets  # n + 1
    ids: Ids
    types: Numbers
    is_token: npt.NDArray[np.bool_]  # and no padding
    is_added: npt.NDArray[np.bool_]  # by the template or as padding
    spans: Spans | None

    @classmethod
    def of(cls, first: Sequences, second: Sequences | None, template: TextTemplate, shape: Shape) -> Rows:
        """The rows of a batch of texts, or of pairs. Raises ValueError where a text cannot be cut as asked."""
        if shape.truncation:
            assert shape.max_length is not None
            room = shape.max_length - template.num_added(second is not None)
            first, second = _truncate(first, second, room, shape)
        pieces = template.single if second is None else template.pair
        num = len(first.offsets) - 1
        texts = {FIRST: first, SECOND: second}
        lengths = [_measure(piece, texts, num) for piece in pieces]
        sizes: Numbers = sum(lengths, np.zeros(num, np.int64))
        widths = _find_widths(sizes, shape)
        bounds = compute_starts(widths)
        total = int(bounds[-1])
        rows = cls(
            bounds,
            np.full(total, shape.pad_id, np.int32),
            np.full(total, shape.pad_type_id, np.int64),
            np.zeros(total, np.bool_),
            np.ones(total, np.bool_),
            None if first.spans is None else np.zeros((total, 2), np.int64),
        )
        at = bounds[:-1] + (widths - sizes if shape.padding_side == "left" else 0)
        for piece, length in zip(pieces, lengths, strict=True):
            rows._put(piece, texts.get(piece.id), at, length)
            at = at + length
        return rows

    def _put(self, piece: Piece, text: Sequences | None, at: Numbers, lengths: Numbers) -> None:
        """Write a piece of all rows. at: where it begins in each."""
        if text is None:
            places = at
            self.ids[places] = piece.id
        else:
            places = np.repeat(at - text.offsets[:-1], lengths) + np.arange(len(text.ids))
            self.ids[places] = text.ids
            self.is_added[places] = False
            if self.spans is not None:
                assert text.spans is not None
                self.spans[places] = text.spans
        self.types[places] = piece.type_id
        self.is_token[places] = True

    def columns(self, names: Sequence[str]) -> dict[str, Any]:
        """Flat arrays by the names that transformers has for them."""
        every: dict[str, Callable[[], Any]] = {
            "input_ids": lambda: self.ids,
            "token_type_ids": lambda: self.types,
            "attention_mask": lambda: self.is_token.astype(np.int64),
            "special_tokens_mask": lambda: self.is_added.astype(np.int64),
            "offset_mapping": lambda: self.spans,
        }
        return {name: every[name]() for name in names}

    def list(self, column: npt.NDArray[Any]) -> list[list[Any]]:
        """A column as lists: one for each row. Spans are tuples."""
        flat = column.tolist() if column.ndim == 1 else [*zip(*column.T.tolist(), strict=True)]
        return [flat[start:end] for start, end in pairwise(self.bounds.tolist())]

    def stack(self, column: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """A column as an array [rows, width, ...]. Raises ConfigError if rows are not of one width."""
        widths = np.diff(self.bounds)
        if len(widths) and (widths != widths[0]).any():
            raise ConfigError(
                f"rows have {widths.min()} to {widths.max()} tokens, which are no array: give padding=True, or "
                f"truncation=True with padding='max_length'"
            )
        width = int(widths[0]) if len(widths) else 0
        stacked: npt.NDArray[np.int64] = column.astype(np.int64).reshape(len(widths), width, *column.shape[1:])
        return stacked


def _measure(piece: Piece, texts: dict[int, Sequences | None], num: int) -> Numbers:
    text = texts.get(piece.id)
    return np.ones(num, np.int64) if text is None else np.diff(text.offsets)


def _find_widths(sizes: Numbers, shape: Shape) -> Numbers:
    """How wide each row is. Rows that are longer than asked stay as they are."""
    if not shape.padding:
        return sizes
    width = int(sizes.max(initial=0)) if shape.padding == "longest" else shape.max_length or 0
    return np.maximum(sizes, -(-width // shape.multiple) * shape.multiple)


def _truncate(
    first: Sequences, second: Sequences | None, room: int, shape: Shape
) -> tuple[Sequences, Sequences | None]:
    """The texts cut to room tokens together, as tokenizers does it."""
    if room < 0:
        raise ConfigError(f"max_length = {shape.max_length}: the special tokens that are added need {-room} more")
    own = np.diff(first.offsets)
    other = np.zeros_like(own) if second is None else np.diff(second.offsets)
    too_many = np.maximum(own + other - room, 0)
    if shape.truncation == "longest_first":
        if second is None:
            return first.cut(own - too_many, shape.truncation_side), None
        kept, kept_other = _share(own, other, room)
    else:
        kept, kept_other = own, other
        if shape.truncation == "only_first":
            kept = own - too_many
        else:
            kept_other = other - too_many
        cut = kept if shape.truncation == "only_first" else kept_other
        if ((cut <= 0) & (too_many > 0)).any():
            raise ConfigError(
                f"truncation = {shape.truncation!r}: that text alone is too short to bring the row to "
                f"max_length = {shape.max_length}. Use 'longest_first'"
            )
    return first.cut(kept, shape.truncation_side), second and second.cut(kept_other, shape.truncation_side)


def _share(first: Numbers, second: Numbers, room: int) -> tuple[Numbers, Numbers]:
    """How many tokens of each text stay where the longer one loses first (tokenizers' LongestFirst)."""
    fits = first + second <= room
    short, long = np.minimum(first, second), np.maximum(first, second)
    # Once the longer is as short as the other, both lose; of an odd number the longer one keeps more.
    left = np.where(short > room, short, np.maximum(short, room - short))
    halved = short + left > room
    new_short = np.where(halved, room // 2, short)
    new_long = np.where(halved, room // 2 + room % 2, np.minimum(left, long))
    swapped = first > second
    kept = np.where(swapped, new_long, new_short), np.where(swapped, new_short, new_long)
    return np.where(fits, first, kept[0]), np.where(fits, second, kept[1])


class ModelInputs(dict[str, Any]):
    """What a call of a tokenizer gives: a dict whose keys are attributes, too.

    >>> ModelInputs(input_ids=[[1]]).input_ids
    [[1]]
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no {name}: there are {', '.join(self)}") from None

    def to(self, device: Any) -> ModelInputs:
        """The same with tensors of PyTorch on that device."""
        return ModelInputs({name: one.to(device) if hasattr(one, "to") else one for name, one in self.items()})


def make_tensor(array: npt.NDArray[np.int64], kind: str) -> Any:
    """The array as return_tensors asks for it. Raises ConfigError for another kind, ImportError without PyTorch."""
    if kind == "np":
        return array
    if kind != "pt":
        raise ConfigError(f"return_tensors = {kind!r}: expected 'np', 'pt' or None")
    try:
        import torch
    except ImportError as error:
        raise ImportError("return_tensors = 'pt' needs PyTorch: pip install torch, or take 'np'") from error
    return torch.from_numpy(array)
