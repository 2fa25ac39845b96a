from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Callable, Iterator, Mapping, Optional, Union

from .values import SluiceError


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token is for its server alone."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class SluiceConnection:
    """The way to one server. timeout_s: for how long it may be silent."""

    def __init__(
        self,
        url: str,
        token: Union[str, Callable[[], str]],
        tenant: Optional[str] = None,
        timeout_s: float = 30.0,
    ) -> None:
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise ValueError("the url begins with http:// or https://")
        self._url = url.rstrip("/")
        self._token = token
        self._tenant = tenant
        self._timeout_s = timeout_s
        self._opener = urllib.request.build_opener(_NoRedirect)

    @property
    def has_fresh_tokens(self) -> bool:
        return callable(self._token)

    def json(self, method: str, path: str, body: Optional[Mapping[str, Any]], timeout_s: Optional[float]) -> Any:
        content = self.content(method, path, body, "application/json", timeout_s)
        try:
            return json.loads(content)
        except ValueError as error:
            raise SluiceError(200, {}) from error

    def content(
        self, method: str, path: str, body: Optional[Mapping[str, Any]], accept: str, timeout_s: Optional[float]
    ) -> bytes:
        with self.open(method, path, {"Accept": accept}, body, timeout_s) as response:
            try:
                content = response.read()
            except (OSError, http.client.HTTPException) as error:
                raise _no_answer(error) from error
            assert isinstance(content, bytes)
            return content

    def lines(self, response: Any) -> Iterator[str]:
        """As they come; whoever stops reading ends the request."""
        # In pieces: readline of http.client takes a broken end for a good one.
        rest = b""
        with response:
            while True:
                try:
                    part = response.read1(1 << 16)
                except (OSError, http.client.HTTPException) as error:
                    raise _no_answer(error) from error
                if not part:
                    break
                *lines, rest = (rest + part).split(b"\n")
                for line in lines:
                    yield line.decode("utf-8")
            # What stands between may have said how long the answer is, and http.client misses nothing of it.
            missing = getattr(response, "length", None)
            if missing:
                raise _no_answer(http.client.IncompleteRead(b"", missing))
        if rest:
            yield rest.decode("utf-8")

    def open(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: Optional[Mapping[str, Any]],
        timeout_s: Optional[float],
    ) -> Any:
        """An answer that is a good one. Raises SluiceError."""
        token = self._token if isinstance(self._token, str) else self._token()
        sent = {**headers, "Authorization": f"Bearer {token}"}
        if self._tenant is not None:
            sent["X-Tenant-Id"] = self._tenant
        content = None
        if body is not None:
            sent["Content-Type"] = "application/json"
            content = json.dumps({name: value for name, value in body.items() if value is not None}).encode("utf-8")
        request = urllib.request.Request(self._url + path, data=content, headers=sent, method=method)
        try:
            return self._opener.open(request, timeout=self._timeout_s if timeout_s is None else timeout_s)
        except urllib.error.HTTPError as error:
            raise _refusal(error) from None
        except (OSError, http.client.HTTPException) as error:
            raise _no_answer(error) from error


def _refusal(error: urllib.error.HTTPError) -> SluiceError:
    try:
        retry_after_s: Optional[float] = float(error.headers.get("Retry-After", ""))
    except ValueError:
        retry_after_s = None
    try:
        problem = json.loads(error.read())
    except (ValueError, OSError, http.client.HTTPException):
        # A page of something that stands between.
        problem = None
    return SluiceError(error.code, problem if isinstance(problem, dict) else {}, retry_after_s)


def _no_answer(error: BaseException) -> SluiceError:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, TimeoutError) or "timed out" in str(reason):
        return SluiceError(0, {"code": "timed_out", "detail": "the server was silent for too long"})
    return SluiceError(0, {"code": "unreachable", "detail": "the server cannot be reached, or broke its answer off"})


def _product_path(product: str) -> str:
    return f"/api/v1/products/{urllib.parse.quote(product, safe='')}"
