"""PyIceberg without a key to the object store: every request of its is signed by the catalog.

    python signed.py < settings.json
"""
import json
import sys

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog

settings = json.load(sys.stdin)
SCHEMA = pa.schema([("id", pa.int64())])


def rest(token):
    return RestCatalog("rest", uri=settings["url"] + "/iceberg", warehouse=settings["warehouse"], token=token)


catalog = rest(settings["developer"])
catalog.create_namespace_if_not_exists("sandbox")
table = catalog.create_table("sandbox.signed", schema=SCHEMA)
table.append(pa.table({"id": [1, 2, 3]}))
table.append(pa.table({"id": [4]}))
reader = rest(settings["viewer"]).load_table("sandbox.signed")
refused = {}
try:
    reader.append(pa.table({"id": [5]}))
except Exception as error:
    refused["viewer"] = str(error)
staging = catalog.create_table_transaction("sandbox.staged", schema=SCHEMA)
staging.append(pa.table({"id": [6, 7]}))
try:
    rest(settings["viewer"]).load_table("sandbox.staged")
except Exception as error:
    refused["unmade"] = type(error).__name__
staged = staging.commit_transaction()
staged.append(pa.table({"id": [8]}))
print(json.dumps({
    "staged": sorted(row["id"] for row in rest(settings["viewer"]).load_table("sandbox.staged").scan().to_arrow().to_pylist()),
    "ids": sorted(row["id"] for row in reader.scan().to_arrow().to_pylist()),
    "location": reader.metadata.location,
    "refused": refused,
}))
