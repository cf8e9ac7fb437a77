"""How waiting for other slices ends, other than with what was waited for."""

from __future__ import annotations

from tokcore.errors import StageError


class SliceWaits(StageError):  # noqa: N818 - an outcome, not a fault
    """This slice has done its share, others have not, and it was told not to wait."""


class MadeElsewhere(StageError):  # noqa: N818 - an outcome, not a fault
    """Another slice has committed the stage."""
