"""One product, whose columns are known when it is read and not before."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Literal, Mapping, Optional, Sequence, Union

from .changes import Change, Changes
from .connection import SluiceConnection
from .exports import quoted_name, to_arrow, to_pandas, to_polars, without_none
from .reads import Lookup, Realtime, Timeseries
from .sql import SluiceClient
from .values import Order, Page, Scalar

Row = Dict[str, Any]
"""Values by the names of their columns, as the server tells them: decimals, and long numbers beyond 2^53, are strings."""
Filter = Mapping[str, Union[Scalar, Mapping[str, Any]]]
"""Columns with the value that they equal, or with operators: {"city": "Lyons", "age": {"ge": 18}}."""
Key = Union[Scalar, Mapping[str, Scalar]]
"""The value of the identity column, or values by column where there are more."""


class Product:
    """Made by Client.product."""

    def __init__(self, client: SluiceClient, connection: SluiceConnection, name: str) -> None:
        namespace, dot, own = name.partition(".")
        if dot == "" or namespace == "" or own == "":
            raise ValueError("a product is named namespace.product")
        self.name = name
        self._client = client
        self._connection = connection
        self._table = f"{quoted_name(namespace)}.{quoted_name(own)}"
        self._lookup: Lookup[Row, Row, Key, str, Filter] = Lookup(connection, name)
        self._realtime: Realtime[Row, Row, Key, str] = Realtime(connection, name)
        self._timeseries: Timeseries[Row, Row, str, Filter] = Timeseries(connection, name)
        self._changes: Changes[Row, Row] = Changes(connection, name)

    def get(
        self, key: Key, columns: Optional[Sequence[str]] = None, *,
        store: Literal["lookup", "realtime"] = "lookup", timeout_s: Optional[float] = None,
    ) -> Optional[Row]:
        """The row of that key; None where there is none."""
        return self.get_many([key], columns, store=store, timeout_s=timeout_s)[0]

    def get_many(
        self, keys: Sequence[Key], columns: Optional[Sequence[str]] = None, *,
        store: Literal["lookup", "realtime"] = "lookup", timeout_s: Optional[float] = None,
    ) -> List[Optional[Row]]:
        """In the order of the keys, at most 1,000; None where there is no such row. All are of one epoch."""
        keyed = self._lookup if store == "lookup" else self._realtime
        if columns is None:
            return keyed.get_many(keys, timeout_s=timeout_s)
        return keyed.get_many(keys, columns, timeout_s=timeout_s)

    def read(
        self, filters: Optional[Filter] = None, *, columns: Optional[Sequence[str]] = None,
        order: Optional[Order] = None, at: Optional[str] = None, history: Optional[bool] = None,
        page_size: int = 500, timeout_s: Optional[float] = None,
    ) -> Iterator[Row]:
        """
        All rows that the filter leaves, by the lookup endpoint, page by page, each page as the product then is: scan is of one
        epoch. Filters are of indexed columns. at, history: where states of the past are kept.
        """
        if columns is None:
            return self._lookup.find(
                filters, order=order, at=at, history=history, page_size=page_size, timeout_s=timeout_s
            )
        return self._lookup.find(
            filters, columns=columns, order=order, at=at, history=history, page_size=page_size, timeout_s=timeout_s
        )

    def page(
        self, filters: Optional[Filter] = None, *, columns: Optional[Sequence[str]] = None,
        order: Optional[Order] = None, page_size: int = 500, cursor: Optional[str] = None,
        timeout_s: Optional[float] = None,
    ) -> Page[Row]:
        """One page of read, with what it is of in meta."""
        return self._lookup.page(
            filters, columns=columns, order=order, page_size=page_size, cursor=cursor, timeout_s=timeout_s
        )

    def range(
        self, since: Optional[str] = None, to: Optional[str] = None, *, filters: Optional[Filter] = None,
        columns: Optional[Sequence[str]] = None, order: Union[None, str, Order] = None, page_size: int = 500,
        timeout_s: Optional[float] = None,
    ) -> Iterator[Row]:
        """Rows of a time range, by the timeseries endpoint. since: inclusive. to: a date, inclusive, or a time, exclusive."""
        if columns is None:
            return self._timeseries.range(
                since, to, filters=filters, order=order, page_size=page_size, timeout_s=timeout_s
            )
        return self._timeseries.range(
            since, to, filters=filters, columns=columns, order=order, page_size=page_size, timeout_s=timeout_s
        )

    def aggregates(
        self, interval: str, since: Optional[str] = None, to: Optional[str] = None, *,
        filters: Optional[Filter] = None, page_size: int = 500, timeout_s: Optional[float] = None,
    ) -> Iterator[Row]:
        """What is kept of each interval: bucket, and of its columns count, sum, avg, min and max."""
        return self._timeseries.aggregates(
            interval, since, to, filters=filters, page_size=page_size, timeout_s=timeout_s
        )

    def scan(self, columns: Optional[Sequence[str]] = None, *, timeout_s: Optional[float] = None) -> Iterator[Row]:
        """All rows as they come, in no order, by a query."""
        names = "*" if columns is None else ", ".join(quoted_name(name) for name in columns)
        return self._client.query_rows(f"SELECT {names} FROM {self._table}", timeout_s=timeout_s)

    def changes(self, since: Optional[str] = None, *, patience_s: float = 300.0) -> Iterator[Change[Row, Row]]:
        """
        Changed rows as they come, without an end. since: now (default): what comes; start: all rows there are, then what
        comes; or the id of the last change that was applied. Comes back by itself where the connection breaks, so that none
        is lost and none comes twice; after a change of the kind reset all rows are to be forgotten, as they follow anew.
        patience_s: for how long it tries to come back.
        """
        return self._changes.follow(since, patience_s)

    def to_arrow(self, columns: Optional[Sequence[str]] = None, *, patience_s: float = 3600.0) -> Any:
        """All rows as a table of pyarrow, by an export of the server. patience_s: until that is written."""
        return to_arrow(self._connection, self._asked(columns), patience_s)

    def to_polars(self, columns: Optional[Sequence[str]] = None, *, patience_s: float = 3600.0) -> Any:
        """The like as a DataFrame of polars."""
        return to_polars(self._connection, self._asked(columns), patience_s)

    def to_pandas(self, columns: Optional[Sequence[str]] = None, *, patience_s: float = 3600.0) -> Any:
        """The like as a DataFrame of pandas."""
        return to_pandas(self._connection, self._asked(columns), patience_s)

    def _asked(self, columns: Optional[Sequence[str]]) -> Mapping[str, Any]:
        return without_none(product=self.name, columns=None if columns is None else list(columns))
