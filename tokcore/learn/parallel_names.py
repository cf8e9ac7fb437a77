"""Which file of parallel text is a language's: `sw.txt`, or `swh_Latn.txt`, as FLORES-200 names it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

# ISO 639-1 -> the language of ISO 639-3 that FLORES-200 has for it.
_CODES = (
    "af=afr am=amh ar=arb as=asm az=azj ba=bak be=bel bg=bul bm=bam bn=ben bo=bod bs=bos ca=cat cs=ces cy=cym da=dan "
    "de=deu dz=dzo ee=ewe el=ell en=eng eo=epo es=spa et=est eu=eus fa=pes ff=fuv fi=fin fj=fij fo=fao fr=fra ga=gle "
    "gd=gla gl=glg gn=grn gu=guj ha=hau he=heb hi=hin hr=hrv ht=hat hu=hun hy=hye id=ind ig=ibo is=isl it=ita ja=jpn "
    "jv=jav ka=kat kg=kon ki=kik kk=kaz km=khm kn=kan ko=kor ku=kmr ky=kir lb=ltz lg=lug li=lim ln=lin lo=lao lt=lit "
    "lv=lvs mg=plt mi=mri mk=mkd ml=mal mn=khk mr=mar ms=zsm mt=mlt my=mya nb=nob ne=npi nl=nld nn=nno no=nob ny=nya "
    "oc=oci om=gaz or=ory pa=pan pl=pol ps=pbt pt=por qu=quy rn=run ro=ron ru=rus rw=kin sa=san sc=srd sd=snd sg=sag "
    "si=sin sk=slk sl=slv sm=smo sn=sna so=som sq=als sr=srp ss=ssw st=sot su=sun sv=swe sw=swh ta=tam te=tel tg=tgk "
    "th=tha ti=tir tk=tuk tl=tgl tn=tsn tr=tur ts=tso tt=tat tw=twi ug=uig uk=ukr ur=urd uz=uzn vi=vie wo=wol xh=xho "
    "yi=ydd yo=yor zh=zho zu=zul"
)
_OF_TWO_LETTERS = dict(pair.split("=") for pair in _CODES.split())
# Of languages that it has in several scripts: which one a code without a script means.
_USUAL_SCRIPT = {"arb": "Arab", "zho": "Hans"}


def pair_languages(langs: Iterable[str], names: Collection[str]) -> dict[str, str]:
    """Language of a corpus -> the name of its file, for those that have one.

    A language is named as it is, or in ISO 639-3 with its script. Where there are several scripts, the language has to
    say which one, as in zh-Hant.

    >>> names = ["eng_Latn", "zho_Hans", "zho_Hant", "ace_Arab", "ace_Latn", "sw"]
    >>> pair_languages(["ace", "code-go", "en", "sw", "zh", "zh-Hant"], names)
    {'en': 'eng_Latn', 'sw': 'sw', 'zh': 'zho_Hans', 'zh-Hant': 'zho_Hant'}
    """
    found = ((lang, _find_name(lang, names)) for lang in langs)
    return {lang: name for lang, name in found if name}


def _find_name(lang: str, names: Collection[str]) -> str:
    if lang in names:
        return lang
    code, _, rest = lang.replace("_", "-").partition("-")
    code = _OF_TWO_LETTERS.get(code, code)
    if len(code) != 3 or (rest and len(rest) != 4):
        return ""
    if script := rest or _USUAL_SCRIPT.get(code, ""):
        return f"{code}_{script}" if f"{code}_{script}" in names else ""
    scripts = [name for name in names if name.startswith(f"{code}_") and len(name) == 8]
    return scripts[0] if len(scripts) == 1 else ""
