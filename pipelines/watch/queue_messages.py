"""What stores tell of new files through queues: S3 by SQS, Google's store by Pub/Sub. Knows no network.

A message is a hint and no more: what it names is looked at in the store. So a message that is lost, late, doubled, out
of order or somebody else's does no harm.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote_plus


def find_urls(body: bytes, attributes: Mapping[str, str] | None = None) -> list[str]:
    """The URLs of the objects that a message is about; empty if it is about none.

    Reads S3's own events, also as SNS and EventBridge pass them on, and those of Google's store, whose facts are in the
    attributes of a message.

    >>> find_urls(b"{}", {"bucketId": "b", "objectId": "en/a b.txt"})
    ['gs://b/en/a b.txt']
    >>> find_urls(b'{"Records": [{"s3": {"bucket": {"name": "b"}, "object": {"key": "en/a+b.txt"}}}]}')
    ['s3://b/en/a b.txt']
    >>> find_urls(b"hello")
    []
    """
    if attributes and (bucket := attributes.get("bucketId")) and (name := attributes.get("objectId")):
        return [f"gs://{bucket}/{name}"]
    try:
        return [*dict.fromkeys(_find_in_s3_event(json.loads(body)))]
    except (ValueError, TypeError, AttributeError, RecursionError):
        return []


def _find_in_s3_event(event: Any) -> Iterator[str]:
    if isinstance(event.get("Message"), str):  # as SNS wraps it
        yield from _find_in_s3_event(json.loads(event["Message"]))
    if isinstance(detail := event.get("detail"), dict) and event.get("source") == "aws.s3":  # EventBridge
        yield from _spell(detail.get("bucket"), detail.get("object"), is_quoted=False)
    for record in event.get("Records") or ():
        if isinstance(s3 := record.get("s3"), dict):
            yield from _spell(s3.get("bucket"), s3.get("object"), is_quoted=True)


def _spell(bucket: Any, of: Any, *, is_quoted: bool) -> Iterator[str]:
    name, key = (bucket or {}).get("name"), (of or {}).get("key")
    if isinstance(name, str) and isinstance(key, str) and name and key:
        yield f"s3://{name}/{unquote_plus(key) if is_quoted else key}"
