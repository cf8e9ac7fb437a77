"""Digests of the documents in shards, as encoding leaves them for the driver: small, and added up in any order."""

from __future__ import annotations

from collections.abc import Iterable

from tokcore.shards.documents_digest import DocumentsDigest
from tokcore_schemas.refs import HashedDocuments


def add_up_hashed(parts: Iterable[HashedDocuments]) -> HashedDocuments:
    """The digest of the documents of all parts."""
    total = DocumentsDigest()
    for part in parts:
        total.add_up(part.digest, part.documents)
    return HashedDocuments(total.num_documents, total.hexdigest())
