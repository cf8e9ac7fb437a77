"""Documents as users' pipelines pass them, and the key that decides sampling and the validation split.

pipelines reads documents from files; tokcore works on their text.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
import struct
from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_KEY_PREFIX = b"tokcore-document-v1\0"
_GROUP_PREFIX = b"tokcore-group-v1\0"
_LANG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
# A language tag as RFC 5646 has it (2.1), in lower case: a language of ISO 639, then extended languages, script,
# region, variants, extensions, private use. Many people write _ for -.
_TAG = re.compile(
    r"[a-z]{2,3}([-_][a-z]{3}){0,3}([-_][a-z]{4})?([-_]([a-z]{2}|[0-9]{3}))?"
    r"([-_]([a-z0-9]{5,8}|[0-9][a-z0-9]{3}))*([-_][a-wyz0-9]([-_][a-z0-9]{2,8})+)*([-_]x([-_][a-z0-9]{1,8})+)?"
)


class _Document(NamedTuple):
    lang: str
    id: str | None
    text: str | bytes


class Document(_Document):
    """A text with its language: the element of a user's PCollection.

    lang: language code, as the build file spells it.
    id: unique within the language, or None for none (then the text identifies the document).
    text: bytes stay as they are, valid UTF-8 or not; a str is encoded as UTF-8.
    Raises TypeError for values of other types, and ValueError for a language code that could not name a file.

    >>> Document("en", "page-1", "Hello world").lang
    'en'
    >>> Document("../en", None, b"Hello world")
    Traceback (most recent call last):
    ValueError: lang = '../en': expected a letter or digit, then letters, digits and . _ + -, at most 64 in all
    """

    __slots__ = ()

    def __new__(cls, lang: str, id: str | None, text: str | bytes) -> Self:
        if not isinstance(lang, str):
            raise TypeError(f"lang = {lang!r:.80}: expected a str")
        if not is_valid_lang(lang):
            raise ValueError(
                f"lang = {lang!r:.80}: expected a letter or digit, then letters, digits and . _ + -, at most 64 in all"
            )
        if not isinstance(id, str | None):
            raise TypeError(f"id = {id!r:.80}: expected a str, or None where there is none")
        if not isinstance(text, str | bytes):
            raise TypeError(f"text = {text!r:.80}: expected str or bytes")
        return super().__new__(cls, lang, id, text)


def is_valid_lang(lang: str) -> bool:
    """Whether a language code is valid: a letter or digit, then letters, digits and . _ + -, at most 64 in all.

    >>> is_valid_lang("zh-Hant"), is_valid_lang("../en"), is_valid_lang("")
    (True, False, False)
    """
    return _LANG.fullmatch(lang) is not None


@functools.lru_cache(maxsize=1 << 16)
def normalize_lang(lang: str) -> str:
    """The code with the case that BCP 47 gives it: language lower, Script, REGION; what is no such tag in lower case.

    Two codes that differ in case only become the same one. Nothing else is changed.

    >>> [normalize_lang(code) for code in ("EN", "zh-hant-tw", "ENG_LATN", "Code-Go", "de-1996", "en-x-OLD")]
    ['en', 'zh-Hant-TW', 'eng_Latn', 'code-go', 'de-1996', 'en-x-old']
    """
    lowered = lang.lower()
    if not _TAG.fullmatch(lowered):
        return lowered
    first, *rest = re.split("([-_])", lowered)
    spelled = [first]
    is_after_singleton = False
    for part in rest:
        is_after_singleton |= len(part) == 1 and part not in "-_"
        is_region, is_script = len(part) == 2, len(part) == 4 and part.isalpha()
        change = str.upper if is_region else str.title if is_script else str
        spelled.append(part if is_after_singleton else change(part))
    return "".join(spelled)


def find_twins(langs: Iterable[str]) -> tuple[str, str] | None:
    """Two language codes that differ only in case, so that many disks would give their files one name; None if none do.

    >>> find_twins(["en", "zh-Hant", "zh-hant"]), find_twins(["en", "de"])
    (('zh-Hant', 'zh-hant'), None)
    """
    seen: dict[str, str] = {}
    for lang in sorted(set(langs)):
        if seen.setdefault(lang.lower(), lang) != lang:
            return seen[lang.lower()], lang
    return None


def compute_document_key(lang: str, document_id: str | None, text: bytes) -> bytes:
    """32 bytes that identify a document: sha256 of (lang, id if there is one, else text).

    Different triples never share an encoding: a length stands before lang, and a letter of its own before id or text.

    >>> compute_document_key("en", "page-1", b"one wording") == compute_document_key("en", "page-1", b"another")
    True
    >>> compute_document_key("en", None, b"page-1") == compute_document_key("en", "page-1", b"")
    False
    """
    code = lang.encode()
    hasher = hashlib.sha256(_KEY_PREFIX + struct.pack("<I", len(code)) + code)
    if document_id is None:
        hasher.update(b"t")
        hasher.update(text)
    else:
        hasher.update(b"i" + document_id.encode())
    return hasher.digest()


def compute_group_key(group: str) -> bytes:
    """What stands for the keys of all documents of a group where splits are chosen: sha256 of its name.

    >>> compute_group_key("book-1") == compute_group_key("book-2")
    False
    """
    return hashlib.sha256(_GROUP_PREFIX + group.encode()).digest()


def is_selected(key: bytes, seed: int, purpose: str, share: Decimal) -> bool:
    """Whether the document is in a share of all documents, decided by a hash of (purpose, seed, key) alone.

    share: from 0 (none) to 1 (all). A document selected for one share is selected for every larger one; different
    purposes select independently. Raises ValueError for a share outside [0, 1].

    >>> is_selected(b"k", 0, "validation", Decimal(0)), is_selected(b"k", 0, "validation", Decimal(1))
    (False, True)
    """
    return compute_selection_hash(key, seed, purpose) < compute_selection_threshold(share)


def compute_selection_hash(key: bytes, seed: int, purpose: str) -> int:
    """The 64-bit number of a document that is_selected() compares with the threshold of a share."""
    return int.from_bytes(hashlib.sha256(b"%s\0%d\0%s" % (purpose.encode(), seed, key)).digest()[:8], "big")


def compute_selection_threshold(share: Decimal) -> int:
    """floor(share * 2**64), exactly; hashes below it are selected."""
    if not (share.is_finite() and 0 <= share <= 1):
        raise ValueError(f"share = {share}: expected a number from 0 to 1")
    numerator, denominator = share.as_integer_ratio()
    return (numerator << 64) // denominator


class EncodedDocument(NamedTuple):
    """A document as token ids: the element that EncodeDocuments returns.

    >>> import numpy as np
    >>> EncodedDocument("en", "page-1", np.array([257, 68], np.int32)).tokens.tolist()
    [257, 68]
    """

    lang: str
    id: str | None
    tokens: npt.NDArray[np.int32]


@dataclasses.dataclass(frozen=True, slots=True)
class DocumentChunk:
    """A part of a document: the element that ChunkDocuments returns.

    >>> DocumentChunk("en", "page-1", 0, "a cat", 0, 5, 0, 2, 2).text
    'a cat'
    """

    lang: str
    id: str | None
    chunk: int  # number within the document
    text: str
    byte_start: int
    byte_end: int
    token_start: int  # of the document's tokens, those that begin in the chunk
    token_end: int
    num_tokens: int  # that its text has by itself


@dataclasses.dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A record that is no document, or a file that was rejected whole: what ReadDocuments returns beside documents.

    >>> RejectedRecord("en.jsonl", 0, 7, "json", "expected a value").record
    7
    """

    source: str  # URI of the file
    start: int  # first byte of the range that was read
    record: int | None  # within the range; None for the file as a whole
    reason: str  # a code that keeps its meaning
    detail: str
