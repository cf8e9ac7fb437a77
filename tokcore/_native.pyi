"""The native kernel. Used through tokcore.kernel only, where the functions are described; `implementation` comes last."""

import numpy as np
import numpy.typing as npt

_Bytes = npt.NDArray[np.uint8]
_Ids = npt.NDArray[np.int32]
_Offsets = npt.NDArray[np.int64]

UNICODE_VERSION: str
UNICODE_TABLES_SHA256: str

def implementations() -> list[str]: ...
def split(pattern: str, data: _Bytes, offsets: _Offsets, implementation: str) -> tuple[_Offsets, _Offsets]: ...
def split_in_steps(pattern: str, text: bytes, implementation: str, capacity: int) -> _Offsets: ...
def character_classes() -> _Bytes: ...

class Encoder:
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
    def encode(self, data: _Bytes, offsets: _Offsets, threads: int) -> tuple[_Ids, _Offsets, _Offsets]: ...
    def encode_pieces(
        self, data: _Bytes, offsets: _Offsets, ends: _Offsets, firsts: _Offsets, threads: int
    ) -> tuple[_Ids, _Offsets, _Offsets]: ...
