"""The rules of C4 (Raffel et al. 2020, JMLR 21/140) about whole documents, as datatrove has them.

Lines that C4 would cut out count for nothing. The text stays whole: a rule keeps a document or drops it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from tokcore.text.quality.measures import Measure
from tokcore.text.quality.words import count_sentences

_CITATION = re.compile(r"\[[0-9]*]|\[edit]|\[citation needed]")
_ENDS = (".", "?", "!", '"', "'")
_POLICY = re.compile(
    "terms of use|privacy policy|cookie policy|uses cookies|use of cookies|use cookies", re.ASCII | re.IGNORECASE
)
_LOREM = re.compile("lorem ipsum", re.ASCII | re.IGNORECASE)
_JAVASCRIPT = re.compile("javascript", re.ASCII | re.IGNORECASE)


@dataclasses.dataclass(frozen=True, slots=True)
class C4Quality:
    """Parameters of c4_quality."""

    remove_citations: bool = True  # [1], [edit], [citation needed] before the end of a line is looked at
    filter_no_terminal_punct: bool = True  # lines that no sign ends count for nothing
    min_num_sentences: int = 5  # in lines that count; 0: any number
    min_words_per_line: int = 3  # lines of fewer count for nothing
    max_word_length: int = 1000  # nor do lines with a longer word; 0: of any length
    filter_lorem_ipsum: bool = True
    filter_javascript: bool = True
    filter_curly_bracket: bool = True
    filter_policy: bool = True


def measure_quality(text: str, limits: C4Quality, lang: str) -> Iterator[Measure]:
    """What c4_quality measures of a text: what no document may have, then the sentences of lines that count."""
    num_sentences = 0
    for line in text.splitlines():
        line = line.strip()
        words = line.split()
        if limits.max_word_length and any(len(word) > limits.max_word_length for word in words):
            continue
        if limits.remove_citations and "[" in line:
            line = _CITATION.sub("", line)
        if limits.filter_no_terminal_punct and (not line.endswith(_ENDS) or line.endswith("...")):
            continue
        if len(words) < limits.min_words_per_line:
            continue
        if limits.filter_lorem_ipsum and _LOREM.search(line):
            yield Measure("lorem_ipsum", 1, most=0)
        if limits.filter_javascript and _JAVASCRIPT.search(line):
            continue
        if limits.filter_curly_bracket and "{" in line:
            yield Measure("curly_bracket", 1, most=0)
        if limits.filter_policy and _POLICY.search(line):
            continue
        num_sentences += count_sentences(line)
    if limits.min_num_sentences:
        yield Measure("few_sentences", num_sentences, least=limits.min_num_sentences)
