"""What a report says first, in words: how the tokenizer fits, which languages pay most, and what looks wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tokcore_pipelines.look.report.health import FALLS_BACK

# What is worth a sentence. README.md beside this file has the same figures.
_MANY_UNUSED = 0.1  # of the vocabulary was never written
_MANY_OF_ONE_DOCUMENT = 0.05  # of the vocabulary has more than half of its occurrences in one document
_MANY_COPIES = 0.01  # of the documents repeat another one


class Finding(NamedTuple):
    """A sentence, and the section of the page that has its figures."""

    said: str
    section: str


def judge(report: Mapping[str, Any], own: str) -> dict[str, Any]:
    """The verdict on a report's numbers, in sentences. Where nothing looks wrong, wrong is empty.

    own: the name of the build's tokenizer in the report.
    """
    wrong = [finding._asdict() for finding in _find_wrong(report, own)]
    return {"fit": _say_fit(report, own), "pays": _say_who_pays(report, own), "wrong": wrong}


def _say_fit(report: Mapping[str, Any], own: str) -> str:
    corpus, size = report["corpus"], report["tokenizers"][own]["tokens"]
    if not corpus["tokens"]:
        return "There is no text."
    used = 1 - report["health"].get("never", {"number": 0})["number"] / size
    return (
        f"A token stands for {corpus['text_bytes'] / corpus['tokens']:.2f} bytes of this text, "
        f"and the text uses {used:.0%} of the vocabulary."
    )


def _say_who_pays(report: Mapping[str, Any], own: str) -> str:
    premiums = report["tokenizer"]["premiums"]
    if premiums is not None:
        told = premiums["tokenizers"][own]
        most = max(told["premiums"], key=lambda lang: (told["premiums"][lang], lang))
        return (
            f"For the same content, {most} pays most: {told['premiums'][most]:.2f} times the tokens of "
            f"{premiums['reference']}. Nine languages in ten pay at most {told['p90']:.2f} times as many."
        )
    by_lang = {
        lang: about["tokenizers"][own]["tokens_per_word"]["value"]
        for lang, about in report["tokenizer"]["comparison"]["languages"].items()
    }
    words = {lang: value for lang, value in by_lang.items() if value is not None}
    if len(words) < 2:
        return ""
    most, least = (choose(words, key=lambda lang: (words[lang], lang)) for choose in (max, min))
    return (
        f"A word takes most tokens in {most}, {words[most]:.2f}, and fewest in {least}, {words[least]:.2f}. "
        f"What languages pay for the same content, only parallel text can say: --parallel."
    )


def _find_wrong(report: Mapping[str, Any], own: str) -> Iterator[Finding]:
    corpus, health, size = report["corpus"], report["health"], report["tokenizers"][own]["tokens"]

    def count(name: str) -> int:
        return int(health.get(name, {"number": 0})["number"])

    if fall := health["fall_back"]:
        langs = ", ".join(fall[:5]) + (f" and {len(fall) - 5} more" if len(fall) > 5 else "")
        said = f"More than {FALLS_BACK:.0%} of the tokens of {langs} are parts of characters: "
        yield Finding(said + "give them more weight, or a larger vocabulary.", "health")
    if number := count("unreachable"):
        yield Finding(f"{number:,} tokens can never be written: their own bytes become other tokens.", "health")
    if (number := count("never")) > _MANY_UNUSED * size:
        said = f"{number:,} tokens, {number / size:.0%} of the vocabulary, were never written: "
        yield Finding(said + "it is larger than this text needs.", "health")
    if (number := count("mostly_one_document")) > _MANY_OF_ONE_DOCUMENT * size:
        said = f"{number:,} tokens occur more in one document than in all others: learn.min_documents keeps such out."
        yield Finding(said, "health")
    extra, of = (sum(one[key] for one in corpus["copies"].values()) for key in ("extra_documents", "documents"))
    if extra > _MANY_COPIES * of:
        said = f"{extra / of:.1%} of the documents that were drawn repeat another one: [dedup] leaves one of each."
        yield Finding(said, "corpus")
    if rejected := sum(corpus["records"]["rejected"].values()):
        yield Finding(f"{rejected:,} of {corpus['records']['read']:,} records were rejected.", "corpus")
