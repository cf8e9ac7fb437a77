"""The family and the script of a language, from its code: by these, languages are mixed in groups.

Codes are of two letters (ISO 639-1) or three (639-3), with or without a script: `sr`, `srp`, `sr-Latn`, `srp_Cyrl`.
Families are those of the field, Indo-European by its branches. A language that writes several scripts has here the one
of most of its text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

OTHER = "other"  # what is in no group, or not known here

_FAMILIES = {
    "afroasiatic": "om orm so som ha hau kab taq tzm ber aa aar gaz sid wal",
    "austroasiatic": "vi vie km khm sat mnw kha unr",
    "austronesian": "id ind ms msa zsm jv jav su sun tl tgl fil ceb ilo war pag mg mlg plt mi mri sm smo to ton fj fij "
    "haw ty tah ban bjn min ace bug mad hil bcl pam ch cha tet ho mh na",
    "baltic": "lt lit lv lav lvs ltg",
    "bantu": "sw swa swh zu zul xh xho rw kin rn run ny nya sn sna st sot nso tn tsn ts tso ss ssw ve ven lg lug "
    "ln lin kg kon ki kik kam bem tum lua umb kmb nr nbl nd nde hz kj ng lu",
    "celtic": "cy cym ga gle gd gla br bre kw cor gv glv",
    "dravidian": "ta tam te tel kn kan ml mal tcy gon",
    "germanic": "en eng de deu nl nld sv swe da dan no nor nb nob nn nno is isl fo fao af afr lb ltz yi yid ydd fy "
    "fry li lim nds gsw sco bar",
    "greek": "el ell grc",
    "indic": "hi hin ur urd bn ben pa pan pnb gu guj mr mar ne nep npi or ori ory as asm si sin sd snd sa san mai "
    "bho mag awa hne ks kas gom kok dv div doi new pi bh",
    "iranian": "fa fas pes prs ps pus pbt ku kur kmr ckb sdh tg tgk os oss bal glk mzn zza diq",
    "japonic": "ja jpn ryu",
    "kartvelian": "ka kat xmf",
    "koreanic": "ko kor",
    "mongolic": "mn mon khk bxr xal",
    "niger-congo": "yo yor ig ibo ff ful fuv wo wol bm bam dyu ak aka tw twi fat ee ewe fon mos sg sag kbp",
    "nilo-saharan": "luo din nus knc kau kr dje",
    "quechuan": "qu que quy quz",
    "romance": "es spa fr fra it ita pt por ro ron ca cat gl glg oc oci ast an arg sc srd scn vec lmo lij fur rm roh "
    "wa wln lad pms nap ht hat co cos la lat",
    "semitic": "ar ara arb arz ary apc ajp acm acq aeb ars he heb mt mlt syr arc am amh ti tir",
    "sinitic": "zh zho cmn yue wuu nan hak gan lzh cdo",
    "slavic": "ru rus uk ukr be bel pl pol cs ces sk slk sl slv hr hrv sr srp bs bos mk mkd bg bul hsb dsb szl rue "
    "cu chu",
    "tai": "th tha lo lao shn za zha tts",
    "tibeto-burman": "my mya bo bod dz dzo kac lus mni ii",
    "tupian": "gn grn gug",
    "turkic": "tr tur az aze azj azb uz uzb uzn kk kaz ky kir tk tuk tt tat ba bak ug uig crh cv chv sah gag kaa",
    "uralic": "fi fin et est ekk hu hun se sme myv mdf mhr mrj udm kv kpv koi vep vro",
    "caucasian": "ab abk ce che av ava kbd ady lez",
    "armenian": "hy hye hyw",
    "albanian": "sq sqi als",
    "basque": "eu eus",
    "aymaran": "ay aym ayr",
    "constructed": "eo epo ia ina io ido vo vol ie ile jbo",
}
# ISO 15924, of languages that do not write Latin.
_SCRIPTS = {
    "Arab": "ar ara arb arz ary apc ajp acm acq aeb ars fa fas pes prs ps pus pbt ur urd pnb sd snd ug uig ckb "
    "sdh azb ks kas glk mzn bal",
    "Armn": "hy hye hyw",
    "Beng": "bn ben as asm mni",
    "Cyrl": "ru rus uk ukr be bel sr srp mk mkd bg bul rue cu chu kk kaz ky kir tg tgk tt tat ba bak cv chv sah "
    "mn mon khk bxr xal os oss myv mdf mhr mrj udm kv kpv koi ab abk ce che av ava kbd ady lez",
    "Deva": "hi hin mr mar ne nep npi sa san mai bho mag awa hne gom kok doi new pi bh",
    "Ethi": "am amh ti tir",
    "Geor": "ka kat xmf",
    "Grek": "el ell grc",
    "Gujr": "gu guj",
    "Guru": "pa pan",
    "Hans": "zh zho cmn wuu gan",
    "Hant": "yue nan hak lzh cdo",
    "Hebr": "he heb yi yid ydd lad arc",
    "Jpan": "ja jpn ryu",
    "Khmr": "km khm",
    "Knda": "kn kan tcy",
    "Kore": "ko kor",
    "Laoo": "lo lao",
    "Mlym": "ml mal",
    "Mymr": "my mya shn mnw",
    "Olck": "sat",
    "Orya": "or ori ory",
    "Sinh": "si sin",
    "Syrc": "syr",
    "Taml": "ta tam",
    "Telu": "te tel",
    "Tfng": "tzm taq",
    "Thaa": "dv div",
    "Thai": "th tha tts",
    "Tibt": "bo bod dz dzo",
    "Yiii": "ii",
}
_PARTS = re.compile(r"[-_]")
_SCRIPT = re.compile(r"[A-Za-z]{4}")


@functools.cache
def _by_code(table: str) -> Mapping[str, str]:
    of = _FAMILIES if table == "family" else _SCRIPTS
    return {code: name for name, codes in of.items() for code in codes.split()}


def find_family(lang: str) -> str:
    """The family of a language; "other" for what is none, or not known here.

    >>> find_family("en"), find_family("hin_Deva"), find_family("pt-BR"), find_family("code")
    ('germanic', 'indic', 'romance', 'other')
    """
    return _by_code("family").get(_PARTS.split(lang)[0].lower(), OTHER)


def find_script(lang: str) -> str:
    """The script of a language, as ISO 15924 names it: the one in its code, or else that of most of its text.

    >>> find_script("sr-Latn"), find_script("srp"), find_script("eng_Latn"), find_script("zh"), find_script("code")
    ('Latn', 'Cyrl', 'Latn', 'Hans', 'other')
    """
    code, *others = _PARTS.split(lang)
    if others and _SCRIPT.fullmatch(others[0]):
        return others[0].title()
    known = _by_code("script").get(code.lower())
    return known or (OTHER if find_family(code) == OTHER else "Latn")


def list_families() -> list[str]:
    """The names that find_family gives, in order, but for "other"."""
    return sorted(_FAMILIES)


def list_scripts() -> list[str]:
    """The scripts that find_script gives for codes without one, in order, but for "other"."""
    return sorted({*_SCRIPTS, "Latn"})
