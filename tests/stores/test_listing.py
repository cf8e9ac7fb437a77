"""Listing and pinning inputs in a store: some patterns at a time, in a fixed order, with what the listing says."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from stores.files import put, remove
from stores.servers import Store

from tokcore.errors import ConfigError, StageError
from tokcore_pipelines.build.plan_corpus import plan_build
from tokcore_pipelines.store import listed_pages, storage, urls
from tokcore_pipelines.store.disk_listing import Links
from tokcore_pipelines.store.patterns import Pattern
from tokcore_pipelines.store.pins import find_version
from tokcore_pipelines.work.inputs import LeftOut, find_inputs
from tokcore_schemas.config import BuildConfig, parse_config

NUM_FILES = 20


@pytest.fixture
def folder(s3_here: Store) -> str:
    folder = s3_here.fresh()
    for number in range(NUM_FILES):
        put(s3_here, f"{folder}/{number % 4}/{number:02d}.jsonl", b'{"text": "a"}\n')
    s3_here.proxy.reset()
    return folder


def make_config(folder: str, *patterns: str) -> BuildConfig:
    sources = "".join(f'[[source]]\nlang = "en"\nfiles = "{one}"\n' for one in patterns)
    return parse_config(f'version = 1\n[build]\noutput = "{folder}-out"\n{sources}', f"{folder}/build.toml")


def test_a_listing_says_all_that_a_pin_needs(s3: Store, folder: str) -> None:
    plan = plan_build(make_config(folder, "**/*.jsonl"))
    assert len(plan.files) == NUM_FILES
    assert s3.proxy.count().total() <= 6, s3.proxy.count()


def test_a_named_file_costs_one_request(s3: Store, folder: str) -> None:
    names = [f"{number % 4}/{number:02d}.jsonl" for number in range(NUM_FILES)]
    plan = plan_build(make_config(folder, *names))
    assert [file.uri for file in plan.files] == sorted(names)
    assert s3.proxy.count() == {"HeadObject": NUM_FILES}


def test_sources_are_listed_at_once_and_come_in_their_order(folder: str) -> None:
    meeting = threading.Barrier(4, timeout=30)

    def list_files(pattern: Pattern, links: Links) -> Sequence[storage.FileId]:
        meeting.wait()  # breaks unless four are listed at a time
        return storage.list_files(pattern, links)

    config = make_config(folder, *(f"{number}/*.jsonl" for number in (3, 1, 0, 2)))
    found = [one.uri for one in find_inputs(config, f"{folder}-out", LeftOut(), list_files=list_files)]
    assert found == [f"{i}/{number:02d}.jsonl" for i in (3, 1, 0, 2) for number in range(i, NUM_FILES, 4)]


def test_the_first_pattern_that_fails_is_named(folder: str) -> None:
    with pytest.raises(ConfigError, match=r"source\[1\]\.files.*no file matches .*none/"):
        list(find_inputs(make_config(folder, "0/*", "none/*", "s3://tokcore-missing/*"), f"{folder}-out", LeftOut()))


def test_reading_an_input_asks_once_whether_it_changed(s3: Store, folder: str) -> None:
    (pin,) = storage.list_files(f"{folder}/0/00.jsonl")
    s3.proxy.reset()
    with storage.open_pinned(pin) as file:
        assert file.read() == b'{"text": "a"}\n'
    assert s3.proxy.count() == {"GetObject": 1, "HeadObject": 1}


def test_an_input_that_changed_is_refused_when_it_is_left(s3: Store, folder: str) -> None:
    url = f"{folder}/0/00.jsonl"
    (pin,) = storage.list_files(url)
    put(s3, url, b'{"text": "b"}\n')
    with (
        pytest.raises(StageError, match=r"00\.jsonl: input changed since it was planned"),
        storage.open_pinned(pin) as file,
    ):
        file.read()
    remove(s3, url)
    with pytest.raises(StageError, match=r"00\.jsonl: input changed since it was planned \(it is gone\)"):
        storage.open_pinned(pin).read()


@pytest.mark.parametrize("name", ["s3", "gcs", "azure"])
def test_listings_in_pages_name_what_the_library_finds(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    store: Store = request.getfixturevalue(name)
    for variable, value in store.environment.items():
        monkeypatch.setenv(variable, value)
    folder = store.fresh()
    for number in range(7):
        put(store, f"{folder}/{number % 3}/{number}.jsonl", b"x" * number)
    put(store, f"{folder}-beside/1.jsonl", b"x")
    system, path = urls.open_file_system(folder)
    with monkeypatch.context() as patch:
        patch.setattr(listed_pages, "PAGE", 2)
        below = list(listed_pages.iterate_below(system, path))
        level = list(listed_pages.iterate_folder(system, path))
    found = system.find(path, detail=True)
    assert {info["name"]: (info["size"], find_version(info)) for info in below} == {
        one: (info["size"], find_version(info)) for one, info in found.items()
    }
    assert len(below) == 7
    assert [(info["name"].rstrip("/"), info["type"]) for info in level] == [
        (f"{path}/{number}", "directory") for number in range(3)
    ]
    listed = storage.list_files(f"{folder}/**/*.jsonl")
    assert listed == storage.list_files(f"{folder}/*/*.jsonl")
    assert listed == [storage.stat(f"{folder}/{number % 3}/{number}.jsonl") for number in (0, 3, 6, 1, 4, 2, 5)]
