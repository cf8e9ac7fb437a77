"""The blocks of a BGZF file: gzip members of at most 64 KiB of text, whose headers tell how long they are.

Source: Sequence Alignment/Map Format Specification, section 4.1, The BGZF compression format. It has no index, and to
go from header to header would read the whole file. So a place is a virtual offset, as that section has it: where the
block is stored, times 2^16, plus the byte in the text of the block. Places grow with the text, but have gaps.

Where a block starts near a stored offset is found by looking: its header, and the headers that follow it for 64 KiB.
Bytes within a block that look like this could only be made on purpose, and reading from the block before would then
pass over the place without meeting it, which rejects the file.
"""

from __future__ import annotations

from collections.abc import Iterator

from isal import igzip_lib

from tokcore_pipelines.reading.compressed import READ_BYTES
from tokcore_pipelines.reading.records import FileRejected
from tokcore_pipelines.reading.seekable_blocks import SeekableFile, read_at

_SHIFT = 16
_BLOCK_BYTES = 1 << _SHIFT  # the most, of the text and of what is stored
_TEXT_OF_STORED_BYTE = 4  # about; what blocks unfold to is not known
_MAGIC = b"\x1f\x8b\x08\x04"  # a gzip member, compressed, with an extra field and no name
_FIXED_BYTES = 12  # of a header: up to the size of the extra field
_MAX_EXTRA_BYTES = 1 << 8  # most have six
_TRAILER_BYTES = 8
# The empty block that every file ends with.
_END = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")
_WINDOW_BYTES = 3 * _BLOCK_BYTES + _FIXED_BYTES + _MAX_EXTRA_BYTES


def find_bgzf_blocks(file: SeekableFile, size_bytes: int) -> BgzfBlocks | None:
    """The blocks of a file; None unless it begins and ends as BGZF does, with more than one block of text."""
    if read_at(file, max(0, size_bytes - len(_END)), size_bytes) != _END:
        return None
    first = _measure(read_at(file, 0, min(size_bytes, _FIXED_BYTES + _MAX_EXTRA_BYTES)), 0)
    if first is None or sum(first) + len(_END) >= size_bytes:
        return None
    return BgzfBlocks(file, size_bytes)


class BgzfBlocks:
    """Blocks that lie one after the other."""

    def __init__(self, file: SeekableFile, size_bytes: int) -> None:
        self._file = file
        self._size_bytes = size_bytes
        self.extent = size_bytes << _SHIFT
        self._starts = {0: 0}  # those that were looked for: at or after a stored offset

    def find_block(self, place: int) -> int:
        return self._find_start(-(-place >> _SHIFT)) << _SHIFT

    def list_cuts(self, range_bytes: int) -> list[int]:
        step = max(1, range_bytes // _TEXT_OF_STORED_BYTE) << _SHIFT
        return [*range(step, self.extent - step // 2, step), self.extent]

    def to_stored(self, block: int) -> int:
        return block >> _SHIFT

    def read_from(self, place: int, meets: int) -> Iterator[tuple[int, bytes]]:
        met = meets >> _SHIFT
        at = self._find_start(place >> _SHIFT)
        window = b""
        start = at  # of the window
        while at < self._size_bytes:
            if at - start + _BLOCK_BYTES > len(window) and start + len(window) < self._size_bytes:
                window = window[at - start :]
                start = at
                window += read_at(self._file, at + len(window), min(self._size_bytes, at + READ_BYTES))
            measured = _measure(window, at - start)
            end = at + sum(measured or ())
            if measured is None or end > self._size_bytes:
                raise FileRejected("corrupt", f"no BGZF block at byte {at}, though the file begins and ends with some")
            if at < met < end:
                raise FileRejected("corrupt", f"BGZF headers lead past byte {met}, where a block seems to start")
            text = _unfold(window[at - start + measured[0] : end - start], at)
            skipped = max(0, place - (at << _SHIFT))
            if skipped < len(text):
                yield (at << _SHIFT) + skipped, text[skipped:] if skipped else text
            at = end

    def _find_start(self, offset: int) -> int:
        """The first stored offset at or after this one at which a block starts, or the size of the file."""
        if offset > self._size_bytes - len(_END):
            return self._size_bytes
        if (start := self._starts.get(offset)) is None:
            start = self._look_for_start(offset)
            self._starts |= {offset: start, start: start}
        return start

    def _look_for_start(self, offset: int) -> int:
        window = read_at(self._file, offset, min(self._size_bytes, offset + _WINDOW_BYTES))
        at = window.find(_MAGIC, 0, _BLOCK_BYTES + len(_MAGIC))
        while at >= 0:
            if _leads_on(window, at, self._size_bytes - offset):
                return offset + at
            at = window.find(_MAGIC, at + 1, _BLOCK_BYTES + len(_MAGIC))
        raise FileRejected("corrupt", f"no BGZF block starts within {_BLOCK_BYTES} bytes from byte {offset}")


def _leads_on(window: bytes, at: int, end: int) -> bool:
    """Whether headers follow each other from here, out of any block that could hold this one, or to the file's end."""
    outside = min(end, at + _BLOCK_BYTES)
    while at < outside:
        if (measured := _measure(window, at)) is None:
            return False
        at += sum(measured)
    return at == end or (at < end and _measure(window, at) is not None)


def _measure(data: bytes, at: int) -> tuple[int, int] | None:
    """(size of the header, of the rest) of the BGZF block at this position; None if there is none."""
    extra = at + _FIXED_BYTES
    end = extra + int.from_bytes(data[extra - 2 : extra], "little")
    if not data.startswith(_MAGIC, at) or end > min(len(data), extra + _MAX_EXTRA_BYTES):
        return None
    while extra + 4 <= end:
        size = int.from_bytes(data[extra + 2 : extra + 4], "little")
        if data[extra : extra + 2] == b"BC" and size == 2 and extra + 6 <= end:
            rest = at + int.from_bytes(data[extra + 4 : extra + 6], "little") + 1 - end
            return (end - at, rest) if rest > _TRAILER_BYTES else None
        extra += 4 + size
    return None


def _unfold(data: bytes, stored_at: int) -> bytes:
    """The text of a block, from what is stored after its header. Raises FileRejected unless it is all of that."""
    member = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP_NO_HDR_VER)
    try:
        text: bytes = member.decompress(data, _BLOCK_BYTES + 1)
    except igzip_lib.error as error:  # type: ignore[misc] # the stubs give it no type
        raise FileRejected("corrupt", f"not a valid BGZF block at byte {stored_at}") from error
    if not member.eof or member.unused_data or len(text) > _BLOCK_BYTES:
        raise FileRejected("corrupt", f"the BGZF block at byte {stored_at} has not the size that its header says")
    return text
