"""The table of ready rules: a rule is a row here and a function that measures texts.

Names, parameters and limits of a rule never change their meaning: outputs were made with them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tokcore.text.quality import c4, gopher, label_script
from tokcore.text.quality.measures import Measure


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """A ready rule. A text is kept if all that is measured of it is within its limits; the first that is not decides.

    parameters: a dataclass of int, float, bool or tuples of str, all with defaults.
    measure: (text, parameters, language) -> what it measures, in the order in which it decides.
    """

    parameters: type[Any]
    measure: Callable[[str, Any, str], Iterator[Measure]]
    text: str  # what it keeps

    def find_reason(self, text: str, parameters: Any, lang: str) -> str:
        """Why a text is not kept; "" if it is."""
        return next((one.name for one in self.measure(text, parameters, lang) if not one.is_kept), "")


RULES: Mapping[str, Rule] = {
    "gopher_quality": Rule(gopher.GopherQuality, gopher.measure_quality, "texts of words, by Gopher's limits"),
    "gopher_repetition": Rule(gopher.GopherRepetition, gopher.measure_repetition, "texts that repeat little"),
    "c4_quality": Rule(c4.C4Quality, c4.measure_quality, "texts with whole sentences, by C4's limits"),
    "label_script": Rule(label_script.LabelScript, label_script.measure_script, "texts in their language's script"),
}
