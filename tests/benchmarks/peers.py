"""Encoders to compare with: each an adapter of a few lines, loaded only where it is installed.

An adapter takes (rank file, threads) and returns three functions. The first prepares documents in the form that the
library is fastest with (not timed), the second encodes them (timed), the third returns the ids of each document (not
timed; compared before anything is ranked).
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from measuring import version

from tokcore.formats.tokenizers.huggingface import expand_possessive_intervals
from tokcore.text.patterns import PATTERNS


class Loaded(NamedTuple):
    """A library that has loaded the cl100k ranks."""

    prepare: Callable[[pa.Array], Any]
    encode: Callable[[Any], Any]
    ids: Callable[[Any], Iterable[Any]]


class Peer(NamedTuple):
    """A library, and how to load it."""

    package: str  # its name in the package index
    load: Callable[[str, int], Loaded]

    @property
    def is_installed(self) -> bool:
        return version(self.package) is not None or self.package == "tokcore"


def _strings(documents: pa.Array) -> list[str]:
    return documents.to_pylist()


def _flat(kind: str) -> Callable[[Any], Iterable[Any]]:
    def ids(result: Any) -> Iterable[Any]:
        flat, offsets = np.frombuffer(result[0], kind), np.frombuffer(result[1], np.int64)
        return (flat[a:b] for a, b in itertools.pairwise(offsets))

    return ids


def _rows(result: pa.ListArray) -> Iterable[Any]:
    flat, offsets = result.values.to_numpy(), result.offsets.to_numpy()
    return (flat[a:b] for a, b in itertools.pairwise(offsets))


def _each(result: Any) -> Iterable[Any]:
    return result


def _portable(ranks: str, threads: int) -> Loaded:
    from tokcore import kernel

    with kernel.force("portable"):
        return _tokcore(strings=False)(ranks, threads)


def _tokcore(strings: bool) -> Callable[[str, int], Loaded]:
    def load(ranks: str, threads: int) -> Loaded:
        from tokcore import Tokenizer

        tokenizer = Tokenizer.from_tiktoken(ranks, pattern="cl100k")
        prepare = _strings if strings else lambda x: x
        return Loaded(prepare, lambda x: tokenizer.encode_batch(x, threads), _rows)

    return load


def load_tiktoken(ranks: str) -> Any:
    """tiktoken's encoding of a cl100k rank file."""
    import tiktoken

    with open(ranks, "rb") as file:  # noqa: PTH123 - a plain name came over the pipe
        lines = (line.split() for line in file)
        table = {base64.b64decode(token): int(rank) for token, rank in lines}
    return tiktoken.Encoding("cl100k", pat_str=PATTERNS["cl100k"], mergeable_ranks=table, special_tokens={})


def _tiktoken(ranks: str, threads: int) -> Loaded:
    encoding = load_tiktoken(ranks)
    if threads == 1:
        return Loaded(_strings, lambda x: [encoding.encode_ordinary(text) for text in x], _each)
    return Loaded(_strings, lambda x: encoding.encode_ordinary_batch(x, num_threads=threads), _each)


def _huggingface(ranks: str, _threads: int) -> Loaded:
    import tokenizers

    from tokcore import Tokenizer
    from tokcore.formats.tokenizers.huggingface import write_tokenizer_json

    spec = Tokenizer.from_tiktoken(ranks, pattern="cl100k").spec
    tokenizer = tokenizers.Tokenizer.from_str(write_tokenizer_json(spec).decode())
    encode = tokenizer.encode_batch_fast
    return Loaded(_strings, lambda x: encode(x, add_special_tokens=False), lambda result: (one.ids for one in result))


def _fastokens(ranks: str, _threads: int) -> Loaded:
    import fastokens

    # The name of the encoding makes it load faster and run no slower than the pattern's text.
    tokenizer = fastokens.Tokenizer.from_tiktoken(ranks, encoding="cl100k_base")
    return Loaded(_strings, lambda x: tokenizer.encode_batch_flat(x, split_special_tokens=True), _flat("<u4"))


def _gigatoken(strings: bool) -> Callable[[str, int], Loaded]:
    def load(ranks: str, threads: int) -> Loaded:
        import gigatoken

        tokenizer = gigatoken.Tokenizer.from_tiktoken(ranks, pretokenizer="cl100k")

        def source(documents: pa.Array) -> Any:
            # It skips empty pieces and treats NUL as a separator only, so this form is for ordinary documents.
            joined = b"\0".join(documents.cast(pa.large_binary()).to_pylist())
            return gigatoken.gigatoken_rs.BytesSource(joined, separator=b"\0")

        def rows(result: Any) -> Iterable[Any]:
            return (np.asarray(row) for row in result)

        prepare = _strings if strings else source
        return Loaded(prepare, lambda x: tokenizer.encode_batch(x, parallel=threads > 1), rows)

    return load


def _toktok(_ranks: str, threads: int) -> Loaded:
    import toktok

    encoding = toktok._encoding("cl100k_base")  # its public function only counts tokens
    return Loaded(_strings, lambda x: encoding.encode_batch_to_numpy(x, threads), _flat("<u4"))


def _quicktok(_ranks: str, threads: int) -> Loaded:
    import quicktok

    encoding = quicktok.get_encoding("cl100k_base")
    return Loaded(_strings, lambda x: encoding.encode_batch(x, threads), _flat("<u4"))


def _bpe_openai(_ranks: str, _threads: int) -> Loaded:
    import bpe_openai

    encoding = bpe_openai.get_encoding("cl100k_base")
    return Loaded(_strings, lambda x: [encoding.encode_ordinary(text) for text in x], _each)


def _rs_bpe(_ranks: str, _threads: int) -> Loaded:
    import rs_bpe

    encoding = rs_bpe.openai.cl100k_base()
    return Loaded(_strings, lambda x: [encoding.encode(text) for text in x], _each)


ENCODERS = {
    "tokcore": Peer("tokcore", _tokcore(strings=False)),
    "tokcore, list of str": Peer("tokcore", _tokcore(strings=True)),
    "tokcore, portable": Peer("tokcore", _portable),
    "tiktoken": Peer("tiktoken", _tiktoken),
    "fastokens": Peer("fastokens", _fastokens),
    "gigatoken, one buffer": Peer("gigatoken", _gigatoken(strings=False)),
    "gigatoken, list of str": Peer("gigatoken", _gigatoken(strings=True)),
    "toktok": Peer("toktok-rs", _toktok),
    "quicktok": Peer("quicktok-v1", _quicktok),
    "rs-bpe": Peer("rs-bpe", _rs_bpe),
    "bpe-openai": Peer("bpe-openai", _bpe_openai),
    "tokenizers": Peer("tokenizers", _huggingface),
}
PACKAGES = (*sorted({peer.package for peer in ENCODERS.values()} - {"tokcore"}), "ffbpe", "gigabpe", "rustbpe")


def untrained_tokenizer(pattern: str) -> Any:
    """tokenizers' byte-level BPE with that pattern, spelled so that its engine reads it as all others do."""
    import tokenizers
    from tokenizers import models, pre_tokenizers

    split = pre_tokenizers.Split(tokenizers.Regex(expand_possessive_intervals(PATTERNS[pattern])), "isolated")
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, level])
    return tokenizer


def bpe_trainer(vocab_size: int) -> Any:
    """tokenizers' trainer, with every byte as a token."""
    from tokenizers import pre_tokenizers, trainers

    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return trainers.BpeTrainer(vocab_size=vocab_size, show_progress=False, initial_alphabet=alphabet)


def ffbpe_counter(pattern: str) -> Any:
    """ffbpe's counter, with the spelling of the pattern that it is fastest with."""
    import ffbpe

    return ffbpe.PreTokenizer([], pat_str=None if pattern == "gpt2" else PATTERNS[pattern]).word_counter()


def installed(names: Iterable[str] = ENCODERS) -> list[str]:
    """Those of the names whose library is installed."""
    return [name for name in names if ENCODERS[name].is_installed]


def missing() -> str:
    """A note on what was left out."""
    absent = [package for package in (*PACKAGES, "datatrove") if version(package) is None]
    return f"Not installed, so left out: {', '.join(absent)}." if absent else ""
