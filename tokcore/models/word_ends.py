"""BPE of bytes that know where a word ends, learned: `[learn] end_of_word`, as CLIP's vocabulary has it.

The last byte of a pre-token is another symbol than the same byte within it: it bears a suffix, `</w>`. So there are 512
symbols: the bytes in hf order, then the same with the suffix, and then merges in the order of learning. Encoding, and
what the suffix means to a text: tokcore.models.symbol_bpe.
"""

from __future__ import annotations

import numpy as np

from tokcore import kernel
from tokcore.count.pretoken_rows import Counts
from tokcore.errors import FormatError, LearnError
from tokcore.models.model import MAX_TOKEN_BYTES, MAX_VOCABULARY_BYTES, LearnOptions, Model, make_too_long_error
from tokcore.models.symbol_bpe import SymbolBpeModel, require_symbol_bpe
from tokcore.text.byte_alphabet import BYTE_OF_ID, ID_OF_BYTE, from_printable, to_printable
from tokcore.text.texts import Texts

NUM_SYMBOLS = 512


def check_suffix(suffix: str) -> str:
    """What is wrong with a suffix; empty if nothing is.

    >>> check_suffix("</w>"), check_suffix("_")
    ('', 'is the name of a byte: expected several characters, such as </w>.')
    """
    if not suffix.isprintable() or " " in suffix:
        return "has white space, or characters that are not to be seen: expected such as </w>."
    if len(suffix) == 1 and from_printable(suffix) is not None:
        return "is the name of a byte: expected several characters, such as </w>."
    return ""


def learn_ended(pretokens: Texts, counts: Counts, options: LearnOptions) -> SymbolBpeModel:
    """The model of 512 symbols and up to vocab_size - num_special - 512 merges.

    Raises LearnError for a table without text, counts that are too large, tokens over the limits, and a token within
    words whose name ends with the suffix, as it would be taken for one that ends a word.

    >>> from tokcore.text.texts import make_texts_from_strings
    >>> words = make_texts_from_strings(["low", "lower"])
    >>> model = learn_ended(words, np.array([2, 1], np.uint64), LearnOptions(vocab_size=514, end_of_word="</w>"))
    >>> model.names[512:]
    ('lo', 'low</w>')
    """
    if pretokens.size_bytes == 0:
        raise LearnError("the count table is empty: there is nothing to learn from")
    try:
        left, right, _ = kernel.learn_symbol_merges(
            *_list_symbols(pretokens),
            counts,
            np.ones(NUM_SYMBOLS, np.int64),
            max(0, options.vocab_size - options.num_special - NUM_SYMBOLS),
            options.min_count,
            options.max_token_bytes,
            options.threads,
            options.merges_done,
        )
    except OverflowError as error:
        raise LearnError(f"the counts of the table are too large: {error}. Divide them by a common factor.") from error
    return name_ended(np.stack([left, right], axis=1), options)


def name_ended(merges: kernel.Ids, options: LearnOptions) -> SymbolBpeModel:
    """The model of these merges of symbols, int32 [m, 2]. Raises LearnError as learn_ended does of tokens."""
    return _make_model(_spell(merges, options.end_of_word), merges, options.end_of_word)


def shorten_ended(model: Model, options: LearnOptions) -> SymbolBpeModel:
    """What learn_ended gives for a smaller vocab_size, from what it gave for a larger one."""
    learned = require_symbol_bpe(model, "learning several sizes at once")
    num = min(options.vocab_size - options.num_special, len(learned.tokens))
    return _make_model(learned.names[:num], learned.merges[: num - NUM_SYMBOLS], learned.suffix)


def _make_model(names: tuple[str, ...], merges: kernel.Ids, suffix: str) -> SymbolBpeModel:
    ids = np.arange(len(names), dtype=np.int32)
    tokens = tuple(name.encode() for name in names)
    return SymbolBpeModel(tokens, ids, merges, unknown=None, bytewise=True, suffix=suffix)


def _list_symbols(pretokens: Texts) -> tuple[np.ndarray, np.ndarray]:
    """(symbols, offsets) of the pre-tokens."""
    offsets = pretokens.offsets - pretokens.offsets[0]
    of_byte = np.frombuffer(ID_OF_BYTE, np.uint8).astype(np.uint32)
    symbols = of_byte[pretokens.data[pretokens.offsets[0] : pretokens.offsets[-1]]]
    symbols[offsets[1:][np.diff(offsets) > 0] - 1] += np.uint32(256)
    return symbols, offsets


def _spell(merges: kernel.Ids, suffix: str) -> tuple[str, ...]:
    """The tokens' names. Raises LearnError for those over the limits, or that another one could be taken for."""
    names = [to_printable(BYTE_OF_ID[i : i + 1]) for i in range(256)]
    names += [name + suffix for name in names]
    ends = [False] * 256 + [True] * 256
    total = sum(len(name.encode()) for name in names)
    for left, right in merges.tolist():
        name = names[left] + names[right]
        size = len(name.encode())
        total += size
        if size > MAX_TOKEN_BYTES or total > MAX_VOCABULARY_BYTES:
            error: FormatError = make_too_long_error(size, total, f"token {len(names)}")
            raise LearnError(f"{error}. Set count.max_pretoken_bytes or learn.max_token_bytes.")
        if not ends[right] and name.endswith(suffix):
            raise LearnError(
                f"learn.end_of_word = {suffix!r}: the text spells it, and {name!r:.80} became a token that ends no "
                f"word. Choose another one, such as {_SUFFIX_OF_NO_BYTES!r}."
            )
        names.append(name)
        ends.append(ends[right])
    return tuple(names)


_SUFFIX_OF_NO_BYTES = "⟨/w⟩"  # characters that no byte has
