"""A connection that asks again where that can do no harm."""

from __future__ import annotations

import random
import ssl
import time
import urllib.request
import uuid
from typing import Any, Callable, Mapping, Optional, Union

from .connection import SluiceConnection, _NoRedirect
from .values import SluiceError

_LONGEST_WAIT_S = 60.0
"""A server that asks for more is not waited for: its caller is told."""
_FIRST_WAIT_S = 0.5

_READS = ("/api/v1/read", "/api/v1/query")
"""Sent by POST, and change nothing."""


class RetryingConnection(SluiceConnection):
    """
    Sends again what changes nothing, or is done once however often it is sent: after 429 and 503 when the server says,
    and after a connection that gave no answer. What has begun to answer is not asked for again.

    attempts: of one request, at least 1. ssl_context: default that of Python, which verifies certificates and names.
    """

    def __init__(
        self,
        url: str,
        token: Union[str, Callable[[], str]],
        tenant: Optional[str],
        timeout_s: float,
        attempts: int,
        ssl_context: Optional[ssl.SSLContext],
    ) -> None:
        super().__init__(url, token, tenant, timeout_s)
        if attempts < 1:
            raise ValueError("attempts is at least 1")
        if timeout_s <= 0:
            raise ValueError("timeout_s is more than 0")
        self._attempts = attempts
        if ssl_context is not None:
            https = urllib.request.HTTPSHandler(context=ssl_context)
            self._opener = urllib.request.build_opener(_NoRedirect, https)

    def open(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: Optional[Mapping[str, Any]],
        timeout_s: Optional[float],
    ) -> Any:
        sent = dict(headers)
        is_read = method == "GET" or path in _READS
        if method == "POST" and not is_read:
            # The server does it once for all requests with the key.
            sent.setdefault("Idempotency-Key", str(uuid.uuid4()))
        # Whoever follows a stream knows where to come back to, and for how long.
        attempts = 1 if sent.get("Accept") == "text/event-stream" else self._attempts
        for attempt in range(1, attempts + 1):
            try:
                return super().open(method, path, sent, body, timeout_s)
            except SluiceError as error:
                wait_s = _wait_s(error, attempt)
                if attempt == attempts or wait_s is None:
                    raise
            time.sleep(wait_s)
        raise AssertionError("the last attempt returns or raises")


def _wait_s(error: SluiceError, attempt: int) -> Optional[float]:
    """How long to wait before the request is sent again; None: that would not help."""
    if error.status in (429, 503) and error.retry_after_s is not None:
        return error.retry_after_s if error.retry_after_s <= _LONGEST_WAIT_S else None
    if error.code == "idempotency_in_progress":
        return error.retry_after_s or _FIRST_WAIT_S
    # Not after silence: the time that the caller gave has passed.
    if error.status == 0 and error.code == "unreachable":
        return float(_FIRST_WAIT_S * 2 ** (attempt - 1) * random.uniform(0.5, 1.0))
    return None
