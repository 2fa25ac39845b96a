from __future__ import annotations

import urllib.parse
from typing import TYPE_CHECKING, Any, Callable, Dict, Generic, Iterator, List, Mapping, Optional, Sequence, Union, overload

from .values import Order, Page, SluiceError, _Column, _Filter, _Key, _Part, _Row
from .connection import SluiceConnection, _product_path

if TYPE_CHECKING:
    from .sql import SluiceClient


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    # Their texts are those of other values.
    if value is None or isinstance(value, (bytes, bytearray, Mapping, list, tuple, set, frozenset)):
        raise ValueError("a filter takes a value, and a list by the operator in")
    return str(value)


def _filter_texts(filters: Mapping[str, Any]) -> Iterator[str]:
    for column, condition in filters.items():
        if not isinstance(condition, Mapping):
            yield f"{column}:{_text(condition)}"
            continue
        for operator, value in condition.items():
            yield f"{column}.{operator}:{_list_text(value) if operator == 'in' else _text(value)}"


def _list_text(values: Any) -> str:
    if not isinstance(values, (list, tuple, set, frozenset)) or len(values) == 0:
        raise ValueError("the operator in takes a list of values, of one at least")
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
        """All rows that the filter leaves, page by page, each as the product then is: page says of which epoch it is."""

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
        """All rows of the range, page by page, each as the product then is. order: asc (default) or desc by time, or columns."""

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
