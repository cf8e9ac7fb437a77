"""Queues and sorted names spare listings, and are hints alone: whatever they say, the output holds what is there."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from stores.files import put, remove
from stores.servers import Store, start_pubsub
from support.builds import build_file, jsonl, run
from support.installed_servers import give_up
from support.updates import make_texts
from support.watchers import said, watching

from tokcore_pipelines.build.read_log import read_log
from tokcore_pipelines.store.listing import list_files
from tokcore_pipelines.store.listing_after import list_files_after
from tokcore_pipelines.store.patterns import Pattern, resolve_pattern
from tokcore_pipelines.watch.known_files import _is_like
from tokcore_pipelines.watch.service import Service

SETTINGS = "[learn]\nvocab_size = 280\n[shards]\ntarget_tokens = 300\n"
SOON: dict[str, Any] = {"poll_seconds": Decimal(1000), "settle_seconds": Decimal("0.2")}


def land(store: Store, url: str, name: str = "a", number: int = 4) -> None:
    put(store, url, jsonl([{"text": text} for text in make_texts(name, number)]))


def build_over(store: Store, folder: Path, number: int = 3) -> str:
    """A build in a local folder over some files in a bucket, and the URL of their folder."""
    url = f"{store.fresh()}/in"
    for day in range(number):
        land(store, f"{url}/2026-{day:04d}.jsonl")
    source = f'[[source]]\nlang = "en"\nfiles = "{url}/*.jsonl"\n[update]\nvanished = "remove"\n'
    run(build_file(folder, source, SETTINGS), folder / "out")
    store.proxy.reset()
    return url


def count_files(folder: Path) -> int:
    log = read_log(str(folder / "out"))
    return log.commits[-1].totals.files if log.commits else -1


@contextlib.contextmanager
def running(watcher: Service) -> Iterator[None]:
    """Go round from a thread, as run() does, until the block ends."""

    def run() -> None:
        while not watcher.wishes.is_over:
            watcher.wishes.take_reload()
            watcher.wishes.wait(watcher.go_round())
            watcher._gather_hints()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        wait_for(lambda: watcher._looked_at is not None and watcher._has_turn)
        yield
    finally:
        watcher.wishes.end()
        thread.join(60)
    assert not thread.is_alive()


def count_messages(watcher: Service, about: str) -> float:
    watcher._measure()
    found = re.search(rf'tokcore_notifications_total\{{about="{about}"\}} (.*)', watcher.meters.write().decode())
    return float(found[1]) if found else 0


def wait_for(find: Callable[[], Any], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not find():
        assert time.monotonic() < deadline
        time.sleep(0.05)


# -------------------------------------------------------------------------------------------------------- sorted names


def listed_bytes(store: Store) -> int:
    return sum(one.received_bytes for one in store.proxy.requests if one.operation.startswith("List"))


def test_a_look_lists_what_comes_after_the_last_name(s3_here: Store, tmp_path: Path) -> None:
    url = build_over(s3_here, tmp_path, 60)
    with watching(tmp_path, sorted_names=True, full_looks=4, settle_seconds=Decimal("0.1")) as watcher:
        watcher.go_round()
        whole = listed_bytes(s3_here)
        s3_here.proxy.reset()
        land(s3_here, f"{url}/2026-9001.jsonl")
        watcher.go_round()
        time.sleep(0.15)
        land(s3_here, f"{url}/2026-9002.jsonl")
        watcher.go_round()  # takes the first of both, which it looks at again, and maybe the second
        assert count_files(tmp_path) in (61, 62)
        assert listed_bytes(s3_here) < whole
        land(s3_here, f"{url}/2026-0000-late.jsonl")  # sorts among the old ones
        land(s3_here, f"{url}/2026-0001.jsonl", "other")
        remove(s3_here, f"{url}/2026-0002.jsonl")
        for _ in range(6):
            time.sleep(0.15)
            watcher.go_round()
        assert count_files(tmp_path) == 62
        assert {file.url for file in list_files(f"{url}/*.jsonl")} == {
            *(f"{url}/{uri.rpartition('/')[2]}" for uri in watcher._update.held)
        }


@pytest.mark.parametrize("kind", ["s3_here", "gcs_here"])
def test_a_listing_begins_after_a_name(kind: str, request: pytest.FixtureRequest) -> None:
    store = request.getfixturevalue(kind)
    url = store.fresh()
    for name in ("a/1.txt", "a/2.txt", "b/1.txt", "b/2.md", "b/c/3.txt", "ü/1.txt"):
        put(store, f"{url}/{name}", b"x")
    for pattern in (f"{url}/**/*.txt", f"{url}/*/*.txt", f"{url}/*/1.txt"):
        every = [*list_files(pattern)]
        assert list_files_after(Pattern(pattern, pattern), "") == every
        for number, file in enumerate(every):
            assert list_files_after(Pattern(pattern, pattern), file.url) == every[number + 1 :]
    assert list_files_after(Pattern(f"{url}/nothing/*.txt", f"{url}/nothing/*.txt"), "") == []


# ----------------------------------------------------------------------------------------------------------------- SQS


class SqsOf:
    """A queue of moto's, told by its S3 of the objects of a bucket."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", f"http://{store.proxy.upstream}")
        session = botocore.session.get_session()
        self.client = session.create_client("sqs")
        self.name = store.fresh().rpartition("/")[2]
        self.url = self.client.create_queue(QueueName=self.name)["QueueUrl"]
        arn = self.client.get_queue_attributes(QueueUrl=self.url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        self._s3 = session.create_client("s3")
        self._bucket = store.root.removeprefix("s3://")
        events = ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"]
        self.tell_of({"QueueConfigurations": [{"QueueArn": arn, "Events": events}]})

    def tell_of(self, what: dict[str, Any]) -> None:
        """Say of what the bucket tells which queue."""
        self._s3.put_bucket_notification_configuration(Bucket=self._bucket, NotificationConfiguration=what)

    def send(self, body: str) -> None:
        self.client.send_message(QueueUrl=self.url, MessageBody=body)

    def count(self) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.client.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)["Attributes"]
        return sum(map(int, found.values()))


@pytest.fixture
def sqs(s3_here: Store, monkeypatch: pytest.MonkeyPatch) -> SqsOf:
    return SqsOf(s3_here, monkeypatch)


def describe_event(url: str) -> str:
    bucket, _, key = url.removeprefix("s3://").partition("/")
    return json.dumps({"Records": [{"s3": {"bucket": {"name": bucket}, "object": {"key": key}}}]})


def test_a_file_that_s3_tells_of_is_taken_without_a_listing(s3_here: Store, sqs: SqsOf, tmp_path: Path) -> None:
    url = build_over(s3_here, tmp_path)
    with watching(tmp_path, notifications=f"sqs://{sqs.name}", **SOON) as watcher, running(watcher):
        s3_here.proxy.reset()
        land(s3_here, f"{url}/new file+ü.jsonl")
        wait_for(lambda: count_files(tmp_path) == 4)
        land(s3_here, f"{url}/2026-0001.jsonl", "other")  # another version of an old file
        wait_for(lambda: read_log(str(tmp_path / "out")).newest == 2)
        remove(s3_here, f"{url}/2026-0002.jsonl")
        wait_for(lambda: count_files(tmp_path) == 3)
        inputs = url.removeprefix("s3://")
        assert not [one for one in s3_here.proxy.requests if one.operation.startswith("List") and inputs in one.key]
        wait_for(lambda: sqs.count() == 0)


def test_messages_that_are_wrong_doubled_or_foreign_do_no_harm(s3_here: Store, sqs: SqsOf, tmp_path: Path) -> None:
    url = build_over(s3_here, tmp_path)
    with watching(tmp_path, notifications=f"sqs://{sqs.name}", **SOON) as watcher, running(watcher):
        for body in ("hello", "[]", "null", '{"Records": [1]}', '{"Records": [{"s3": {"bucket": 1}}]}', '"s3://x"'):
            sqs.send(body)
        sqs.send(describe_event(f"{url}/not-there.jsonl"))
        sqs.send(describe_event(f"{url}/2026-0000.jsonl"))  # as it was
        sqs.send(describe_event("s3://another-bucket/2026-0000.jsonl"))
        sqs.send(describe_event(f"{url}/a::b.jsonl"))
        land(s3_here, f"{url}/new.jsonl")
        for _ in range(3):
            sqs.send(json.dumps({"Type": "Notification", "Message": describe_event(f"{url}/new.jsonl")}))
        wait_for(lambda: sqs.count() == 0 and count_files(tmp_path) == 4)
        wait_for(lambda: count_messages(watcher, "other") >= 5)
        assert not watcher._trouble
    assert [commit.why.new for commit in read_log(str(tmp_path / "out")).commits] == [1]


def test_a_name_that_no_store_has_is_of_no_pattern() -> None:
    pattern = resolve_pattern("", "s3://bucket/*.jsonl")
    assert _is_like("s3://bucket/a.jsonl", pattern)
    assert not _is_like("s3://bucket/a\0.jsonl", pattern)
    assert not _is_like("s3://name:secret@bucket/a.jsonl", pattern)


def test_polling_goes_on_while_the_queue_is_down(
    s3_here: Store, sqs: SqsOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = build_over(s3_here, tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", "http://127.0.0.1:9")  # where nobody listens
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    soon = {**SOON, "poll_seconds": Decimal("0.3")}
    with watching(tmp_path, notifications=f"sqs://{sqs.name}", **soon) as watcher, running(watcher):
        wait_for(lambda: watcher._notifications.num_failed > 1)
        land(s3_here, f"{url}/new.jsonl")
        wait_for(lambda: count_files(tmp_path) == 4)
        assert watcher.show_ready().is_well
        assert said(watcher).count("The sources are listed all the same") == 1


def test_a_lost_message_is_made_up_for_by_the_next_listing(s3_here: Store, sqs: SqsOf, tmp_path: Path) -> None:
    url = build_over(s3_here, tmp_path)
    with watching(tmp_path, notifications=f"sqs://{sqs.name}", poll_seconds=Decimal("0.2")) as watcher:
        watcher.go_round()
        sqs.tell_of({})  # nothing
        land(s3_here, f"{url}/new.jsonl")
        time.sleep(0.25)
        watcher.go_round()
        assert count_files(tmp_path) == 4


# ------------------------------------------------------------------------------------------------------------- Pub/Sub


@pytest.fixture
def pubsub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Publishes to the topic whose subscription is pubsub://tests/files."""
    try:
        from google.cloud import pubsub_v1
    except ImportError:
        give_up("Google's client of Pub/Sub is not installed", ".venv/installed")
    with start_pubsub() as address:
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", address)
        publisher = pubsub_v1.PublisherClient()
        subscriber = pubsub_v1.SubscriberClient()
        publisher.create_topic(name="projects/tests/topics/files")
        subscriber.create_subscription(name="projects/tests/subscriptions/files", topic="projects/tests/topics/files")
        yield lambda data, **facts: publisher.publish("projects/tests/topics/files", data, **facts).result(30)
        subscriber.close()


def test_a_file_that_google_tells_of_is_taken_without_a_listing(
    gcs_here: Store, pubsub: Callable[..., None], tmp_path: Path
) -> None:
    url = build_over(gcs_here, tmp_path)
    bucket, _, folder = url.removeprefix("gs://").partition("/")
    with watching(tmp_path, notifications="pubsub://tests/files", **SOON) as watcher, running(watcher):
        gcs_here.proxy.reset()
        land(gcs_here, f"{url}/new.jsonl")
        facts = {"bucketId": bucket, "objectId": f"{folder}/new.jsonl", "eventType": "OBJECT_FINALIZE"}
        for _ in range(2):
            pubsub(b"{}", **facts)
        pubsub(b"something else")
        pubsub(b"{}", **{**facts, "bucketId": "another"})
        wait_for(lambda: count_files(tmp_path) == 4)
        wait_for(lambda: count_messages(watcher, "other") == 1)
        assert not [one for one in gcs_here.proxy.requests if one.operation.startswith("List") and folder in one.key]
    assert [commit.why.new for commit in read_log(str(tmp_path / "out")).commits] == [1]
