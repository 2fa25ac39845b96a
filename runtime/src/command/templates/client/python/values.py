from __future__ import annotations

from typing import Any, Dict, Generic, List, Literal, Mapping, Optional, Sequence, Tuple, TypedDict, TypeVar, Union


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
