"""Names of objects and options of stores: Azure's account stays in every name, and no option is a secret."""

from __future__ import annotations

import http.server
import sys
import threading
import tomllib
from pathlib import Path

import fsspec
import pytest

from tokcore.errors import ConfigError
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.options import use_options
from tokcore_schemas.config import parse_config

MINIMAL = 'version = 1\n[build]\noutput = "out"\n[[source]]\nlang = "en"\nfiles = "en.jsonl"\n'
STRING = "DefaultEndpointsProtocol=http;AccountName=one;AccountKey=a2V5;BlobEndpoint="


@pytest.fixture(autouse=True)
def _no_options(monkeypatch):
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_CONNECTION_STRING", "TOKCORE_STORAGE"):
        monkeypatch.delenv(name, raising=False)
    yield
    use_options({})


@pytest.fixture
def opened(monkeypatch):
    """What the libraries are told when a file system is opened."""
    calls = []

    class System:
        protocol = "abfs"

        def _strip_protocol(self, url):
            container, _, rest = url.partition("://")[2].partition("/")
            return f"{container.partition('@')[0]}/{rest}"

        def invalidate_cache(self):
            pass

        def info(self, path):
            return {"name": path, "size": 3, "type": "file", "etag": "x"}

    def filesystem(scheme, **told):
        told.pop("use_listings_cache")
        calls.append((scheme, told))
        return System()

    monkeypatch.setattr(fsspec, "filesystem", filesystem)
    return calls


_LIBRARIES = {
    "s3://bucket/a": ("s3fs", "s3"),
    "s3a://bucket/a": ("s3fs", "s3"),
    "gs://bucket/a": ("gcsfs", "gcs"),
    "gcs://bucket/a": ("gcsfs", "gcs"),
    "abfs://c@one.dfs.core.windows.net/a": ("adlfs", "azure"),
    "abfss://c@one.dfs.core.windows.net/a": ("adlfs", "azure"),
    "az://c@one.blob.core.windows.net/a": ("adlfs", "azure"),
    "hf://datasets/one/two/a": ("huggingface_hub", "hf"),
    "https://example.org/a": ("fsspec.implementations.http", "http"),
}


@pytest.mark.parametrize("url", _LIBRARIES)
def test_a_missing_library_is_named_with_the_command_that_installs_it(url, monkeypatch):
    library, extra = _LIBRARIES[url]
    scheme = url.partition("://")[0]
    monkeypatch.setitem(sys.modules, library, None)  # as if it were not installed
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, scheme, raising=False)
    with pytest.raises(ConfigError) as caught:
        storage.list_files(url)
    assert str(caught.value) == f"{url}: {scheme}:// needs a library: pip install 'tokcore[{extra}]'"
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert extra in project["optional-dependencies"]


def test_pins_of_two_accounts_differ(opened, monkeypatch):
    """Both hold the same container and path; the environment's account is that of neither."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "other")
    pins = [storage.stat(f"abfs://c@{name}.dfs.core.windows.net/a/b.txt").url for name in ("one", "two")]
    assert pins == [f"abfs://c@{name}.dfs.core.windows.net/a/b.txt" for name in ("one", "two")]
    assert [told["account_name"] for _, told in opened] == ["one", "two"], "the account of the URL is read"


def test_a_short_name_gets_the_account_of_the_environment(opened, monkeypatch):
    with pytest.raises(ConfigError, match="names no account"):
        urls.resolve("/", "az://c/a")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", f"{STRING}http://127.0.0.1:1/one")
    assert urls.resolve("/", "az://c/a") == "abfs://c@one.dfs.core.windows.net/a"
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "two")
    assert urls.resolve("/", "az://c/a") == "abfs://c@two.dfs.core.windows.net/a"
    assert urls.resolve("az://c/a", "b") == "abfs://c@two.dfs.core.windows.net/a/b"
    use_options({"azure": {"account_name": "three"}})
    assert storage.stat("abfs://c/a").url == "abfs://c@three.dfs.core.windows.net/a"


def test_the_credentials_of_one_account_do_not_open_another(opened, monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", f"{STRING}https://one.blob.core.windows.net")
    with pytest.raises(ConfigError, match="is for the account one"):
        storage.stat("abfs://c@two.dfs.core.windows.net/a")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", f"{STRING}http://127.0.0.1:1/one")
    storage.stat("abfs://c@two.dfs.core.windows.net/a")
    told = opened[-1][1]["connection_string"]
    assert "AccountName=two" in told, "an emulator has one key for all accounts"
    assert told.endswith("BlobEndpoint=http://127.0.0.1:1/two")


def test_options_of_the_build_file_reach_the_libraries(opened, tmp_path):
    config = parse_config(
        MINIMAL + '[storage.s3]\nendpoint_url = "http://127.0.0.1:9"\nregion = "r"\n[storage.gcs]\nanon = true\n',
        str(tmp_path / "build.toml"),
    )
    Build(config)
    urls.open_file_system("s3://bucket/a")
    urls.open_file_system("gs://bucket/a")
    assert opened[-2:] == [
        ("s3", {"endpoint_url": "http://127.0.0.1:9", "client_kwargs": {"region_name": "r"}}),
        ("gs", {"token": "anon"}),
    ]
    without = parse_config(MINIMAL, str(tmp_path / "build.toml"))
    assert config.stage_configs() == without.stage_configs(), "options belong to no identity"
    Build(without)
    urls.open_file_system("s3://bucket/a")
    assert opened[-1] == ("s3", {}), "options of one build are not those of the next"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('[storage.s3]\nsecret = "x"', "storage.s3.secret may be a secret"),
        ('[storage.azure]\naccount_key = "x"', "storage.azure.account_key may be a secret"),
        ('[storage.gcs]\ntoken = "x"', "storage.gcs.token may be a secret"),
        ('[storage.s3]\nendpoint = "x"', r"storage.s3.endpoint is not an option of \[storage.s3\]. .*endpoint_url"),
        ("[storage.s3]\nendpoint_url = true", "expected a string"),
        ('[storage.s3]\nanon = "yes"', "expected true or false"),
        ('[storage.s4]\nanon = "yes"', "storage.s4 is not a key"),
        ("[storage]\ns3 = 1", "storage.s3 = 1: expected a table"),
    ],
)
def test_secrets_and_unknown_options_are_refused(lines, message):
    with pytest.raises(ConfigError, match=message):
        parse_config(MINIMAL + lines, "/corpus/build.toml")


@pytest.mark.parametrize("output", ["hf://datasets/a/b", "https://example.org/out"])
def test_outputs_go_only_where_creation_is_exclusive(output, opened):
    with pytest.raises(ConfigError, match="is for inputs only"):
        Build(parse_config(MINIMAL, "/corpus/build.toml"), output=output)


class _Pages(http.server.BaseHTTPRequestHandler):
    def do_HEAD(self):
        self._answer(with_body=False)

    def do_GET(self):
        self._answer(with_body=True)

    def _answer(self, with_body):
        if self.path != "/a.jsonl":
            self.send_error(404)
            return
        first, last = 0, 9
        if ranged := self.headers.get("Range"):
            first, _, end = ranged.removeprefix("bytes=").partition("-")
            first, last = int(first), min(9, int(end or 9))
        data = b"0123456789"[first : last + 1]
        self.send_response(206 if ranged else 200)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", '"tag"')
        if ranged:
            self.send_header("Content-Range", f"bytes {first}-{last}/10")
        self.end_headers()
        if with_body:
            self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_files_of_web_servers_are_inputs():
    pytest.importorskip("aiohttp")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    root = f"http://127.0.0.1:{server.server_port}"
    try:
        (pin,) = storage.list_files(f"{root}/a.jsonl")
        assert pin == (f"{root}/a.jsonl", 10, "etag:tag")
        with storage.open_pinned(pin) as file:
            file.seek(4)
            assert file.read() == b"456789"
        assert storage.list_files(f"{root}/none.jsonl") == []
        with pytest.raises(ConfigError, match="a web server lists no files"):
            storage.list_files(f"{root}/*.jsonl")
    finally:
        server.shutdown()
        server.server_close()
