"""Reads the orders out of the lake with PyIceberg: what any program can do that has a token.

    python live-iceberg.py < requests

The first line of standard input is {"uri", "warehouse", "table"}, each further one a request: {"epoch", "token"}. The table is
read as it was at that epoch of the product, which its snapshot names. With "columns" all rows come, as texts; without, how many
there are, the sum of their amounts and the newest change. One line of JSON answers each.
"""
import json
import sys

import pyarrow.compute as pc
from pyiceberg.catalog.rest import RestCatalog


def text(value):
    if value is None:
        return None
    if hasattr(value, "astimezone"):
        return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return str(value)


def read(settings, request):
    catalog = RestCatalog(
        "lake", uri=settings["uri"], warehouse=settings["warehouse"], token=request["token"])
    table = catalog.load_table(settings["table"])
    wanted = str(request["epoch"])
    of_epoch = [one for one in table.metadata.snapshots if one.summary and one.summary["sluice.epoch"] == wanted]
    if not of_epoch:
        return {"gone": True}
    rows = table.scan(snapshot_id=of_epoch[-1].snapshot_id).to_arrow()
    if "columns" in request:
        return {"rows": [[text(row[name]) for name in request["columns"]] for row in rows.to_pylist()]}
    return {
        "count": rows.num_rows,
        "amount": text(pc.sum(rows["amount"]).as_py()),
        "change_no": pc.max(rows["change_no"]).as_py(),
    }


settings = json.loads(sys.stdin.readline())
for line in sys.stdin:
    try:
        answer = read(settings, json.loads(line))
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"[:300]}
    print(json.dumps(answer), flush=True)
