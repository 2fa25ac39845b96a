from __future__ import annotations

import json
import time
import urllib.parse
from typing import Any, Dict, Generic, Iterator, Literal, Optional

from .values import SluiceError, _Row, _Whole
from .connection import SluiceConnection, _product_path


ChangeKind = Literal["upsert", "delete", "epoch", "reset"]
_KINDS: Dict[str, ChangeKind] = {"upsert": "upsert", "delete": "delete", "epoch": "epoch", "reset": "reset"}


class Change(Generic[_Row, _Whole]):
    """
    upsert has row, delete has key. epoch: what came since the last one is whole. reset, with its reason: all rows are to
    be forgotten, as they follow anew. id is where the stream goes on after it.
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
        renewed_at = float("-inf")
        whole_epoch: Optional[int] = None
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
                    if kind is None:
                        continue
                    change: Change[_Row, _Whole] = Change(kind, last_id or "", data)
                    # Whoever comes back is told first where he is.
                    if kind == "epoch" and change.epoch == whole_epoch:
                        continue
                    whole_epoch = change.epoch
                    yield change
            except SluiceError as error:
                is_over = error.code == "right_ended" and self._connection.has_fresh_tokens
                # A new token that is over as soon as it is used says that more has ended than the old one.
                if is_over and time.monotonic() - renewed_at > _SILENCE_S:
                    renewed_at = time.monotonic()
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
