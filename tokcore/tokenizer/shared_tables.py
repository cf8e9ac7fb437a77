"""The tables and caches of tokenizers, which all that have one fingerprint share within a process."""

from __future__ import annotations

import functools
import threading
import weakref

import numpy as np
import numpy.typing as npt

from tokcore import kernel
from tokcore.files.garbage import no_collection
from tokcore.kernel import DropoutBpe, DropoutWordpiece, NormalizingEncoder, SampledUnigram
from tokcore.models.sentencepiece.converted import find_model_within
from tokcore.text.byte_alphabet import to_printable
from tokcore.text.normalize import Normalizer
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.text.texts import make_texts_from_strings
from tokcore.tokenizer.sampling import Probability, make_dropout_encoder, make_sampled_encoder
from tokcore.tokenizer.special_text import AddedTokens
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec

_BLANK = to_printable(b" ")
_MOST_IDS = 1 << 24  # for which there is a place in a table: pinned ids may be large
CACHE_BYTES = 32 << 20  # of encoded pre-tokens: a tokenizer in one thread; eight times as much at most in a process


class SharedTables:
    """What tokenizers of one fingerprint encode and decode with."""

    def __init__(self, spec: TokenizerSpec) -> None:
        self.normalizer = Normalizer(spec.normalizer)
        self.pretokenizer = Pretokenizer.from_spec(spec.pattern)
        self.added = AddedTokens(spec.special, self.normalizer)
        self.encoder = spec.model.encoder(self.pretokenizer.native_name, CACHE_BYTES)
        added = {id: text.encode() for text, id in self.added.ids.items() if id not in spec.shared_ids}
        self.decoder = spec.model.decoder(added)
        # Whether any text is encoded as it is, and whether most are: that need no normalizing and spell no added token.
        self.takes_most = self.pretokenizer.native_name is not None and (
            self.normalizer.is_nfc or not self.normalizer.steps
        )
        self.takes_strings = self.takes_most and not (self.normalizer.steps or self.added.has_always)
        self._model = spec.model
        self._sampled: tuple[Probability, SampledUnigram] | None = None

    def change(self, text: bytes) -> bytes:
        """A normalized text as the steps of the split pattern leave it: itself, if they only cut."""
        if self.pretokenizer.keeps_text:
            return text
        return self.pretokenizer.cut(make_texts_from_strings([text]))[0].text(0)

    @functools.cached_property
    def encoder_within(self) -> NormalizingEncoder | None:
        """The encoder for parts that do not begin their text; None if it is the same."""
        model = find_model_within(self._model)
        return None if model is None else model.piece_encoder(CACHE_BYTES)

    @functools.cached_property
    def dropout_encoder(self) -> DropoutBpe | DropoutWordpiece:
        """What draws ids with dropout."""
        return make_dropout_encoder(self._model)

    def sampled_encoder(self, theta: Probability) -> SampledUnigram:
        """What draws cuts of a Unigram; the one for the last theta is kept."""
        kept = self._sampled
        if kept is None or kept[0] != theta:
            kept = self._sampled = theta, make_sampled_encoder(self._model, theta)
        return kept[1]

    @functools.cached_property
    def keeps_most(self) -> bool:
        """Whether the tokens of a text that no step normalizes are, joined, that text."""
        fits = self._num_ids <= _MOST_IDS
        return self._model.lossless and self._model.unknown is None and self.pretokenizer.keeps_text and fits

    @functools.cached_property
    def size_of_id(self) -> npt.NDArray[np.int64]:
        """The bytes of text that each id stands for; 0 for an unused one."""
        sizes = np.zeros(self._num_ids, np.int64)
        sizes[self._model.ids] = self._model.sizes
        for text, id in self.added.ids.items():
            sizes[id] = len(text.encode())
        return sizes

    @functools.cached_property
    def white_of_id(self) -> npt.NDArray[np.int64]:
        """int64 [2, ids]: how many characters of white space the name of each token begins and ends with."""
        white = np.zeros((2, self._num_ids), np.int64)
        for id, name in self.name_of_id.items():
            spaced = name.replace(_BLANK, " ")
            white[:, id] = len(name) - len(spaced.lstrip()), len(name) - len(spaced.rstrip())
        return white

    @functools.cached_property
    def _num_ids(self) -> int:
        return max(int(self._model.ids.max()), *self.added.ids.values(), 0) + 1

    @functools.cached_property
    def id_of_name(self) -> dict[str, int]:
        """The ordinary tokens: name -> id."""
        return dict(zip(self._model.names, self._model.ids.tolist(), strict=True))

    @functools.cached_property
    def name_of_id(self) -> dict[int, str]:
        """All tokens: id -> name."""
        return {id: name for name, id in (self.id_of_name | self.added.ids).items()}

    @functools.cached_property
    def id_of_bytes(self) -> dict[bytes, int]:
        """The ordinary tokens: bytes -> id."""
        return dict(zip(self._model.tokens, self._model.ids.tolist(), strict=True))


_lock = threading.Lock()
_tables_of: weakref.WeakValueDictionary[tuple[str, str], SharedTables] = weakref.WeakValueDictionary()


@no_collection()
def get_shared_tables(spec: TokenizerSpec) -> SharedTables:
    """The tables of this fingerprint in the kernel's implementation in use; made if no tokenizer has them yet."""
    key = (spec.fingerprint, kernel.get_implementation())
    with _lock:
        tables = _tables_of.get(key)
        if tables is None:
            tables = _tables_of[key] = SharedTables(spec)
        return tables
