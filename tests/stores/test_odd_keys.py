"""Keys of objects are names: whatever is in one, it is read, or rejected as one file. None ends a build."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from stores.files import open_system
from stores.servers import Store
from support.builds import run

from tokcore.tokenizer.tokenizer_spec import FILE_NAME
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.history.update_output import Update
from tokcore_pipelines.store import storage
from tokcore_schemas.config import load_config

# What fsspec, URLs, globs, shells or paths take for something else.
KEYS = [
    *(
        f"a{odd}b.jsonl"
        for odd in ("::", "?", "?b=", "#", "#1", "%", "%20", "%2F", " ", "+", "&", "=", ";", "@", "$HOME")
    ),
    *(f"a{odd}b.jsonl" for odd in ("*", "[1]", "\\", '"', "'", "~", "http://me:pw@", "s3://other/", "ü", "語", "😀")),
    *("a?versionId=b.jsonl", "a?versionid=b.jsonl", "a?generation=1", "a#c?d", "a?c#d", "x/?y=/z.jsonl", "::.jsonl"),
]
# Those of each library that stand for a version of another object, or come back in another order.
UNREADABLE = {
    "s3": {"a?versionId=b.jsonl"},
    "gcs": set[str](),
    "azure": {"a?versionid=b.jsonl", "a?c#d"},
}


def put_key(store: Store, bucket: str, key: str, data: bytes) -> None:
    """Put an object as the store's own client does, which gives names no meaning."""
    system = open_system(store)
    if store.kind == "s3":
        system.call_s3("put_object", Bucket=bucket, Key=key, Body=data)
    elif store.kind == "gcs":
        place = {"name": key, "uploadType": "media"}
        system.call("POST", f"{system._location}/upload/storage/v1/b/{bucket}/o", json_out=True, data=data, **place)
    else:
        import azure.storage.blob
        from stores.servers import azure_connection

        service = azure.storage.blob.BlobServiceClient.from_connection_string(
            azure_connection(store.proxy, "firstaccount")
        )
        service.get_blob_client(bucket, key).upload_blob(data)


def list_bucket(url: str) -> tuple[str, str]:
    """(bucket, the key of the folder)."""
    authority, _, folder = url.partition("://")[2].partition("/")
    return authority.partition("@")[0], folder


@pytest.mark.parametrize("kind", ["s3", "gcs", "azure"])
def test_every_key_is_read_or_rejected_as_one_file(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store: Store = request.getfixturevalue(kind)
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    folder = store.fresh()
    bucket, start = list_bucket(folder)
    keys = [key for key in KEYS if kind != "azure" or "\\" not in key]  # which Azure takes for a slash
    for number, key in enumerate(keys):
        put_key(store, bucket, "/".join([*([start] if start else []), "d", key]), text_of(number))
    put_key(store, bucket, "/".join([*([start] if start else []), "d", "good.jsonl"]), text_of(1000) * 20)
    path = tmp_path / "build.toml"
    path.write_text(
        f'version = 1\n[build]\noutput = "out"\nmax_rejected = 1\n[[source]]\nlang = "en"\nformat = "jsonl"\n'
        f'files = "{folder}/d/**"\n[learn]\nvocab_size = 300\nallow_smaller = true\n'
    )
    run(path, tmp_path / "out")
    listed = {file.url.removeprefix(f"{folder}/d/") for file in storage.list_files(f"{folder}/d/**")}
    assert listed == {*keys, "good.jsonl"}
    rejects = [json.loads(line) for line in (tmp_path / "out" / "rejected" / "rejected.jsonl").read_text().splitlines()]
    assert {one["file"].removeprefix(f"{folder}/d/"): one["reason"] for one in rejects} == dict.fromkeys(
        UNREADABLE[kind], "unreadable_name"
    )
    found = verify(str(tmp_path / "out"), decode=True)
    assert found.problems == ()
    assert documents(tmp_path / "out") == {number for number, key in enumerate(keys) if key not in UNREADABLE[kind]}
    assert not Update(load_config(str(path)), output=str(tmp_path / "out")).look()
    put_key(store, bucket, "/".join([*([start] if start else []), "d", "z::z.jsonl"]), text_of(2000))
    assert Update(load_config(str(path)), output=str(tmp_path / "out")).look().new == [f"{folder}/d/z::z.jsonl"]


def text_of(number: int) -> bytes:
    return json.dumps({"text": f"document {number}"}).encode() + b"\n"


def documents(output: Path) -> set[int]:
    import tokcore

    tokenizer = tokcore.Tokenizer.load(str(output / "tokenizer" / FILE_NAME))
    shards: Any = tokcore.open_shards(str(output))
    texts = (tokenizer.decode(one.tolist()) for one in shards)
    return {int(re.findall(rb"\d+", text)[0]) for text in texts} - {1000}


def test_a_key_below_the_build_file_is_no_place_of_its_own(s3_here: Store) -> None:
    """A relative uri that looks like a path or a URL would be read from there."""
    from tokcore_pipelines.build.plan_corpus import plan_build
    from tokcore_schemas.config import parse_config

    folder = s3_here.fresh()
    bucket, start = list_bucket(folder)
    keys = ["//etc/passwd", "/s3://other/key.jsonl", "/d//e.jsonl", "/a\\b.jsonl", "/plain/e.jsonl"]
    for key in keys:
        put_key(s3_here, bucket, start + key, b'{"text": "a"}\n')
    text = f'version = 1\n[build]\noutput = "{folder}-out"\n[[source]]\nlang = "en"\nformat = "jsonl"\nfiles = "**"\n'
    found = {file.uri for file in plan_build(parse_config(text, f"{folder}/build.toml")).files}
    assert found == {"plain/e.jsonl", *(folder + key for key in keys if key != "/plain/e.jsonl")}
