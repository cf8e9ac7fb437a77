"""Languages in the names of folders and files: `en/`, `lang=ru/`, `zh-Hant/`, `eng_Latn/`, `news.de.txt`."""

from __future__ import annotations

import re
from collections.abc import Collection

# ISO 639-1. Three letters are a language only beside names that surely are: old, raw and src are none.
_CODES = (
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en "
    "eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv "
    "ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne "
    "ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st "
    "su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu"
)
_TWO_LETTERS = frozenset(_CODES.split())
_TAG = re.compile(r"([a-z]{2,3})(?:[-_][A-Za-z]{2,8})*")
_WITH_SCRIPT = re.compile(r"[a-z]{2,3}[-_][A-Z][a-z]{3}")
_PARTITION = re.compile(r"(?:lang|language|locale)=(.+)")
# Two letters that stand for something else at the start of a file's name.
_AMBIGUOUS = frozenset({"or", "to", "is", "my", "no", "so", "it", "as", "am", "be", "an"})


def guess_folder_language(name: str, beside: Collection[str]) -> str:
    """The language that a folder is named after; "" if none. beside: the names of the folders next to it.

    >>> guess_folder_language("en", []), guess_folder_language("lang=pt-BR", []), guess_folder_language("raw", ["old"])
    ('en', 'pt-BR', '')
    >>> guess_folder_language("ckb", ["en", "ru", "ckb"])
    'ckb'
    """
    if found := _PARTITION.fullmatch(name):
        return found[1] if _TAG.fullmatch(found[1]) else ""
    found = _TAG.fullmatch(name)
    if found is None:
        return ""
    if found[1] in _TWO_LETTERS or _WITH_SCRIPT.fullmatch(name):
        return name
    sure = sum(1 for other in beside if (tag := _TAG.fullmatch(other)) and tag[1] in _TWO_LETTERS)
    return name if len(found[1]) == 3 and 2 * sure >= len(beside) > 1 else ""


def guess_file_language(name: str) -> str:
    """The language in a file's name, before its suffixes or at its start; "" if none.

    >>> guess_file_language("en-00001.jsonl.zst"), guess_file_language("news.de.txt"), guess_file_language("to-do.txt")
    ('en', 'de', '')
    """
    stem = name.split(".")
    parts = [one for one in stem[:-1] if one]
    for part in (parts[-1], parts[-2] if len(parts) > 2 else parts[-1]) if parts else ():
        if part in _TWO_LETTERS and (len(parts) > 1 or part not in _AMBIGUOUS):
            return part
    first = re.split(r"[-_.]", name)[0]
    return first if first in _TWO_LETTERS and first not in _AMBIGUOUS else ""
