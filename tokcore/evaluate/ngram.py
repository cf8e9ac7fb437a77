"""How well tokens are predicted: bits per byte of a token n-gram model, at equal data and at equal tokens.

Shorter text is not better predicted text. A small language model of the tokens, interpolated modified Kneser-Ney (Chen
and Goodman, 1998), learns from some texts of a language and predicts others. Bits are divided by bytes of text, so
tokenizers are comparable; vocabularies of different sizes are not: a larger one needs more text to learn from.
docs/reference/prediction.md defines the model. Nothing is drawn by chance, and results are the same on every machine,
for any number of threads.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore import kernel
from tokcore.tokenizer.encoded_batch import Encoded
from tokcore.tokenizer.tokenizer import Tokenizer

ORDER = 12  # tokens: the predicted one, and at most eleven before it
CONTEXT_BYTES = 48  # of those before it together
LEARNED_BYTES = 1_000_000  # of each language
PREDICTED_BYTES = 200_000

_Z = 1.96  # standard errors: 95 %


class Ratio(NamedTuple):
    """A quotient of sums over documents. margin: half of its 95 % interval; None of fewer than two documents."""

    value: float
    margin: float | None


class Predicted(NamedTuple):
    """What the model needs for the documents of a language."""

    bits: npt.NDArray[np.float64]  # of each document
    sizes_bytes: npt.NDArray[np.int64]  # of each, as text
    num_tokens: int  # of all
    context_bytes: int  # of the tokens from which they were predicted, added up over num_tokens
    learned_tokens: int

    @property
    def bits_per_byte(self) -> Ratio:
        return estimate_ratio(self.bits, self.sizes_bytes)

    @property
    def mean_context_bytes(self) -> float:
        """From how many bytes a token was predicted; long tokens see no more than short ones."""
        return self.context_bytes / self.num_tokens

    def minus(self, other: Predicted) -> Ratio:
        """Bits per byte more than another tokenizer's for the same documents. The margin is that of the difference.

        It is smaller than those of the two, because what is hard to predict is hard for both.
        """
        return estimate_ratio(self.bits - other.bits, self.sizes_bytes)


class Predictability(NamedTuple):
    """equal_data: all have learned from the same texts. equal_tokens: from as many tokens, the first of these texts."""

    equal_data: Predicted
    equal_tokens: Predicted


def draw_texts(texts: Iterable[bytes], size_bytes: int) -> list[bytes]:
    """Texts in the order of their sha256, until they have that many bytes: the same ones for any order of texts.

    >>> draw_texts([b"one", b"two", b"three", b""], 6)
    [b'two', b'one']
    """
    drawn = []
    for text in sorted(filter(None, texts), key=lambda text: hashlib.sha256(text).digest()):
        if size_bytes <= 0:
            break
        drawn.append(text)
        size_bytes -= len(text)
    return drawn


def compare_predictability(
    tokenizers: Mapping[str, Tokenizer],
    learned: Mapping[str, Sequence[bytes]],
    predicted: Mapping[str, Sequence[bytes]],
    *,
    threads: int = 1,
) -> dict[str, dict[str, Predictability]]:
    """Name of a tokenizer -> language -> what its tokens are predicted with.

    learned, predicted: language -> UTF-8 texts, of the same languages; none empty, and no text in both. Of each
    language at most LEARNED_BYTES and PREDICTED_BYTES are drawn. Equal tokens: as many as that tokenizer has for the
    texts of a language that needs the fewest. Raises ValueError if a language has no text to learn from or to predict.

    >>> from tokcore.tokenizer.tokenizer import Tokenizer
    >>> own = Tokenizer.load("out/first")
    >>> told = compare_predictability({"own": own}, {"en": [b"low lower lowest"] * 9}, {"en": [b"lowest lower"] * 2})
    >>> round(told["own"]["en"].equal_data.bits_per_byte.value, 3)
    1.05
    """
    if learned.keys() != predicted.keys():
        odd = sorted(learned.keys() ^ predicted.keys())
        raise ValueError(f"languages {odd}: expected text to learn from and to predict of each")

    def compare(lang: str) -> dict[str, Predictability]:
        texts = draw_texts(learned[lang], LEARNED_BYTES), draw_texts(predicted[lang], PREDICTED_BYTES)
        if not all(texts):
            raise ValueError(f"language {lang!r}: no text to {'predict' if texts[0] else 'learn from'}")
        encoded = {name: [one.encode_strings(of) for of in texts] for name, one in tokenizers.items()}
        fewest = min(len(of[0].ids) for of in encoded.values())
        sizes_bytes = np.array([*map(len, texts[1])], np.int64)
        return {
            name: Predictability(
                *(
                    predict(
                        cut_tokens(of[0], num),
                        of[1],
                        sizes_bytes,
                        measure_tokens(tokenizers[name]),
                    )
                    for num in (len(of[0].ids), fewest)
                )
            )
            for name, of in encoded.items()
        }

    with ThreadPoolExecutor(threads) as pool:
        by_lang = dict(zip(sorted(learned), pool.map(compare, sorted(learned)), strict=True))
    return {name: {lang: of[name] for lang, of in by_lang.items()} for name in tokenizers}


def predict(
    learned: Encoded,
    predicted: Encoded,
    sizes_bytes: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int32],
    *,
    order: int = ORDER,
    context_bytes: int = CONTEXT_BYTES,
) -> Predicted:
    """What a model of the learned documents needs for others.

    sizes_bytes: int64, of each document that is predicted. lengths: int32, bytes of each token, by id.
    order: 1 to 16. Raises ValueError for ids that have no length.
    """
    ids = np.concatenate([learned.ids, predicted.ids])
    offsets = np.concatenate([learned.offsets, predicted.offsets[1:] + learned.offsets[-1]])
    bits, contexts = kernel.predict_by_ngrams(ids, offsets, len(learned.offsets) - 1, lengths, order, context_bytes)
    return Predicted(bits, sizes_bytes, len(predicted.ids), int(contexts.sum()), len(learned.ids))


def measure_tokens(tokenizer: Tokenizer) -> npt.NDArray[np.int32]:
    """The bytes of each token, int32 [vocab_size]: 0 of ids that are not used."""
    lengths = np.zeros(tokenizer.vocab_size, np.int32)
    for text, id in tokenizer.added.items():
        lengths[id] = len(text.encode())
    model = tokenizer.spec.model
    lengths[model.ids] = model.sizes
    return lengths


def cut_tokens(documents: Encoded, num: int) -> Encoded:
    """The first so many tokens of documents; the last document may end early.

    >>> documents = Encoded(np.array([5, 6, 7], np.int32), np.array([0, 2, 3]), np.array([1, 1]))
    >>> cut_tokens(documents, 1).offsets.tolist()
    [0, 1]
    """
    last = int(np.searchsorted(documents.offsets, num))
    return Encoded(documents.ids[:num], np.minimum(documents.offsets[: last + 1], num), documents.pretokens[:last])


def estimate_ratio(above: npt.NDArray[np.float64], below: npt.NDArray[np.int64]) -> Ratio:
    """sum(above) / sum(below), with 1.96 times its standard error by the jackknife over documents.

    Sums are rounded once (math.fsum), so the order of documents does not matter. Source: Efron (1982), chapter 3.

    >>> estimate_ratio(np.array([1.0, 2.0, 3.0]), np.array([1, 1, 1]))
    Ratio(value=2.0, margin=1.1316065276116665)
    """
    total, size, num = math.fsum(above), int(below.sum()), len(above)
    if num < 2 or (below == size).any():
        return Ratio(total / size, None)
    without = (total - above) / (size - below)
    mean = math.fsum(without) / num
    return Ratio(total / size, _Z * math.sqrt((num - 1) / num * math.fsum((without - mean) ** 2)))


def average(ratios: Sequence[Ratio]) -> Ratio:
    """The mean of languages, each of which counts the same; their documents are independent.

    >>> average([Ratio(1.0, 0.3), Ratio(2.0, 0.4)])
    Ratio(value=1.5, margin=0.25)
    """
    margins = [one.margin for one in ratios if one.margin is not None]
    whole = len(margins) == len(ratios)
    margin = math.sqrt(math.fsum(one**2 for one in margins)) / len(ratios) if whole else None
    return Ratio(math.fsum(one.value for one in ratios) / len(ratios), margin)
