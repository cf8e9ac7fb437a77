"""Decoding ids as they come, one by one, without ever giving out part of a character."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable
from typing import Any


class StreamDecoder:
    """Turns ids into text while they are generated. Tokenizer.stream_decoder makes one.

    A token may end within a character: its bytes are kept back until the rest is there. What feed and finish return,
    joined, is decode(ids, errors=...) of all ids. One text at a time, one thread at a time.

    >>> from tokcore.tokenizer.tokenizer import Tokenizer
    >>> tokenizer = Tokenizer.load("out/first")
    >>> stream = tokenizer.stream_decoder()
    >>> [stream.feed(id) for id in tokenizer.encode("low ß").tolist()]
    ['low', ' ', '', 'ß']
    >>> stream.finish()
    ''
    """

    def __init__(self, decode: Callable[[Any, bool], bytes], errors: str = "replace") -> None:
        """decode: the bytes that ids add to a text; the second argument says whether they are its first.

        errors: as for bytes.decode, for what is not UTF-8.
        """
        self._decode = decode
        self._unheard: list[int] | None = []  # the first ids, as long as they add nothing; None after them
        self._characters = codecs.getincrementaldecoder("utf-8")(errors)

    def feed(self, ids: int | Iterable[int]) -> str:
        """The characters that are complete with these ids, one or several; "" if none is.

        Raises IdentityError for an unused id; with errors="strict" UnicodeDecodeError for bytes that are not UTF-8.

        >>> stream.feed([257, 258]), stream.feed(259)
        ('low low', 'er')
        """
        known: list[int] = [ids] if type(ids) is int else [*ids] if isinstance(ids, Iterable) else [ids]
        if self._unheard is None:
            return self._characters.decode(self._decode(known, False))
        known = self._unheard + known
        added = self._decode(known, True)
        self._unheard = None if added else known
        return self._characters.decode(added)

    def finish(self) -> str:
        """What is left at the end of a text: a character that its bytes did not complete, as `errors` says.

        The decoder is as new afterwards.

        >>> incomplete = tokenizer.encode("ß").tolist()[:1]
        >>> stream.feed(incomplete), stream.finish()
        ('', '\\ufffd')
        """
        self._unheard = []
        return self._characters.decode(b"", final=True)
