"""Files of a plan whose documents were decoded from tokens, since their source was gone (tokcore remove)."""

from __future__ import annotations

from tokcore_schemas.plan import Plan

_MOST_NAMED = 3


def find_decoded(plan: Plan) -> list[str]:
    """The uris of such files, in the order of the plan."""
    return [file.uri for file in plan.files if plan.settings[file.settings].decoded_from]


def describe_decoded(plan: Plan) -> str:
    """That there are some, for a message."""
    uris = find_decoded(plan)
    more = f" and {len(uris) - _MOST_NAMED:,} more" if len(uris) > _MOST_NAMED else ""
    return f"{', '.join(uris[:_MOST_NAMED])}{more}: decoded from tokens of an earlier part"
