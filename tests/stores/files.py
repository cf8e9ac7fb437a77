"""Put files into a store, and look at what is there, as a user's own tools would: by the stores' libraries."""

from __future__ import annotations

import hashlib
from typing import Any

import fsspec
from stores.servers import Store, azure_connection


def open_system(store: Store) -> Any:
    """The fsspec file system of a store, whatever this process's environment says."""
    fsspec.config.conf.pop("gs", None)
    if store.kind == "s3":
        told = {
            "key": store.environment["AWS_ACCESS_KEY_ID"],
            "secret": store.environment["AWS_SECRET_ACCESS_KEY"],
            "endpoint_url": store.proxy.url,
        }
        return fsspec.filesystem("s3", **told, use_listings_cache=False)
    if store.kind == "gcs":
        return fsspec.filesystem("gs", token="anon", endpoint_url=store.proxy.url, use_listings_cache=False)
    string = azure_connection(store.proxy, "firstaccount")
    return fsspec.filesystem("abfs", connection_string=string, use_listings_cache=False)


def put(store: Store, url: str, data: bytes) -> None:
    open_system(store).pipe_file(_path(store, url), data)


def read(store: Store, url: str) -> bytes:
    found: bytes = open_system(store).cat_file(_path(store, url))
    return found


def remove(store: Store, url: str) -> None:
    open_system(store).rm_file(_path(store, url))


def tree(store: Store, url: str) -> dict[str, str]:
    """Every file below a URL but run.json -> sha256."""
    system, path = open_system(store), _path(store, url)
    names = [name for name in system.find(path) if not name.endswith("/run.json")]
    return {name[len(path) + 1 :]: hashlib.sha256(system.cat_file(name)).hexdigest() for name in sorted(names)}


def _path(store: Store, url: str) -> str:
    path: str = open_system(store)._strip_protocol(url)
    return path
