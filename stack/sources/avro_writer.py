"""Reads lines of JSON, a schema, its number and a value, and writes each as a record of a topic has it, in base64."""
import base64
import datetime
import decimal
import io
import json
import struct
import sys

import fastavro


def revived(value):
    if isinstance(value, dict) and "$decimal" in value:
        return decimal.Decimal(value["$decimal"])
    if isinstance(value, dict) and "$instant" in value:
        return datetime.datetime.fromisoformat(value["$instant"])
    if isinstance(value, dict):
        return {name: revived(one) for name, one in value.items()}
    return value


for line in sys.stdin:
    given = json.loads(line)
    named = {}
    for other in given.get("references", []):
        fastavro.parse_schema(other, named)
    schema = fastavro.parse_schema(given["schema"], named)
    to = io.BytesIO()
    to.write(struct.pack(">bI", 0, given["id"]))
    fastavro.schemaless_writer(to, schema, revived(given["value"]))
    print(base64.b64encode(to.getvalue()).decode())
