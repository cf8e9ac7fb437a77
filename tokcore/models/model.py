"""The door to models: what the rest of the code asks of BPE, of bytes, and of any model to come.

A ModelType is a row of the table in tokcore.models: it learns, and reads models back from tokcore.json. A Model is what
comes out: a vocabulary, and the rules by which pre-tokens become ids. Special tokens, the normalizer and the split
pattern are the tokenizer's (tokcore.tokenizer.tokenizer_spec), the same for all models.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tokcore.count.pretoken_rows import CountRows, Counts
from tokcore.errors import FormatError
from tokcore.files.jsonable import Place
from tokcore.learn.rounds import MergesSoFar, Round
from tokcore.models.sentencepiece.piece_options import PieceOptions
from tokcore.models.token_decoders import GivenIds, TableDecoder
from tokcore.text.patterns import DEFAULT_PATTERN
from tokcore.text.texts import Offsets, Texts, make_texts_from_strings

Ids = npt.NDArray[np.int32]

ID_LIMIT = 2**31  # ids are int32 everywhere
MAX_TOKEN_BYTES = 65_535
DEFAULT_COVERAGE = Decimal("0.9995")
DEFAULT_SUPERSET = Decimal(2)
MAX_VOCABULARY_BYTES = 2**30  # of all tokens together: a small file must not unfold into a large one

# The kinds of tokcore.json whose names do not say what they are.
_DESCRIBED = {
    "learned": "a byte-level BPE",
    "merges": "a byte-level BPE of another program's merges",
    "ranks": "a byte-level BPE of ranks",
    "pathpiece": "a PathPiece, which has no merges",
}


def describe_kind(kind: str) -> str:
    """A kind of model in the words of its users, after "is": "a byte-level BPE", "of the kind unigram"."""
    return _DESCRIBED.get(kind, f"of the kind {kind}")


class Encoder(Protocol):
    """Turns batches of texts into ids. Safe to share between threads."""

    def encode(self, texts: Texts, threads: int = 1) -> tuple[Ids, Offsets, Offsets]:
        """(ids of all texts, n + 1 offsets into them, number of pre-tokens of each text); same for any threads."""

    def encode_strings(self, texts: Sequence[str | bytes], threads: int = 1) -> tuple[Ids, Offsets, Offsets]:
        """The same for str, which are encoded as UTF-8, and bytes."""
        return self.encode(make_texts_from_strings(texts), threads)

    def encode_text(self, text: str | bytes) -> Ids:
        """The ids of one text."""
        return self.encode_strings([text])[0]

    def count_text(self, text: str | bytes) -> int:
        """How many ids encode_text gives."""
        return len(self.encode_text(text))

    def encode_pieces(
        self, texts: Texts, ends: Offsets, firsts: Offsets, threads: int = 1
    ) -> tuple[Ids, Offsets, Offsets]:
        """The same for texts that are already split; ends and firsts as tokcore.kernel.split returns them."""


class Decoder(Protocol):
    """Turns ids, special ones among them, into bytes.

    ids: a list of int, of any size, or an int32 array. All methods raise IdentityError for an unused id.
    """

    def spell(self, id: int) -> bytes:
        """The bytes that one token stands for; of a special token its text."""

    def spell_all(self, ids: GivenIds, is_start: bool) -> list[bytes]:
        """The bytes that each id adds to a text. is_start: whether the ids are its first."""

    def decode(self, ids: GivenIds, is_whole: bool = True, errors: str | None = None) -> Any:
        """The bytes of a text that has these ids, or a str if errors is set; None for a list with other than int.

        is_whole: whether they are all of its ids; if not, they are neither its first nor its last.
        """

    def list_lists(self, rows: list[Any], errors: str | None = None) -> list[Any] | None:
        """decode of each list of int; None if this is better done one by one, or a value is no token's id."""

    def list_rows(self, ids: Ids, offsets: Offsets, errors: str | None = None) -> list[Any]:
        """decode of each row; row i is ids[offsets[i]:offsets[i + 1]]. Errors name the row."""

    def decode_rows(self, ids: Ids, offsets: Offsets) -> Texts:
        """The same as one array of bytes."""


Encode = Callable[[Texts], tuple[Ids, Offsets, Offsets]]  # of pre-tokens: what Encoder returns


class Rules(NamedTuple):
    """What a model learned, in order and as bytes, since ids of two vocabularies mean different tokens."""

    name: str  # of one of them: "merge"; empty if nothing is learned
    listed: list[tuple[bytes, ...]]  # of each rule the tokens that it is about


class Unreachable(NamedTuple):
    """A token that its own bytes, encoded as one pre-token, do not give."""

    id: int
    becomes: tuple[int, ...]


class OwnToken(NamedTuple):
    """A special token of a layout."""

    role: str
    id: int


class MergesOfBytes(Protocol):
    """What is asked of a byte-level BPE, of whatever kind: tokcore.models.bpe has them."""

    @property
    def tokens(self) -> Sequence[bytes]:
        """The tokens, without special ones."""

    @property
    def ids(self) -> Ids:
        """Their ids."""

    @property
    def whole(self) -> bool:
        """Whether a pre-token that is a token is emitted as such, without merging."""

    def merge_pairs(self) -> Ids:
        """The merges as pairs of ids, int32 [m, 2], first merged first.

        Raises FormatError, naming a token, if no merges give the same ids.
        """

    def check_ranks_suffice(self) -> None:
        """Raise FormatError, naming a token, unless the tokens with their ids as ranks give the same ids."""


class Model(Protocol):
    """A vocabulary, and how it makes ids out of pre-tokens. Immutable; construction raises FormatError."""

    kind: ClassVar[str]  # its name in tokcore.json
    lossless: ClassVar[bool]  # whether decoding gives back every normalized text; if not, some texts share their ids

    @property
    def tokens(self) -> tuple[bytes, ...]:
        """The ordinary tokens' bytes, in the order of ids."""

    @property
    def ids(self) -> Ids:
        """Their ids, ascending."""

    @property
    def names(self) -> tuple[str, ...]:
        """What vocabulary files call them, in the order of ids."""

    @property
    def sizes(self) -> Ids:
        """How many bytes of text each stands for, in the order of ids."""

    @property
    def unknown(self) -> int | None:
        """The id of the special token that stands for text without tokens; None if all text has some."""

    @property
    def summary(self) -> str:
        """What its tokens are, for messages: "256 bytes, 1000 merges"."""

    def check(self) -> None:
        """Raise FormatError for what a spec of this model must not be. Ids and sizes are checked for all models."""

    def encoder(self, pattern: str | None, cache_bytes: int) -> Encoder:
        """An encoder that splits by this named pattern, or with None one whose texts all come split.

        cache_bytes: what a thread may keep of encoded pre-tokens.
        """

    def decoder(self, special: Mapping[int, bytes]) -> Decoder:
        """A decoder that knows these special tokens, too."""

    def facts(self) -> dict[str, Any]:
        """What the manifest says of it besides fingerprint and vocab_size: {"merges": 1000}."""

    def rules(self) -> Rules:
        """What it learned, to compare two models by."""

    def unreachable(self, encode: Encode) -> list[Unreachable]:
        """The ordinary tokens that no text becomes, by id. encode: the ids of each pre-token."""

    def as_bpe(self) -> MergesOfBytes:
        """The same ids by byte-level BPE: what tokenizer.json, rank files and vocab.json with merges.txt are made from.

        Raises FormatError, naming this kind of model, where merges cannot give the same ids.
        """

    def functional(self) -> dict[str, Any]:
        """Its JSON form, without what decides no id; it has the key kind."""

    def informative(self) -> dict[str, Any]:
        """The rest of its JSON form."""


class StoredModel(Model, Protocol):
    """A model that tokcore.json may hold, by its kind."""

    @classmethod
    def from_json(cls, value: Any, place: Place) -> Model:
        """The model whose functional() and informative() are value."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LearnOptions:
    """What a build file asks of a model, special tokens included in vocab_size."""

    vocab_size: int
    num_special: int = 0
    min_count: int = 2  # on the scale of the counts
    max_token_bytes: int = 0  # 0: no limit
    scale: float = 1  # what one occurrence adds to the counts
    min_seed_count: int = 2  # on the scale of the counts: two occurrences
    pieces: PieceOptions = dataclasses.field(default_factory=PieceOptions)
    threads: int = 1
    end_of_word: str = ""  # what the name of a token that ends a word ends with; empty: words have no ends
    layout: str = ""  # of ids; empty: the model's own
    character_coverage: Decimal = DEFAULT_COVERAGE
    superset: Decimal = DEFAULT_SUPERSET  # how many times the size is learned before tokens are dropped
    pinned: Mapping[str, int] = dataclasses.field(default_factory=dict)  # special token -> the id that it has already
    merges_done: npt.NDArray[np.int64] | None = None  # its one value rises while merges are learned


class ModelType(ABC):
    """One value of `[learn] model`: derive from it, and state what differs from a type without special tokens and
    layouts of its own, for any pattern, that is learned for each size.
    """

    text: str  # what it is, for the build file's schema
    default_size: str  # default_vocab_size in words, for the same
    uses: Collection[str]  # the settings of [learn] that change what it learns; others are accepted without effect
    models: tuple[type[StoredModel], ...]  # those that it learns, and others that tokcore.json may hold

    # Special tokens that it always has -> their roles; their ids are 0, 1, ... unless they are pinned elsewhere. Where
    # there are some, special tokens may be pinned anywhere: ordinary tokens take the ids that are free.
    own_special: Mapping[str, str] = MappingProxyType({})
    # Layouts of ids as other libraries have them -> their special tokens by text; "" is the model's own.
    layouts: Mapping[str, Mapping[str, OwnToken]] = MappingProxyType({})
    # The split pattern, and the steps of the normalizer, where the build file names none.
    pattern: str = DEFAULT_PATTERN
    normalizer: tuple[str, ...] = ()
    # What draws its ids at random: "dropout", "sampling", or empty if nothing does.
    drawn_by: str = ""
    # Whether ids under its first tokens follow from those under all: tokcore.tokenizer.smaller.
    is_taken_apart: bool = False
    # Bytes of memory that learning takes for each row of the count tables, and more for each byte of its pre-token, the
    # rows themselves included; rounded up. What was measured is in tests/benchmarks/README.md.
    learn_row_bytes: tuple[int, int] = (190, 0)
    # Whether weights of languages may follow its tokens: it is learned in seconds, and all text has tokens.
    follows_premium: bool = False
    # Whether its pre-tokens have U+2581 for spaces. Its models then normalize and split text themselves.
    marks_spaces: bool = False
    # Whether it learns pre-tokens of other named patterns, too; if it marks spaces, these as bytes.
    splits_by_any: bool = True

    @property
    def kinds(self) -> Mapping[str, Callable[[Any, Place], Model]]:
        """Kind in tokcore.json -> reads such a model from its JSON form."""
        return {one.kind: one.from_json for one in self.models}

    def default_vocab_size(self, num_special: int) -> int:
        """The vocab_size where the build file sets none, special tokens included."""
        return int(self.default_size.replace(",", ""))

    def wrong_option(self, options: LearnOptions) -> tuple[str, str] | None:
        """(setting of [learn], what is wrong with its value), known before anything is counted; None if all is well.

        By default vocab_size must leave room for ordinary tokens.
        """
        if options.vocab_size > options.num_special:
            return None
        return "vocab_size", (
            f"= {options.vocab_size}: must be more than the {options.num_special} special tokens that it includes."
        )

    def count_merges(self, options: LearnOptions) -> int:
        """How far options.merges_done rises while it learns, if the rows give so much."""
        return max(0, options.vocab_size - options.num_special - 256)

    def own_form(self, model: MergesOfBytes) -> Model | None:
        """The model that this type learns with the same tokens, ids and behaviour; None if it learns no such model.

        model: as a foreign file has it. So our own exports are read back as what they were.
        """
        return None

    # Whether it learns the same where rows do not fit in memory: learn_in_rounds, make_of_merges.
    learns_in_rounds: bool = False

    @abstractmethod
    def learn(self, rows: Callable[[], tuple[Texts, Counts]], options: LearnOptions) -> Model:
        """The model of up to vocab_size - num_special tokens.

        rows: gives pre-tokens and their counts, in any order; called only by a model that learns from them.
        Raises LearnError for rows that nothing can be learned from.
        """

    def learn_in_rounds(
        self,
        read: Callable[[], Iterator[CountRows]],
        memory_bytes: int,
        options: LearnOptions,
        on_round: Callable[[Round], None],
    ) -> Model:
        """What learn gives, in about so much memory, however many rows there are. Only if it learns_in_rounds.

        read: gives the rows, each time the same ones. on_round: hears of each round. Raises LearnError as learn does,
        and if the memory is too small.
        """
        raise NotImplementedError  # unless learns_in_rounds says otherwise, which callers ask first

    def make_of_merges(self, so_far: MergesSoFar, options: LearnOptions) -> Model:
        """What learn gives, of the merges that it finds: by rounds, elsewhere. Only if it learns_in_rounds."""
        raise NotImplementedError  # callers ask learns_in_rounds first

    def shorten(self, model: Model, options: LearnOptions) -> Model | None:
        """What learn gives from the same rows, made of a model that was learned for a larger vocab_size and no less.

        None if it must be learned: where the tokens of a small vocabulary are not the first ones of a large one.
        Raises LearnError as learn does.
        """
        return None


class JoinedTokens(TableDecoder):
    """The decoder of a model whose texts are the bytes of their tokens, one after the other."""


def find_unlike_themselves(model: Model, encode: Encode) -> list[Unreachable]:
    """The ordinary tokens whose own bytes, encoded as one pre-token, become anything but their id; by id."""
    ids = model.ids
    encoded, offsets, _ = encode(make_texts_from_strings(model.tokens))
    alone = np.diff(offsets) == 1
    same = np.zeros(len(alone), bool)
    same[alone] = encoded[offsets[:-1][alone]] == ids[alone]
    return sorted(
        Unreachable(int(ids[i]), tuple(encoded[offsets[i] : offsets[i + 1]].tolist()))
        for i in np.flatnonzero(~same).tolist()
    )


def find_pinned(options: LearnOptions, own: Mapping[str, str]) -> dict[str, int]:
    """The ids of the special tokens that have one: those of options, and of own ones the lowest that are free.

    >>> find_pinned(LearnOptions(vocab_size=9, pinned={"x": 0}), {"[PAD]": "padding", "[UNK]": "unknown"})
    {'x': 0, '[PAD]': 1, '[UNK]': 2}
    """
    missing = [text for text in own if text not in options.pinned]
    free = find_free_ids(len(missing), options.pinned.values())
    return {**options.pinned, **dict(zip(missing, free.tolist(), strict=True))}


def find_free_ids(num: int, taken: Collection[int]) -> Ids:
    """The lowest ids that are not taken, ascending.

    >>> find_free_ids(3, [0, 2, 900]).tolist()
    [1, 3, 4]
    """
    candidates = np.arange(num + len(taken), dtype=np.int32)
    return candidates[~np.isin(candidates, [*taken])][:num]


def make_too_long_error(length: int, total: int, what: str) -> FormatError:
    """The error for a vocabulary that passes one of the limits."""
    return FormatError(
        f"{what} makes a token of {length} bytes, {total} in all: the limits are {MAX_TOKEN_BYTES} a token and "
        f"{MAX_VOCABULARY_BYTES} in all"
    )
