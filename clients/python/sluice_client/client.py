"""The way to a server."""

from __future__ import annotations

import ssl
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from .exports import to_arrow, to_pandas, to_polars, without_none
from .products import Product
from .retries import RetryingConnection
from .sql import SluiceClient
from .values import Scalar


class Client(SluiceClient):
    """
    Client(url, token).product("namespace.product"); query, query_rows, query_parquet: SQL over everything that may be read.

    url: of the server. token: a bearer token, or what gives one: that is asked before each request. tenant: for
    administrators of the platform alone. timeout_s: for how long the server may be silent. attempts: how often a request is
    sent that can be repeated. ssl_context: default that of Python, which verifies the server.
    """

    def __init__(
        self,
        url: str,
        token: Union[str, Callable[[], str]],
        *,
        tenant: Optional[str] = None,
        timeout_s: float = 30.0,
        attempts: int = 3,
        ssl_context: Optional[ssl.SSLContext] = None,
    ) -> None:
        super().__init__(url, token, tenant, timeout_s)
        self._connection: RetryingConnection = RetryingConnection(
            url, token, tenant, timeout_s, attempts, ssl_context
        )

    def product(self, name: str) -> Product:
        """namespace.product. Nothing is asked yet."""
        return Product(self, self._connection, name)

    def to_arrow(
        self, sql: str, params: Optional[Sequence[Optional[Scalar]]] = None, *, patience_s: float = 3600.0
    ) -> Any:
        """All rows of a SELECT as a table of pyarrow, by an export of the server. patience_s: until that is written."""
        return to_arrow(self._connection, _asked(sql, params), patience_s)

    def to_polars(
        self, sql: str, params: Optional[Sequence[Optional[Scalar]]] = None, *, patience_s: float = 3600.0
    ) -> Any:
        """The like as a DataFrame of polars."""
        return to_polars(self._connection, _asked(sql, params), patience_s)

    def to_pandas(
        self, sql: str, params: Optional[Sequence[Optional[Scalar]]] = None, *, patience_s: float = 3600.0
    ) -> Any:
        """The like as a DataFrame of pandas."""
        return to_pandas(self._connection, _asked(sql, params), patience_s)


def _asked(sql: str, params: Optional[Sequence[Optional[Scalar]]]) -> Mapping[str, Any]:
    return without_none(sql=sql, params=None if params is None else list(params))
