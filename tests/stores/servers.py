"""Real servers on the loopback device: moto for S3 and SQS, fake-gcs-server and pstest for Google, Azurite for Azure.

`make servers` installs them; nothing is fetched here. Without one of them its tests are skipped, by name; where
TOKCORE_TEST_SERVERS is "required", as in .ci/run, a skip is a failure.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from stores.dialects import GCS, S3, Azure
from stores.proxy import Proxy
from support.installed_servers import are_hidden, find_server, give_up

ROOT = Path(__file__).parents[2]

# Azurite's accounts. They share a key, as an emulator's do.
AZURE_ACCOUNTS = ("firstaccount", "otheraccount")
_AZURE_KEY = "a2V5LW9mLXRlc3RzLWFuZC1vZi1ub3RoaW5nLWVsc2U="

_SECONDS_TO_START = 90
GCSFS_SWITCH = "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"


@dataclass(frozen=True, slots=True)
class Store:
    """A running server behind a proxy, and how to reach it.

    kind: s3, gcs or azure. environment: what a process needs to be served. root: URL of a bucket that is there.
    """

    kind: str
    proxy: Proxy
    environment: Mapping[str, str]
    root: str

    def fresh(self) -> str:
        """The URL of a folder that no other test uses."""
        return f"{self.root}/{uuid.uuid4().hex[:12]}"

    def variables(self) -> dict[str, str]:
        """The environment of a process that uses this store."""
        inherited = {name: value for name, value in os.environ.items() if name != GCSFS_SWITCH}  # which tokcore sets
        return {**inherited, **self.environment}


@contextlib.contextmanager
def start_s3() -> Iterator[Store]:
    """moto's S3 server, which comes with the Python packages of tests."""
    if are_hidden():
        give_up("moto is not installed", ".venv/installed")
    port = _free_port()
    with _running([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], port):
        proxy = Proxy(f"127.0.0.1:{port}", S3())
        environment = {
            "AWS_ENDPOINT_URL": proxy.url,
            "AWS_ACCESS_KEY_ID": "access-key-of-tests",
            "AWS_SECRET_ACCESS_KEY": "secret-key-of-tests",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            # Neither file is there: what a developer has set up must not leak in.
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }
        _require(port, "PUT", "/tokcore-tests", b"", {200})
        yield Store("s3", proxy, environment, "s3://tokcore-tests")
        proxy.close()


@contextlib.contextmanager
def start_gcs() -> Iterator[Store]:
    """fake-gcs-server, which enforces ifGenerationMatch."""
    program = find_server("fake-gcs-server", "fake-gcs-server")
    port = _free_port()
    proxy = Proxy(f"127.0.0.1:{port}", GCS())
    # Uploads in parts go to the address that the server says.
    address = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-external-url", proxy.url]
    with _running([str(program), *address, "-backend", "memory", "-log-level", "error"], port):
        environment = {
            "STORAGE_EMULATOR_HOST": proxy.url,
            "GOOGLE_CLOUD_PROJECT": "tests",
        }
        _require(port, "POST", "/storage/v1/b?project=tests", b'{"name": "tokcore-tests"}', {200})
        yield Store("gcs", proxy, environment, "gs://tokcore-tests")
        proxy.close()


@contextlib.contextmanager
def start_azure() -> Iterator[Store]:
    """Azurite, with two accounts; root lies in the first."""
    program = find_server("azurite/node_modules/azurite/dist/src/blob/main.js", "Azurite", needs="node")
    port = _free_port()
    command = ["node", str(program), "--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence"]
    accounts = ";".join(f"{name}:{_AZURE_KEY}" for name in AZURE_ACCOUNTS)
    with _running([*command, "--silent", "--skipApiVersionCheck"], port, {"AZURITE_ACCOUNTS": accounts}):
        proxy = Proxy(f"127.0.0.1:{port}", Azure())
        environment = {"AZURE_STORAGE_CONNECTION_STRING": azure_connection(proxy, "firstaccount")}
        for account in AZURE_ACCOUNTS:
            _make_container(proxy, account)
        yield Store("azure", proxy, environment, "abfs://tokcore-tests@firstaccount.dfs.core.windows.net")
        proxy.close()


@contextlib.contextmanager
def start_pubsub() -> Iterator[str]:
    """The Go library's own fake of Pub/Sub; its address."""
    program = find_server("fake-pubsub", "fake-pubsub")
    port = _free_port()
    with _running([str(program), str(port)], port):
        yield f"127.0.0.1:{port}"


STARTS = {"s3": start_s3, "gcs": start_gcs, "azure": start_azure}


def azure_connection(proxy: Proxy, account: str) -> str:
    """The connection string of one account."""
    named = f"DefaultEndpointsProtocol=http;AccountName={account};AccountKey={_AZURE_KEY}"
    return f"{named};BlobEndpoint={proxy.url}/{account};"


def _make_container(proxy: Proxy, account: str) -> None:
    from azure.storage.blob import BlobServiceClient

    with BlobServiceClient.from_connection_string(azure_connection(proxy, account)) as client:
        client.create_container("tokcore-tests")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def _running(command: list[str], port: int, extra: Mapping[str, str] | None = None) -> Iterator[None]:
    """Runs a server until the block ends; it dies with this process, too."""
    said = tempfile.TemporaryFile()  # noqa: SIM115 - closed below; a server that logs would stop when an unread pipe is full
    process = subprocess.Popen(
        command,
        env={**os.environ, **(extra or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=said,
        preexec_fn=_die_with_parent,
    )
    try:
        deadline = time.monotonic() + _SECONDS_TO_START
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > deadline:
                said.seek(0)
                raise RuntimeError(f"{command[0]} did not start: {said.read().decode(errors='replace')[-2000:]}")
            time.sleep(0.05)
        yield
    finally:
        process.kill()
        process.wait()
        said.close()


def _die_with_parent() -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _require(port: int, method: str, target: str, body: bytes, fine: set[int]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, target, body, {"Content-Type": "application/json"})
    reply = connection.getresponse()
    answer = reply.read()
    connection.close()
    if reply.status not in fine:
        raise RuntimeError(f"{method} {target}: {reply.status} {answer.decode(errors='replace')}")
