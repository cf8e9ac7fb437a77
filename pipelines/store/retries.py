"""What a store raises: transient errors are tried again, the others become StageErrors that name the URL."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from pipelines.store.redaction import make_cause, redact
from tokcore.errors import StageError, TokError

Result = TypeVar("Result")

ATTEMPTS = 5
FIRST_PAUSE_SECONDS = 0.1
_PAUSE_GROWTH = 4  # pauses of 0.1, 0.4, 1.6 and 6.4 seconds

# Waiting does not fix these. Callers tell the first ones apart, or they are named where they are caught.
_PERMANENT = (
    TokError,
    FileNotFoundError,
    FileExistsError,
    PermissionError,
    IsADirectoryError,
    NotADirectoryError,
)
_REFUSED = (ValueError, TypeError, NotImplementedError)

# What the stores' libraries raise for credentials that are missing, expired or not accepted, by name: a library may not
# be installed. Those of boto, google-auth, azure and huggingface_hub, in this order.
_NO_CREDENTIALS = frozenset(
    {"NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "TokenRetrievalError"}
    | {"SSOTokenLoadError", "UnauthorizedSSOTokenError", "ProfileNotFound", "DefaultCredentialsError"}
    | {"ClientAuthenticationError", "CredentialUnavailableError", "LocalTokenNotFoundError", "GatedRepoError"}
)


def retry(what: str, url: str, operation: Callable[[], Result], attempts: int = 0) -> Result:
    """The operation's result; transient errors are retried, those of the file system pass through as they are.

    attempts: 0 for the usual number. Raises StageError after the last one, and for what the store's library refuses.
    """
    attempts = attempts or ATTEMPTS
    for attempt in range(attempts):
        try:
            return operation()
        except _PERMANENT:
            raise
        except Exception as error:
            failure = error
        if isinstance(failure, _REFUSED) or lacks_credentials(failure):
            break
        if attempt < attempts - 1:
            time.sleep(FIRST_PAUSE_SECONDS * _PAUSE_GROWTH**attempt)
    reason = redact(str(failure)) or type(failure).__name__
    if lacks_credentials(failure):
        raise StageError(
            f"{redact(url)}: cannot {what}: {reason}. The store wants other credentials: "
            f"set them in the environment or in the store's own configuration, then run the same command again"
        ) from make_cause(failure)
    if isinstance(failure, _REFUSED):
        raise StageError(f"{redact(url)}: cannot {what}: {reason}") from make_cause(failure)
    raise StageError(
        f"{redact(url)}: cannot {what}{f', tried {attempts} times' if attempts > 1 else ''}: {reason}. "
        f"Finished work is kept: run the same command again when the store answers"
    ) from make_cause(failure)


def lacks_credentials(error: BaseException | None) -> bool:
    """Whether a store refused because of who asked: trying again would only wait. Looks at what led to it, too."""
    while error is not None:
        if any(cls.__name__ in _NO_CREDENTIALS for cls in type(error).__mro__):
            return True
        response = getattr(error, "response", None)
        if isinstance(response, Mapping):  # boto
            code = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        else:
            code = getattr(response, "status_code", None) or getattr(error, "status", None) or _find_code(error)
        if code == 401 or (code == 403 and "ratelimit" not in str(error).lower().replace(" ", "")):
            return True
        error = error.__cause__ or error.__context__
    return False


def _find_code(error: BaseException) -> int | None:
    """The HTTP status that gcsfs and google-auth keep as code, a number or its digits."""
    code = getattr(error, "code", None)
    return int(code) if isinstance(code, int | str) and str(code).isdecimal() else None


@contextlib.contextmanager
def name_errors(what: str, url: str) -> Iterator[None]:
    """Turns what a store raises into a StageError that names the URL."""
    try:
        yield
        return
    except OSError as error:
        failure = error
    reason = redact(failure.strerror or str(failure)) or type(failure).__name__
    raise StageError(f"{redact(url)}: cannot {what}: {reason}") from make_cause(failure)
