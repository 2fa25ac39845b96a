from __future__ import annotations

import json
from typing import Any, Callable, Dict, Iterator, Optional, Sequence, Union

from .values import QueryResult, Scalar
from .connection import SluiceConnection


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
        """A DataFrame of pandas, which has to be installed, with pyarrow. Whole numbers beside a null are Int64, and exact."""
        import io

        from pyarrow import parquet  # type: ignore[import-untyped,import-not-found,unused-ignore]

        return _to_pandas(parquet.read_table(io.BytesIO(self.query_parquet(sql, params, **asked))))


def _to_pandas(table: Any) -> Any:
    """
    A DataFrame of pandas. By itself it makes doubles of whole numbers that stand beside a null, in a column or in a list, and
    loses their digits beyond 2^53: those columns are of pandas' own integers, and lists and records of Python's.
    """
    import pandas  # type: ignore[import-untyped,import-not-found,unused-ignore]
    from pyarrow import types  # type: ignore[import-untyped,import-not-found,unused-ignore]

    frame = table.to_pandas()
    for at, column in enumerate(table.columns):
        if types.is_integer(column.type) and column.null_count > 0:
            name = str(column.type).replace("uint", "UInt").replace("int", "Int")
            frame.isetitem(at, pandas.api.types.pandas_dtype(name).__from_arrow__(column))
        elif types.is_nested(column.type) and _has_whole_numbers(column.type):
            frame.isetitem(at, pandas.Series(column.to_pylist(), index=frame.index, dtype="object"))
    return frame


def _has_whole_numbers(kind: Any) -> bool:
    from pyarrow import types

    return any(
        types.is_integer(part) or _has_whole_numbers(part)
        for part in (kind.field(at).type for at in range(kind.num_fields))
    )


def _query_body(
    sql: str, params: Optional[Sequence[Optional[Scalar]]], limit: Optional[int], as_of: Optional[str]
) -> Dict[str, Any]:
    return {"sql": sql, "params": None if params is None else list(params), "limit": limit, "as_of": as_of}
