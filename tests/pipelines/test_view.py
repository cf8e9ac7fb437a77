"""The server of `tokcore view`: who may ask, and that every answer is what the library says."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import sentencepiece_models
from support.builds import build_file, run, small_corpus, tokcore
from support.view_servers import serving

import tokcore as api
from tokcore.shards.opened_shards import ShardDocument
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.look.view import answers
from tokcore_pipelines.look.view.answers import compare_documents
from tokcore_pipelines.look.view.scanning import find_record, find_text
from tokcore_pipelines.look.view.scanning import search as search_shards
from tokcore_pipelines.look.view.server import ViewServer
from tokcore_pipelines.look.view.shelf import Volume


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("viewed")
    small_corpus(folder)
    for name, size in (("one", 400), ("two", 330)):
        settings = f"[plan]\nrange_bytes = 4000\n[learn]\nvocab_size = {size}\n[shards]\ntarget_tokens = 2000\n"
        run(build_file(folder, settings=settings, name=f"{name}.toml"), folder / name)
    return folder


@pytest.fixture(scope="module")
def server(built) -> Iterator[ViewServer]:
    with serving({name: built / name for name in ("one", "two")}) as server:
        yield server


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_pages_of_a_text_are_the_text(kind, monkeypatch, tmp_path):
    """Also of decoders that leave out the space at the start of a text: every page would lose one."""
    monkeypatch.setattr(answers, "MOST_TOKENS", 3)
    (tmp_path / "some.model").write_bytes(sentencepiece_models.train(kind, "plain"))
    volume = Volume("some", api.Tokenizer.load(tmp_path / "some.model"))
    ids = volume.tokenizer.encode("every word of this text has a space before it").tolist()
    pages = [answers.show_tokens(volume, ids, start)["tokens"] for start in range(0, len(ids), 3)]
    assert [len(page) for page in pages[:-1]] == [3] * (len(pages) - 1)
    assert b"".join(bytes.fromhex(token[2]) for page in pages for token in page) == volume.tokenizer.decode(ids)


def request(
    server: ViewServer,
    path: str = "shelf",
    body: Any = None,
    method: str = "POST",
    token: str | None = None,
    **headers: str,
) -> tuple[int, Any, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
    sent = {"Content-Type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
    token = server.token if token is None else token
    data = json.dumps({} if body is None else body).encode()
    connection.request(method, f"/{token}/{path}", data if method == "POST" else None, sent)
    answer = connection.getresponse()
    content, found = answer.read(), dict(answer.getheaders())
    connection.close()
    return answer.status, content, found


def ask(server: ViewServer, path: str, **body: Any) -> Any:
    status, content, _ = request(server, path, body)
    assert status == 200, content
    return json.loads(content)


def search(server: ViewServer, **body: Any) -> list[dict[str, Any]]:
    status, content, headers = request(server, "search", body)
    assert status == 200, content
    assert headers["Content-Type"] == "application/x-ndjson"
    return [json.loads(line) for line in content.splitlines()]


@pytest.mark.parametrize(
    "wrong",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:1"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"token": "x" * 32},
        {"token": ""},
        {"token": "%00"},
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_who_may_not_ask_is_refused(server, wrong, method):
    status, content, headers = request(server, "" if method == "GET" else "shelf", method=method, **wrong)
    assert status == 403
    assert list(json.loads(content)) == ["error"]
    assert server.token.encode() not in content
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_who_may_ask(server):
    port = server.server_address[1]
    assert server.server_address[0] == "127.0.0.1"
    for host in (f"127.0.0.1:{port}", f"localhost:{port}"):
        assert request(server, Host=host, Origin=f"http://{host}", Sec_Fetch_Site="same-origin")[0] == 200
    status, content, headers = request(server, "", method="GET")
    assert status == 200
    assert content.startswith(b"<!doctype html>")
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["Referrer-Policy"] == "no-referrer", "the token is in the URL"
    assert len(server.token) >= 32


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("none", {}, 404, "no such question"),
        ("../../etc/passwd", {}, 404, "no such question"),
        ("cut", {"text": 5}, 400, "text: expected str"),
        ("cut", {"text": "x" * 100_001}, 400, "is the limit"),
        ("cut", [1], 400, "no object"),
        ("token", {"volume": 9, "id": 1}, 400, "volume 9"),
        ("token", {"volume": 0, "id": 10**6}, 400, "no token"),
        ("token", {"volume": 0, "id": True}, 400, "id: expected int"),
        ("document", {"volume": 0, "number": 10**9}, 400, "numbered from 0"),
        ("document", {"volume": 2, "number": 0}, 400, "without documents"),
        ("place", {"volume": 0, "shard": "none", "offset": 0}, 400, "no shard"),
        ("search", {"volume": 0, "kind": "sql", "query": "x"}, 400, "expected text, token, id or lang"),
        ("search", {"volume": 0, "kind": "token", "query": "²"}, 400, "not a token id"),
        ("search", {"volume": 0, "kind": "text", "query": ""}, 400, "empty"),
    ],
)
def test_wrong_questions_are_told(server, path, body, status, message):
    found, content, _ = request(server, path, body)
    assert (found, message in json.loads(content)["error"]) == (status, True), content


def test_other_methods_types_and_sizes_are_refused(server):
    assert request(server, method="PUT")[0] == 501
    assert request(server, Content_Type="text/plain")[0] == 415
    assert request(server, Content_Length="99999999")[0] == 413
    assert request(server, Content_Length="-1")[0] == 413


def test_typed_text(server, built):
    text = "the\u200b и 的<|endoftext|>\n"
    for special in (False, True):
        told = ask(server, "cut", text=text, special=special)
        assert (told["characters"], told["bytes"]) == (len(text), len(text.encode()))
        for volume, cut in zip(server.shelf, told["cuts"], strict=True):
            ids = volume.tokenizer.encode(text, allow_special="all" if special else ()).tolist()
            assert [token[0] for token in cut["tokens"]] == ids
            assert b"".join(bytes.fromhex(token[2]) for token in cut["tokens"]) == text.encode()
            assert any(token[3] for token in cut["tokens"]) == special
            assert not any("\u200b" in token[1] or "\n" in token[1] for token in cut["tokens"])
    place = 1
    told = ask(server, "explain", volume=2, text="Hello there", place=place)
    tokenizer = server.shelf[2].tokenizer
    assert told["explained"]["id"] == tokenizer.encode("Hello there").tolist()[place]
    assert len(told["explained"]["merges"]) == len(bytes.fromhex(told["explained"]["bytes"])) - 1
    assert ask(server, "cut", text="\ud800")["cuts"][0]["tokens"], "a lone surrogate becomes U+FFFD"


def test_documents(server, built):
    shards = api.open_shards(built / "one", split="all")
    for number in (0, 7, len(shards) - 1):
        told = ask(server, "document", volume=0, number=number)
        assert [token[0] for token in told["tokens"]] == shards[number].tolist()
        about = shards.document(number)
        assert (told["id"], told["lang"], told["source"], told["ordinal"]) == tuple(about)
    assert ask(server, "document", volume=0, number=0, start=3)["tokens"][0][0] == shards[0].tolist()[3]


def test_jumps(server, built):
    shards = api.open_shards(built / "one", split="all")
    number = 0
    for file in shards.list_files():
        offset = 0
        for row in range(file.num_documents):
            length = len(shards[number + row])
            for within in (0, length - 1):
                told = ask(server, "place", volume=0, shard=Path(file.path).name, offset=offset + within)
                assert (told["number"], told["token"]) == (number + row, within)
            offset += length
        number += file.num_documents
        break


def test_searches(server, built):
    shards = api.open_shards(built / "one", split="all")
    tokenizer = server.shelf[0].tokenizer
    texts = [tokenizer.decode(ids.tolist()) for ids in shards]
    *hits, last = [hit for hit in search(server, volume=0, kind="text", query="этот") if "scanned" not in hit]
    assert last == {"done": True}
    assert [hit["number"] for hit in hits] == [i for i, text in enumerate(texts) if "этот".encode() in text]
    assert all(
        hit["context"][1] == "этот" and hit["times"] == texts[hit["number"]].count("этот".encode()) for hit in hits
    )
    id = tokenizer.encode(" the").tolist()[0]
    *hits, last = [hit for hit in search(server, volume=0, kind="token", query=str(id)) if "scanned" not in hit]
    assert [hit["number"] for hit in hits] == [i for i, ids in enumerate(shards) if id in ids.tolist()]
    assert all(shards[hit["number"]].tolist()[hit["token"]] == id for hit in hits)
    *hits, last = search(server, volume=0, kind="lang", query="hi")
    assert [hit["number"] for hit in hits] == [i for i in range(len(shards)) if shards.document(i).lang == "hi"]
    *hits, last = search(server, volume=0, kind="id", query="ru-1")
    assert {hit["id"] for hit in hits} == {"ru-1", *(f"ru-{i}" for i in range(10, 20))}


def test_a_search_goes_on_after_100_hits(server, built):
    shards = api.open_shards(built / "one", split="all")
    *first, cursor = search(server, volume=0, kind="lang", query="")
    assert len(first) == 100 < len(shards)
    *second, last = search(server, volume=0, kind="lang", query="", start=cursor["next"])
    assert last == {"done": True}
    assert [hit["number"] for hit in [*first, *second]] == list(range(len(shards)))


def test_audit_and_twins(server, built):
    lists = ask(server, "audit", volume=0)["lists"]
    from tokcore_pipelines.look.audit import audit

    expected = audit(read_output(str(built / "one")), server.shelf[0].tokenizer)
    assert {name: one["number"] for name, one in lists.items()} == {name: len(expected[name]) for name in lists}
    one, two = (api.open_shards(built / name, split="all") for name in ("one", "two"))
    told = ask(server, "compare", volume=0, number=50)
    assert [part["volume"] for part in told["of"]] == [0, 1]
    for part, shards in zip(told["of"], (one, two), strict=True):
        assert shards.document(part["number"]) == one.document(50)
        assert [token[0] for token in part["tokens"]] == shards[part["number"]].tolist()


def identify(about: ShardDocument) -> tuple[object, ...]:
    """What names a record; the numbers of records depend on how a build cuts its files."""
    return about.source, about.id, about.ordinal if about.id is None else None


def test_twins_in_another_order_and_with_other_texts(server, built, tmp_path):
    """A shuffled build of the same records, which a normalizer took apart; the base is the output that is asked."""
    settings = '[normalize]\nsteps = ["nfd"]\n[learn]\nvocab_size = 300\n[shuffle]\nseed = 5\n'
    run(build_file(built, settings=settings, name="three.toml"), built / "three")
    volumes = [
        Volume(name, api.Tokenizer.load(built / name), read_output(str(built / name))) for name in ("one", "three")
    ]
    one, three = (volume.require_shards() for volume in volumes)
    changed = 0
    for number in (0, 50, len(three) - 1):
        told = compare_documents(tuple(volumes), {"volume": 1, "number": number})
        first, second = told["of"]
        assert second["number"] == number
        assert identify(one.document(first["number"])) == identify(three.document(number))
        own, other = (
            volume.tokenizer.decode(shards[part["number"]][:-1])
            for volume, shards, part in zip(volumes, (one, three), told["of"], strict=True)
        )
        assert first["same_text"] == (own == other)
        assert second["same_text"]
        changed += own != other
    assert changed
    hindi = next(i for i in range(len(one)) if one.document(i).id is None and one.document(i).ordinal == 3)
    assert find_record(three, one.document(hindi)) is not None, "a source without ids, by the number of the record"
    for unknown in ({"id": "none"}, {"source": "none.jsonl"}, {"id": None, "ordinal": 10**6}):
        assert find_record(three, one.document(0)._replace(**unknown)) is None


def test_a_search_without_decoding_finds_the_same(server, built):
    """With the searcher as without it: in each document the first occurrence, and the token that it begins in."""
    volume = server.shelf[0]
    shards = volume.require_shards()
    assert volume.searcher is not None
    for wanted in ("the", "и", "этот к", "的", "\n", "a that", "no such text", "<|endoftext|>", "e, th"):
        fast, slow = (
            list(search_shards(shards, 0, find_text(wanted, volume.tokenizer, searcher)))
            for searcher in (volume.searcher, None)
        )
        assert [hit for hit in fast if "scanned" not in hit] == [hit for hit in slow if "scanned" not in hit]
        for hit in fast[:-1]:
            start, end = volume.tokenizer.offsets(shards[hit["number"]]).bytes[hit["token"]].tolist()
            assert start <= hit["byte"] < end


def test_nothing_but_the_shelf_can_be_asked_for(built):
    done = tokcore("view", *[built / "one"] * 5)
    assert (done.returncode, done.stdout) == (2, "")
    assert "at most 4" in done.stderr
