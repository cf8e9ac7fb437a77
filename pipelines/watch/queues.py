"""Queues of notifications: SQS through botocore, Pub/Sub through Google's client. Both libraries are extras."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from tokcore.errors import ConfigError

WAIT_S = 20  # at most, for a message: SQS allows no longer
_FORMS = "sqs://QUEUE, sqs://ACCOUNT/QUEUE or pubsub://PROJECT/SUBSCRIPTION"


class Message(NamedTuple):
    body: bytes
    attributes: Mapping[str, str]


class Queue(Protocol):
    """A queue at some server. Any failure of receive() is one of the queue, and passes."""

    def receive(self) -> list[Message]:
        """The next messages, which do not come again, most of the time; empty after WAIT_S."""


def open_queue(url: str, s3_options: Mapping[str, str | bool]) -> Queue:
    """The queue of a URL; nothing is asked of it yet. s3_options: as [storage.s3] has them, for region and profile.

    Raises ConfigError for another URL, or if the library is missing.
    """
    if match := re.fullmatch(r"sqs://(?:(\d+)/)?([\w.-]+)", url):
        return _Sqs(match[2], match[1], s3_options)
    if match := re.fullmatch(r"pubsub://([\w.:-]+)/([\w.~+%-]+)", url):
        return _PubSub(f"projects/{match[1]}/subscriptions/{match[2]}")
    raise ConfigError(f"watch.notifications = {url}: expected {_FORMS}")


class _Sqs:
    def __init__(self, name: str, account: str | None, options: Mapping[str, str | bool]) -> None:
        try:
            from botocore.session import Session
        except ImportError as error:
            raise ConfigError("watch.notifications: sqs:// needs a library: pip install 'tokcore[s3]'") from error
        make_session: Any = Session  # is not annotated
        session = make_session(profile=options.get("profile") or None)
        region = options.get("region") or None
        self._make_client: Callable[[], Any] = lambda: session.create_client("sqs", region_name=region)
        self._name = {"QueueName": name, **({"QueueOwnerAWSAccountId": account} if account else {})}
        self._client: Any = None
        self._url = ""

    def receive(self) -> list[Message]:
        if self._client is None:
            self._client = self._make_client()
        if not self._url:
            self._url = self._client.get_queue_url(**self._name)["QueueUrl"]
        answer = self._client.receive_message(QueueUrl=self._url, MaxNumberOfMessages=10, WaitTimeSeconds=WAIT_S)
        if not (found := answer.get("Messages", [])):
            return []
        done = [{"Id": str(i), "ReceiptHandle": one["ReceiptHandle"]} for i, one in enumerate(found)]
        self._client.delete_message_batch(QueueUrl=self._url, Entries=done)
        return [Message(one["Body"].encode(), {}) for one in found]


class _PubSub:
    def __init__(self, subscription: str) -> None:
        try:
            import google.cloud.pubsub_v1 as pubsub_v1
        except ImportError as error:
            text = "watch.notifications: pubsub:// needs a library: pip install 'tokcore[pubsub]'"
            raise ConfigError(text) from error
        self._make_client: Callable[[], Any] = pubsub_v1.SubscriberClient
        self._subscription = subscription
        self._client: Any = None

    def receive(self) -> list[Message]:
        from google.api_core.exceptions import DeadlineExceeded

        if self._client is None:
            self._client = self._make_client()
        try:
            answer = self._client.pull(
                request={"subscription": self._subscription, "max_messages": 1000}, timeout=WAIT_S, retry=None
            )
        except DeadlineExceeded:
            return []
        found = answer.received_messages
        if found:
            ids = [one.ack_id for one in found]
            self._client.acknowledge(request={"subscription": self._subscription, "ack_ids": ids}, timeout=WAIT_S)
        return [Message(one.message.data, dict(one.message.attributes)) for one in found]
