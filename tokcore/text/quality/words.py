"""The words and sentences that rules count: by fixed tables, so that they are the same with every Python.

Words are those of spaCy's English tokenizer, which datatrove's rules count, but for its long lists of exceptions: what
stands between spaces is cut at signs around it, then at some signs within it. Letters beyond ASCII are all characters
that are neither spaces nor in the blocks of punctuation and symbols.
"""

from __future__ import annotations

import functools
import re

# Beyond ASCII: Latin-1's signs, general punctuation to miscellaneous symbols, those of CJK, full-width ones, emoji.
_SIGNS = (
    r"\x80-\xa9\xab-\xb4\xb6-\xb9\xbb-\xbf\xd7\xf7\u2000-\u206f\u20a0-\u20cf\u2100-\u214f\u2190-\u2bff\u2e00-\u2e7f"
    r"\u3000-\u3004\u3008-\u3020\u3030\u30fb\ufe10-\ufe1f\ufe30-\ufe6f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40"
    r"\uff5b-\uff65\U0001f000-\U0001faff"
)
_LETTER = rf"(?:[A-Za-z]|(?![{_SIGNS}])[\x80-\U0010ffff])"
_PUNCTUATION = r"…,:;!?¿؟¡()\[\]{}<>_#*&。？！，、；：～·।،۔؛٪"
_QUOTES = r"'\"”“`‘´’‚„»«「」『』（）〔〕【】《》〈〉〈〉⟦⟧"
_ICONS = r"\u2190-\u2bff\u2e80-\u2e99\U0001f000-\U0001faff\xa6\xa9\xac\xae\xb0"
# Letters after which a full stop is a word of its own: small ones of Latin, Greek and Cyrillic (with some capitals that
# stand between them), and those of scripts without capitals, from Hebrew to Hangul; and two capitals.
_SMALL = (
    r"a-z\xdf-\u024f\u03ac-\u03ce\u0430-\u045f\u0490-\u04ff\u0591-\u05f4\u0620-\u06ff\u0900-\u0dff\u1100-\u137f"
    r"\u3040-\u30fa\u30fc-\u30ff\u3400-\u9fff\uac00-\ud7af"
)
_CAPITAL = r"A-Z\xc0-\xde\u0391-\u03ab\u0400-\u042f"
_CURRENCY = r"[$£€¥฿₽﷼₴₠-₱]"
_UNITS = (
    "km²|km³|km/h|kmh|km|m/s|mph|m²|m³|dm²|dm³|dm|cm²|cm³|cm|mm²|mm³|mm|ha|µm|nm|yd|ft|kg|mg|µg|lb|oz|hPa|Pa|mbar|mb|MB|kb"
    "|KB|gb|GB|tb|TB|in|m|g|t|T|G|M|K|%"
)
_PREFIX = re.compile(rf"\.{{2,}}|[§%=—–]|\+(?![0-9])|[{_PUNCTUATION}{_QUOTES}{_ICONS}]|{_CURRENCY}")
_SUFFIX = re.compile(
    rf"(?:\.{{2,}}|[—–]|[{_PUNCTUATION}{_QUOTES}{_ICONS}]|['’][sS]|(?<=[0-9])(?:\+|{_CURRENCY}|{_UNITS})"
    rf"|(?<=[0-9{_SMALL}%²\-+{_QUOTES}{_PUNCTUATION}])\.|(?<=[{_CAPITAL}][{_CAPITAL}])\.)\Z"
)
_INFIX = re.compile(
    rf"\.{{2,}}|…|[{_ICONS}]|(?<=[0-9])[+\-*^](?=[0-9-])|(?<=[a-z{_QUOTES}])\.(?=[A-Z{_QUOTES}])"
    r"|(?<=[A-Za-z\xc0-\u024f]),(?=[A-Za-z\xc0-\u024f])|(?<=[A-Za-z0-9\xc0-\u024f])[:<>=/](?=[A-Za-z\xc0-\u024f])"
    r"|(?<=[A-Za-z0-9\xc0-\u024f])(?:---|--|——|[-–—~])(?=[A-Za-z\xc0-\u024f])"
)
_URL = re.compile(
    r"(?:[A-Za-z][A-Za-z0-9+.-]*://|mailto:)?(?:[^\s/@:<>\"]+@)?(?:[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9])?\.)+[a-z]{2,63}"
    r"(?::[0-9]+)?(?:[/?#][^\s]*)?\Z"
)
# A chunk that spaCy keeps, or cuts in two, by its list of exceptions.
_ABBREVIATIONS = (
    "a.m. p.m. Adm. Bros. co. Co. Corp. D.C. Dr. e.g. E.g. E.G. Gen. Gov. i.e. I.e. I.E. Inc. Jr. Ltd. Md. Messrs. Mo. "
    "Mont. Mr. Mrs. Ms. Ph.D. Prof. Rep. Rev. Sen. St. vs. v.s. Jan. Feb. Mar. Apr. Jun. Jul. Aug. Sep. Sept. Oct. "
    "Nov. Dec. Mt. No. U.S. U.K. N.Y. L.A. C++ and/or"
)
_SHORT = frozenset(_ABBREVIATIONS.split())
_INITIAL = re.compile(r"[A-Za-z]\.\Z")
_CONTRACTION = re.compile(
    r"(?P<not>(?:[Dd]o|[Dd]oes|[Dd]id|[Cc]a|[Cc]ould|[Ww]o|[Ww]ould|[Ss]hould|[Mm]ust|[Hh]ave|[Hh]as|[Hh]ad|[Ii]s|[Aa]re|[Ww]as"
    r"|[Ww]ere|[Aa]i|[Nn]eed|[Mm]ight|[Mm]ay|[Ss]ha|[Dd]are))(?P<nt>n['’]?t)\Z"
    r"|(?P<who>[Ii]|[Yy]ou|[Hh]e|[Ss]he|[Ii]t|[Ww]e|[Tt]hey|[Tt]his|[Tt]hat|[Tt]here|[Ww]ho|[Ww]hat|[Ww]hen|[Ww]here|[Ww]hy"
    r"|[Hh]ow|[Ll]et|[Cc]ould|[Ww]ould|[Ss]hould|[Mm]ust|[Mm]ight)(?P<end>['’](?:m|re|ve|ll|d|s))\Z"
)
_KNOWN = {"cannot": ("can", "not"), "Cannot": ("Can", "not"), "id": ("i", "d"), "gonna": ("gon", "na")}
_KNOWN |= {"wanna": ("wan", "na"), "gotta": ("got", "ta")}

# What datatrove takes for signs: a word of these alone is none.
SIGNS = frozenset("!/—”:％１〈&(、━\\【#%「」，】；+^]~“《„';’{|∶´[=-`*．（–？！：$～«〉,><》)?）。…@_.\"}►»؟۔।")
_LETTERS = re.compile(_LETTER)


def split_words(text: str) -> list[str]:
    """The words of a text and its signs, in order.

    >>> split_words("Don't pay $3.50 (well-known)!")
    ['Do', "n't", 'pay', '$', '3.50', '(', 'well', '-', 'known', ')', '!']
    """
    words: list[str] = []
    for chunk in text.split():
        if chunk.isalpha() and chunk.isascii() and chunk not in _KNOWN:
            words.append(chunk)
        else:
            words += _split_chunk(chunk) if len(chunk) < _LONG else _cut(chunk)
    return words


_LONG = 64  # characters of a chunk that is not kept for the next time


def _cut(chunk: str) -> tuple[str, ...]:
    """The words of what stands between two spaces, in time proportional to its length."""
    first, last = list[str](), list[str]()
    start, end = 0, len(chunk)
    while start < end:
        rest = chunk[start:end] if end - start < _LONG else ""
        if rest and (rest in _SHORT or rest in _KNOWN or _INITIAL.match(rest) or _CONTRACTION.match(rest)):
            break
        if found := _PREFIX.match(chunk, start, end):
            first.append(found[0])
            start = found.end()
        elif found := _SUFFIX.search(chunk, max(start, end - 8), end):
            last.append(found[0])
            end = found.start()
        else:
            break
    rest = chunk[start:end]
    if rest:
        first += _cut_within(rest)
    return (*first, *reversed(last))


_split_chunk = functools.lru_cache(maxsize=1 << 16)(_cut)


def _cut_within(rest: str) -> tuple[str, ...]:
    if rest in _KNOWN:
        return _KNOWN[rest]
    if found := _CONTRACTION.match(rest):
        return (found["not"], found["nt"]) if found["not"] else (found["who"], found["end"])
    if rest in _SHORT or _INITIAL.match(rest) or _URL.match(rest):
        return (rest,)
    words, at = list[str](), 0
    for cut in _INFIX.finditer(rest):
        words += [word for word in (rest[at : cut.start()], cut[0]) if word]
        at = cut.end()
    return (*words, rest[at:]) if at < len(rest) else tuple(words)


def count_sentences(line: str) -> int:
    """How many sentences a line holds: signs that end one and are words of their own, and what is left after the last.

    >>> count_sentences("Mr. Smith came. He saw"), count_sentences("")
    (2, 0)
    """
    num, is_open = 0, False
    for chunk in line.split():
        if chunk.isalnum() and chunk.isascii():
            is_open = True
            continue
        for word in _split_chunk(chunk) if len(chunk) < _LONG else _cut(chunk):
            if word in _SENTENCE_ENDS:
                num += is_open or num == 0
                is_open = False
            elif not SIGNS.issuperset(word):
                is_open = True
    return num + is_open


_SENTENCE_ENDS = frozenset(".!?。！？｡…")


def has_letter(word: str) -> bool:
    """Whether a word has a letter: one of ASCII, or of another alphabet."""
    return (word.isascii() and word.isalpha()) or _LETTERS.search(word) is not None
