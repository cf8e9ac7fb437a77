"""Where the stores' libraries find their servers: what [storage.s3] and its like in the build file say. Never secrets.

Credentials come from the places that each library looks in by itself: environment, profiles, metadata servers.
"""

from __future__ import annotations

import functools
import json
import os
import socket
from collections.abc import Mapping
from typing import Any

from tokcore_pipelines.store.refusals import is_unknown_host

Option = str | bool

# Holds the options for this process and those that it starts.
_VARIABLE = "TOKCORE_STORAGE"

_TABLES: Mapping[str, str] = {
    **dict.fromkeys(("s3", "s3a"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gcs"),
    **dict.fromkeys(("abfs", "abfss", "az"), "azure"),
    "hf": "hf",
}


def use_options(tables: Mapping[str, Mapping[str, Option]]) -> None:
    """Use these options from now on, here and in processes that are started later. tables: "s3" -> its options."""
    if any(tables.values()):
        os.environ[_VARIABLE] = json.dumps({name: dict(table) for name, table in tables.items() if table})
    else:
        os.environ.pop(_VARIABLE, None)


def export_options() -> str:
    """The options in use, for processes of other hosts; empty if there are none."""
    return os.environ.get(_VARIABLE, "")


def take_options(exported: str) -> None:
    """Use what export_options() gave elsewhere."""
    if exported:
        os.environ[_VARIABLE] = exported
    else:
        os.environ.pop(_VARIABLE, None)


def find_option(scheme: str, name: str) -> Option | None:
    """An option of the store that a scheme names, None if it is not set."""
    return _read_options(scheme).get(name)


def find_table(scheme: str) -> str | None:
    """The table of [storage] whose store a scheme names; None for those that have no options."""
    return _TABLES.get(scheme)


def make_arguments(scheme: str) -> dict[str, Any]:
    """What the constructor of a scheme's file system is told."""
    told: dict[str, Any] = dict(_read_options(scheme))
    table = find_table(scheme)
    if table == "s3" and "region" in told:
        told["client_kwargs"] = {"region_name": told.pop("region")}
    if table == "gcs" and told.pop("anon", False):
        told["token"] = "anon"
    if table == "gcs" and os.environ.get("STORAGE_EMULATOR_HOST"):
        # An emulator knows no credentials, and no gRPC, by which gcsfs would ask for the kind of bucket.
        os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
        if "FSSPEC_GS_TOKEN" not in os.environ:
            told.setdefault("token", "anon")
    elif table == "gcs" and "token" not in told:
        _skip_metadata_server_if_unknown()
    return told


@functools.cache
def _skip_metadata_server_if_unknown() -> None:
    """Keep Google's libraries from asking for a token where no metadata server is: they would try for 20 seconds.

    Only hosts on Google Cloud have that server, and know its name.
    """
    if "GCE_METADATA_HOST" in os.environ or "NO_GCE_CHECK" in os.environ:
        return
    try:
        socket.getaddrinfo("metadata.google.internal", 80)
    except socket.gaierror as error:
        if is_unknown_host(error):
            os.environ["NO_GCE_CHECK"] = "true"


def _read_options(scheme: str) -> Mapping[str, Option]:
    held: dict[str, dict[str, Option]] = json.loads(os.environ.get(_VARIABLE, "{}"))
    return held.get(_TABLES.get(scheme, ""), {})
