"""What a store refuses for good, by the names that its library gives it, and what its user can do about that.

Waiting does not fix these. The exceptions of the libraries are told by name: a library may not be installed.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping

from tokcore.errors import list_causes

# What the stores' libraries raise for credentials that are missing, expired or not accepted. Those of boto,
# google-auth, azure and huggingface_hub, in this order.
_NO_CREDENTIALS = frozenset(
    {"NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "TokenRetrievalError"}
    | {"SSOTokenLoadError", "UnauthorizedSSOTokenError", "ProfileNotFound", "DefaultCredentialsError"}
    | {"ClientAuthenticationError", "CredentialUnavailableError", "LocalTokenNotFoundError", "GatedRepoError"}
)

# A token that has run out may be replaced by another process, and a library may fetch a new one by itself.
EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired"})

NO_BUCKET = "There is no such bucket: create it, or correct the name"

_CREDENTIALS = (
    "The store wants other credentials: set them in the environment or in the store's own configuration, "
    "then run the same command again"
)
_RENEW = "The credentials have expired: renew them (aws sso login, gcloud auth login, az login), then run it again"
_SKEWED = "The clock of this machine is wrong: set it (timedatectl set-ntp true), then run the same command again"
_REGION = "The bucket lies in {region}: set storage.s3.region in the build file, or AWS_DEFAULT_REGION"
_FORBIDDEN = (
    "These credentials may not do that: grant them the right to list, read, create and delete there, or use others"
)
_KEY = "The store does not accept this key: correct it in the environment or in the store's own configuration"
_NO_HOST = (
    "No such host is known here: correct the name of the account or endpoint, or check this machine's network and proxy"
)
_ARCHIVED = "The object is archived: restore it, or name files of another storage class"

# Code of an error, as S3 or Azure says it -> what to do.
_FIXES: Mapping[str, str] = {
    **dict.fromkeys(("NoSuchBucket", "ContainerNotFound"), NO_BUCKET),
    **dict.fromkeys(("RequestTimeTooSkewed",), _SKEWED),
    **dict.fromkeys(EXPIRED, _RENEW),
    **dict.fromkeys(("SignatureDoesNotMatch", "InvalidAccessKeyId", "InvalidToken", "InvalidClientTokenId"), _KEY),
    **dict.fromkeys(("InvalidObjectState", "BlobArchived"), _ARCHIVED),
    **dict.fromkeys(
        ("AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException", "301"), _REGION
    ),
    **dict.fromkeys(
        ("AccessDenied", "AllAccessDisabled", "AuthorizationPermissionMismatch", "AuthorizationFailure"), _FORBIDDEN
    ),
}
# Azure's words for a clock that is slow and for one that is fast, those of S3's token service, and Google's.
_LOOKS_SKEWED = re.compile(
    r"RequestTimeTooSkewed|[Dd]ate header .{0,40}(too old|is incorrect)|Signature (expired|not yet current): "
    r"|[Cc]lock|Token used too early|short-lived token .{0,40}reasonable timeframe",
    re.S,
)
_NAMED_REGION = re.compile(r"expecting '([a-z0-9-]+)'")


def explain_refusal(error: BaseException) -> str:
    """What to do about an error that trying again does not end; "" if it may end. Looks at what led to it, too."""
    links = list(list_causes(error))
    for link in links:
        code = find_code(link)
        if (_find_status(link) in (401, 403) or is_stale(link)) and _LOOKS_SKEWED.search(str(link)):
            return _SKEWED
        if code in _FIXES:
            return _FIXES[code].format(region=_find_region(link))
    if is_stale(error):
        return _RENEW
    for link in links:
        if any(cls.__name__ in _NO_CREDENTIALS for cls in type(link).__mro__):
            return _CREDENTIALS
        status = _find_status(link)
        if status == 401 or (status == 403 and "ratelimit" not in str(link).lower().replace(" ", "")):
            return _CREDENTIALS
        if isinstance(link, OSError) and str(link).startswith("Forbidden: "):  # gcsfs
            return _FORBIDDEN
    return _NO_HOST if is_unknown_host(error) else ""


def has_expired(error: BaseException) -> bool:
    """Whether a store refused because a token has run out."""
    return any(find_code(link) in EXPIRED for link in list_causes(error))


def is_unknown_host(error: BaseException) -> bool:
    """Whether a name server answered that the store's name has no address. One that does not answer may do so later."""
    return any(_find_resolver_code(link) in _NO_ADDRESS for link in list_causes(error))


# EAI_NODATA is not in every libc.
_NO_ADDRESS = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


def _find_resolver_code(error: BaseException) -> int | None:
    """The code of the resolver's error: of this one, or of one that aiohttp or Azure's library keeps in it."""
    for found in (error, getattr(error, "os_error", None), getattr(error, "inner_exception", None)):
        for link in (found, getattr(found, "os_error", None)):
            if isinstance(link, socket.gaierror):
                return link.errno
    return None


def is_stale(error: BaseException) -> bool:
    """Whether google-auth got no new token, and would get none if it asked again."""
    names = ("RefreshError", "ReauthFailError")
    return any(type(link).__name__ in names and not getattr(link, "retryable", False) for link in list_causes(error))


def is_bare(error: BaseException) -> bool:
    """Whether S3 refused without saying why: the answer to a HEAD has a status alone."""
    return any(find_code(link) in ("301", "400", "403") for link in list_causes(error))


def find_code(error: BaseException) -> str:
    """The code by which S3 or Azure names what is wrong; "" if the error has none."""
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):  # boto
        return str(response.get("Error", {}).get("Code", ""))
    code = getattr(error, "error_code", None)  # azure
    return str(getattr(code, "value", code) or "")


def _find_status(error: BaseException) -> int | None:
    """The HTTP status that an error keeps."""
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:
        status = getattr(response, "status_code", None) or getattr(error, "status", None)
    status = status or getattr(error, "code", None)  # gcsfs and google-auth: a number or its digits
    return int(status) if isinstance(status, int | str) and str(status).isdecimal() else None


def _find_region(error: BaseException) -> str:
    response = getattr(error, "response", None)
    told = response.get("Error", {}) if isinstance(response, Mapping) else {}
    found = told.get("Region") or told.get("BucketRegion")
    if not found and (match := _NAMED_REGION.search(str(error))):
        found = match[1]
    return f"the region {found}" if found else "another region"
