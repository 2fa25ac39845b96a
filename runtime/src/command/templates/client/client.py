from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import (
    Any,
    Callable,
    Dict,
    Generic,
    Iterator,
    List,
    Literal,
    Mapping,
    NoReturn,
    Optional,
    Sequence,
    Tuple,
    TypedDict,
    TypeVar,
    Union,
    overload,
)

Json = Union[None, bool, int, float, str, List[Any], Dict[str, Any]]
Long = Union[int, str]
"""Whole numbers of 64 bits. Beyond 2^53 they come as strings, with all their digits."""
Decimal = str
"""With exactly as many digits after the point as its type says: "12.50"."""
Double = Union[float, Literal["NaN", "Infinity", "-Infinity"]]
DateText = str
"""YYYY-MM-DD"""
Timestamp = str
"""YYYY-MM-DDTHH:MM:SS.ffffff, without a zone."""
TimestampTz = str
"""The same in UTC, with a final Z."""
Uuid = str
Base64 = str

Operator = Literal["eq", "ne", "lt", "le", "gt", "ge", "in"]
Scalar = Union[bool, int, float, str]
Order = Sequence[Union[str, Tuple[str, Literal["asc", "desc"]]]]

_Row = TypeVar("_Row")
_Part = TypeVar("_Part")
_Key = TypeVar("_Key")
_Whole = TypeVar("_Whole")
_Column = TypeVar("_Column", bound=str)
_Filter = TypeVar("_Filter", bound=Mapping[str, Any])


class SluiceError(Exception):
    """What went wrong, as the server says it (RFC 9457); or that it gave no such answer, with the status 0."""

    def __init__(self, status: int, problem: Mapping[str, Any], retry_after_s: Optional[float] = None) -> None:
        def text(name: str) -> Optional[str]:
            value = problem.get(name)
            return value if isinstance(value, str) else None

        self.status = status
        """Of HTTP. 0: there was no answer to the request, or none that is whole."""
        self.code = text("code") or "not_sluice"
        """Stable. Of the status 0: unreachable, timed_out."""
        self.detail = text("detail") or text("title") or "what answers is not Sluice"
        self.remedy = text("remedy")
        self.retry_after_s = retry_after_s
        """How long to wait before asking again; None: the server does not say."""
        self.request_id = text("request_id")
        self.problem = dict(problem)
        """All that the server said."""
        super().__init__(f"{self.detail} ({self.code}, {status})")


class Freshness(TypedDict, total=False):
    read_at: str
    age_s: float


class Meta(TypedDict, total=False):
    """Of the rows of an answer."""

    product: str
    namespace: str
    version: str
    epoch: int
    snapshot_id: str
    as_of: str
    masked_columns: List[str]
    store: str
    ttl_remaining_s: float
    freshness: Freshness


class Page(Generic[_Row]):
    """Some rows, and how to go on: next_cursor is given back as cursor; None: there are no more."""

    def __init__(self, data: List[_Row], meta: Meta, next_cursor: Optional[str]) -> None:
        self.data = data
        self.meta = meta
        self.next_cursor = next_cursor


class QueryColumn(TypedDict):
    name: str
    type: str
    masked: bool


class QueryResult(TypedDict):
    """truncated: there are more rows; as many as limit asks for were given, or as many as the server gives as JSON."""

    columns: List[QueryColumn]
    rows: List[List[Any]]
    row_count: int
    truncated: bool
    meta: Dict[str, Any]


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
        """As they come; whoever stops reading ends the request. http.client's own readline takes a broken end for a good one."""
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


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _filter_texts(filters: Mapping[str, Any]) -> Iterator[str]:
    for column, condition in filters.items():
        if not isinstance(condition, Mapping):
            yield f"{column}:{_text(condition)}"
            continue
        for operator, value in condition.items():
            yield f"{column}.{operator}:{_list_text(value) if isinstance(value, (list, tuple)) else _text(value)}"


def _list_text(values: Sequence[Any]) -> str:
    texts = [_text(value) for value in values]
    if any("," in text for text in texts):
        raise ValueError("a value of a list holds a comma: ask for it by eq")
    return ",".join(texts)


def _order_text(order: Union[None, str, Order]) -> Optional[str]:
    if order is None or isinstance(order, str):
        return order
    return ",".join(one if isinstance(one, str) else ":".join(one) for one in order) or None


def _search(filters: Optional[Mapping[str, Any]], columns: Optional[Sequence[str]], **named: Any) -> str:
    pairs = [(name.rstrip("_"), _text(value)) for name, value in named.items() if value is not None]
    pairs += [("filter", text) for text in _filter_texts(filters or {})]
    if columns is not None:
        pairs.append(("columns", ",".join(columns)))
    return urllib.parse.urlencode(pairs)


def _pages(read: Callable[[Optional[str]], Page[Any]], cursor: Optional[str]) -> Iterator[Any]:
    while True:
        page = read(cursor)
        yield from page.data
        cursor = page.next_cursor
        if cursor is None:
            return


class _Keyed(Generic[_Row, _Part, _Key, _Column]):
    _store = ""

    def __init__(self, connection: SluiceConnection, product: str) -> None:
        self._connection = connection
        self._product = product

    @overload
    def get(self, key: _Key, columns: None = None, timeout_s: Optional[float] = None) -> Optional[_Row]: ...

    @overload
    def get(self, key: _Key, columns: Sequence[_Column], timeout_s: Optional[float] = None) -> Optional[_Part]: ...

    def get(
        self, key: _Key, columns: Optional[Sequence[_Column]] = None, timeout_s: Optional[float] = None
    ) -> Union[None, _Row, _Part]:
        """None where there is no such row."""
        rows: Sequence[Union[None, _Row, _Part]] = self._read([key], columns, timeout_s)
        return rows[0]

    @overload
    def get_many(
        self, keys: Sequence[_Key], columns: None = None, timeout_s: Optional[float] = None
    ) -> List[Optional[_Row]]: ...

    @overload
    def get_many(
        self, keys: Sequence[_Key], columns: Sequence[_Column], timeout_s: Optional[float] = None
    ) -> List[Optional[_Part]]: ...

    def get_many(
        self, keys: Sequence[_Key], columns: Optional[Sequence[_Column]] = None, timeout_s: Optional[float] = None
    ) -> Union[List[Optional[_Row]], List[Optional[_Part]]]:
        """In the order of the keys, at most 1,000; None where there is no such row. All are of one epoch."""
        rows: List[Optional[_Row]] = self._read(keys, columns, timeout_s)
        return rows

    def _read(self, keys: Sequence[_Key], columns: Optional[Sequence[_Column]], timeout_s: Optional[float]) -> Any:
        if len(keys) == 0:
            return []
        item: Dict[str, Any] = {"product": self._product, "store": self._store, "keys": list(keys)}
        if columns is not None:
            item["columns"] = list(columns)
        answer = self._connection.json("POST", "/api/v1/read", {"items": [_with_long_numbers(item)]}, timeout_s)["data"][0]
        if "rows" in answer:
            return answer["rows"]
        problem = answer.get("error", {})
        raise SluiceError(int(problem.get("status", 0)), problem)


_MAX_NUMBER = 2**53 - 1


def _with_long_numbers(value: Any) -> Any:
    """JSON's readers lose digits of longer ones."""
    if isinstance(value, Mapping):
        return {name: _with_long_numbers(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_with_long_numbers(part) for part in value]
    is_long = isinstance(value, int) and not isinstance(value, bool) and abs(value) > _MAX_NUMBER
    return str(value) if is_long else value


class Realtime(_Keyed[_Row, _Part, _Key, _Column]):
    """Values under keys, as fresh as they come."""

    _store = "realtime"


class Lookup(_Keyed[_Row, _Part, _Key, _Column], Generic[_Row, _Part, _Key, _Column, _Filter]):
    """Rows by their key, or by columns that are indexed. at and history: where states of the past are kept."""

    _store = "lookup"

    @overload
    def find(
        self, filters: Optional[_Filter] = None, *, columns: None = None, order: Optional[Order] = None,
        at: Optional[str] = None, history: Optional[bool] = None, page_size: int = 500, timeout_s: Optional[float] = None,
    ) -> Iterator[_Row]: ...

    @overload
    def find(
        self, filters: Optional[_Filter] = None, *, columns: Sequence[_Column], order: Optional[Order] = None,
        at: Optional[str] = None, history: Optional[bool] = None, page_size: int = 500, timeout_s: Optional[float] = None,
    ) -> Iterator[_Part]: ...

    def find(
        self, filters: Optional[_Filter] = None, *, columns: Optional[Sequence[_Column]] = None,
        order: Optional[Order] = None, at: Optional[str] = None, history: Optional[bool] = None,
        page_size: int = 500, timeout_s: Optional[float] = None,
    ) -> Iterator[Any]:
        """All rows that the filter leaves, page by page."""

        def read(cursor: Optional[str]) -> Page[Any]:
            return self.page(
                filters, columns=columns, order=order, at=at, history=history,
                page_size=page_size, cursor=cursor, timeout_s=timeout_s,
            )

        return _pages(read, None)

    def page(
        self, filters: Optional[_Filter] = None, *, columns: Optional[Sequence[_Column]] = None,
        order: Optional[Order] = None, at: Optional[str] = None, history: Optional[bool] = None,
        page_size: int = 500, cursor: Optional[str] = None, timeout_s: Optional[float] = None,
    ) -> Page[_Part]:
        search = _search(
            filters, columns, order=_order_text(order), at=at, history=history, limit=page_size, cursor=cursor
        )
        answer = self._connection.json("GET", f"{_product_path(self._product)}/latest?{search}", None, timeout_s)
        return Page(answer["data"], answer["meta"], answer["next_cursor"])


class Timeseries(Generic[_Row, _Part, _Column, _Filter]):
    """Rows of a time range. since: a date or a time, inclusive. to: a date, inclusive, or a time, exclusive."""

    def __init__(self, connection: SluiceConnection, product: str) -> None:
        self._connection = connection
        self._product = product

    @overload
    def range(
        self, since: Optional[str] = None, to: Optional[str] = None, *, filters: Optional[_Filter] = None,
        columns: None = None, order: Union[None, str, Order] = None, page_size: int = 500,
        timeout_s: Optional[float] = None,
    ) -> Iterator[_Row]: ...

    @overload
    def range(
        self, since: Optional[str] = None, to: Optional[str] = None, *, filters: Optional[_Filter] = None,
        columns: Sequence[_Column], order: Union[None, str, Order] = None, page_size: int = 500,
        timeout_s: Optional[float] = None,
    ) -> Iterator[_Part]: ...

    def range(
        self, since: Optional[str] = None, to: Optional[str] = None, *, filters: Optional[_Filter] = None,
        columns: Optional[Sequence[_Column]] = None, order: Union[None, str, Order] = None, page_size: int = 500,
        timeout_s: Optional[float] = None,
    ) -> Iterator[Any]:
        """All rows of the range, page by page. order: asc (default) or desc by time, or columns."""

        def read(cursor: Optional[str]) -> Page[Any]:
            return self.page(
                since, to, filters=filters, columns=columns, order=order,
                page_size=page_size, cursor=cursor, timeout_s=timeout_s,
            )

        return _pages(read, None)

    def page(
        self, since: Optional[str] = None, to: Optional[str] = None, *, filters: Optional[_Filter] = None,
        columns: Optional[Sequence[_Column]] = None, order: Union[None, str, Order] = None, page_size: int = 500,
        cursor: Optional[str] = None, timeout_s: Optional[float] = None,
    ) -> Page[_Part]:
        return self._page(
            filters, columns, timeout_s, from_=since, to=to, order=_order_text(order), limit=page_size, cursor=cursor
        )

    def aggregates(
        self, interval: str, since: Optional[str] = None, to: Optional[str] = None, *,
        filters: Optional[_Filter] = None, page_size: int = 500, timeout_s: Optional[float] = None,
    ) -> Iterator[Dict[str, Any]]:
        """What is kept of each interval: bucket, and of its columns count, sum, avg, min and max, as each type has them."""

        def read(cursor: Optional[str]) -> Page[Any]:
            return self._page(
                filters, None, timeout_s, from_=since, to=to, interval=interval, limit=page_size, cursor=cursor
            )

        return _pages(read, None)

    def _page(
        self, filters: Optional[_Filter], columns: Optional[Sequence[_Column]], timeout_s: Optional[float], **named: Any
    ) -> Page[Any]:
        search = _search(filters, columns, **named)
        answer = self._connection.json("GET", f"{_product_path(self._product)}/timeseries?{search}", None, timeout_s)
        return Page(answer["data"], answer["meta"], answer["next_cursor"])


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class Table(Generic[_Row, _Part, _Column]):
    """The whole product, by SQL."""

    def __init__(self, client: SluiceClient, namespace: str, name: str, columns: Sequence[_Column]) -> None:
        self._client = client
        self._name = f"{_quoted(namespace)}.{_quoted(name)}"
        self._columns = columns

    @overload
    def scan(self, columns: None = None, timeout_s: Optional[float] = None) -> Iterator[_Row]: ...

    @overload
    def scan(self, columns: Sequence[_Column], timeout_s: Optional[float] = None) -> Iterator[_Part]: ...

    def scan(
        self, columns: Optional[Sequence[_Column]] = None, timeout_s: Optional[float] = None
    ) -> Iterator[Any]:
        """All rows as they come, in no order."""
        return self._client.query_rows(self._select(columns), timeout_s=timeout_s)

    def parquet(self, columns: Optional[Sequence[_Column]] = None, timeout_s: Optional[float] = None) -> bytes:
        return self._client.query_parquet(self._select(columns), timeout_s=timeout_s)

    def to_polars(self, columns: Optional[Sequence[_Column]] = None, timeout_s: Optional[float] = None) -> Any:
        """A DataFrame of polars, which has to be installed."""
        return self._client.query_polars(self._select(columns), timeout_s=timeout_s)

    def to_pandas(self, columns: Optional[Sequence[_Column]] = None, timeout_s: Optional[float] = None) -> Any:
        """A DataFrame of pandas, which has to be installed, with pyarrow."""
        return self._client.query_pandas(self._select(columns), timeout_s=timeout_s)

    def _select(self, columns: Optional[Sequence[_Column]]) -> str:
        names = self._columns if columns is None else columns
        return f"SELECT {', '.join(_quoted(name) for name in names)} FROM {self._name}"


ChangeKind = Literal["upsert", "delete", "epoch", "reset"]
_KINDS: Dict[str, ChangeKind] = {"upsert": "upsert", "delete": "delete", "epoch": "epoch", "reset": "reset"}


class Change(Generic[_Row, _Whole]):
    """
    upsert has row, delete has key. epoch: what came since the last one is whole. reset, with its reason: all rows are to be
    forgotten, as they follow anew. id is where the stream goes on after it.
    """

    def __init__(self, kind: ChangeKind, id: str, data: Any) -> None:
        self.kind = kind
        self.id = id
        self.row: Optional[_Row] = data if kind == "upsert" else None
        self.key: Optional[_Whole] = data if kind == "delete" else None
        self.epoch: Optional[int] = data.get("epoch") if kind == "epoch" else None
        self.version: Optional[str] = data.get("version") if kind == "epoch" else None
        self.reason: Optional[str] = data.get("reason") if kind == "reset" else None


_SILENCE_S = 60.0  # The server is never silent for longer than 15.
_RETRY_S = 3.0


class Changes(Generic[_Row, _Whole]):
    """A product's changed rows as they come."""

    def __init__(self, connection: SluiceConnection, product: str) -> None:
        self._connection = connection
        self._path = f"{_product_path(product)}/changes"

    def follow(self, since: Optional[str] = None, patience_s: float = 300.0) -> Iterator[Change[_Row, _Whole]]:
        """
        Has no end but an error. It comes back by itself where the connection breaks, to the event after the last one, so
        that none is lost and none comes twice; for patience_s it tries, then it raises why it cannot. Raises SluiceError
        where the server says why the stream ends.

        since: now (default): what comes; start: all rows there are, then what comes; or the id of the last event that was
        applied.
        """
        last_id: Optional[str] = None
        retry_s = _RETRY_S
        lost_at: Optional[float] = None
        is_renewed = False
        while True:
            wait_s = retry_s
            try:
                for fields in self._events(last_id, since):
                    lost_at = None
                    retry_s = float(fields["retry"]) / 1000 if "retry" in fields else retry_s
                    if "data" not in fields:
                        continue
                    last_id = fields.get("id", last_id)
                    event = fields.get("event", "message")
                    data = json.loads(fields["data"])
                    if event == "problem":
                        raise SluiceError(500, data)
                    kind = _KINDS.get(event)
                    if kind is not None:
                        is_renewed = False
                        yield Change(kind, last_id or "", data)
            except SluiceError as error:
                if error.code == "right_ended" and self._connection.has_fresh_tokens and not is_renewed:
                    is_renewed = True
                elif not _passes(error):
                    raise
                lost_at = time.monotonic() if lost_at is None else lost_at
                if time.monotonic() - lost_at > patience_s:
                    raise
                wait_s = retry_s if error.retry_after_s is None else error.retry_after_s
            time.sleep(wait_s)

    def _events(self, last_id: Optional[str], since: Optional[str]) -> Iterator[Dict[str, str]]:
        headers = {"Accept": "text/event-stream"}
        if last_id is not None:
            headers["Last-Event-ID"] = last_id
        search = "" if since is None else "?" + urllib.parse.urlencode({"from": since})
        response = self._connection.open("GET", self._path + search, headers, None, _SILENCE_S)
        fields: Dict[str, str] = {}
        for text in self._connection.lines(response):
            if text == "":
                yield fields
                fields = {}
                continue
            name, _, value = text.partition(":")
            value = value[1:] if value.startswith(" ") else value
            fields[name] = f"{fields[name]}\n{value}" if name in fields else value


def _passes(error: SluiceError) -> bool:
    """Whether waiting may help: a network that broke, a server that starts anew, too many requests."""
    if error.status in (0, 429) or error.code == "mask_pending":
        return True
    # What ends a stream is told in it, and has no status of its own.
    return error.status >= 500 and "status" in error.problem


class SluiceClient:
    """SQL over everything that may be read: NAMESPACE.PRODUCT."""

    def __init__(
        self,
        url: str,
        token: Union[str, Callable[[], str]],
        tenant: Optional[str] = None,
        timeout_s: float = 30.0,
    ) -> None:
        """
        url: of the server. token: a bearer token, or what gives one: that is asked before each request. tenant: for
        administrators of the platform alone. timeout_s: for how long the server may be silent.
        """
        self._connection = SluiceConnection(url, token, tenant, timeout_s)

    def query(
        self, sql: str, params: Optional[Sequence[Optional[Scalar]]] = None, *,
        limit: Optional[int] = None, as_of: Optional[str] = None, timeout_s: Optional[float] = None,
    ) -> QueryResult:
        """as_of: a time, the id of a snapshot, or a version as v1.2.0."""
        body = _query_body(sql, params, limit, as_of)
        result: QueryResult = self._connection.json("POST", "/api/v1/query", body, timeout_s)
        return result

    def query_rows(
        self, sql: str, params: Optional[Sequence[Optional[Scalar]]] = None, *,
        limit: Optional[int] = None, as_of: Optional[str] = None, timeout_s: Optional[float] = None,
    ) -> Iterator[Dict[str, Any]]:
        """Rows as they come, however many."""
        body = _query_body(sql, params, limit, as_of)
        headers = {"Accept": "application/x-ndjson"}
        response = self._connection.open("POST", "/api/v1/query", headers, body, timeout_s)
        for line in self._connection.lines(response):
            if line.strip() != "":
                yield json.loads(line)

    def query_parquet(
        self, sql: str, params: Optional[Sequence[Optional[Scalar]]] = None, *,
        limit: Optional[int] = None, as_of: Optional[str] = None, timeout_s: Optional[float] = None,
    ) -> bytes:
        body = _query_body(sql, params, limit, as_of)
        accept = "application/vnd.apache.parquet"
        return self._connection.content("POST", "/api/v1/query", body, accept, timeout_s)

    def query_polars(self, sql: str, params: Optional[Sequence[Optional[Scalar]]] = None, **asked: Any) -> Any:
        """A DataFrame of polars, which has to be installed."""
        import io

        import polars  # type: ignore[import-not-found,unused-ignore]

        return polars.read_parquet(io.BytesIO(self.query_parquet(sql, params, **asked)))

    def query_pandas(self, sql: str, params: Optional[Sequence[Optional[Scalar]]] = None, **asked: Any) -> Any:
        """A DataFrame of pandas, which has to be installed, with pyarrow."""
        import io

        import pandas  # type: ignore[import-untyped,import-not-found,unused-ignore]

        return pandas.read_parquet(io.BytesIO(self.query_parquet(sql, params, **asked)))


def _query_body(
    sql: str, params: Optional[Sequence[Optional[Scalar]]], limit: Optional[int], as_of: Optional[str]
) -> Dict[str, Any]:
    return {"sql": sql, "params": None if params is None else list(params), "limit": limit, "as_of": as_of}
