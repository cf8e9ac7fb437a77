"""What a rule says of a text: numbers, each with the limits within which a text is kept."""

from __future__ import annotations

from typing import NamedTuple


class Measure(NamedTuple):
    """A number that a rule measures. A text is kept if least <= value <= most.

    name: what is wrong with a text that is outside; the ledger counts by it. least, most: None for no limit.
    """

    name: str
    value: float
    least: float | None = None
    most: float | None = None

    @property
    def is_kept(self) -> bool:
        return (self.least is None or self.value >= self.least) and (self.most is None or self.value <= self.most)

    @property
    def margin(self) -> float:
        """How far from its nearest limit the number is, as a share of that limit: below 0 if it is outside.

        >>> Measure("short_doc", 40, least=50).margin
        -0.2
        """
        margins = [] if self.least is None else [(self.value - self.least) / (abs(self.least) or 1.0)]
        if self.most is not None:
            margins.append((self.most - self.value) / (abs(self.most) or 1.0))
        return min(margins, default=float("inf"))
