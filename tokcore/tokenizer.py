"""Tokenizer: text to token ids and back, as one TokenizerSpec says.

Leaves to others: what the spec holds (tokcore.tokenizer_spec), foreign files (tokcore.formats), the work itself
(tokcore.kernel).
"""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tokcore.encoded import Encoded
from tokcore.errors import FormatError, IdentityError
from tokcore.formats.huggingface import read_tokenizer_json
from tokcore.formats.tiktoken import read_rank_file
from tokcore.kernel import Ids
from tokcore.pretokenize import Pretokenizer
from tokcore.shared_tables import shared_tables
from tokcore.special_text import encode_around, find_special
from tokcore.texts import Texts, list_strings, texts_from_arrow, texts_from_strings
from tokcore.tokenizer_spec import FILE_NAME, SpecialToken, TokenizerSpec


class Tokenizer:
    """Encodes and decodes. Immutable, safe to share between threads; equal, hashed and pickled by content.

    Tokenizers of one fingerprint share their tables and caches within a process.

    >>> import tokcore
    >>> tokenizer = tokcore.Tokenizer.load("out/first")
    >>> tokenizer.encode("lower").tolist()
    [257, 259]
    >>> tokenizer.decode([257, 259])
    b'lower'
    """

    __slots__ = ("_shared", "spec")

    def __init__(self, spec: TokenizerSpec) -> None:
        self.spec = spec
        self._shared = shared_tables(spec)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Tokenizer:
        """The tokenizer in a tokcore.json, in its folder, or in the output folder of a build.

        Raises FormatError if there is none or it is damaged, VersionError if another release must read it.

        >>> tokcore.Tokenizer.load("out/first/tokenizer/tokcore.json") == tokenizer
        True
        """
        file = Path(path)
        if file.is_dir():
            places = [file / FILE_NAME, file / "tokenizer" / FILE_NAME]
            found = [place for place in places if place.is_file()]
            if not found:
                raise FormatError(f"{file}: no {FILE_NAME} in it nor in its folder tokenizer. Is the build finished?")
            file = found[0]
        return cls(TokenizerSpec.from_json_bytes(file.read_bytes(), str(file)))

    @classmethod
    def from_tiktoken(
        cls, path: str | PathLike[str], *, pattern: str, special_tokens: Mapping[str, int] | None = None
    ) -> Tokenizer:
        """The tokenizer of a tiktoken rank file. pattern: a pattern's name or a regular expression.

        >>> same = tokcore.Tokenizer.from_tiktoken(
        ...     "out/first/tokenizer/tokenizer.tiktoken", pattern="cl100k", special_tokens={"<|endoftext|>": 261}
        ... )
        >>> same.encode("lower").tolist()
        [257, 259]
        """
        tokens = [SpecialToken(text, id) for text, id in (special_tokens or {}).items()]
        return cls(read_rank_file(Path(path).read_bytes(), str(path), Pretokenizer.of(pattern).spec, tokens))

    @classmethod
    def from_huggingface(cls, path: str | PathLike[str]) -> Tokenizer:
        """The tokenizer of a tokenizer.json (or of the folder that it is in), which must be a byte-level BPE.

        >>> same = tokcore.Tokenizer.from_huggingface("out/first/tokenizer/tokenizer.json")
        >>> same.encode("lower").tolist()
        [257, 259]
        """
        file = Path(path)
        if file.is_dir():
            file /= "tokenizer.json"
        return cls(read_tokenizer_json(file.read_bytes(), str(file)))

    @property
    def fingerprint(self) -> str:
        """sha256 of everything that decides ids, lowercase hex.

        >>> len(tokenizer.fingerprint)
        64
        """
        return self.spec.fingerprint

    @property
    def vocab_size(self) -> int:
        """The highest id + 1; ids below it may be unused.

        >>> tokenizer.vocab_size  # 256 bytes, 5 merges, <|endoftext|>
        262
        """
        return self.spec.vocab_size

    @property
    def pattern_text(self) -> str:
        """The split pattern, as a regular expression.

        >>> tokcore.pretokenize("low lower", pattern=tokenizer.pattern_text)
        ['low', ' lower']
        """
        return self._shared.pretokenizer.published_text

    @property
    def specials(self) -> dict[str, int]:
        """Special tokens: text -> id, in the order of ids.

        >>> tokenizer.specials
        {'<|endoftext|>': 261}
        """
        return dict(self._shared.special_ids)

    def special_id(self, text: str) -> int:
        """The id of a special token. Raises IdentityError if there is none of that text.

        >>> tokenizer.special_id("<|endoftext|>")
        261
        """
        if text not in self._shared.special_ids:
            known = ", ".join(map(repr, self._shared.special_ids)) or "none"
            raise IdentityError(f"{text!r} is not a special token of this tokenizer: it has {known}")
        return self._shared.special_ids[text]

    def token_bytes(self, id: int) -> bytes:
        """The bytes that a token stands for; a special token's text. Raises IdentityError for an unused id.

        >>> tokenizer.token_bytes(258)
        b' low'
        """
        return self._shared.decoder.spell(*_integers([id]))

    def encode(self, text: str | bytes, allow_special: Iterable[str] = ()) -> Ids:
        """The ids of a text, int32; nothing is appended.

        allow_special: special tokens that become their id where the text spells them (the leftmost, the longest of
        several), or "all"; the others are ordinary text. Raises UnicodeEncodeError for a str with a lone surrogate.

        >>> tokenizer.encode("low lower").tolist()
        [257, 258, 259]
        >>> tokenizer.encode("low<|endoftext|>", allow_special="all").tolist()
        [257, 261]
        """
        texts = texts_from_strings([text])
        allowed = self._allowed(allow_special)
        return (self._encode_special(texts, 1, allowed) if allowed else self.encode_texts(texts)).ids

    def encode_batch(self, texts: Sequence[str | bytes] | pa.Array | pa.ChunkedArray, threads: int = 1) -> pa.ListArray:
        """The ids of each text, as a pyarrow list<int32> array; special-token text is ordinary.

        texts: a list of str or bytes, or an Arrow string or binary array without nulls. Raises ValueError if there are
        2**31 ids or more, which one list array cannot hold.

        >>> tokenizer.encode_batch(["low", "lower low"]).to_pylist()
        [[257], [257, 259, 258]]
        """
        if isinstance(texts, pa.Array | pa.ChunkedArray):
            encoded = self.encode_texts(texts_from_arrow(texts), threads)
        else:
            encoded = self.encode_strings(list_strings(texts), threads)
        if encoded.offsets[-1] >= 2**31:
            raise ValueError(f"{encoded.offsets[-1]} ids do not fit one list array: encode in smaller batches")
        return pa.ListArray.from_arrays(pa.array(encoded.offsets.astype(np.int32)), pa.array(encoded.ids))

    def encode_strings(self, texts: Sequence[str | bytes], threads: int = 1) -> Encoded:
        """encode_texts of a list of str and bytes, which are read where they lie if the tokenizer has no normalizer.

        >>> tokenizer.encode_strings(["low", b"lower"]).ids.tolist()
        [257, 257, 259]
        """
        shared = self._shared
        if shared.normalizer.steps or shared.pretokenizer.native_name is None:
            return self.encode_texts(texts_from_strings(texts), threads)
        return Encoded(*shared.encoder.encode_strings(texts, threads))

    def encode_texts(self, texts: Texts, threads: int = 1) -> Encoded:
        """The ids of each text; special-token text is ordinary. The same for any number of threads.

        >>> encoded = tokenizer.encode_texts(texts_from_strings(["low", "lower low"]))
        >>> encoded.ids.tolist(), encoded.offsets.tolist(), encoded.pretokens.tolist()
        ([257, 257, 259, 258], [0, 1, 4], [1, 2])
        """
        shared = self._shared
        texts = shared.normalizer.apply(texts)
        if shared.pretokenizer.native_name is None:
            return Encoded(*shared.encoder.encode_pieces(texts, *shared.pretokenizer.split(texts), threads))
        return Encoded(*shared.encoder.encode(texts, threads))

    def encode_pretokens(self, pretokens: Texts, threads: int = 1) -> Encoded:
        """The ids of each pre-token, merged as it is: neither normalized nor split.

        >>> tokenizer.encode_pretokens(texts_from_strings(["low low"])).ids.tolist()
        [257, 258]
        """
        ends, firsts = pretokens.offsets[1:], np.arange(pretokens.num_texts + 1)
        return Encoded(*self._shared.encoder.encode_pieces(pretokens, ends, firsts, threads))

    def encode_texts_with_special(self, texts: Texts, threads: int = 1) -> Encoded:
        """The ids of each text, where every spelled special token becomes its id (and is not a pre-token).

        >>> tokenizer.encode_texts_with_special(texts_from_strings(["low<|endoftext|>"])).ids.tolist()
        [257, 261]
        """
        return self._encode_special(texts, threads, self._shared.special_ids)

    def spelled_special(self, texts: Texts) -> Counter[str]:
        """How often all texts together spell each special token: the leftmost, of several the longest, no overlaps.

        >>> tokenizer.spelled_special(texts_from_strings(["low<|endoftext|>", "<|endoftext|>"]))
        Counter({'<|endoftext|>': 2})
        """
        text_of_id = {id: text for text, id in self._shared.special_ids.items()}
        spans = find_special(texts, self._shared.special_ids)
        return Counter(text_of_id[span.id] for span in spans)

    def decode(self, ids: Iterable[int] | npt.NDArray[Any]) -> bytes:
        """The bytes of the text that has these ids; a special token gives its text.

        Raises IdentityError for an unused id and TypeError for what is no integer, both with the position.

        >>> tokenizer.decode([257, 258, 261])
        b'low low<|endoftext|>'
        """
        return self._shared.decoder.decode(_integers(ids))

    @property
    def lossless(self) -> bool:
        """Whether decode gives back the normalized form of every text.

        >>> tokenizer.lossless
        True
        """
        return self.spec.model.lossless

    def normalized(self, text: bytes, with_special: bool = False) -> bytes:
        """What decode of a lossless tokenizer gives back of the text's ids: its normalized form.

        with_special: spelled special tokens were encoded as such, so they stay as they are.

        >>> tokenizer.normalized(b"low")  # this tokenizer has no normalizer
        b'low'
        """
        texts = texts_from_strings([text])
        normalizer = self._shared.normalizer
        spans = find_special(texts, self._shared.special_ids) if with_special else []
        parts, start = [], 0
        for span in spans:
            between = texts_from_strings([text[start : span.start]])
            parts += [normalizer.apply(between).text(0), text[span.start : span.end]]
            start = span.end
        return b"".join([*parts, normalizer.apply(texts_from_strings([text[start:]])).text(0)])

    def _allowed(self, allow_special: Iterable[str]) -> dict[str, int]:
        """The special tokens that text may spell: text -> id."""
        if isinstance(allow_special, str):
            if allow_special != "all":
                raise TypeError(f"allow_special is a list of special tokens or 'all', found {allow_special!r}")
            return self._shared.special_ids
        return {text: self.special_id(text) for text in sorted(set(allow_special))}

    def _encode_special(self, texts: Texts, threads: int, allowed: Mapping[str, int]) -> Encoded:
        spans = find_special(texts, allowed)
        encode = functools.partial(self.encode_texts, threads=threads)
        return encode_around(texts, spans, encode) if spans else encode(texts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"Tokenizer(vocab_size={self.vocab_size}, fingerprint={self.fingerprint[:12]}...)"

    def __reduce__(self) -> tuple[Callable[[bytes], Tokenizer], tuple[bytes]]:
        return _unpickled, (self.spec.to_json_bytes(),)


@functools.lru_cache(maxsize=4)
def _unpickled(spec: bytes) -> Tokenizer:
    return Tokenizer(TokenizerSpec.from_json_bytes(spec, "a pickled tokenizer"))


def _integers(ids: Iterable[Any] | npt.NDArray[Any]) -> list[int]:
    """The ids as a list of int, of any size. Raises TypeError, naming the first value that is none and its place."""
    if isinstance(ids, np.ndarray):
        if ids.ndim != 1:
            raise TypeError(f"ids of shape {ids.shape}: expected one dimension. Decode row by row.")
        if ids.size and ids.dtype.kind not in "iu":
            raise TypeError(f"ids[0] = {ids[0]!r}: expected an integer, found an array of {ids.dtype}")
        integers: list[int] = ids.tolist()
        return integers
    values = list(ids)
    if set(map(type, values)) <= {int}:
        return values
    for i, value in enumerate(values):
        try:
            values[i] = operator.index(value)
        except TypeError as error:
            found = repr(value)[:80]
            raise TypeError(f"ids[{i}] = {found}: expected an integer, found {type(value).__name__}") from error
    return values
