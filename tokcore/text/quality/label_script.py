"""The rule that a text is in the script of its language: what a wrong label most often shows by."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import numpy as np

from tokcore.text.quality.measures import Measure
from tokcore.text.scripts import NO_SCRIPT, SCRIPTS, find_scripts

# Scripts of ISO 15924 -> as tokcore.text.scripts names them.
_OF_SUBTAG = {
    "latn": "Latin", "grek": "Greek", "cyrl": "Cyrillic", "armn": "Armenian", "hebr": "Hebrew", "arab": "Arabic",
    "syrc": "Syriac", "thaa": "Thaana", "nkoo": "Nko", "deva": "Devanagari", "beng": "Bengali", "guru": "Gurmukhi",
    "gujr": "Gujarati", "orya": "Oriya", "taml": "Tamil", "telu": "Telugu", "knda": "Kannada", "mlym": "Malayalam",
    "sinh": "Sinhala", "thai": "Thai", "laoo": "Lao", "tibt": "Tibetan", "mymr": "Myanmar", "geor": "Georgian",
    "hang": "Hangul", "kore": "Hangul", "ethi": "Ethiopic", "cher": "Cherokee", "cans": "Canadian Aboriginal",
    "khmr": "Khmer", "mong": "Mongolian", "hans": "Han and kana", "hant": "Han and kana", "hani": "Han and kana",
    "jpan": "Han and kana", "hira": "Han and kana", "kana": "Han and kana", "tfng": "Tifinagh", "java": "Javanese",
    "bali": "Balinese", "olck": "Ol Chiki", "vaii": "Vai", "adlm": "Adlam", "mtei": "Meetei Mayek",
}  # fmt: skip

# Scripts -> languages of ISO 639 that are written in them.
_LANGUAGES = {
    "Latin": "af afr ca cat ceb cs ces cy cym da dan de deu en eng eo epo es spa et est eu eus fi fin fil fo fao fr "
    "fra fy fry ga gle gd gla gl glg ha hau hr hrv ht hat hu hun id ind ig ibo is isl it ita jv jav la lat lb ltz lt "
    "lit lv lav mg mlg mi mri ms msa mt mlt nb nob nl nld nn nno no nor ny nya oc oci pl pol pt por qu que rn run ro "
    "ron rw kin sk slk sl slv sm smo sn sna so som sq sqi st sot su sun sv swe sw swa swh tl tgl tn tsn to ton tr "
    "tur ts tso vi vie wo wol xh xho yo yor zu zul az aze uz uzb",
    "Cyrillic": "ba bak be bel bg bul ce che cv chv kk kaz kv kpv ky kir mk mkd mn mon os oss ru rus sah tg tgk tt tat "
    "udm uk ukr",
    "Greek": "el ell",
    "Armenian": "hy hye",
    "Hebrew": "he heb yi yid",
    "Arabic": "ar ara arb arz ckb fa fas prs ps pus sd snd ug uig ur urd",
    "Thaana": "dv div",
    "Devanagari": "bho hi hin mai mr mar ne nep npi sa san",
    "Bengali": "as asm bn ben",
    "Gurmukhi": "pa pan",
    "Gujarati": "gu guj",
    "Oriya": "or ori ory",
    "Tamil": "ta tam",
    "Telugu": "te tel",
    "Kannada": "kn kan",
    "Malayalam": "ml mal",
    "Sinhala": "si sin",
    "Thai": "th tha",
    "Lao": "lo lao",
    "Tibetan": "bo bod dz dzo",
    "Myanmar": "my mya",
    "Georgian": "ka kat",
    "Hangul": "ko kor",
    "Ethiopic": "am amh ti tir",
    "Khmer": "km khm",
    "Han and kana": "cmn ja jpn wuu yue zh zho",
}
# Which are written in either script, unless the label says which.
_SEVERAL = {"az", "aze", "uz", "uzb", "kk", "kaz", "tg", "tgk", "ug", "uig", "mn", "mon", "sd", "snd", "tt", "tat"}
_OF_LANGUAGE = {code: script for script, codes in _LANGUAGES.items() for code in codes.split() if code not in _SEVERAL}


@dataclasses.dataclass(frozen=True, slots=True)
class LabelScript:
    """Parameters of label_script."""

    min_share: float = 0.5  # of the characters, spaces and digits as the letters before them


def find_script(lang: str) -> str:
    """The script of a language as its code says or implies, named as tokcore.text.scripts does; "" if unknown.

    >>> find_script("en"), find_script("uz"), find_script("uz-Cyrl"), find_script("zh_Hant_TW"), find_script("code-go")
    ('Latin', '', 'Cyrillic', 'Han and kana', '')
    """
    first, *rest = re.split("[-_]", lang.lower())
    for part in rest:
        if part in _OF_SUBTAG:
            return _OF_SUBTAG[part]
    return _OF_LANGUAGE.get(first, "")


def measure_script(text: str, limits: LabelScript, lang: str) -> Iterator[Measure]:
    """The share of a text in the script of its language; nothing of a language without a known one."""
    wanted = find_script(lang)
    if not wanted or not text:
        return
    codes = np.frombuffer(text.encode("utf-32-le", errors="replace"), np.uint32)
    found = np.bincount(find_scripts(codes, np.zeros(1, np.int64)), minlength=len(SCRIPTS))
    with_script = int(found.sum() - found[SCRIPTS.index(NO_SCRIPT)])
    share = int(found[SCRIPTS.index(wanted)]) / with_script if with_script else 1.0
    yield Measure("other_script", share, least=limits.min_share)
