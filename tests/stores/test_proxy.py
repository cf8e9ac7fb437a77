"""The proxy that races, budgets and faults are tested with keeps its own promises."""

from __future__ import annotations

import base64
import hashlib
import http.client
import threading

import pytest
from stores.proxy import Faults, Proxy
from stores.servers import Store

# moto looks who signed, not whether the signature is right.
SIGNED = "AWS4-HMAC-SHA256 Credential=tests/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"


def ask(proxy: Proxy, method: str, target: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
    """Status and body of an answer; names of headers with _ for -."""
    headers["authorization"] = SIGNED
    connection = http.client.HTTPConnection(proxy.address, timeout=30)
    try:
        connection.request(method, target, body, {name.replace("_", "-"): value for name, value in headers.items()})
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def test_of_many_racers_one_creates(s3: Store) -> None:
    target = f"/{s3.fresh().removeprefix('s3://')}"
    answers: list[tuple[int, int]] = []
    start = threading.Barrier(16)

    def race(number: int) -> None:
        start.wait()
        answers.append((ask(s3.proxy, "PUT", target, b"%d" % number, if_none_match="*")[0], number))

    threads = [threading.Thread(target=race, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [winner] = [number for status, number in answers if status == 200]
    assert sorted(status for status, _ in answers) == [200] + [412] * 15
    assert ask(s3.proxy, "GET", target) == (200, b"%d" % winner)


def test_a_store_that_ignores_the_condition(s3: Store) -> None:
    target = f"/{s3.fresh().removeprefix('s3://')}"
    s3.proxy.ignores_conditions = True
    assert [ask(s3.proxy, "PUT", target, body, if_none_match="*")[0] for body in (b"1", b"2")] == [200, 200]
    assert ask(s3.proxy, "GET", target) == (200, b"2")


@pytest.mark.parametrize(
    ("header", "checksum"),
    [
        ("Content-MD5", base64.b64encode(hashlib.md5(b"whole").digest()).decode()),
        ("x-amz-checksum-sha256", base64.b64encode(hashlib.sha256(b"whole").digest()).decode()),
        ("x-amz-checksum-crc32", "y/OBrg=="),
        ("x-amz-content-sha256", hashlib.sha256(b"whole").hexdigest()),
    ],
)
def test_a_body_without_its_checksum_is_refused(s3: Store, header: str, checksum: str) -> None:
    target = f"/{s3.fresh().removeprefix('s3://')}"
    status, _ = ask(s3.proxy, "PUT", target, b"whol", **{header: checksum})
    assert status == 400
    assert ask(s3.proxy, "GET", target)[0] == 404
    if header != "x-amz-checksum-crc32":
        assert ask(s3.proxy, "PUT", target, b"whole", **{header: checksum})[0] == 200


def test_every_request_is_recorded(s3: Store) -> None:
    key = s3.fresh().removeprefix("s3://")
    ask(s3.proxy, "PUT", f"/{key}", b"four", if_none_match="*")
    ask(s3.proxy, "GET", f"/{key}")
    ask(s3.proxy, "GET", "/tokcore-tests?list-type=2")
    ask(s3.proxy, "DELETE", f"/{key}")
    found = [(r.operation, r.key, r.sent_bytes, r.status, r.creates_only) for r in s3.proxy.requests]
    assert found == [
        ("PutObject", key, 4, 200, True),
        ("GetObject", key, 0, 200, False),
        ("ListObjects", "tokcore-tests", 0, 200, False),
        ("DeleteObject", key, 0, 204, False),
    ]
    assert s3.proxy.requests[1].received_bytes == 4


def test_faults_follow_from_the_seed() -> None:
    def pick(seed: int) -> list[str]:
        faults = Faults({"slow_down": 0.2, "cut_after": 0.2}, seed)
        return [faults.pick("PutObject", f"bucket/{number % 50}") for number in range(1000)]

    assert pick(1) == pick(1) != pick(2)
    assert 150 < pick(1).count("slow_down") < 250
    assert 150 < pick(1).count("cut_after") < 250


@pytest.mark.parametrize(("trouble", "done"), [("slow_down", False), ("cut_before", False), ("cut_after", True)])
def test_what_fails_is_done_or_not(s3: Store, trouble: str, done: bool) -> None:
    target = f"/{s3.fresh().removeprefix('s3://')}"
    s3.proxy.faults = Faults({trouble: 1.0}, most=1)
    if trouble == "slow_down":
        status, body = ask(s3.proxy, "PUT", target, b"x")
        assert (status, b"<Code>SlowDown</Code>" in body) == (503, True)
    else:
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            ask(s3.proxy, "PUT", target, b"x")
    assert ask(s3.proxy, "GET", target)[0] == (200 if done else 404)


def test_half_an_answer(s3: Store) -> None:
    target = f"/{s3.fresh().removeprefix('s3://')}"
    ask(s3.proxy, "PUT", target, b"x" * 100_000)
    s3.proxy.faults = Faults({"cut_body": 1.0}, most=1)
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        ask(s3.proxy, "GET", target)
    assert len(ask(s3.proxy, "GET", target)[1]) == 100_000
