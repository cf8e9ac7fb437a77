"""How the stores' libraries try a request again: by our rules, with jitter, and counted.

An upload in parts, or a long listing, is many requests, of which only the library can repeat one. So its own loop must
do that. Boto's and Azure's get our pauses, gcsfs's loop is replaced by ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tokcore_pipelines.store.refusals import EXPIRED, is_stale, is_unknown_host
from tokcore_pipelines.store.retries import ATTEMPTS, count_retry, make_pause

_BUSY = frozenset({429, 500, 502, 503, 504})
# The last two are refusals of a creation, not of its bytes: another one of the same name is under way.
_TRANSIENT_CODES = frozenset({"SlowDown", "RequestTimeout", "Throttling", "ThrottlingException"}) | {
    "OperationAborted",
    "ConditionalRequestConflict",
}
_CUT = "cut connection"
_EXPIRED_ATTEMPTS = 3


def teach(system: Any, table: str | None) -> None:
    """Have a file system try requests again by our rules. table: s3, gcs or azure; others are left alone."""
    if table is None or getattr(system, "_tokcore_taught", False):
        return
    with contextlib.suppress(AttributeError):
        system._tokcore_taught = True
    if table == "s3" and getattr(system, "session", True) is None:
        _teach_s3(system)
    elif table == "gcs" and getattr(system, "_session", True) is None:
        _teach_gcs(system)
    elif table == "azure":
        _teach_azure(system)


def _teach_s3(system: Any) -> None:
    from aiobotocore.session import AioSession

    system.session = AioSession(**system.kwargs)
    system.session.register("needs-retry.s3", _judge)
    system.config_kwargs = {**system.config_kwargs, "retries": {"mode": "standard", "total_max_attempts": 1}}
    system.retries = 1


def _judge(
    response: Any, attempts: int, caught_exception: Exception | None, request_dict: Mapping[str, Any], **_: Any
) -> float | None:
    """Seconds after which boto is to try a request again; None if it is not to."""
    why = _find_trouble(response, caught_exception)
    if not why or attempts >= (_EXPIRED_ATTEMPTS if why in EXPIRED else ATTEMPTS):
        return None
    # It may have been done. Then the next one would be refused by the first, which only its bytes can tell.
    is_unsure = why == _CUT or why not in _TRANSIENT_CODES | EXPIRED | {"429", "503", "ServiceUnavailable"}
    if is_unsure and request_dict.get("headers", {}).get("If-None-Match"):
        return None
    count_retry(why)
    return make_pause(attempts - 1)


def _find_trouble(response: Any, caught_exception: Exception | None) -> str:
    if caught_exception is not None:
        from botocore.exceptions import ConnectionError as NotConnected
        from botocore.exceptions import HTTPClientError
        from botocore.parsers import ResponseParserError

        cut = isinstance(caught_exception, HTTPClientError | NotConnected | ResponseParserError)
        return _CUT if cut and not is_unknown_host(caught_exception) else ""
    answer, parsed = response
    code = str(parsed.get("Error", {}).get("Code", ""))
    return (
        (code or str(answer.status_code)) if answer.status_code in _BUSY or code in _TRANSIENT_CODES | EXPIRED else ""
    )


def ask_s3(system: Any, path: str) -> Exception | None:
    """Why S3 refuses what concerns a path, by a request whose answer says so; None if it is not refused."""
    try:
        system.call_s3("list_objects_v2", Bucket=path.split("/")[0], MaxKeys=1)
    except Exception as error:
        return error
    return None


def _teach_gcs(system: Any) -> None:
    import aiohttp

    logging.getLogger("gcsfs").setLevel(logging.CRITICAL)  # it would print what it raises, too

    async def on_end(session: Any, context: Any, params: aiohttp.TraceRequestEndParams) -> None:
        if params.response.status in _BUSY | {401}:
            count_retry(str(params.response.status))

    async def on_exception(session: Any, context: Any, params: aiohttp.TraceRequestExceptionParams) -> None:
        if isinstance(params.exception, aiohttp.ClientError | OSError):  # else gcsfs cancels what it need not know
            count_retry(_CUT)

    trace = aiohttp.TraceConfig()
    trace.on_request_end.append(on_end)
    trace.on_request_exception.append(on_exception)
    system.session_kwargs = {**system.session_kwargs, "trace_configs": [trace]}
    # Its own loop waits for seconds after the first refusal.
    if (ask_once := getattr(type(system)._request, "__wrapped__", None)) is not None:
        system._request = functools.partial(_ask_gcs, functools.partial(ask_once, system))


async def _ask_gcs(ask_once: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Any:
    """A request to Google's store, tried again after our pauses. Retries are counted where answers come."""
    from gcsfs.retry import is_retriable

    for attempt in range(ATTEMPTS - 1):
        try:
            return await ask_once(*args, **kwargs)
        except Exception as error:
            if is_stale(error) or is_unknown_host(error) or not is_retriable(error):
                raise
        await asyncio.sleep(make_pause(attempt))
    return await ask_once(*args, **kwargs)


def _teach_azure(system: Any) -> None:
    policy = getattr(getattr(getattr(system, "service_client", None), "_config", None), "retry_policy", None)
    if policy is None:
        return

    def get_backoff_time(settings: Mapping[str, Any]) -> float:
        count_retry(_name_last(settings["history"]))
        return make_pause(max(0, settings["count"] - 1))

    increment = policy.increment

    def increment_if_known(settings: Any, *args: Any, error: BaseException | None = None, **kwargs: Any) -> bool:
        is_lost = error is not None and is_unknown_host(error)
        return not is_lost and bool(increment(settings, *args, error=error, **kwargs))

    policy.increment = increment_if_known
    policy.total_retries = ATTEMPTS - 1
    policy.get_backoff_time = get_backoff_time


def _name_last(history: Any) -> str:
    """What the last request came to, by the history of Azure's library."""
    status = getattr(getattr(history[-1], "http_response", None), "status_code", None) if history else None
    return str(status) if status else _CUT
