"""The one door to native code: every function of the kernel, in whichever implementation is chosen.

    avx512      native, the widest vectors; x86-64 processors that have VBMI2
    avx2        native, wide vectors; x86-64 processors that have them
    portable    native, any processor
    reference   pure Python, slow and obvious (tokcore.reference); the oracle of the tests

All give the same bytes. The best one that runs here is used unless the environment variable TOKCORE_KERNEL names
another, or a test forces one.

Each function and class here is a door: it says what goes in and what comes out, and takes texts and rows apart into
arrays. The native module and the reference have the same names behind it and take the same arrays, so a door does not
ask which of the two it has. Arguments are checked in the bindings. Buffers cross once a batch, and native code works on
them without the GIL.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore.count.pretoken_rows import CountRows, Counts
from tokcore.errors import ConfigError
from tokcore.learn.piece_rules import PieceTableRules, UnigramRules
from tokcore.text.byte_alphabet import ID_OF_BYTE
from tokcore.text.mask_presets import MASK_PRESETS
from tokcore.text.sentencepiece_tables import load_scripts
from tokcore.text.text_steps import STEP_KINDS, PieceRules, TextStep
from tokcore.text.texts import Bytes, Offsets, Texts

Ids = npt.NDArray[np.int32]
CodePoints = npt.NDArray[np.uint32]

# Raised by every change that makes equal inputs give other splits, counts, merges or ids: earlier work is stale then.
SEMANTICS_VERSION = 1

IMPLEMENTATIONS = ("avx512", "avx2", "portable", "reference")

_forced: list[str] = []


def get_implementation() -> str:
    """The implementation in use: one of IMPLEMENTATIONS.

    Raises ConfigError if TOKCORE_KERNEL names none of them or one that this processor cannot run, ImportError if the
    native module is missing.
    """
    return _forced[-1] if _forced else _choose()


@functools.cache  # a look into the environment takes as long as a short text
def _choose() -> str:
    chosen = os.environ.get("TOKCORE_KERNEL", "")
    return _check(chosen) if chosen else _list_available()[0]


@contextlib.contextmanager
def force(name: str) -> Iterator[None]:
    """Use that implementation in this process until the block ends; for tests and benchmarks."""
    _forced.append(_check(name))
    try:
        yield
    finally:
        _forced.pop()


def list_available() -> tuple[str, ...]:
    """The implementations that run here, fastest first."""
    try:
        return _list_available()
    except ImportError:
        return ("reference",)


def _check(name: str) -> str:
    if name not in IMPLEMENTATIONS:
        raise ConfigError(f"TOKCORE_KERNEL = {name!r}: expected one of {', '.join(IMPLEMENTATIONS)}")
    if name != "reference" and name not in _list_available():
        raise ConfigError(
            f"TOKCORE_KERNEL = {name!r}: this processor cannot run it. Leave it unset to use the best one."
        )
    return name


@functools.cache
def _list_available() -> tuple[str, ...]:
    return (*_load_native().implementations(), "reference")


@functools.cache
def _load_native() -> Any:
    try:
        import tokcore._native as native
    except ImportError as error:
        raise ImportError(
            f"tokcore's native kernel cannot be loaded ({error}). Install tokcore with pip, which compiles it, or set "
            f"TOKCORE_KERNEL=reference to use the slow pure-Python one."
        ) from error
    return native


if TYPE_CHECKING:
    from tokcore.reference import as_native as _inside
    from tokcore.reference.reference import NormalizingEncoder as NormalizingTextEncoder
    from tokcore.reference.reference import TextEncoder
    from tokcore.reference.reference_sampling import DropoutEncoder
else:

    class _Inside:
        """What is behind the doors: the native module, or the reference in its place."""

        def __getattr__(self, name: str) -> Any:
            if get_implementation() != "reference":
                return getattr(_load_native(), name)
            # Imported late: every worker starts with `import tokcore`, and native code does not need it.
            from tokcore.reference import as_native

            return getattr(as_native, name)

    _inside = _Inside()


def split(pattern: str, texts: Texts) -> tuple[Offsets, Offsets]:
    """(ends, firsts) of the pre-tokens of each text under a named pattern.

    ends: absolute ends in texts.data, in order; firsts: n + 1, so that ends[firsts[i]:firsts[i + 1]] are of text i.
    """
    return _inside.split(pattern, *texts, get_implementation())


class Automaton:
    """The matches of a regular expression in batches of texts. tokcore.text.regex_automaton makes the tables.

    num_classes: of characters, the last of which is the end of a text. transitions: uint16 [states, num_classes], twice
    the next state, and 1 if a match ends before the character; state 0 is the end, 1 the beginning. leaf_of_block:
    uint16, of 256 code points each; leaves: uint8 [leaves, 256], their classes; byte_classes: uint8, of bytes.
    regions: uint8, of classes, or none: what is between matches ends where a character of another region follows.
    Raises ValueError for tables that do not fit each other.
    """

    def __init__(
        self,
        num_classes: int,
        transitions: npt.NDArray[np.uint16],
        leaf_of_block: npt.NDArray[np.uint16],
        leaves: Bytes,
        byte_classes: Bytes,
        regions: Bytes,
    ) -> None:
        self._tables = (num_classes, transitions, leaf_of_block, leaves, byte_classes, regions)
        self._made: dict[str, _inside.Automaton] = {}

    @property
    def _inner(self) -> _inside.Automaton:
        """Of the implementation in use: patterns are read once, and a test may force another one later."""
        chosen = get_implementation()
        if chosen not in self._made:
            self._made[chosen] = _inside.Automaton(*self._tables)
        return self._made[chosen]

    def split(self, texts: Texts, bytewise: bool = False) -> tuple[Offsets, npt.NDArray[np.bool_], Offsets]:
        """(ends, are_matches, firsts): as split, of the matches and of what is between them; which ones are matches.

        bytewise: the characters of texts are bytes, and classes are those of their printable names.
        """
        ends, are_matches, firsts = self._inner.split(*texts, bytewise)
        return ends, are_matches.view(np.bool_), firsts


def split_by_chain(automata: Sequence[tuple[Automaton, bool]], texts: Texts) -> tuple[Offsets, Offsets]:
    """(ends, firsts) of pieces, as split: each automaton splits the pieces of the one before it.

    automata: at least one, each with whether it is bytewise.
    """
    return _inside.split_by_chain([(automaton._inner, bytewise) for automaton, bytewise in automata], *texts)


def normalize_bert(texts: Texts, cased: bool) -> Texts:
    """The texts as BERT's normalizer leaves them (tokcore.text.bert_characters); ill-formed bytes are removed."""
    return Texts(*_inside.normalize_bert(*texts, cased))


def list_unlike_nfc(texts: Texts | Sequence[str | bytes]) -> list[int]:
    """The numbers of the texts that are not in Unicode's form NFC, or not surely; ill-formed ones are among them."""
    if isinstance(texts, Texts):
        return _inside.list_unlike_nfc(*texts)
    return _inside.list_strings_unlike_nfc(tuple(texts))


class _Encoder:
    """What encoders have in common."""

    _inner: TextEncoder

    def encode(self, texts: Texts, threads: int = 1) -> tuple[Ids, Offsets, Offsets]:
        """(ids of all texts, n + 1 offsets into them, number of pre-tokens of each text); same for any threads."""
        return self._inner.encode(*texts, threads)

    def encode_strings(self, texts: Sequence[str | bytes], threads: int = 1) -> tuple[Ids, Offsets, Offsets]:
        """The same for str, which are encoded as UTF-8, and bytes, read where they lie.

        Raises UnicodeEncodeError for a str with a surrogate, TypeError for what is neither str nor bytes.
        """
        return self._inner.encode_strings(tuple(texts), threads)

    def encode_text(self, text: str | bytes) -> Ids:
        """The ids of one text, without what a batch costs. Raises as encode_strings does."""
        return self._inner.encode_text(text)

    def count_text(self, text: str | bytes) -> int:
        """How many ids encode_text gives."""
        return self._inner.count_text(text)

    def encode_pieces(
        self, texts: Texts, ends: Offsets, firsts: Offsets, threads: int = 1
    ) -> tuple[Ids, Offsets, Offsets]:
        """The same for texts that are already split; ends and firsts as split returns them."""
        return self._inner.encode_pieces(*texts, ends, firsts, threads)


class BpeEncoder(_Encoder):
    """BPE encoding of batches of texts: split by a named pattern (or given in pieces), merge, return external ids.

    tokens, token_ids: every ordinary token's bytes, the 256 single bytes among them, and its id (0 <= id < 2**31).
    left, right, result, priority: the merges, ids of a pair and of what it becomes; in a pre-token the pair of lowest
    priority number is merged first, the leftmost among equal ones, until no pair is left.
    whole: a pre-token that is itself a token is emitted as such, without merging.
    cache_bytes: budget of a thread's cache of encoded pre-tokens, kept between calls; however many threads there are,
    at most eight times as much. Results never depend on it. Calls from several threads at once are allowed.
    """

    def __init__(
        self,
        pattern: str | None,
        tokens: Texts,
        token_ids: Ids,
        left: Ids,
        right: Ids,
        result: Ids,
        priority: npt.NDArray[np.uint32],
        whole: bool,
        cache_bytes: int,
    ) -> None:
        rules = (left, right, result, priority, whole, cache_bytes, get_implementation())
        self._inner = _inside.Encoder(pattern or "", *tokens, token_ids, *rules)


class WordpieceEncoder(_Encoder):
    """WordPiece encoding of batches of texts: split as BpeEncoder does; take the longest token that matches, again and
    again.

    tokens, token_ids: those that begin a word where continues is 0, and those that go on with it where it is 1; all
    of a kind are different. unknown_id: of a pre-token in which nothing matches at some place, or that has more than
    max_characters (0: no limit). drops_space: pre-tokens of white space have no ids.
    """

    def __init__(
        self,
        pattern: str | None,
        tokens: Texts,
        token_ids: Ids,
        continues: npt.NDArray[np.uint8],
        unknown_id: int,
        max_characters: int,
        drops_space: bool,
        cache_bytes: int,
    ) -> None:
        rules = (continues, unknown_id, max_characters, drops_space, cache_bytes, get_implementation())
        self._inner = _inside.Encoder(pattern or "", *tokens, token_ids, *rules)


class ByteUnigramEncoder(_Encoder):
    """Encoding of batches of texts: split as BpeEncoder does; of a pre-token, the tokens of the highest sum of scores.

    tokens, token_ids, scores: all different; each byte is one of the tokens. Sums are float64.
    Raises ValueError for a byte that is no token, and for a score beyond +-1e290.
    """

    def __init__(
        self, pattern: str | None, tokens: Texts, token_ids: Ids, scores: npt.NDArray[np.float64], cache_bytes: int
    ) -> None:
        rules = (scores, cache_bytes, get_implementation())
        self._inner = _inside.Encoder(pattern or "", *tokens, token_ids, *rules)


class Symbols(NamedTuple):
    """What SymbolBpeEncoder knows. Symbols are places in token_ids.

    characters, places, symbols: code points, or bytes if bytewise, and the symbol that each becomes where it is alone
    in a pre-token (place 0), begins it (1), is within (2) or ends it (3). byte_symbols: of 256 bytes, -1 where there is
    none; or none at all. unknown: -1 for none. left, right, result: the merges, first merged first, each pair once.
    whole: pre-tokens that are not merged, and whole_symbols what they become.
    """

    whole: Texts
    token_ids: Ids
    characters: npt.NDArray[np.uint32]
    places: npt.NDArray[np.uint8]
    symbols: npt.NDArray[np.uint32]
    bytewise: bool
    byte_symbols: Ids
    unknown: int
    fuses_unknown: bool
    left: npt.NDArray[np.uint32]
    right: npt.NDArray[np.uint32]
    result: npt.NDArray[np.uint32]
    whole_symbols: npt.NDArray[np.uint32]


class SymbolBpeEncoder(_Encoder):
    """BPE encoding of batches of texts, split as BpeEncoder does, into symbols that are not the 256 bytes.

    A character that is no symbol at its place becomes the symbols of its bytes if all of them have one, else the
    unknown symbol (with fuses_unknown, one for several side by side), else nothing.
    Raises ValueError for a symbol that there is not.
    """

    def __init__(self, pattern: str | None, symbols: Symbols, cache_bytes: int) -> None:
        fields: tuple[Any, ...] = symbols
        whole, *rules = fields
        self._inner = _inside.Encoder(pattern or "", *whole, *rules, cache_bytes, get_implementation())


class NormalizingEncoder(_Encoder):
    """An encoder that rewrites texts before it looks for pieces."""

    _inner: NormalizingTextEncoder

    def normalize(self, texts: Texts) -> Texts:
        """The texts as pieces are looked for in them."""
        return Texts(*self._inner.normalize(*texts))


class SentencepieceEncoder(NormalizingEncoder):
    """Encoding of batches of texts as SentencePiece does: normalize, cut into pieces, spell or mark what is unknown.

    is_unigram: pieces of the highest sum of scores, in float32; otherwise BPE, which merges the highest score first.
    pieces, ids, scores, types: of pieces that match text, so of the types 1 (normal), 4 (user-defined: kept as it is)
    and 5 (unused); all different. unknown_id: of text that is no piece, -1 for none. byte_ids: 256 ids that spell such
    text, or none. rules: what is done to a text first.
    Raises ValueError for a charsmap that is none. The rest is as in BpeEncoder.
    """

    def __init__(
        self,
        is_unigram: bool,
        pieces: Texts,
        ids: Ids,
        scores: npt.NDArray[np.float32],
        types: npt.NDArray[np.uint8],
        unknown_id: int,
        byte_ids: Ids,
        rules: PieceRules,
        cache_bytes: int,
    ) -> None:
        charsmap = np.frombuffer(rules.charsmap, np.uint8)
        arrays = (scores.astype(np.float64), types, unknown_id, byte_ids, charsmap)
        self._inner = _inside.SentencepieceEncoder(is_unigram, *pieces, ids, *arrays, *rules[1:], cache_bytes)


class ConvertedEncoder(NormalizingEncoder):
    """Encoding of batches of texts as Hugging Face's tokenizers do it with a model made from a SentencePiece model.

    scores: of Unigram, float64, added up for each word by itself; None for BPE. merges: of BPE, uint32 [m, 3], places
    in pieces: left, right, result; each pair once, first merged first. unknown_id, byte_ids: as in
    SentencepieceEncoder. splits_every_space: each U+2581 begins a word; otherwise a text is one word.
    Raises ValueError for a charsmap that is damaged.
    """

    def __init__(
        self,
        pieces: Texts,
        ids: Ids,
        scores: npt.NDArray[np.float64] | None,
        merges: npt.NDArray[np.uint32],
        unknown_id: int,
        byte_ids: Ids,
        steps: Sequence[TextStep],
        splits_every_space: bool,
        cache_bytes: int,
    ) -> None:
        exact = np.zeros(len(ids)) if scores is None else scores
        numbered = [(STEP_KINDS.index(step.kind), step.pattern.encode(), step.text) for step in steps]
        rules = (exact, unknown_id, byte_ids, *np.ascontiguousarray(merges.T), numbered, splits_every_space)
        self._inner = _inside.SentencepieceEncoder(scores is not None, *pieces, ids, *rules, cache_bytes)


class Counter:
    """Counts pre-tokens of texts: how often each occurs and in how many of the texts.

    A pre-token longer than max_pretoken_bytes is cut into parts, each as long as it can be without passing that limit
    or dividing a well-formed character, and each part counts as a word of its own (0: never cut).
    Raises ValueError for a limit of 1 to 3, into which not every character fits. One thread at a time.
    """

    def __init__(self, pattern: str, max_pretoken_bytes: int) -> None:
        self._inner = _inside.Counter(pattern, max_pretoken_bytes, get_implementation())

    def add(self, texts: Texts) -> None:
        """Split texts and count them; each is a document."""
        self._inner.add(*texts)

    def add_pieces(self, texts: Texts, ends: Offsets, firsts: Offsets) -> None:
        """Count texts that are already split; ends and firsts as split returns them."""
        self._inner.add_pieces(*texts, ends, firsts)

    @property
    def memory_bytes(self) -> int:
        """What the table holds on to."""
        return self._inner.memory_bytes

    @property
    def num_rows(self) -> int:
        """Distinct pre-tokens since the last take."""
        return self._inner.num_rows

    @property
    def num_pretokens(self) -> int:
        """Pre-tokens counted since the last take, parts of cut ones each for itself."""
        return self._inner.num_pretokens

    def take(self) -> CountRows:
        """The rows, sorted by bytes; the table is empty afterwards."""
        return _make_rows(self._inner.take())

    @staticmethod
    def take_all(counters: Sequence[Counter], threads: int = 1) -> list[CountRows]:
        """The rows of several counters added up, sorted by bytes from each element to the next; empties the counters.

        A document is to be in one counter only. Threads change nothing but where an element ends and the next begins.
        Raises ValueError if a counter is named twice.
        """
        taken = _inside.Counter.take_all([counter._inner for counter in counters], threads)
        return [_make_rows(arrays) for arrays in taken]


def _make_rows(arrays: tuple[Bytes, Offsets, Counts, Counts]) -> CountRows:
    data, offsets, counts, documents = arrays
    return CountRows(Texts(data, offsets), counts, documents)


class IdRows(NamedTuple):
    """What is known of token ids, by id ascending: only ids that occur."""

    ids: Ids  # int32[n]
    counts: Counts  # uint64[n], occurrences
    documents: Counts  # uint64[n], with at least one
    max_in_document: Counts  # uint64[n], occurrences in the document that has most


class IdCounter:
    """Counts the token ids of documents. One thread at a time.

    Raises ValueError for a negative id, of whose batch nothing is counted then.
    """

    def __init__(self) -> None:
        self._inner = _inside.IdCounter()

    def add(self, ids: Ids, offsets: Offsets) -> None:
        """Count documents; document i is ids[offsets[i]:offsets[i + 1]]."""
        self._inner.add(ids, offsets)

    def take(self) -> IdRows:
        """The rows since the last take."""
        return IdRows(*self._inner.take())


class TokenTable:
    """Turns ids into text: the bytes of each, back to back. Immutable, and safe to share between threads.

    ids: int32, none negative, anywhere; of equal ones the last counts. texts: their bytes. flags: uint8, what each does
    where a text begins or ends, in bits: MARKED, its first byte is left out at the beginning; SILENT, it has no bytes,
    and what comes next still begins the text; ENDS, its last byte is left out at the end. drops_all: whether a text
    loses the first bytes of marked tokens until something is left, and not only of one. is_whole: whether the ids are
    those of a whole text, so that flags count. errors: as of bytes.decode; None for bytes.
    Takes 4 bytes of memory for each id up to the largest, and those of the texts; 8 for each token where ids are far
    between. Raises IndexError, whose text is its position, for an id that is no token.
    """

    MARKED, SILENT, ENDS = 1, 2, 4

    def __init__(self, ids: Ids, texts: Texts, flags: npt.NDArray[np.uint8], drops_all: bool = False) -> None:
        inner = _inside.TokenTable(ids, *texts, flags, drops_all)
        self.decode_list = inner.decode_list  # (list, is_whole, errors); None if a value is not an int itself
        # (rows, errors): the texts of lists of int; None if one is no list, or holds what is no token's id.
        self.list_lists = inner.list_lists
        self._inner = inner

    def decode(self, ids: Ids, is_whole: bool, errors: str | None = None) -> bytes | str:
        """The text of some ids."""
        text: bytes | str = self._inner.decode(ids, is_whole, errors)
        return text

    def spell_all(self, ids: Ids, is_start: bool) -> list[bytes]:
        """What each id adds to a text. is_start: whether the ids are its first."""
        found: list[bytes] = self._inner.spell_all(ids, is_start)
        return found

    def list_rows(self, ids: Ids, offsets: Offsets, errors: str | None = None) -> list[Any]:
        """The texts of rows of ids; row i is ids[offsets[i]:offsets[i + 1]]."""
        rows: list[Any] = self._inner.list_rows(ids, offsets, errors)
        return rows

    def decode_rows(self, ids: Ids, offsets: Offsets) -> Texts:
        """The same as one array, without the GIL."""
        return Texts(*self._inner.decode_rows(ids, offsets))

    def end(self) -> int:
        """One more than the largest id."""
        return int(self._inner.end())

    def size_bytes(self) -> int:
        """Memory that it takes."""
        return int(self._inner.size_bytes())


class MuHash:
    """The hash of a multiset, MuHash3072 of Bitcoin Core: a number modulo a prime, 384 bytes, little-endian.

    A member is given by the sha256 of its bytes. Members may come in any order, and more than once. value: that of
    another MuHash, to go on from it. One thread at a time. Raises ValueError for keys or values of other sizes.
    """

    NUM_BYTES = 384
    EMPTY = b"\1" + bytes(NUM_BYTES - 1)  # the value without members

    def __init__(self, value: bytes = EMPTY) -> None:
        self._inner = _inside.MuHash(value)

    def add(self, keys: bytes) -> None:
        """Add members; keys: 32 bytes each, back to back."""
        self._inner.add(np.frombuffer(keys, np.uint8))

    def subtract(self, keys: bytes) -> None:
        """Take away members, whether they were added before or are added later."""
        self._inner.subtract(np.frombuffer(keys, np.uint8))

    def add_value(self, value: bytes) -> None:
        """Add all members of another MuHash."""
        self._inner.add_value(value)

    def subtract_value(self, value: bytes) -> None:
        """Take away all members of another MuHash."""
        self._inner.subtract_value(value)

    def value(self) -> bytes:
        """The number. Bitcoin Core shows its sha256, with the bytes in reverse order."""
        return self._inner.value()


def highway_hash(key: tuple[int, int, int, int], data: Bytes, offsets: Offsets) -> npt.NDArray[np.uint64]:
    """HighwayHash64 of each range of bytes: uint64[n].

    key: four integers of 64 bits. data: uint8. offsets: int64[n + 1]; range i is data[offsets[i]:offsets[i + 1]].
    Raises ValueError for offsets that do not ascend within data.
    """
    return _inside.highway_hash(np.array(key, np.uint64), data, offsets)


class IdParts:
    """Parts of arrays of ids, which can be copied back to back. Several threads may copy at a time.

    >>> sources = [np.arange(9, dtype=np.uint16), np.array([70_000], np.int32)]
    >>> parts = IdParts(sources, np.array([0, 1, 0]), starts=np.array([2, 0, 7]), ends=np.array([4, 1, 9]))
    >>> parts.copy(0, 2, np.empty(3, np.int32)).tolist(), parts.copy(2, 3, np.empty(2, np.int32)).tolist()
    ([2, 3, 70000], [7, 8])
    """

    def __init__(self, sources: Sequence[npt.NDArray[Any]], which: Offsets, starts: Offsets, ends: Offsets) -> None:
        """sources: uint16, uint32 or int32, kept; ids are below 2^31. which, starts, ends: int64, of each part.

        Raises ValueError for a part that is not within its source.
        """
        self._inner = _inside.IdParts(list(sources), which, starts, ends)

    def copy(self, first: int, last: int, ids: Ids) -> Ids:
        """Write parts first to last, last excluded, to an array that has just room for them; returns it.

        Raises ValueError if it has not.
        """
        self._inner.copy(first, last, ids)
        return ids


class IdReplacer:
    """Puts a list of ids in the place of each id of documents. Several threads may use one.

    >>> replacer = IdReplacer(np.array([0, 1, 0, 0, 1], np.int32), np.array([0, 1, 2, 5]))
    >>> [of.tolist() for of in replacer.replace(np.array([2, 1, 0], np.int32), np.array([0, 2, 3]))]
    [[0, 0, 1, 1, 0], [0, 4, 5]]
    """

    def __init__(self, ids: Ids, offsets: Offsets) -> None:
        """ids: int32. offsets: int64[n + 1]; ids[offsets[i]:offsets[i + 1]] stand for id i, which is none if empty.

        Raises ValueError for offsets that do not ascend within ids.
        """
        self._inner = _inside.IdReplacer(ids, offsets)

    def replace(self, ids: Ids, offsets: Offsets) -> tuple[Ids, Offsets]:
        """(ids, offsets): the documents, int32, and where each begins, int64[n + 1], from 0 on.

        ids: int32. offsets: int64[n + 1], where documents begin and the last ends. Raises ValueError for an id that is
        none, and for offsets that do not ascend within ids.
        """
        return self._inner.replace(ids, offsets)


def predict_by_ngrams(
    ids: Ids, offsets: Offsets, num_learned: int, lengths: Ids, order: int, context_bytes: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.uint64]]:
    """(bits, bytes of the contexts) of each document after the first num_learned, by an n-gram model of those.

    ids: int32. offsets: int64[n + 1], where documents begin and the last ends. lengths: int32, the bytes of each token
    of the vocabulary. A token is predicted from at most order - 1 before it, order being at most 16, which have at most
    context_bytes bytes together; docs/reference/prediction.md defines the model. Raises ValueError for ids that have no
    length, for a negative length, and for another order.
    """
    return _inside.predict_by_ngrams(ids, offsets, num_learned, lengths, order, context_bytes)


def pack_varints(values: Ids, offsets: Offsets) -> tuple[Bytes, Offsets]:
    """(data, bounds): integers as protocol buffers have them, back to back; where each part of values is in data.

    values: int32. offsets: int64[n + 1], where parts begin and the last ends; bounds are their places in data.
    Raises ValueError for a negative integer, and offsets that do not ascend within values.

    >>> data, bounds = pack_varints(np.array([5, 300, 0], np.int32), np.array([0, 2, 3]))
    >>> data.tobytes().hex(), bounds.tolist()
    ('05ac0200', [0, 3, 4])
    """
    return _inside.pack_varints(values, offsets)


def unpack_varints(data: Bytes, bounds: Offsets) -> tuple[Offsets, Offsets]:
    """(values, counts): the integers of parts of data, int64, back to back, and how many of them are in each part.

    bounds: int64[n + 1], where parts begin and the last ends. Raises ValueError for an integer of more than nine bytes,
    a part that ends within one, and bounds that do not ascend within data.

    >>> [of.tolist() for of in unpack_varints(np.array([5, 172, 2], np.uint8), np.array([0, 1, 3]))]
    [[5, 300], [1, 1]]
    """
    return _inside.unpack_varints(data, bounds)


class RowMerger:
    """Merges sorted runs of count rows into one, adding up equal keys; holds one block of each run at a time.

    multipliers: one per run, that its counts are multiplied with (documents are not); None for all 1.
    Raises OverflowError where a sum would pass 2**64 - 1, ValueError for rows that are not sorted.
    """

    def __init__(self, num_runs: int, multipliers: Sequence[int] | None) -> None:
        self._inner = _inside.RowMerger(num_runs, None if multipliers is None else list(multipliers))

    @property
    def hungry(self) -> list[int]:
        """The runs that must be fed or finished before merge can go on."""
        return self._inner.hungry

    def feed(self, run: int, rows: CountRows) -> None:
        """The next rows of a hungry run, sorted and after all that it was fed before; they are not copied."""
        self._inner.feed(run, *rows.keys, rows.counts, rows.documents)

    def finish(self, run: int) -> None:
        """That run has no more rows."""
        self._inner.finish(run)

    def merge(self, max_rows: int) -> CountRows | None:
        """Up to max_rows merged rows, fewer if a run is hungry; None at the end of all runs."""
        merged = self._inner.merge(max_rows)
        return None if merged is None else _make_rows(merged)


Seeds = npt.NDArray[np.uint64]  # of n texts: what is drawn for a text follows from its seed alone


class _Dropout:
    _inner: DropoutEncoder

    def encode(self, texts: Texts, ends: Offsets, firsts: Offsets, seeds: Seeds, last: int) -> tuple[Ids, Offsets]:
        """(ids of all texts, n + 1 offsets into them) of texts that are split; ends and firsts as split returns them.

        Something is passed over with the probability (last + 1) / 2**64.
        """
        return self._inner.encode(*texts, ends, firsts, seeds, last)


class DropoutBpe(_Dropout):
    """BPE in which merges are passed over by chance, as tokenizers does it: each time that a merge is next.

    byte_ids: of the 256 bytes. left, right, result, priority: the merges, as for BpeEncoder.
    """

    def __init__(self, byte_ids: Ids, left: Ids, right: Ids, result: Ids, priority: npt.NDArray[np.uint32]) -> None:
        self._inner = _inside.DropoutBpe(byte_ids, left, right, result, priority)


class DropoutWordpiece(_Dropout):
    """WordPiece in which tokens that match are passed over by chance, the longest first, but not single characters.

    Arguments are those of WordpieceEncoder.
    """

    def __init__(
        self,
        tokens: Texts,
        token_ids: Ids,
        continues: npt.NDArray[np.uint8],
        unknown_id: int,
        max_characters: int,
        drops_space: bool,
    ) -> None:
        self._inner = _inside.DropoutWordpiece(*tokens, token_ids, continues, unknown_id, max_characters, drops_space)


class SampledUnigram:
    """Cuts of texts into pieces, drawn with a probability in proportion to the product of the pieces' weights.

    texts, ids: of pieces, all different UTF-8. weights, scales: float64 of 2**-500 to 2**500 and int32 of -2**30 to
    2**30 for each piece, weight * 2**(200 * scale); the last one, after those of pieces, is that of a character that
    is no piece, as is unknown_id. byte_ids: 256 that spell such characters instead, or none. splits: each U+2581 begins
    a word that is cut by itself. fuses: unknown text at the end of one and the beginning of the next is one token.
    """

    def __init__(
        self,
        texts: Texts,
        ids: Ids,
        weights: npt.NDArray[np.float64],
        scales: npt.NDArray[np.int32],
        unknown_id: int,
        byte_ids: Ids,
        splits: bool,
        fuses: bool,
    ) -> None:
        self._inner = _inside.SampledUnigram(*texts, ids, weights, scales, unknown_id, byte_ids, splits, fuses)

    def encode(self, texts: Texts, seeds: Seeds) -> tuple[Ids, Offsets, Offsets]:
        """(ids of all texts, n + 1 offsets into them, number of words of each) of normalized texts."""
        return self._inner.encode(*texts, seeds)


class JsonDocuments(NamedTuple):
    """Documents out of JSON lines, in order.

    texts: of the n documents. ids: their ids as UTF-8, all empty if no field for them was named. langs: n codes, as
    know_lang gave them, or none if no field for them was named.
    position: where to go on. refused_end: None, or the end (without the line feed) of a line at that position that is
    refused. values: of each document a JSON array of its further values, null for one that is missing, and a comma.
    """

    texts: Texts
    ids: Texts
    langs: Ids
    position: int
    refused_end: int | None
    values: bytes = b""


MOST_JSON_VALUES = 16  # further values of a line


class JsonLines:
    """Takes documents out of JSON lines, without a Python object for any of them.

    It reads plain lines and refuses, before it reads on, every line that is wrong or rare (kernel/text/json_lines.h
    says which). A caller that reads the refused lines with orjson gets for all lines what orjson gives. The reference
    refuses every line. One thread at a time.

    text, id, lang: names of the fields, of id and lang empty for none; "a.b" is the field of that name if there is
    one, else b inside a. values: at most MOST_JSON_VALUES further fields. forbidden: texts that hold one of these are
    refused, as are texts and ids over their limits.
    """

    def __init__(
        self,
        text: str,
        id: str,
        lang: str,
        forbidden: Sequence[str],
        max_text_bytes: int,
        max_id_bytes: int,
        values: Sequence[str] = (),
    ) -> None:
        limits = (min(max_text_bytes, 2**63 - 1), max_id_bytes)
        self._inner = _inside.JsonLines(text, id, lang, list(forbidden), *limits, list(values))

    def know_lang(self, lang: str) -> int:
        """The code of a language; from now on its documents are not refused. Codes are 0, 1, 2 and so on."""
        return self._inner.know_lang(lang)

    def read(self, block: bytes, start: int, end: int, max_bytes: int, max_documents: int) -> JsonDocuments:
        """The documents in block[start:end], whole lines, the last one with or without its line feed.

        Blank lines are skipped. Stops with the document that reaches one of the limits, or before a refused line.
        """
        data = np.frombuffer(block, np.uint8)
        position, refused, line_end, *columns = self._inner.read(data, start, end, max_bytes, max_documents)
        texts, text_offsets, ids, id_offsets, langs, values = columns
        refused_end = line_end if refused else None
        read = Texts(texts, text_offsets), Texts(ids, id_offsets), langs, position, refused_end
        return JsonDocuments(*read, values.tobytes())


def learn_merges(
    rows: Texts,
    counts: Counts,
    num_merges: int,
    min_count: int,
    max_token_bytes: int = 0,
    threads: int = 1,
    merges_done: npt.NDArray[np.int64] | None = None,
) -> tuple[Ids, Ids, Counts]:
    """(left, right, count) of up to num_merges BPE merges learned from pre-tokens and their counts.

    Ids 0 to 255 are the bytes in hf order, 256 + i is merge i. Ties: the smaller left id, then the smaller right id.
    Stops early when no pair has at least max(1, min_count). max_token_bytes: 0 for no limit.
    merges_done: one number, which rises to that of the merges while they are learned, for other threads to read.
    Raises OverflowError if counts cannot be summed in 64 bits.
    """
    least, gauge = _as_int64(min_count), _make_gauge(merges_done)
    return _inside.learn(*rows, counts, num_merges, least, max_token_bytes, threads, ID_OF_BYTE, gauge)


def _as_int64(min_count: int) -> int:
    return min(min_count, 2**63 - 1)  # more than any count can be


def _make_gauge(given: Offsets | None) -> Offsets:
    return np.zeros(1, np.int64) if given is None else given


def learn_symbol_merges(
    symbols: npt.NDArray[np.uint32],
    offsets: Offsets,
    counts: Counts,
    symbol_bytes: Offsets,
    num_merges: int,
    min_count: int,
    max_token_bytes: int = 0,
    threads: int = 1,
    merges_done: npt.NDArray[np.int64] | None = None,
) -> tuple[Ids, Ids, Counts]:
    """learn_merges of words of symbols: word i is symbols[offsets[i]:offsets[i + 1]], and occurs counts[i] times.

    symbol_bytes: of each symbol, what max_token_bytes counts. Merge i makes the symbol len(symbol_bytes) + i.
    """
    rules = (num_merges, _as_int64(min_count), max_token_bytes, threads, _make_gauge(merges_done))
    return _inside.learn_symbols(symbols, offsets, counts, symbol_bytes, *rules)


class Pieces(NamedTuple):
    """Pieces of words: piece i is symbols[offsets[i]:offsets[i + 1]]."""

    symbols: CodePoints  # uint32
    offsets: Offsets  # int64, one more than there are pieces
    counts: Counts  # uint64


ALL_PAIRS = 2**64 - 1


class PairLimit(NamedTuple):
    """What pairs are merged: those with a count above floor, and those with that count that do not come after last.

    >>> PairLimit(7).is_below(PairLimit(7, 3 << 32 | 5)), PairLimit(8).is_below(PairLimit(7))
    (True, False)
    """

    floor: int
    last: int = ALL_PAIRS  # left << 32 | right

    def is_below(self, other: PairLimit) -> bool:
        """Whether it has pairs that the other one has not; otherwise it is the same or higher."""
        return (self.floor, -self.last) < (other.floor, -other.last)


class FloorRound:
    """The next merges of words that do not fit in memory: all down to a limit, exact. See floor_round.h.

    Show all rows to add_counts, then all of them to add_pieces, in blocks; then learn, once.
    """

    def __init__(
        self,
        left: Ids,
        right: Ids,
        ends_words: bool,
        max_token_bytes: int,
        threads: int,
        bound_bits: int,
        max_pieces: int,
        max_symbols: int,
    ) -> None:
        """left, right: the merges so far. ends_words: the last byte of a word is the symbol 256 + id.

        bound_bits: pairs are counted in 2**bound_bits numbers. max_pieces, max_symbols: what is kept of words.
        """
        limits = (bound_bits, max_pieces, max_symbols)
        self._inner = _inside.FloorRound(left, right, ID_OF_BYTE, ends_words, max_token_bytes, threads, *limits)

    def add_counts(self, rows: Texts, counts: Counts) -> None:
        """Raises OverflowError if counts cannot be summed in 64 bits."""
        self._inner.add_counts(*rows, counts)

    @property
    def num_windows(self) -> int:
        """Pairs of neighbours in all rows so far, each as often as its row: bytes are neighbours here, not symbols."""
        return self._inner.num_windows()

    @property
    def bounds(self) -> Counts:
        """uint64 [2**bound_bits]. Those of rounds over parts of the rows add up to bounds of all rows."""
        return self._inner.bounds()

    @bounds.setter
    def bounds(self, sums: Counts) -> None:
        self._inner.set_bounds(sums)

    @property
    def highest_bound(self) -> int:
        """No pair has a higher count."""
        return self._inner.highest_bound()

    def begin_pieces(self, count: int, last: int = ALL_PAIRS) -> None:
        """Pairs below that limit are cut; it rises where pieces would not fit."""
        self._inner.begin_pieces(_as_int64(count), last)

    def add_pieces(self, rows: Texts, counts: Counts) -> None:
        """The rows are those that add_counts got, in the same order or another."""
        self._inner.add_pieces(*rows, counts)

    @property
    def pieces(self) -> Pieces:
        """What is left of the rows so far."""
        return Pieces(*self._inner.pieces())

    def add_cut_pieces(self, pieces: Pieces) -> None:
        """Those of another round of equal merges, cut once more. Raises ValueError for symbols that there are not."""
        self._inner.add_cut_pieces(*pieces)

    @property
    def limit(self) -> PairLimit:
        """Down to which merges learn goes."""
        return PairLimit(*self._inner.limit())

    @property
    def num_pieces(self) -> int:
        return self._inner.num_pieces()

    def learn(self, num_merges: int, threads: int) -> tuple[Ids, Ids, Counts]:
        """(left, right, count) of the next merges, at most num_merges of them, as learn_merges gives them."""
        return self._inner.learn(num_merges, threads)


class CharacterMerges(NamedTuple):
    """Merges of characters, as ids: those that begin a word, then those that go on with one, then the merges."""

    first: CodePoints  # uint32, ascending: of ids 0 to n - 1
    further: CodePoints  # uint32, ascending: of the ids from n on
    left: Ids
    right: Ids
    counts: Counts  # how often the two were neighbours when they were merged


def learn_characters(
    rows: Texts,
    counts: Counts,
    num_tokens: int,
    min_count: int,
    max_token_bytes: int = 0,
    threads: int = 1,
    by_score: bool = False,
    merges_done: npt.NDArray[np.int64] | None = None,
) -> CharacterMerges:
    """Merges of the characters of pre-tokens, up to num_tokens characters and merges in all.

    A character that begins a pre-token is another one than the same that goes on with it; first holds all of them,
    wherever they stand. Pre-tokens of white space and of ill-formed bytes take no part. What follows ## at the
    beginning of a pre-token is a pre-token of its own, all of which goes on. by_score: the pair with the highest
    count(ab) / (count(a) count(b)) is merged, if several are equal the one with the highest count. All else is as in
    learn_merges, also the errors.
    """
    least, gauge = _as_int64(min_count), _make_gauge(merges_done)
    learned = _inside.learn_characters(*rows, counts, num_tokens, least, max_token_bytes, threads, by_score, gauge)
    return CharacterMerges(*learned)


class PieceMerges(NamedTuple):
    """Merges of characters, as ids: those of code_points, then those of the merges."""

    code_points: CodePoints  # uint32, ascending
    by_count: npt.NDArray[np.uint32]  # their ids, the most frequent character first, then by code point
    left: Ids
    right: Ids
    counts: Counts  # how often the two were neighbours when they were merged


def learn_piece_merges(
    rows: Texts,
    counts: Counts,
    rules: PieceTableRules,
    num_tokens: int,
    min_count: int,
    threads: int = 1,
    merges_done: npt.NDArray[np.int64] | None = None,
) -> PieceMerges:
    """Merges as SentencePiece's BPE makes them, up to num_tokens characters and merges in all.

    Of several pairs with the highest count, the one that makes the fewest characters is merged, then the one whose
    text comes first as UTF-8. Pre-tokens of ill-formed bytes, or with U+2585, take no part. All else, errors included,
    is as in learn_merges.
    """
    limits = (num_tokens, _as_int64(min_count), threads, _make_gauge(merges_done))
    return PieceMerges(*_inside.learn_piece_merges((*rows, counts), _pack_rules(rules), *limits))


class UnigramPieces(NamedTuple):
    """Pieces, the highest score first; those with equal scores in the order of UTF-8."""

    code_points: CodePoints  # uint32, of all pieces, one after the other
    offsets: Offsets  # piece i is code_points[offsets[i]:offsets[i + 1]]
    scores: npt.NDArray[np.float32]


def learn_unigram(
    rows: Texts,
    counts: Counts,
    rules: PieceTableRules,
    unigram: UnigramRules,
    threads: int = 1,
    rounds_done: npt.NDArray[np.int64] | None = None,
) -> UnigramPieces:
    """The pieces of a Unigram model, by expectation maximisation; fewer than num_pieces if there are no more.

    Which pre-tokens take part, and the errors, are as in learn_piece_merges.
    """
    limits = (*unigram[:4], _as_int64(unigram.min_seed_count), threads, _make_gauge(rounds_done))
    return UnigramPieces(*_inside.learn_unigram((*rows, counts), _pack_rules(rules), *limits))


def drop_least_needed(rows: Texts, counts: Counts, tokens: Texts, num_kept: int, threads: int = 1) -> Ids:
    """The places of the tokens that stay, int32, ascending, where pre-tokens are cut into the fewest tokens.

    Rounds drop the quarter whose lack would cost the rows the fewest tokens; see fewest_tokens.h. The 256 bytes, which
    must be among the tokens, always stay. The same for any order of rows and number of threads.
    Raises ValueError for tokens that are empty, or there twice, OverflowError for counts that are too large to add up.
    """
    return _inside.drop_least_needed(*rows, counts, *tokens, num_kept, threads)


def _pack_rules(rules: PieceTableRules) -> tuple[Any, ...]:
    return (*rules.reserved, *load_scripts(), *rules[1:])


class MaskedSpans(NamedTuple):
    """Spans of a batch of texts, by text, start and preset."""

    starts: Offsets  # int64[n], absolute in texts.data
    ends: Offsets  # int64[n]
    presets: npt.NDArray[np.uint8]  # [n], place in MASK_PRESETS
    firsts: Offsets  # int64, one more than texts: spans firsts[i]:firsts[i + 1] are of text i


def find_masked(presets: Sequence[str], texts: Texts) -> MaskedSpans:
    """The spans that these presets match, each preset for itself: those of different presets may overlap."""
    chosen = sum(1 << number for number, name in enumerate(MASK_PRESETS) if name in presets)
    return MaskedSpans(*_inside.find_masked(chosen, *texts))


class FoundStrings(NamedTuple):
    """Where a batch of texts spells some strings, in order, without overlap."""

    starts: Offsets  # int64[n], absolute in texts.data
    ends: Offsets  # int64[n]
    strings: Offsets  # int64[n], the number of the string
    texts: Offsets  # int64[n], the number of the text


class StringFinder:
    """Finds where texts spell one of some strings: the leftmost, of several that begin there the longest.

    Raises ValueError for a string that is empty, or equal to an earlier one.
    """

    def __init__(self, strings: Texts) -> None:
        self._strings = strings
        self._made: dict[str, _inside.StringFinder] = {}

    def find(self, texts: Texts) -> FoundStrings:
        """What the texts spell; after each string the search goes on."""
        chosen = get_implementation()  # as Automaton does
        if chosen not in self._made:
            self._made[chosen] = _inside.StringFinder(*self._strings)
        return FoundStrings(*self._made[chosen].find(*texts))


def rank_merges(tokens: Texts) -> tuple[Ids, Ids, Ids]:
    """(left, right, result) of every way to make one of the tokens of two others, as positions in tokens.

    Ordered by the token that is made, then by the length of its left part. tokens: all different, none empty.
    """
    return _inside.rank_merges(*tokens)


def rank_parts(tokens: Texts) -> tuple[Ids, Ids, Ids]:
    """(left, right, token) for each token of more than one byte: the two that its own bytes come down to.

    tokens: in the order of ranks, all different, none empty; results are positions in them. Only lower ranks are
    merged, the lowest first and of equal ones the leftmost. left and right are -1 where there are more than two parts.
    """
    return _inside.rank_parts(*tokens)


def skip_json(data: bytes, begin: int) -> int:
    """Where the JSON list or object that begins there ends; 0 if it does not. What is in it is not looked at."""
    return _inside.skip_json(data, begin)


def read_named_bpe(
    data: bytes, vocabulary_at: int, merges_at: int, left_out: Sequence[str]
) -> tuple[tuple[bytes, ...], Ids, Ids] | None:
    """(tokens, ids, merges) of a tokenizer.json, whose vocabulary and merges begin there; None of all but usual files.

    Names are of bytes; left_out: those that are no tokens. Ids ascend. merges: int32 [m, 2], of tokens to a token.
    None says only that a JSON parser has to look.
    """
    read = _inside.read_named_bpe(data, vocabulary_at, merges_at, left_out)
    return None if read is None else (read[0], read[1], read[2].reshape(-1, 2))


def read_id_pairs(data: bytes, begin: int) -> tuple[Ids, int] | None:
    """([m, 2] of a list of pairs of ids in canonical JSON that begins there, its end); None of anything else."""
    read = _inside.read_id_pairs(data, begin)
    return None if read is None else (read[0].reshape(-1, 2), read[1])


def read_base64_tokens(data: bytes, begin: int) -> tuple[tuple[bytes, ...], Ids, int] | None:
    """(tokens, ids, end) of a list of [base64, id] in canonical JSON that begins there; None of anything else."""
    return _inside.read_base64_tokens(data, begin)


def write_id_pairs(pairs: Ids) -> bytes:
    """The canonical JSON of pairs of ids, int32 [m, 2].

    >>> write_id_pairs(np.array([[1, 2], [3, 4]], np.int32))
    b'[[1,2],[3,4]]'
    """
    return _inside.write_id_pairs(np.ascontiguousarray(pairs, np.int32).reshape(-1))


def write_base64_tokens(tokens: Texts, ids: Ids) -> bytes:
    """The canonical JSON of [base64, id] of each token."""
    return _inside.write_base64_tokens(*tokens, ids)


def join_merges(byte_order: bytes, merges: Ids, max_token: int, max_all: int) -> tuple[bytes, ...] | None:
    """The bytes in this order, and what each merge of earlier tokens makes; None if one is not, or over the limits.

    merges: int32 [m, 2], places of tokens. max_token, max_all: bytes of a token, and of all together.
    """
    return _inside.join_merges(byte_order, np.ascontiguousarray(merges, np.int32).reshape(-1), max_token, max_all)


def join_pairs(tokens: Texts, ids: Ids, pairs: Ids) -> Ids:
    """For each pair of ids, int32 [m, 2], the id of the token that their bytes joined are; -1 if they make none.

    ids: of the tokens, ascending. tokens: all different, none empty.
    """
    return _inside.join_pairs(*tokens, ids, np.ascontiguousarray(pairs, np.int32).reshape(-1))


def assign_partitions(keys: Texts, num_partitions: int) -> npt.NDArray[np.int64]:
    """The partition, 0 <= p < num_partitions, of each key: the top bits of a hash that never changes.

    The hash is that of kernel/memory/hash.h. num_partitions: a power of two, at most 2**32.
    """
    return _inside.assign_partitions(*keys, num_partitions)


def pack_rows(rows: CountRows) -> memoryview:
    """The canonical bytes of rows: of each, u32 key length, key, u64 count, u64 documents, all little-endian."""
    return memoryview(_inside.pack_rows(*rows.keys, rows.counts, rows.documents))
