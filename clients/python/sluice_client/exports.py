"""All rows of a product or a statement as a file, however many: the server writes it, and it is fetched whole."""

from __future__ import annotations

import http.client
import os
import tempfile
import time
import urllib.parse
from contextlib import contextmanager
from typing import Any, BinaryIO, Iterator, Mapping, Optional

from .connection import SluiceConnection, _no_answer
from .sql import _to_pandas
from .values import SluiceError

_EXPORTS = "/api/v1/exports"
_FIRST_POLL_S = 0.1
_LONGEST_POLL_S = 2.0
_PIECE_BYTES = 1 << 20
_PARQUET = "application/vnd.apache.parquet"


@contextmanager
def exported_file(connection: SluiceConnection, asked: Mapping[str, Any], patience_s: float) -> Iterator[str]:
    """
    The path of a parquet file, which is gone when the block ends. patience_s: until it is written. Raises SluiceError;
    timed_out, where it is not written in time.
    """
    descriptor, path = tempfile.mkstemp(suffix=".parquet", prefix="sluice-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            _fetch(connection, asked, patience_s, file)
        yield path
    finally:
        os.unlink(path)


def _fetch(connection: SluiceConnection, asked: Mapping[str, Any], patience_s: float, file: BinaryIO) -> None:
    try:
        export = connection.json("POST", _EXPORTS, {**asked, "format": "parquet"}, None)
    except SluiceError as error:
        if error.code != "key_not_allowed":
            raise
        # Keys of applications make no exports. A query gives the same rows, as many as the server lets a query give.
        _query(connection, asked, file)
        return
    one = f"{_EXPORTS}/{urllib.parse.quote(export['id'], safe='')}"
    try:
        export = _ended(connection, one, export, patience_s)
        _download(connection, export, file)
    finally:
        _remove(connection, one)


def _ended(connection: SluiceConnection, one: str, export: Any, patience_s: float) -> Any:
    give_up_at = time.monotonic() + patience_s
    poll_s = _FIRST_POLL_S
    while export["state"] in ("queued", "running"):
        if time.monotonic() > give_up_at:
            raise SluiceError(0, {"code": "timed_out", "detail": f"the export was not written in {patience_s:g} s"})
        time.sleep(poll_s)
        poll_s = min(poll_s * 1.5, _LONGEST_POLL_S)
        export = connection.json("GET", one, None, None)
    if export["error"] is not None:
        error = export["error"]
        problem = {"code": error["code"], "detail": error["message"], "remedy": error["remedy"]}
        raise SluiceError(422, problem)
    if export["link"] is None:
        raise SluiceError(403, {"code": "export_not_permitted", "detail": "the rows may not be shown to you any more"})
    return export


def _download(connection: SluiceConnection, export: Any, file: BinaryIO) -> None:
    with connection.open("GET", export["link"]["path"], {"Accept": _PARQUET}, None, None) as response:
        got = _copy(response, file)
    if got != export["bytes"]:
        raise SluiceError(0, {"code": "unreachable", "detail": f"the file broke off after {got} bytes of {export['bytes']}"})


def _query(connection: SluiceConnection, asked: Mapping[str, Any], file: BinaryIO) -> None:
    body = {"sql": asked["sql"] if "sql" in asked else _select(asked), "params": asked.get("params")}
    with connection.open("POST", "/api/v1/query", {"Accept": _PARQUET}, body, None) as response:
        _copy(response, file)


def _select(asked: Mapping[str, Any]) -> str:
    columns = asked.get("columns")
    names = "*" if columns is None else ", ".join(quoted_name(name) for name in columns)
    return f"SELECT {names} FROM {'.'.join(quoted_name(part) for part in asked['product'].split('.', 1))}"


def _copy(response: Any, file: BinaryIO) -> int:
    got = 0
    while True:
        try:
            piece = response.read(_PIECE_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise _no_answer(error) from error
        if not piece:
            return got
        got += len(piece)
        file.write(piece)


def _remove(connection: SluiceConnection, one: str) -> None:
    """What stays is removed by the server, in its time."""
    try:
        with connection.open("DELETE", one, {"Accept": "application/json"}, None, None):
            pass
    except SluiceError:
        pass


def quoted_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def to_arrow(connection: SluiceConnection, asked: Mapping[str, Any], patience_s: float) -> Any:
    from pyarrow import parquet  # type: ignore[import-untyped,import-not-found,unused-ignore]

    with exported_file(connection, asked, patience_s) as path:
        # Read, and not mapped: the file is gone after it.
        return parquet.read_table(path, memory_map=False)


def to_polars(connection: SluiceConnection, asked: Mapping[str, Any], patience_s: float) -> Any:
    import polars  # type: ignore[import-not-found,unused-ignore]

    with exported_file(connection, asked, patience_s) as path:
        return polars.read_parquet(path, memory_map=False)


def to_pandas(connection: SluiceConnection, asked: Mapping[str, Any], patience_s: float) -> Any:
    from pyarrow import parquet  # type: ignore[import-untyped,import-not-found,unused-ignore]

    with exported_file(connection, asked, patience_s) as path:
        return _to_pandas(parquet.read_table(path, memory_map=False))


def without_none(**asked: Optional[Any]) -> Mapping[str, Any]:
    return {name: value for name, value in asked.items() if value is not None}
