"""Result keys: what stands in the names of files that workers write, so that other work never gets the same name.

A key follows from all that determines a result, pins of inputs included, which differ between machines and stores.
So content ids take names without it.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from tokcore.files.canonical_json import hash_sha256, write_canonical_json
from tokcore.files.jsonable import to_jsonable
from tokcore_pipelines.work.semantics import SEMANTICS
from tokcore_pipelines.work.sort_documents import Sortable
from tokcore_schemas.plan import Assignment, Plan
from tokcore_schemas.stage_manifests import ShardsConfig

_DIGITS = 12  # hexadecimal


def hash_shards_settings(config: ShardsConfig, fingerprint: str, semantics: Mapping[str, Any] = SEMANTICS) -> str:
    """sha256 of what determines the shards of all work items alike.

    fingerprint: of the tokenizer, which covers its normalizer and pattern.
    """
    parts = {"config": to_jsonable(config), "tokenizer": fingerprint, "semantics": dict(semantics)}
    return hash_sha256(write_canonical_json(parts))


def make_shards_key(settings_sha256: str, assignment: Assignment) -> str:
    """The key of a work item's shards. settings_sha256: as hash_shards_settings gives it."""
    parts = {"settings": settings_sha256, **_describe(assignment)}
    return hash_sha256(write_canonical_json(parts))[:_DIGITS]


def hash_content(assignment: Assignment) -> str:
    """sha256 of what a work item reads and how, tombstones aside, which only leave documents out.

    Under equal settings of a stage, items of equal hashes have equal results, whatever their numbers.
    """
    described = _describe(assignment)
    for one in described["ranges"]:
        one["settings"].pop("removed", None)
    return hash_sha256(write_canonical_json(described))


def make_shuffled_key(settings_sha256: str, plan: Plan) -> str:
    """The key of all shards of a shuffled build: any document of the plan may be in each."""
    hasher = hashlib.sha256(settings_sha256.encode())
    for item in plan.items:
        hasher.update(write_canonical_json(_describe(plan.assignment(item))))
    return hasher.hexdigest()[:_DIGITS]


def _describe(assignment: Assignment) -> dict[str, Any]:
    """What a work item reads, how, and which of its documents are duplicates."""
    ranges = [
        {
            "uri": one.uri,
            "size_bytes": one.size_bytes,
            "version": one.version,
            "start": one.start,
            "end": one.end,
            **({"extent": one.extent} if one.extent else {}),
            "settings": to_jsonable(dataclasses.replace(one.settings, as_before=False)),
        }
        for one in assignment.ranges
    ]
    return {"ranges": ranges, **({"drops": assignment.drops.sha256} if assignment.drops is not None else {})}


def make_bucket_key(settings_sha256: str, documents: Iterable[Sortable]) -> str:
    """The key of the shards that WriteShards makes of these documents, in this order."""
    hasher = hashlib.sha256(settings_sha256.encode())
    for one in documents:
        for part in (b"\1" if one.has_id else b"\0", one.id, one.lang.encode(), one.text):
            hasher.update(len(part).to_bytes(8, "little") + part)
    return hasher.hexdigest()[:_DIGITS]


def make_table_key(identity: str) -> str:
    """The key of the count tables of a stage of that identity, which covers all that they are made from."""
    return identity[:_DIGITS]
