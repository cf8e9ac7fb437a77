"""Remove secrets from messages: parts of URLs, and values whose names say that they are secret."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import fsspec

from tokcore.errors import list_causes

_PASSWORD = re.compile(r"(?<=://)[^/\s@]*:[^/\s]*@")
_SIGNED_QUERY = re.compile(r"\?[^\s'\"]*=[^\s'\"]*")
# What follows the name of a secret in a fragment (#access_token=...), or in a path (;jsessionid=...).
_NAMED_VALUE = re.compile(r"([#;&]([\w.-]*))=[^\s'\"#;&/?]*")
# Azure writes a container where others write a user: abfs://container@account.dfs.core.windows.net/path.
_USER = re.compile(r"(?<![\w+.-])(?!abfss?:|az:|adl:)([A-Za-z][\w+.-]*://)[^/\s@'\"]*@")
# Names of environment variables and fsspec settings: those that hold a secret, and those that hold a secret's place.
_SECRET_NAME = re.compile(r"(^|_)(secret|token|passw(or)?d|pwd|credentials?|key|sas|connection_string)(_|$)", re.I)
_SESSION_NAME = re.compile(r"sess(ion)?[._-]?id|^sid$|token|secret|(^|[._-])(sig|signature|auth|code)([._-]|$)", re.I)
# PWD is the shell's working folder; pwd, as a setting, is a password.
_PLACE_NAME = re.compile(r"(^GOOGLE_APPLICATION_CREDENTIALS|_FILE|_PATH|_DIR|_URL|_URI|(?-i:^(OLD)?PWD))$", re.I)
_MIN_SECRET_LENGTH = 8  # a shorter value would occur within ordinary words


def redact(text: str) -> str:
    """The text with *** for each secret; for every message that is shown.

    Secrets are passwords and signed queries of URLs, and the values of environment variables and fsspec settings whose
    names say so.

    >>> redact("s3://me:secret@bucket/a?X-Signature=abc is gone")
    's3://***@bucket/a?*** is gone'
    >>> redact("https://host/a;jsessionid=1A2B#access_token=abc")
    'https://host/a;jsessionid=***#access_token=***'
    """
    for secret in _find_known_secrets():
        text = text.replace(secret, "***")
    return remove_credentials(text)


def remove_credentials(text: str) -> str:
    """The text without the passwords, users and signed queries of its URLs."""
    if "://" not in text:
        return text
    text = _SIGNED_QUERY.sub("?***", _USER.sub(r"\1***@", _PASSWORD.sub("***@", text)))
    return _NAMED_VALUE.sub(_hide_named, text)


def _hide_named(match: re.Match[str]) -> str:
    """What comes after a # or a ; of a URL, with *** in place of the value if its name says that it is a secret."""
    is_secret = _SECRET_NAME.search(match[2]) is not None or _SESSION_NAME.search(match[2]) is not None
    return f"{match[1]}=***" if is_secret else match[0]


def _find_known_secrets() -> list[str]:
    """The secrets in this process's environment and fsspec settings, longest first."""
    found = {*_list_secrets(os.environ), *_list_secrets(fsspec.config.conf)}
    return sorted(found, key=len, reverse=True)


def _list_secrets(settings: Mapping[str, Any]) -> Iterator[str]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _list_secrets(value)
        elif isinstance(value, str) and _is_secret(name, value):
            yield value


def _is_secret(name: str, value: str) -> bool:
    return len(value) >= _MIN_SECRET_LENGTH and _names_secret(name)


@functools.lru_cache(maxsize=4096)
def _names_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None and _PLACE_NAME.search(name) is None


def make_cause(error: BaseException) -> BaseException | None:
    """The error with its text and that of its causes redacted, to `raise ... from`; None if that cannot be done."""
    for link in list_causes(error):
        if _spell(link) != redact(_spell(link)):
            link.args = tuple(redact(part) if isinstance(part, str) else part for part in link.args)
            for name in ("strerror", "filename", "filename2"):
                if isinstance(part := getattr(link, name, None), str):
                    setattr(link, name, redact(part))
        if _spell(link) != redact(_spell(link)):
            return None
    return error


def _spell(error: BaseException) -> str:
    return "\n".join([str(error), repr(error), *getattr(error, "__notes__", ())])
