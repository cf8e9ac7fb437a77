"""run.json is read with tolerance: any release may have written it, and nothing vouches for it."""

from __future__ import annotations

import json

import pytest

from tokcore.errors import FormatError
from tokcore_schemas.run_json import RunFacts, parse_run_facts

FACTS = RunFacts(
    "2026-01-31T23:59:00+00:00", "host", "x86_64", 7, "3.11.2", {"pyarrow": "1.2.3", "x": None}, "b", "/d", 1.5, 2, "k"
)


def test_there_and_back():
    assert parse_run_facts(FACTS.to_bytes(), "run.json") == FACTS
    assert parse_run_facts(RunFacts().to_bytes(), "run.json") == RunFacts()


def test_other_releases_may_say_more_or_less():
    assert parse_run_facts(b'{"seconds": 3, "new": {"a": 1}}', "run.json") == RunFacts(seconds=3)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"?", "run.json: no JSON"),
        (b"[" * 100_000, "run.json: no JSON"),
        (b"[]", "run.json: expected an object"),
        (b'{"seconds": "1"}', "run.json: seconds: expected a number"),
        (b'{"seconds": true}', "run.json: seconds: expected a number"),
        (b'{"packages": {"pyarrow": 1}}', "run.json: packages.pyarrow: expected str"),
    ],
)
def test_damage_is_named(data, message):
    with pytest.raises(FormatError, match=message):
        parse_run_facts(data, "run.json")


def test_it_is_sorted_json_for_people():
    lines = FACTS.to_bytes().decode().splitlines()
    assert list(json.loads(FACTS.to_bytes())) == sorted(json.loads(FACTS.to_bytes()))
    assert ' "base": "/d",' in lines
