"""The encodings of text that a source may have. UTF-8 is the default, and what every other one is turned into.

Only encodings whose tables are fixed for all time: a codec that learns new characters would change bytes between
versions of Python. A test holds every table to its digest.
"""

from __future__ import annotations

UTF8 = "utf-8"
UTF16 = ("utf-16", "utf-16-le", "utf-16-be")
# One byte a character; the bytes below 128 are ASCII. So a line ends where its stored bytes have a line feed.
SINGLE_BYTE = (
    "latin-1",
    "iso-8859-2",
    "iso-8859-5",
    "iso-8859-7",
    "iso-8859-9",
    "iso-8859-15",
    "cp1250",
    "cp1251",
    "cp1252",
    "cp1253",
    "cp1254",
    "cp1256",
    "cp1257",
    "koi8-r",
    "koi8-u",
)
ENCODINGS = (UTF8, *UTF16, *SINGLE_BYTE)

# What others call them.
OTHER_ENCODING_NAMES = (
    *((name, UTF8) for name in ("utf8", "utf_8", "utf-8-sig", "ascii", "us-ascii")),
    *((name, "utf-16") for name in ("utf16", "utf_16", "unicode", "ucs-2")),
    *((name, "utf-16-le") for name in ("utf-16le", "utf_16_le", "utf16le")),
    *((name, "utf-16-be") for name in ("utf-16be", "utf_16_be", "utf16be")),
    *((name, "latin-1") for name in ("latin1", "latin_1", "iso-8859-1", "iso8859-1", "iso_8859_1", "l1")),
    ("latin2", "iso-8859-2"),
    ("latin9", "iso-8859-15"),
    *((f"windows-{name[2:]}", name) for name in SINGLE_BYTE if name.startswith("cp")),
    ("ansi", "cp1252"),
)
