"""The native kernel. Used through tokcore.kernel only, which describes the functions; `implementation` comes last."""

from typing import Any, overload

import numpy as np
import numpy.typing as npt

_Bytes = npt.NDArray[np.uint8]
_Ids = npt.NDArray[np.int32]
_Offsets = npt.NDArray[np.int64]
_Counts = npt.NDArray[np.uint64]
_Rows = tuple[_Bytes, _Offsets, _Counts, _Counts]

UNICODE_VERSION: str
UNICODE_TABLES_SHA256: str

def implementations() -> list[str]: ...
def split(pattern: str, data: _Bytes, offsets: _Offsets, implementation: str) -> tuple[_Offsets, _Offsets]: ...
def split_in_steps(pattern: str, text: bytes, implementation: str, capacity: int) -> _Offsets: ...
def character_classes() -> _Bytes: ...
def normalize_bert(data: _Bytes, offsets: _Offsets, cased: bool) -> tuple[_Bytes, _Offsets]: ...

class Automaton:
    def __init__(
        self,
        num_classes: int,
        transitions: npt.NDArray[np.uint16],
        leaf_of_block: npt.NDArray[np.uint16],
        leaves: _Bytes,
        byte_classes: _Bytes,
    ) -> None: ...
    def split(self, data: _Bytes, offsets: _Offsets, bytewise: bool) -> tuple[_Offsets, _Bytes, _Offsets]: ...

def split_by_chain(
    automata: list[tuple[Automaton, bool]], data: _Bytes, offsets: _Offsets
) -> tuple[_Offsets, _Offsets]: ...

class Encoder:
    @overload
    def __init__(
        self,
        pattern: str,
        data: _Bytes,
        offsets: _Offsets,
        token_ids: _Ids,
        left: _Ids,
        right: _Ids,
        result: _Ids,
        priority: npt.NDArray[np.uint32],
        whole: bool,
        cache_bytes: int,
        implementation: str,
    ) -> None: ...
    @overload
    def __init__(
        self,
        pattern: str,
        data: _Bytes,
        offsets: _Offsets,
        token_ids: _Ids,
        continues: npt.NDArray[np.uint8],
        unknown_id: int,
        max_characters: int,
        drops_space: bool,
        cache_bytes: int,
        implementation: str,
    ) -> None: ...
    @overload
    def __init__(
        self,
        pattern: str,
        data: _Bytes,
        offsets: _Offsets,
        token_ids: _Ids,
        scores: npt.NDArray[np.float64],
        cache_bytes: int,
        implementation: str,
    ) -> None: ...
    def encode(self, data: _Bytes, offsets: _Offsets, threads: int) -> tuple[_Ids, _Offsets, _Offsets]: ...
    def encode_strings(self, texts: tuple[object, ...], threads: int) -> tuple[_Ids, _Offsets, _Offsets]: ...
    def encode_pieces(
        self, data: _Bytes, offsets: _Offsets, ends: _Offsets, firsts: _Offsets, threads: int
    ) -> tuple[_Ids, _Offsets, _Offsets]: ...

class SentencepieceEncoder:
    @overload
    def __init__(
        self,
        is_unigram: bool,
        data: _Bytes,
        offsets: _Offsets,
        ids: _Ids,
        scores: npt.NDArray[np.float64],
        types: npt.NDArray[np.uint8],
        unknown_id: int,
        byte_ids: _Ids,
        charsmap: _Bytes,
        add_dummy_prefix: bool,
        remove_extra_whitespaces: bool,
        escape_whitespaces: bool,
        whitespace_is_suffix: bool,
        cache_bytes: int,
    ) -> None: ...
    @overload
    def __init__(
        self,
        is_unigram: bool,
        data: _Bytes,
        offsets: _Offsets,
        ids: _Ids,
        scores: npt.NDArray[np.float64],
        unknown_id: int,
        byte_ids: _Ids,
        left: npt.NDArray[np.uint32],
        right: npt.NDArray[np.uint32],
        result: npt.NDArray[np.uint32],
        steps: list[tuple[int, bytes, bytes]],
        splits_every_space: bool,
        cache_bytes: int,
    ) -> None: ...
    def normalize(self, data: _Bytes, offsets: _Offsets) -> tuple[_Bytes, _Offsets]: ...
    def encode(self, data: _Bytes, offsets: _Offsets, threads: int) -> tuple[_Ids, _Offsets, _Offsets]: ...
    def encode_strings(self, texts: tuple[object, ...], threads: int) -> tuple[_Ids, _Offsets, _Offsets]: ...
    def encode_pieces(
        self, data: _Bytes, offsets: _Offsets, ends: _Offsets, firsts: _Offsets, threads: int
    ) -> tuple[_Ids, _Offsets, _Offsets]: ...

class Counter:
    def __init__(self, pattern: str, max_pretoken_bytes: int, implementation: str) -> None: ...
    def add(self, data: _Bytes, offsets: _Offsets) -> None: ...
    def add_pieces(self, data: _Bytes, offsets: _Offsets, ends: _Offsets, firsts: _Offsets) -> None: ...
    def take(self) -> _Rows: ...
    @staticmethod
    def take_all(counters: list[Counter], threads: int) -> list[_Rows]: ...
    @property
    def memory_bytes(self) -> int: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def num_pretokens(self) -> int: ...

class IdCounter:
    def __init__(self) -> None: ...
    def add(self, ids: _Ids, offsets: _Offsets) -> None: ...
    def take(self) -> tuple[_Ids, _Counts, _Counts, _Counts]: ...

class IdParts:
    def __init__(self, sources: list[npt.NDArray[Any]], which: _Offsets, starts: _Offsets, ends: _Offsets) -> None: ...
    def copy(self, first: int, last: int, ids: _Ids) -> None: ...

class MuHash:
    def __init__(self, value: bytes) -> None: ...
    def add(self, keys: _Bytes) -> None: ...
    def subtract(self, keys: _Bytes) -> None: ...
    def add_value(self, value: bytes) -> None: ...
    def subtract_value(self, value: bytes) -> None: ...
    def value(self) -> bytes: ...

def highway_hash(key: npt.NDArray[np.uint64], data: _Bytes, offsets: _Offsets) -> npt.NDArray[np.uint64]: ...
def pack_varints(values: _Ids, offsets: _Offsets) -> tuple[_Bytes, _Offsets]: ...
def unpack_varints(data: _Bytes, bounds: _Offsets) -> tuple[_Offsets, _Offsets]: ...

class RowMerger:
    def __init__(self, num_runs: int, multipliers: list[int] | None) -> None: ...
    def feed(self, run: int, data: _Bytes, offsets: _Offsets, counts: _Counts, documents: _Counts) -> None: ...
    def finish(self, run: int) -> None: ...
    @property
    def hungry(self) -> list[int]: ...
    def merge(self, max_rows: int) -> _Rows | None: ...

class JsonLines:
    def __init__(
        self, text: str, id: str, lang: str, forbidden: list[str], max_text_bytes: int, max_id_bytes: int
    ) -> None: ...
    def know_lang(self, lang: str) -> int: ...
    def read(
        self, data: _Bytes, start: int, end: int, max_bytes: int, max_documents: int
    ) -> tuple[int, bool, int, _Bytes, _Offsets, _Bytes, _Offsets, _Ids]: ...

def find_masked(presets: int, data: _Bytes, offsets: _Offsets) -> tuple[_Offsets, _Offsets, _Bytes, _Offsets]: ...
def rank_merges(data: _Bytes, offsets: _Offsets) -> tuple[_Ids, _Ids, _Ids]: ...
def rank_parts(data: _Bytes, offsets: _Offsets) -> tuple[_Ids, _Ids, _Ids]: ...
def assign_partitions(data: _Bytes, offsets: _Offsets, num_partitions: int) -> _Offsets: ...
def pack_rows(data: _Bytes, offsets: _Offsets, counts: _Counts, documents: _Counts) -> _Bytes: ...
def learn(
    data: _Bytes,
    offsets: _Offsets,
    counts: _Counts,
    num_merges: int,
    min_count: int,
    max_token_bytes: int,
    threads: int,
    id_of_byte: bytes,
    merges_done: _Offsets,
    min_parallel_units: int = ...,
    max_narrow_ids: int = ...,
) -> tuple[_Ids, _Ids, _Counts]: ...
def learn_piece_merges(
    words: tuple[_Bytes, _Offsets, _Counts],
    rules: tuple[Any, ...],
    num_tokens: int,
    min_count: int,
    threads: int,
    merges_done: _Offsets,
    min_parallel_units: int = ...,
    max_narrow_ids: int = ...,
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], _Ids, _Ids, _Counts]: ...
def learn_unigram(
    words: tuple[_Bytes, _Offsets, _Counts],
    rules: tuple[Any, ...],
    num_tokens: int,
    num_before_last_cut: int,
    num_seeds: int,
    scale: float,
    min_seed_count: int,
    threads: int,
    rounds_done: _Offsets,
) -> tuple[npt.NDArray[np.uint32], _Offsets, npt.NDArray[np.float32]]: ...
def evaluate_exact_math(x: float) -> tuple[float, float, float]: ...
def learn_symbols(
    symbols: npt.NDArray[np.uint32],
    offsets: _Offsets,
    counts: _Counts,
    symbol_bytes: _Offsets,
    num_merges: int,
    min_count: int,
    max_token_bytes: int,
    threads: int,
    merges_done: _Offsets,
    min_parallel_units: int = ...,
    max_narrow_ids: int = ...,
) -> tuple[_Ids, _Ids, _Counts]: ...
def learn_characters(
    data: _Bytes,
    offsets: _Offsets,
    counts: _Counts,
    num_tokens: int,
    min_count: int,
    max_token_bytes: int,
    threads: int,
    by_score: bool,
    merges_done: _Offsets,
    min_parallel_units: int = ...,
    max_narrow_ids: int = ...,
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], _Ids, _Ids, _Counts]: ...

class DropoutBpe:
    def __init__(
        self, byte_ids: _Ids, left: _Ids, right: _Ids, result: _Ids, priority: npt.NDArray[np.uint32]
    ) -> None: ...
    def encode(
        self, data: _Bytes, offsets: _Offsets, ends: _Offsets, firsts: _Offsets, seeds: _Counts, last: int
    ) -> tuple[_Ids, _Offsets]: ...

class DropoutWordpiece:
    def __init__(
        self,
        data: _Bytes,
        offsets: _Offsets,
        token_ids: _Ids,
        continues: npt.NDArray[np.uint8],
        unknown_id: int,
        max_characters: int,
        drops_space: bool,
    ) -> None: ...
    def encode(
        self, data: _Bytes, offsets: _Offsets, ends: _Offsets, firsts: _Offsets, seeds: _Counts, last: int
    ) -> tuple[_Ids, _Offsets]: ...

class SampledUnigram:
    def __init__(
        self,
        data: _Bytes,
        offsets: _Offsets,
        ids: _Ids,
        weights: npt.NDArray[np.float64],
        scales: _Ids,
        unknown_id: int,
        byte_ids: _Ids,
        splits: bool,
        fuses: bool,
    ) -> None: ...
    def encode(self, data: _Bytes, offsets: _Offsets, seeds: _Counts) -> tuple[_Ids, _Offsets, _Offsets]: ...
