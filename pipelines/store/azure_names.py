"""Names of Azure's files: container, account and path, with any credentials in the environment.

abfs://container/path leaves the account to the environment. Then one plan could name files of two accounts alike. So
every such URL gets one spelling: abfs://container@account.dfs.core.windows.net/path.
"""

from __future__ import annotations

import os
from typing import Any

from tokcore.errors import ConfigError
from tokcore_pipelines.store.options import find_option
from tokcore_pipelines.store.redaction import redact

SCHEMES = frozenset({"abfs", "abfss", "az"})
_HOST = ".dfs.core.windows.net"
_STRING = "AZURE_STORAGE_CONNECTION_STRING"


def spell_azure(url: str) -> str:
    """The URL with its account. Raises ConfigError if neither the URL nor the environment names one.

    >>> spell_azure("az://corpus@mine.blob.core.windows.net/en/*.txt")
    'abfs://corpus@mine.dfs.core.windows.net/en/*.txt'
    """
    container, host, path = _split(url)
    return f"abfs://{container}@{host}{path}"


def make_azure_arguments(url: str) -> dict[str, Any]:
    """What adlfs is told of the account that a URL names."""
    _, host, _ = _split(url)
    account = host.partition(".")[0]
    told: dict[str, Any] = {"account_name": account}
    if not host.endswith(_HOST):  # a cloud of its own, such as China's
        told["account_host"] = host.replace(".dfs.", ".blob.")
    if string := _find_connection_string(url, account):
        told["connection_string"] = string
    return told


def _split(url: str) -> tuple[str, str, str]:
    """(container, host of the account, the path with its slash)."""
    authority, slash, path = url.partition("://")[2].partition("/")
    container, _, host = authority.partition("@")
    if not host:
        account = find_option("abfs", "account_name") or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
        account = account or _read_parts(os.environ.get(_STRING, "")).get("AccountName")
        if not account:
            raise ConfigError(
                f"{redact(url)}: names no account. Write abfs://{container}@ACCOUNT{_HOST}/..., "
                f"or set AZURE_STORAGE_ACCOUNT_NAME or storage.azure.account_name"
            )
        host = f"{account}{_HOST}"
    return container, host.replace(".blob.core.", ".dfs.core."), slash + path


def _find_connection_string(url: str, account: str) -> str:
    """The connection string of the environment, made out for the account; "" if there is none.

    adlfs takes it before the account of the URL, so a string for another account would have it read that one. Raises
    ConfigError then, except for an emulator, which gives all accounts one key.
    """
    held = os.environ.get(_STRING, "")
    parts = _read_parts(held)
    named = parts.get("AccountName", "")
    if not held or named in ("", account):
        return held
    if not parts.get("BlobEndpoint", "").rstrip("/").endswith(f"/{named}"):
        raise ConfigError(
            f"{redact(url)}: {_STRING} is for the account {named}. Unset it, and give the credentials of {account} "
            f"by AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN or `az login`"
        )
    parts = {**parts, "AccountName": account}
    parts["BlobEndpoint"] = f"{parts['BlobEndpoint'].rstrip('/').removesuffix(named)}{account}"
    return ";".join(f"{name}={value}" for name, value in parts.items())


def _read_parts(string: str) -> dict[str, str]:
    return {name: value for name, _, value in (part.partition("=") for part in string.split(";")) if name}
