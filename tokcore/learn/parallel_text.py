"""Parallel text: a file LANG.txt or LANG.txt.zst for each language, in which line N is the same sentence everywhere.

Weights of languages may follow its odd lines, the first and third and so on: `[mix] strategy = "parity"`. Then its even
lines judge. Leaves to others: where files come from, the weights (parity).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa

from tokcore.errors import ConfigError
from tokcore.files.canonical_json import hash_sha256, write_canonical_json

SUFFIXES = (".txt", ".txt.zst")
_MOST_BYTES = 1 << 30  # of one file, decompressed
# Of the language that the others are compared with: those that are taken first, where the user names none.
FIRST_REFERENCES = ("en", "eng", "eng_Latn")


def parse_parallel_text(names: Iterable[str], read: Callable[[str], bytes], place: str) -> dict[str, list[bytes]]:
    """Language -> its lines, of the files in a folder, by name; others are passed over.

    read: gives a file's bytes. place: names the folder in messages. Raises ConfigError, naming the file, unless all
    files have equally many lines.

    >>> files = {"en.txt": b"one\\ntwo\\n", "de.txt": b"eins\\nzwei\\n", "README.md": b""}
    >>> parse_parallel_text(files, files.__getitem__, "folder")
    {'de': [b'eins', b'zwei'], 'en': [b'one', b'two']}
    """
    found: dict[str, list[bytes]] = {}
    first = ""
    for name in sorted(names):
        suffix = next((suffix for suffix in reversed(SUFFIXES) if name.endswith(suffix)), None)
        lang = name.removesuffix(suffix or "")
        if suffix is None or "/" in lang or not lang:
            continue
        if lang in found:
            raise ConfigError(f"{place}: holds {lang} twice, as .txt and as .txt.zst: remove one")
        data = read(name)
        if suffix.endswith("zst"):
            data = _decompress(data, f"{place}: {name}")
        found[lang] = data.removesuffix(b"\n").split(b"\n")
        first = first or lang
        if len(found[lang]) != len(found[first]):
            raise ConfigError(
                f"{place}: {name} has {len(found[lang])} lines, {first} has {len(found[first])}: "
                f"line N must be the same sentence in all files"
            )
    if len(found) < 2:
        raise ConfigError(f"{place}: holds {len(found)} files LANG.txt or LANG.txt.zst, expected two or more")
    return found


def _decompress(data: bytes, place: str) -> bytes:
    try:
        decompressed: bytes = pa.input_stream(pa.BufferReader(data), compression="zstd").read(_MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{place}: is no zstd file, or is damaged: {error}") from error
    if len(decompressed) > _MOST_BYTES:
        raise ConfigError(f"{place}: more than {_MOST_BYTES} bytes: take fewer sentences")
    return decompressed


@dataclasses.dataclass(frozen=True, slots=True)
class OddLines:
    """What weights follow. lines: language -> the odd lines. sha256: of all of them, which pins what was learned."""

    lines: Mapping[str, Sequence[bytes]] = dataclasses.field(repr=False)
    sha256: str

    def only(self, names: Iterable[str]) -> OddLines:
        """Without the lines of languages that are not named, which no weight can follow; the hash stays."""
        return OddLines({name: self.lines[name] for name in names}, self.sha256)


def take_odd_lines(text: Mapping[str, Sequence[bytes]]) -> OddLines:
    """The first, third, ... line of each language. How files are compressed, and the even lines, change nothing.

    >>> odd = take_odd_lines({"en": [b"one", b"two", b"three"], "de": [b"eins", b"zwei", b"drei"]})
    >>> odd.lines["en"], odd.sha256[:8]
    ([b'one', b'three'], '7f04cc0f')
    """
    odd = {lang: list(text[lang][::2]) for lang in sorted(text)}
    pins = {lang: hash_sha256(b"\n".join(lines)) for lang, lines in odd.items()}
    return OddLines(odd, hash_sha256(write_canonical_json(pins)))
