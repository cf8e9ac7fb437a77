"""The reference under the names, and with the arguments, of the native module: what tokcore.kernel may load instead."""

# What is imported here is what this module is for.
# ruff: noqa: F401
# mypy: implicit-reexport

from __future__ import annotations

from typing import Any

import numpy as np

from tokcore.reference.arrays import Ids
from tokcore.reference.reference import (
    Automaton,
    BpeEncoder,
    Counter,
    IdCounter,
    IdParts,
    IdReplacer,
    JsonLines,
    MuHash,
    NormalizingEncoder,
    PretokenEncoder,
    RowMerger,
    StringFinder,
    WordpieceEncoder,
    assign_partitions,
    find_masked,
    highway_hash,
    join_merges,
    join_pairs,
    learn,
    learn_characters,
    learn_symbols,
    list_strings_unlike_nfc,
    list_unlike_nfc,
    normalize_bert,
    pack_rows,
    pack_varints,
    rank_merges,
    rank_parts,
    read_base64_tokens,
    read_id_pairs,
    read_named_bpe,
    skip_json,
    split,
    split_by_chain,
    unpack_varints,
    write_base64_tokens,
    write_id_pairs,
)
from tokcore.reference.reference_converted import ByteUnigramEncoder, ConvertedEncoder, SymbolBpeEncoder
from tokcore.reference.reference_decoding import TokenTable
from tokcore.reference.reference_fewest import drop_least_needed
from tokcore.reference.reference_floors import FloorRound
from tokcore.reference.reference_ngram import predict_by_ngrams
from tokcore.reference.reference_pieces import learn_piece_merges, learn_unigram
from tokcore.reference.reference_sampling import DropoutBpe, DropoutWordpiece, SampledUnigram
from tokcore.reference.reference_sentencepiece import SentencepieceEncoder as RawSentencepieceEncoder
from tokcore.text.texts import Bytes, Offsets


def Encoder(pattern: str, data: Bytes, offsets: Offsets, token_ids: Ids, *rules: Any) -> PretokenEncoder:  # noqa: N802
    """The encoder that these rules are for, as types tell them apart; a budget and an implementation come last."""
    makers: Any = {
        np.int32: BpeEncoder,
        np.uint8: WordpieceEncoder,
        np.float64: ByteUnigramEncoder,
        np.uint32: SymbolBpeEncoder,
    }
    made: PretokenEncoder = makers[rules[0].dtype.type](pattern, data, offsets, token_ids, *rules[:-2])
    return made


def SentencepieceEncoder(  # noqa: N802
    is_unigram: bool, data: Bytes, offsets: Offsets, ids: Ids, *rules: Any
) -> NormalizingEncoder:
    """The same of those that have no pattern: types of pieces come after the scores, or there are none."""
    maker = RawSentencepieceEncoder if isinstance(rules[1], np.ndarray) else ConvertedEncoder
    return maker(is_unigram, data, offsets, ids, *rules[:-1])
