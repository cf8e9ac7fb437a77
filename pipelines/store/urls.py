"""URLs: which are allowed, their one spelling, and their file system. Opens and lists nothing.

A URL is an absolute or relative local path, `file://...`, or the URL of an object store that fsspec knows.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import fsspec

from tokcore.errors import ConfigError, FormatError
from tokcore.files.url_files import EXTRAS
from tokcore_pipelines.store import azure_names
from tokcore_pipelines.store.libraries import ask_s3, teach
from tokcore_pipelines.store.options import find_table, make_arguments
from tokcore_pipelines.store.redaction import redact, remove_credentials
from tokcore_pipelines.store.retries import explain_by

# Scheme -> the extra that installs its library. All others are refused: fsspec alone would open 55 kinds of URL, and
# some of them run templates or reach into other services.
_SCHEMES: Mapping[str, str | None] = {
    "file": None,
    "memory": None,  # lives in one process: for tests
    **EXTRAS,
}
# Their libraries cannot create a file only if its name is free: two builds could both create a manifest.
INPUT_ONLY = frozenset({"hf", "http", "https"})
# Libraries of object stores: find() is one listing and raises where it fails, and cat_file() asks for exact ranges.
_OBJECT_STORES = frozenset({"s3fs", "gcsfs", "adlfs"})
_HAVE_QUERIES = frozenset({"http", "https"})  # in all other URLs ? and what follows is part of a name
_OF_OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", *azure_names.SCHEMES})
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_AUTHORITY = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://[^/]*")


def check_url(url: str) -> str:
    """The URL itself, if a user may write it. Raises ConfigError as check_name(), for chained URLs, signed queries."""
    check_name(url)
    scheme = find_scheme(url)
    if scheme is None:
        return url
    if "::" in url:
        raise ConfigError(f"{redact(url)}: chained URLs (with '::') are not supported: name the file itself")
    # [?] is how a pattern spells the ? in the name of an object.
    is_store = scheme not in _HAVE_QUERIES
    if remove_credentials(plain := url.replace("[?]", "") if is_store else url) != plain:
        hint = ". For a ? in the name of an object, write [?]" if is_store and "?" in plain else ""
        raise _make_credentials_error(url, hint)
    return url


def check_name(url: str) -> str:
    """The URL itself, if it can be that of a file that a listing or a plan names: any key may follow its bucket.

    Raises ConfigError for an unknown scheme, and for credentials before the key.
    """
    if "\0" in url:
        raise ConfigError(f"{url!r}: a path cannot hold a NUL character")
    scheme = find_scheme(url)
    if scheme is None and "::" in url and "://" in url:
        raise ConfigError(f"{redact(url)}: chained URLs (with '::') are not supported: name the file itself")
    if scheme is not None and scheme not in _SCHEMES:
        supported = ", ".join(f"{name}://" for name in _SCHEMES if name != "memory")
        raise ConfigError(f"{redact(url)}: scheme {scheme}:// is not supported; use a local path or one of {supported}")
    if scheme == "file" and not re.match(r"file:///(?!/)", url, re.IGNORECASE):
        raise ConfigError(f"{redact(url)}: write a local path, or file:// with an absolute one: file:///folder/file")
    checked = url if scheme in _HAVE_QUERIES else "".join(_AUTHORITY.findall(url))
    if scheme is not None and remove_credentials(checked) != checked:
        raise _make_credentials_error(url)
    return url


def _make_credentials_error(url: str, hint: str = "") -> ConfigError:
    return ConfigError(
        f"{redact(url)}: the URL holds credentials, which would end up in files and logs; "
        f"remove them and use the store's own environment variables or configuration{hint}"
    )


def is_local(url: str) -> bool:
    """Whether the URL is a path of this machine's file systems."""
    return find_scheme(url) in (None, "file")


def get_local_path(url: str) -> Path:
    """The path of a local URL, absolute."""
    if not is_local(url):
        raise ConfigError(f"{redact(url)}: expected a local path")
    return Path(_spell_local(url))


def _spell_local(url: str) -> str:
    path = url[len("file://") :] if find_scheme(url) else url
    return os.path.abspath(path)  # noqa: PTH100 - resolve() would follow symbolic links


def resolve(base: str, url: str) -> str:
    """The URL in its one spelling: relative paths start at the folder base, local paths become absolute and plain.

    >>> resolve("/data", "en/../de/a.txt"), resolve("/data", "file:///x/a.txt"), resolve("s3://bucket/b", "c")
    ('/data/de/a.txt', '/x/a.txt', 's3://bucket/b/c')
    """
    check_url(base)
    return resolve_name(base, check_url(url))


def resolve_name(base: str, uri: str) -> str:
    """As resolve(), for a file that a listing or a plan names."""
    check_name(uri)
    if find_scheme(uri) is None and not uri.startswith("/"):
        if not is_local(base):
            return spell(join(base, check_relative(uri)))
        uri = f"{get_local_path(base)}/{uri}"
    return str(get_local_path(uri)) if is_local(uri) else spell(uri)


def spell(url: str) -> str:
    """The URL with all that tells its file from others: Azure's account, where only the environment names it."""
    return azure_names.spell_azure(url) if find_scheme(url) in azure_names.SCHEMES else url


def name_file(system: Any, url: str, path: str) -> str:
    """The URL of a file of the same store as url. system: of that store. path: of the file in it."""
    if find_scheme(url) in azure_names.SCHEMES:
        container, _, below = path.partition("/")
        host = spell(url).partition("@")[2].partition("/")[0]
        return f"abfs://{container}@{host}/{below}"
    return str(system.unstrip_protocol(path))


def join(base: str, *parts: str) -> str:
    """The URL of a file below base; each part is a relative path that check_relative() accepts."""
    for part in parts:
        base = f"{base.rstrip('/')}/{check_relative(part)}"
    return base


def check_relative(path: str) -> str:
    """The relative path itself, if it stays below its folder; raises FormatError otherwise.

    Refuses absolute paths, '..', '.', empty names, backslashes, NUL and anything with a scheme: a name in a manifest or
    a build must not lead out of its folder.
    """
    if path.startswith("/") or "\\" in path or "\0" in path or "://" in path:
        raise FormatError(f"{path!r}: expected a relative path below its folder")
    if any(name in ("", ".", "..") for name in path.split("/")):
        raise FormatError(f"{path!r}: expected a relative path without empty, '.' or '..' names")
    return path


def find_scheme(url: str) -> str | None:
    """The scheme of a URL, in lower case; None for a path."""
    match = _SCHEME.match(url)
    return match[1].lower() if match else None


def open_file_system(url: str) -> tuple[Any, str]:
    """(fsspec file system of a URL, without listing caches; the path of the file in it)."""
    scheme = find_scheme(check_name(url))
    if scheme is None or scheme == "file":
        return _open_local(), _spell_local(url)
    told = make_arguments(scheme)
    if scheme in azure_names.SCHEMES:
        told |= azure_names.make_azure_arguments(url)
    try:
        system = fsspec.filesystem(scheme, use_listings_cache=False, **told)
    except ImportError as error:
        extra = _SCHEMES[scheme]
        raise ConfigError(f"{redact(url)}: {scheme}:// needs a library: pip install 'tokcore[{extra}]'") from error
    teach(system, find_table(scheme))
    return system, find_path(system, url)


@functools.cache
def _open_local() -> Any:
    """The local file system, made once: a small build needs it hundreds of times, and fsspec hashes the arguments."""
    return fsspec.filesystem("file", use_listings_cache=False)


def find_path(system: Any, url: str) -> str:
    """The path of a file in the file system of its store."""
    return _spell_local(url) if is_local(url) else cast(str, system._strip_protocol(url))


def explain_unreadable(url: str) -> str:
    """Why the library of its store cannot ask for a file that a listing named; "" if it can.

    Some libraries take a part of a key for the number of a version, or put it in another order.
    """
    if find_scheme(url) not in _OF_OBJECT_STORES:
        return ""
    system, path = open_file_system(url)
    if not is_object_store(system):
        return ""
    authority, _, key = url.partition("://")[2].partition("/")
    name = f"{authority.partition('@')[0]}/{key}"
    if path == name and "/".join(system.split_path(name)[:2]) == name:
        return ""
    return "the library of the store takes a part of the name for something else. Give the object another name"


def is_object_store(system: Any) -> bool:
    """Whether a file system is one of the libraries of S3, Google Cloud Storage and Azure."""
    return type(system).__module__.partition(".")[0] in _OBJECT_STORES


def _ask_why(url: str) -> Exception | None:
    return ask_s3(*open_file_system(url)) if find_table(find_scheme(url) or "") == "s3" else None


explain_by(_ask_why)
