"""Ratios of a corpus from texts that were drawn, with their margins.

Texts are drawn of each language apart, all copies of a text together. The value is the ratio of weighted sums; the
margin is 1.96 times its standard error by linearization, with the correction for finite populations: of a language
whose texts were all drawn it is 0. See README, estimates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tokcore.evaluate.spread import DIGITS
from tokcore_pipelines.look.report.text_measures import Amounts

_Z = 1.96


class Drawing:
    """How texts were drawn: the language and the copies of each, and how many documents each language has."""

    def __init__(
        self, langs: list[str], copies: Amounts, documents: Mapping[str, int], is_whole: Mapping[str, bool]
    ) -> None:
        self.copies = copies
        names = sorted(set(langs))
        place = {lang: number for number, lang in enumerate(names)}
        self._stratum = np.array([place[lang] for lang in langs], np.int64)
        self._texts = np.bincount(self._stratum, minlength=len(names))
        drawn = np.bincount(self._stratum, copies, len(names))
        self._weights = np.array(
            [
                1.0 if is_whole[lang] else max(documents[lang] / of, 1.0)
                for lang, of in zip(names, drawn.tolist(), strict=True)
            ]
        )

    def estimate(self, above: Amounts, below: Amounts, among: npt.NDArray[np.bool_] | None = None) -> dict[str, Any]:
        """{"value", "margin"} of sum(above) / sum(below) over all documents; both None where below is 0.

        above, below: of each text. among: the texts that it is about; all if None. margin is None where one text alone
        speaks for others.
        """
        chosen = np.arange(len(self.copies)) if among is None else np.flatnonzero(among)
        y, x = ((values[chosen] * self.copies[chosen]).astype(np.float64) for values in (above, below))
        stratum = self._stratum[chosen]
        total_y, total_x = (float(self._add_up(stratum, values) @ self._weights) for values in (y, x))
        if not total_x:
            return {"value": None, "margin": None}
        ratio = total_y / total_x
        # Texts that are not chosen have residuals of 0, and count.
        residuals = y - ratio * x
        sums, squares = (self._add_up(stratum, values) for values in (residuals, residuals**2))
        speaks = (self._weights > 1) & (self._add_up(stratum, x) > 0)
        if (self._texts[speaks] < 2).any():
            return {"value": round(ratio, DIGITS), "margin": None}
        texts, weights = self._texts[speaks], self._weights[speaks]
        spread = np.maximum(squares[speaks] - sums[speaks] ** 2 / texts, 0) / (texts - 1)
        variance = float((weights**2 * (1 - 1 / weights) * texts * spread).sum())
        return {"value": round(ratio, DIGITS), "margin": round(_Z * variance**0.5 / total_x, DIGITS)}

    def _add_up(self, stratum: Amounts, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.bincount(stratum, values, len(self._texts)).astype(np.float64)
