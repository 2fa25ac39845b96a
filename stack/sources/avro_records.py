"""Random schemas of Avro, other versions of them, and records: what fastavro writes, and what it reads of it by the other version."""
import io
import json
import random
import sys

import fastavro
from fastavro.schema import parse_schema

RANDOM = random.Random(int(sys.argv[1]))
COUNT = int(sys.argv[2])
WIDER = {
    "int": ["long", "float", "double"],
    "long": ["double"],
    "float": ["double"],
    "string": ["bytes"],
}
SIMPLE = ["boolean", "int", "long", "float", "double", "bytes", "string"]
LOGICAL = [
    ("int", "date"),
    ("int", "time-millis"),
    ("long", "time-micros"),
    ("long", "timestamp-millis"),
    ("long", "timestamp-micros"),
    ("long", "local-timestamp-millis"),
    ("string", "uuid"),
    ("bytes", "decimal"),
]
names = 0


def named(kind):
    global names
    names += 1
    return f"{kind}{names}"


def any_type(depth):
    pick = RANDOM.random()
    if depth > 2 or pick < 0.45:
        return RANDOM.choice(SIMPLE)
    if pick < 0.6:
        base, logical = RANDOM.choice(LOGICAL)
        more = {"precision": 12, "scale": 3} if logical == "decimal" else {}
        return {"type": base, "logicalType": logical, **more}
    if pick < 0.68:
        return {"type": "enum", "name": named("E"), "symbols": ["A", "B", "C"]}
    if pick < 0.73:
        return {"type": "fixed", "name": named("F"), "size": RANDOM.randint(1, 9)}
    if pick < 0.8:
        return {"type": "array", "items": any_type(depth + 1)}
    if pick < 0.86:
        return {"type": "map", "values": any_type(depth + 1)}
    if pick < 0.94:
        return ["null", any_type(3)]
    return a_record(depth + 1)


def a_record(depth):
    fields = [{"name": f"f{at}", "type": any_type(depth)} for at in range(RANDOM.randint(1, 5))]
    return {"type": "record", "name": named("R"), "fields": fields}


def a_value(schema):
    kind = schema if isinstance(schema, str) else "union" if isinstance(schema, list) else schema["type"]
    logical = schema.get("logicalType") if isinstance(schema, dict) else None
    if kind == "union":
        return None if RANDOM.random() < 0.4 else a_value(schema[1])
    if kind == "record":
        return {field["name"]: a_value(field["type"]) for field in schema["fields"]}
    if kind == "array":
        return [a_value(schema["items"]) for _ in range(RANDOM.randint(0, 3))]
    if kind == "map":
        return {f"k{at}": a_value(schema["values"]) for at in range(RANDOM.randint(0, 3))}
    if kind == "enum":
        return RANDOM.choice(schema["symbols"])
    if kind == "fixed":
        return RANDOM.randbytes(schema["size"])
    if logical == "date":
        return RANDOM.randint(-30000, 60000)
    if logical == "time-millis":
        return RANDOM.randrange(86_400_000)
    if logical == "time-micros":
        return RANDOM.randrange(86_400_000_000)
    if logical in ("timestamp-millis", "local-timestamp-millis"):
        return RANDOM.randint(-2_000_000_000_000, 4_000_000_000_000)
    if logical == "timestamp-micros":
        return RANDOM.randint(-2_000_000_000_000_000, 4_000_000_000_000_000)
    if logical == "uuid":
        return f"{RANDOM.getrandbits(128):032x}"[:8] + "-0000-4000-8000-" + f"{RANDOM.getrandbits(48):012x}"
    if logical == "decimal":
        return RANDOM.randint(-(10**12) + 1, 10**12 - 1).to_bytes(6, "big", signed=True)
    if kind == "boolean":
        return RANDOM.random() < 0.5
    if kind == "int":
        return RANDOM.choice([0, -1, 2**31 - 1, -(2**31), RANDOM.randint(-99999, 99999)])
    if kind == "long":
        return RANDOM.choice([0, 2**63 - 1, -(2**63), 2**53 + 1, RANDOM.randint(-(2**40), 2**40)])
    if kind in ("float", "double"):
        return RANDOM.choice([0.0, -0.5, 1.25, 3e10, float(RANDOM.randint(-99999, 99999)) / 8])
    if kind == "bytes":
        return RANDOM.randbytes(RANDOM.randint(0, 6))
    return RANDOM.choice(["", "ä", 'a"b', "x\n,y", "word"])


def base_of(schema):
    """Values are those that are written: what they stand for is the reader's to say."""
    if isinstance(schema, list):
        return [base_of(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {name: part for name, part in schema.items() if name not in ("logicalType", "precision", "scale")}
    for part in ("items", "values"):
        if part in plain:
            plain[part] = base_of(plain[part])
    if "fields" in plain:
        plain["fields"] = [{**field, "type": base_of(field["type"])} for field in plain["fields"]]
    return plain


def other(schema):
    """As somebody might have changed it: mostly so that the old can be read."""
    if isinstance(schema, str):
        return RANDOM.choice(WIDER.get(schema, [schema])) if RANDOM.random() < 0.4 else schema
    if isinstance(schema, list):
        return [schema[0], other(schema[1])]
    kind = schema["type"]
    if kind == "array":
        return {**schema, "items": other(schema["items"])}
    if kind == "map":
        return {**schema, "values": other(schema["values"])}
    if kind == "enum" and RANDOM.random() < 0.4:
        return {**schema, "symbols": ["C", "A"], "default": "A"}
    if kind != "record":
        return schema
    fields = [{**field, "type": other(field["type"])} for field in schema["fields"] if RANDOM.random() < 0.8]
    for field in fields:
        if RANDOM.random() < 0.25:
            field["aliases"] = [field["name"]]
            field["name"] = "renamed_" + field["name"]
        elif RANDOM.random() < 0.2 and not isinstance(field["type"], list):
            field["type"] = ["null", field["type"]]
    if RANDOM.random() < 0.5:
        fields.append(RANDOM.choice([
            {"name": "added", "type": "long", "default": 2**62 + 1},
            {"name": "added", "type": ["null", "string"], "default": None},
            {"name": "added", "type": {"type": "array", "items": "int"}, "default": [1, -2]},
            {"name": "added", "type": "string"},
        ]))
    RANDOM.shuffle(fields)
    return {**schema, "fields": fields}


def told(value):
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, dict):
        return {"map": [[name, told(one)] for name, one in value.items()]}
    if isinstance(value, (list, tuple)):
        return {"list": [told(one) for one in value]}
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return {"whole": str(value)}
    if isinstance(value, float):
        return {"double": value}
    return {"text": str(value)}


for _ in range(COUNT):
    names = 0
    writer = a_record(0)
    reader = other(writer)
    value = a_value(writer)
    plain = base_of(writer)
    to = io.BytesIO()
    fastavro.schemaless_writer(to, parse_schema(json.loads(json.dumps(plain))), value)
    written = to.getvalue()
    try:
        seen = fastavro.schemaless_reader(
            io.BytesIO(written),
            parse_schema(json.loads(json.dumps(plain))),
            parse_schema(json.loads(json.dumps(base_of(reader)))),
        )
        read = told(seen)
    except Exception as error:
        read = {"error": type(error).__name__}
    print(json.dumps({"writer": plain, "reader": base_of(reader), "typed": writer, "bytes": written.hex(), "read": read}))
