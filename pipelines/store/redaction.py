"""Secrets in messages: found by where they stand in a URL and by what they are called, and never shown."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import fsspec

_PASSWORD = re.compile(r"(?<=://)[^/\s@]*:[^/\s]*@")
_SIGNED_QUERY = re.compile(r"\?[^\s'\"]*=[^\s'\"]*")
# Azure names a container as others name a user: abfs://container@account.dfs.core.windows.net/path.
_USER = re.compile(r"(?<![\w+.-])(?!abfss?:|az:|adl:)([A-Za-z][\w+.-]*://)[^/\s@'\"]*@")
# Of environment variables and of settings of fsspec: what holds a secret, and what only says where one lies.
_SECRET_NAME = re.compile(r"(^|_)(secret|token|passw(or)?d|pwd|credentials?|key|sas|connection_string)(_|$)", re.I)
# The shell's PWD is the working folder; in lower case, as a setting, it is a password.
_PLACE_NAME = re.compile(r"(^GOOGLE_APPLICATION_CREDENTIALS|_FILE|_PATH|_DIR|_URL|_URI|(?-i:^(OLD)?PWD))$", re.I)
_MIN_SECRET_LENGTH = 8  # a shorter value would be found in every other word


def redact(text: str) -> str:
    """The text with secrets replaced by ***; for every message that is shown.

    Secrets are passwords and signed queries of URLs, and what environment variables and settings of fsspec hold whose
    names say so.

    >>> redact("s3://me:secret@bucket/a?X-Signature=abc is gone")
    's3://***@bucket/a?*** is gone'
    """
    for secret in _known_secrets():
        text = text.replace(secret, "***")
    return without_credentials(text)


def without_credentials(text: str) -> str:
    """The text without the passwords, users and signed queries of its URLs."""
    if "://" not in text:
        return text
    return _SIGNED_QUERY.sub("?***", _USER.sub(r"\1***@", _PASSWORD.sub("***@", text)))


def _known_secrets() -> list[str]:
    """What this process was given as secrets, longest first."""
    found: set[str] = set()

    def collect(settings: Mapping[str, Any]) -> None:
        for name, value in settings.items():
            if isinstance(value, Mapping):
                collect(value)
            elif isinstance(value, str) and _is_secret(name, value):
                found.add(value)

    collect(os.environ)
    collect(fsspec.config.conf)
    return sorted(found, key=len, reverse=True)


def _is_secret(name: str, value: str) -> bool:
    named = _SECRET_NAME.search(name) is not None and _PLACE_NAME.search(name) is None
    return named and len(value) >= _MIN_SECRET_LENGTH


def as_cause(error: BaseException) -> BaseException | None:
    """The error with its text and that of its causes redacted, to `raise ... from`; None if that cannot be done."""
    link: BaseException | None = error
    while link is not None:
        if _says(link) != redact(_says(link)):
            link.args = tuple(redact(part) if isinstance(part, str) else part for part in link.args)
            for name in ("strerror", "filename", "filename2"):
                if isinstance(part := getattr(link, name, None), str):
                    setattr(link, name, redact(part))
        if _says(link) != redact(_says(link)):
            return None
        link = link.__cause__ or link.__context__
    return error


def _says(error: BaseException) -> str:
    return "\n".join([str(error), repr(error), *getattr(error, "__notes__", ())])
