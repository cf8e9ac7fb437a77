"""Stores in trouble: what passes is tried again, counted and shown; what does not is one line that says what to do."""

from __future__ import annotations

import http.server
import json
import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from stores.files import put, tree
from stores.proxy import Faults
from stores.servers import Store
from support.builds import build_file, small_corpus, tokcore

from tokcore_pipelines.cli import commands
from tokcore_pipelines.store import libraries, retries, storage

_REFUSED = 0.3  # of the requests to a busy store
_SETTINGS = "[plan]\nrange_bytes = 20000\n[learn]\nvocab_size = 300\n"
_FILES = ("en.jsonl.zst", "ru.jsonl", "zh.jsonl.gz", "hi.txt", "build.toml")


class Corpus(NamedTuple):
    """A build file and its corpus in a bucket."""

    store: Store
    folder: str

    def build(self, output: str) -> dict[str, Any]:
        """What `build --json` prints."""
        done = tokcore(
            "build",
            f"{self.folder}/build.toml",
            "--output",
            f"{self.folder}/{output}",
            "--workers",
            "2",
            "--json",
            env=self.store.variables(),
            timeout=200,
        )
        assert done.returncode == 0, done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        return report


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    small_corpus(folder)
    build_file(folder, settings=_SETTINGS)
    return folder


def upload(store: Store, files: Path, folder: str = "") -> Corpus:
    folder = folder or store.fresh()
    for name in _FILES:
        put(store, f"{folder}/{name}", (files / name).read_bytes())
    return Corpus(store, folder)


def test_a_busy_store_costs_the_requests_that_it_refused(store: Store, files: Path) -> None:
    """Each refused request is counted and repeated, no work starts over, and the output is the same.

    tests/benchmarks/busy_stores.py measures how much longer that takes.
    """
    corpus = upload(store, files)
    store.proxy.reset()
    undisturbed = corpus.build("out")
    asked = len(store.proxy.requests)
    assert count_refusals(undisturbed) == 0
    store.proxy.reset()
    store.proxy.faults = Faults({"slow_down": _REFUSED})
    disturbed = corpus.build("other")
    fired, asked_then = store.proxy.faults.fired["slow_down"], len(store.proxy.requests)
    store.proxy.reset()
    assert fired > 50
    counted = count_refusals(disturbed)
    if store.kind == "gcs":  # its library asks for a file and a folder at once, and forgets one of them
        assert 0.9 * fired <= counted <= fired
    else:
        # A sign of work that is refused as the build ends is not asked for again.
        assert fired - 2 <= counted <= fired, "each is counted, in whichever layer it was tried again"
    assert asked_then <= asked / (1 - _REFUSED) * 1.15, "each request until it is answered, and no other"
    assert asked_then - fired <= asked + 0.05 * asked
    assert disturbed["root"] == undisturbed["root"]
    assert tree(store, f"{corpus.folder}/other") == tree(store, f"{corpus.folder}/out")


def test_all_libraries_wait_by_our_rule(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    url, pauses = f"{store.fresh()}/a", []
    assert storage.create_exclusive(url, b"1", url)

    def make_pause(attempt: int) -> float:
        pauses.append(attempt)
        return 0.0

    monkeypatch.setattr(libraries, "make_pause", make_pause)
    store.proxy.faults = Faults({"slow_down": 1.0}, most=3)
    assert storage.read_bytes(url) == b"1"
    assert len(pauses) == 3
    assert pauses == sorted(pauses)


def count_refusals(report: Mapping[str, Any]) -> int:
    """How often a store was busy, as a report says; a HEAD has a status alone. Others are of a machine that is."""
    return sum(times for why, times in report["retries"].items() if why in ("SlowDown", "503", "ServerBusy"))


def test_pauses_are_short_at_first_and_end() -> None:
    """A refusal costs a tenth of a second at most, and all that one request waits for is bounded."""
    pauses = [[retries.make_pause(attempt) for _ in range(50)] for attempt in range(retries.ATTEMPTS - 1)]
    assert max(pauses[0]) <= 0.1
    assert all(max(drawn) > min(drawn) for drawn in pauses), "workers do not come back together"
    assert sum(max(drawn) for drawn in pauses) <= 13


_ANY = {"slow_down": 0.03, "unavailable": 0.03, "too_many": 0.03, "internal": 0.03, "cut_body": 0.04}
_CUTS = {"cut_before": 0.03, "cut_after": 0.03}


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_or_doubled(s3: Store, files: Path, seed: int) -> None:
    # Which requests fail follows from their keys: with a folder of random name, some run would miss a kind of trouble.
    corpus = upload(s3, files, f"{s3.root}/seed-{seed}")
    undisturbed = corpus.build("out")
    s3.proxy.faults = Faults({**_ANY, **_CUTS}, seed)
    disturbed = corpus.build("other")
    fired = s3.proxy.faults.fired.copy()
    s3.proxy.reset()
    assert fired.keys() == {**_ANY, **_CUTS}.keys()
    assert disturbed["retries"]
    assert disturbed["root"] == undisturbed["root"]
    assert tree(s3, f"{corpus.folder}/other") == tree(s3, f"{corpus.folder}/out")


def test_a_token_that_expires_once(s3: Store, files: Path) -> None:
    corpus = upload(s3, files)
    s3.proxy.faults = Faults({"expired": 1.0}, concerns=lambda operation, key: operation == "PutObject", most=1)
    built = corpus.build("out")
    assert built["retries"] == {"ExpiredToken": 1}


def test_the_report_says_what_was_tried_again(s3: Store, files: Path) -> None:
    corpus = upload(s3, files)
    s3.proxy.faults = Faults({"slow_down": 1.0}, concerns=lambda operation, key: operation == "PutObject", most=3)
    done = tokcore("build", f"{corpus.folder}/build.toml", env=s3.variables())
    assert done.returncode == 0, done.stderr
    assert "\nretries    3 requests to stores were tried again: SlowDown: 3\n" in done.stdout


_REFUSALS = {
    "s3": {
        "forbidden": "may not do that",
        "bad_key": "does not accept this key",
        "skewed": "clock of this machine is wrong",
        "wrong_region": "lies in the region eu-west-3: set storage.s3.region",
        "expired": "have expired: renew them",
    },
    "gcs": {"forbidden": "may not do that", "expired": "wants other credentials"},
    "azure": {"forbidden": "may not do that", "expired": "wants other credentials"},
}


@pytest.mark.parametrize(("kind", "trouble"), [(kind, trouble) for kind in _REFUSALS for trouble in _REFUSALS[kind]])
@pytest.mark.parametrize("where", ["inputs", "output"])
def test_what_does_not_pass_is_one_line(
    kind: str, trouble: str, where: str, files: Path, request: pytest.FixtureRequest
) -> None:
    """It names what was asked for and what to do, and comes at once."""
    store: Store = request.getfixturevalue(kind)
    folder = store.fresh()
    store.proxy.faults = Faults({trouble: 1.0})
    assert_refused(store, files, folder, where, _REFUSALS[kind][trouble])


@pytest.mark.parametrize(
    ("why", "advice"),
    [
        ("Bad Request", "have expired: renew them"),
        (
            "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. Check your iat "
            "and exp values in the JWT claim.",
            "clock of this machine is wrong",
        ),
    ],
)
def test_google_gives_no_token(
    gcs: Store, why: str, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its library would ask for one again for a minute."""
    asked = []

    class Refuse(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.send_response(400)
            self.end_headers()
            self.wfile.write(json.dumps({"error": "invalid_grant", "error_description": why}).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Refuse)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    key = rsa.generate_private_key(65537, 2048)
    account = {
        "type": "service_account",
        "client_email": "tests@tests",
        "token_uri": f"http://127.0.0.1:{server.server_port}/token",
        "private_key": key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode(),
    }
    (tmp_path / "account.json").write_text(json.dumps(account))
    # What fsspec makes of FSSPEC_GS_TOKEN when it is imported.
    monkeypatch.setitem(fsspec.config.conf, "gs", {"token": str(tmp_path / "account.json")})
    url = f"{gcs.fresh()}/out"
    environment = {**gcs.environment, "FSSPEC_GS_TOKEN": str(tmp_path / "account.json")}
    done = CliRunner().invoke(commands, ["verify", url], env=environment)
    server.shutdown()
    server.server_close()
    assert done.exit_code in (2, 3)
    assert url in done.stderr
    assert advice in done.stderr
    assert len(asked) <= 2, "for a file and for a folder of that name"


@pytest.mark.parametrize(
    ("url", "environment"),
    [
        ("s3://bucket/out", {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}),
        ("gs://bucket/out", {"NO_GCE_CHECK": "true"}),
        ("az://container/out", {"AZURE_STORAGE_ACCOUNT_NAME": "wrong", "AZURE_STORAGE_ACCOUNT_KEY": "YWJj"}),
    ],
)
def test_a_store_whose_name_has_no_address(
    url: str, environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As without a network, or in an account that is not there: nothing is tried again."""

    def find_no_address(*_args: object, **_kwargs: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", find_no_address)
    fsspec.get_filesystem_class(url.split(":")[0]).clear_instance_cache()
    before = retries.count_retries()
    done = CliRunner().invoke(commands, ["init", url, "-o", "-"], env=dict(environment))
    assert done.exit_code in (2, 3)
    assert "No such host is known here" in done.stderr
    assert done.stderr.count("\n") <= 3, done.stderr
    assert retries.count_retries() - before <= 2, "for a file and for a folder of that name"


_LOOKING = (
    ("show", "OUT"),
    ("verify", "OUT"),
    ("repair", "OUT"),
    ("gc", "OUT"),
    ("audit", "OUT"),
    ("diff", "OUT", "OUT"),
    ("curve", "OUT"),
    ("report", "OUT"),
    ("init", "OUT"),
    ("export", "OUT", "--to", "tiktoken", "-o", "ranks"),
    ("check", "OUT/build.toml"),
    ("build", "OUT/build.toml"),
)


@pytest.mark.parametrize(
    ("trouble", "advice"), [("missing", "There is no such bucket"), ("forbidden", "may not do that")]
)
def test_commands_that_look_say_it_in_one_line(
    store: Store, trouble: str, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = f"{store.fresh()}/out"
    if trouble == "missing":
        url = url.replace("tokcore-tests", "tokcore-missing")
    else:
        store.proxy.faults = Faults({trouble: 1.0})
    for arguments in _LOOKING:
        done = CliRunner().invoke(commands, [one.replace("OUT", url) for one in arguments], env=store.environment)
        assert done.exit_code in (2, 3), (arguments, done.output)
        [line] = [said for said in done.stderr.splitlines() if said.startswith("error: ")]
        assert url in line, arguments
        if not (store.kind == "gcs" and trouble == "missing" and url not in arguments):
            assert advice in line, (arguments, line)
        assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("where", ["inputs", "output"])
def test_a_bucket_that_is_not_there(store: Store, files: Path, where: str) -> None:
    folder = store.fresh().replace("tokcore-tests", "tokcore-missing")
    assert_refused(store, files, folder, where, "There is no such bucket")


def assert_refused(store: Store, files: Path, folder: str, where: str, advice: str) -> None:
    path = files / f"{where}.toml"
    output, source = (folder, "en.jsonl.zst") if where == "output" else ("out", f"{folder}/*.jsonl")
    path.write_text(
        f'version = 1\n[build]\noutput = "{output}"\n[[source]]\nlang = "en"\nfiles = "{source}"\n{_SETTINGS}'
    )
    done = tokcore("build", path, env=store.variables(), timeout=60)
    assert done.returncode in (2, 3), done.stderr
    *progress, line = done.stderr.splitlines()
    assert not [said for said in progress if not said.startswith(("plan ", "count "))], done.stderr
    assert line.startswith("error: ")
    assert folder in line
    assert advice in line
    count: Mapping[str, int] = store.proxy.count()
    assert sum(count.values()) < 60
    assert not (files / "out").exists()
