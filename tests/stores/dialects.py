"""How S3, Google Cloud Storage and Azure say what a request does, and how each of them says no.

An operation has S3's name where another store has the same thing under another name, so that a budget reads alike.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

import google_crc32c

Answer = tuple[int, dict[str, str], bytes]  # status, headers, body


@dataclass(frozen=True, slots=True)
class Question:
    """A request as it came. headers: names in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return unquote(urlsplit(self.target).path)

    @property
    def query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.target).query, True).items()}


# What goes wrong -> S3's status and code. The others say it with the same status.
TROUBLES: Mapping[str, tuple[int, str]] = {
    "slow_down": (503, "SlowDown"),
    "unavailable": (503, "ServiceUnavailable"),
    "internal": (500, "InternalError"),
    "too_many": (429, "TooManyRequests"),
    "conflict": (409, "ConditionalRequestConflict"),
    "expired": (400, "ExpiredToken"),
    "forbidden": (403, "AccessDenied"),
    "bad_key": (403, "SignatureDoesNotMatch"),
    "no_bucket": (404, "NoSuchBucket"),
    "skewed": (403, "RequestTimeTooSkewed"),
    "wrong_region": (400, "AuthorizationHeaderMalformed"),
}


class S3:
    """Path style: /bucket/key."""

    def operation(self, asked: Question) -> str:
        query, is_object = asked.query, asked.path.strip("/").count("/") > 0
        if asked.method == "PUT" and is_object:
            part = "uploadId" in query
            if "x-amz-copy-source" in asked.headers:
                return "UploadPartCopy" if part else "CopyObject"
            return "UploadPart" if part else "PutObject"
        if asked.method == "POST":
            if "delete" in query:
                return "DeleteObjects"
            return "CreateMultipartUpload" if "uploads" in query else "CompleteMultipartUpload"
        if asked.method == "DELETE" and is_object:
            return "AbortMultipartUpload" if "uploadId" in query else "DeleteObject"
        if asked.method == "GET" and not is_object and ("uploads" in query or "location" in query):
            return "ListMultipartUploads" if "uploads" in query else "GetBucketLocation"
        if asked.method in ("GET", "HEAD") and is_object:
            return "GetObject" if asked.method == "GET" else "HeadObject"
        return {"GET": "ListObjects", "HEAD": "HeadBucket", "PUT": "CreateBucket"}.get(asked.method, asked.method)

    def key(self, asked: Question) -> str:
        """bucket/key."""
        return asked.path.strip("/")

    def creates_only(self, asked: Question) -> bool:
        """Whether the object must not be there yet."""
        return asked.headers.get("if-none-match") == "*" and self.operation(asked) in _CREATING

    def without_condition(self, asked: Question) -> Question:
        """The request as a store that does not know the condition understands it."""
        headers = {name: value for name, value in asked.headers.items() if name != "if-none-match"}
        return Question(asked.method, asked.target, headers, asked.body)

    def exists(self, asked: Question) -> Question:
        """The request that asks whether the object is there."""
        signed = {name: asked.headers[name] for name in ("authorization", "host") if name in asked.headers}
        return Question("HEAD", urlsplit(asked.target).path, signed, b"")

    def taken(self) -> Answer:
        """The answer if the object must not be there, but is."""
        return _s3_error(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")

    def damage(self, asked: Question) -> Answer | None:
        """The answer to a body that is not the one that its headers tell of; None if it is."""
        if "aws-chunked" in asked.headers.get("content-encoding", ""):
            return _s3_error(501, "NotImplemented", "this server checks whole bodies, not signed chunks")
        claims = {name: asked.headers[name] for name in _S3_CHECKSUMS if name in asked.headers}
        for name, claimed in claims.items():
            if base64.b64encode(_S3_CHECKSUMS[name](asked.body)).decode() != claimed:
                return _s3_error(400, "BadDigest", f"{name} says {claimed}; the body has another one")
        hexadecimal = asked.headers.get("x-amz-content-sha256", "")
        if len(hexadecimal) == 64 and hashlib.sha256(asked.body).hexdigest() != hexadecimal:
            return _s3_error(400, "XAmzContentSHA256Mismatch", "the body has another sha256 than the request says")
        return None

    def checksums(self, asked: Question) -> tuple[str, ...]:
        """The checksums that came with the body."""
        return tuple(name for name in _S3_CHECKSUMS if name in asked.headers)

    def refuse(self, trouble: str) -> Answer:
        """An answer that says what is wrong; see TROUBLES."""
        return _s3_error(*TROUBLES[trouble], _MESSAGES.get(trouble, trouble))


class GCS(S3):
    """The JSON API: /storage/v1/b/BUCKET/o/KEY, /upload/... and /download/..."""

    def operation(self, asked: Question) -> str:
        head = "/".join(asked.path.split("/")[:3])
        if asked.path.startswith("/upload/") or asked.path.startswith("/resumable/upload/"):
            return "UploadPart" if asked.method == "PUT" else "PutObject"
        if "/rewriteTo/" in asked.path or "/copyTo/" in asked.path:
            return "CopyObject"
        if asked.path.endswith("/o") and asked.method == "GET":
            return "ListObjects"
        if "/o/" in asked.path:
            media = asked.query.get("alt") == "media" or asked.path.startswith("/download/")
            read = "GetObject" if media else "HeadObject"
            return {"GET": read, "HEAD": "HeadObject", "DELETE": "DeleteObject"}.get(asked.method, asked.method)
        return "DeleteObjects" if "batch" in head else f"{asked.method} bucket"

    def key(self, asked: Question) -> str:
        bucket, _, rest = asked.path.partition("/b/")[2].partition("/o")
        name = rest.lstrip("/").split("/rewriteTo/")[0] or asked.query.get("name", "")
        if not name and asked.method == "POST" and b'"name"' in asked.body:
            name = _json_name(asked.body)
        return f"{bucket}/{name}"

    def creates_only(self, asked: Question) -> bool:
        return asked.query.get("ifGenerationMatch") == "0"

    def without_condition(self, asked: Question) -> Question:
        target = asked.target.replace("ifGenerationMatch=0", "")
        return Question(asked.method, target, asked.headers, asked.body)

    def damage(self, asked: Question) -> Answer | None:
        return None  # the server checks

    def checksums(self, asked: Question) -> tuple[str, ...]:
        return tuple(name for name in ("md5Hash", "crc32c") if f'"{name}"'.encode() in asked.body[:4096])

    def refuse(self, trouble: str) -> Answer:
        status, code = TROUBLES[trouble]
        status = 401 if trouble == "expired" else status
        error = {"code": status, "message": _MESSAGES.get(trouble, code), "errors": [{"reason": code}]}
        return status, {"Content-Type": "application/json"}, json.dumps({"error": error}).encode()


class Azure(S3):
    """Path style: /account/container/blob."""

    def operation(self, asked: Question) -> str:
        query, is_blob = asked.query, asked.path.strip("/").count("/") > 1
        if asked.method == "PUT" and is_blob:
            if "x-ms-copy-source" in asked.headers:
                return "CopyObject"
            return {"block": "UploadPart", "blocklist": "CompleteMultipartUpload"}.get(
                query.get("comp", ""), "PutObject"
            )
        if query.get("comp") in ("list", "batch"):
            return "ListObjects" if query["comp"] == "list" else "DeleteObjects"
        if is_blob:
            names = {"GET": "GetObject", "HEAD": "HeadObject", "DELETE": "DeleteObject"}
            return names.get(asked.method, asked.method)
        return f"{asked.method} container"

    def without_condition(self, asked: Question) -> Question:
        # Azure signs the header: a server that ignores it still sees it.
        return asked

    def damage(self, asked: Question) -> Answer | None:
        return None  # the server checks

    def checksums(self, asked: Question) -> tuple[str, ...]:
        names = ("content-md5", "x-ms-blob-content-md5", "x-ms-content-crc64")
        return tuple(name for name in names if name in asked.headers)

    def refuse(self, trouble: str) -> Answer:
        status, code = TROUBLES[trouble]
        code = {"slow_down": "ServerBusy", "expired": "AuthenticationFailed"}.get(trouble, code)
        status = 403 if trouble == "expired" else status
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
        return status, {"Content-Type": "application/xml", "x-ms-error-code": code}, body


_CREATING = ("PutObject", "CompleteMultipartUpload", "CopyObject")

_S3_CHECKSUMS: Mapping[str, Callable[[bytes], bytes]] = {
    "content-md5": lambda body: hashlib.md5(body).digest(),
    "x-amz-checksum-sha256": lambda body: hashlib.sha256(body).digest(),
    "x-amz-checksum-sha1": lambda body: hashlib.sha1(body).digest(),
    "x-amz-checksum-crc32": lambda body: zlib.crc32(body).to_bytes(4, "big"),
    "x-amz-checksum-crc32c": lambda body: google_crc32c.value(body).to_bytes(4, "big"),
}

_MESSAGES = {
    "slow_down": "Please reduce your request rate.",
    "expired": "The provided token has expired.",
    "skewed": "The difference between the request time and the current time is too large.",
    "wrong_region": "The authorization header is malformed; the region 'us-east-1' is wrong; expecting 'eu-west-3'",
}


def _s3_error(status: int, code: str, message: str) -> Answer:
    region = "<Region>eu-west-3</Region>" if code == "AuthorizationHeaderMalformed" else ""
    text = f"<Error><Code>{code}</Code><Message>{message}</Message>{region}<RequestId>0</RequestId></Error>"
    return status, {"Content-Type": "application/xml"}, f"<?xml version='1.0' encoding='UTF-8'?>\n{text}".encode()


def _json_name(body: bytes) -> str:
    """The object's name in the metadata that a multipart upload begins with."""
    start = body.find(b"{")
    if start < 0:
        return ""
    try:
        metadata, _ = json.JSONDecoder().raw_decode(body[start : start + 8192].decode(errors="replace"))
    except ValueError:
        return ""
    return str(metadata.get("name", ""))
