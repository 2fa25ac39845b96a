"""Reads Iceberg tables with PyIceberg and with DuckDB's extension, and prints the cells as stack/readers/cells.ts has them.

The jobs come as JSON on standard input, one answer a line goes to standard output, in order:
  {"reader": "static" | "sql" | "rest" | "duckdb" | "duckdb-rest", "table", "metadata", "snapshot": "1", "columns": [{"name", "type"}]}
    -> {"rows": [[cell, ...], ...]}
  the same with "questions": [{"column", "type", "operator", "values", "sql"}] -> {"answers": [[key, ...], ...]}
A failing job answers {"error": text}.
"""
import json
import struct
import sys
import uuid
from datetime import date, datetime, timezone
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlparse

import duckdb
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import (
    EqualTo, GreaterThanOrEqual, In, IsNull, LessThan, NotNull, StartsWith,
)
from pyiceberg.table import StaticTable

COMPARISONS = {"eq": EqualTo, "lt": LessThan, "ge": GreaterThanOrEqual, "starts_with": StartsWith}


def cell(value, kind):
    if value is None:
        return None
    if kind == "boolean":
        return "true" if value else "false"
    if kind in ("float", "double"):
        return "nan" if value != value else struct.pack(">f" if kind == "float" else ">d", value).hex()
    if kind == "decimal":
        return format(value, "f")
    if kind == "timestamp":
        return value.isoformat(timespec="microseconds")
    if kind == "timestamptz":
        return value.astimezone(timezone.utc).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    if kind == "uuid":
        return str(uuid.UUID(bytes=value) if isinstance(value, bytes) else value)
    if kind == "binary":
        return value.hex()
    return value.isoformat() if kind == "date" else str(value)


def literal(text, kind):
    if kind == "boolean":
        return text == "true"
    if kind in ("integer", "long"):
        return int(text)
    if kind in ("float", "double"):
        return struct.unpack(">f" if len(text) == 8 else ">d", bytes.fromhex(text))[0]
    if kind == "timestamp":
        return datetime.fromisoformat(text)
    if kind == "timestamptz":
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    parse = {"decimal": Decimal, "date": date.fromisoformat, "uuid": uuid.UUID, "binary": bytes.fromhex}
    return parse.get(kind, str)(text)


def kind_of(column):
    return column["type"].split("(")[0]


def rows_of(arrow, columns):
    names = [column["name"] for column in columns]
    if arrow.column_names != names:
        raise ValueError(f"columns are {arrow.column_names}, not {names}")
    values = [arrow.column(name).to_pylist() for name in names]
    kinds = [kind_of(column) for column in columns]
    return [[cell(value, kind) for value, kind in zip(row, kinds)] for row in zip(*values)]


def expression(question):
    column, kind = question["column"], question["type"].split("(")[0]
    values = [literal(value, kind) for value in question["values"]]
    if question["operator"] == "is_null":
        return IsNull(column)
    if question["operator"] == "not_null":
        return NotNull(column)
    if question["operator"] == "in":
        return In(column, values)
    return COMPARISONS[question["operator"]](column, values[0])


class PyIceberg:
    def __init__(self, settings):
        self.settings, self.catalogs = settings, {}

    def table(self, job):
        if job["reader"] == "static":
            return StaticTable.from_metadata(job["metadata"])
        if job["reader"] not in self.catalogs:
            self.catalogs[job["reader"]] = load_catalog(**self.settings[job["reader"]])
        return self.catalogs[job["reader"]].load_table(tuple(job["table"]))

    def rows(self, job):
        scan = self.table(job).scan(snapshot_id=int(job["snapshot"]))
        return rows_of(scan.to_arrow(), job["columns"])

    def answers(self, job):
        table = self.table(job)
        for question in job["questions"]:
            scan = table.scan(row_filter=expression(question), selected_fields=(job["key"],))
            yield scan.to_arrow().column(job["key"]).to_pylist()


class DuckDb:
    def __init__(self, rest):
        self.rest, self.attached = rest, False
        self.connection = duckdb.connect()
        for name in ("httpfs", "avro", "iceberg"):
            [extension] = Path(find_spec(f"duckdb_extension_{name}").origin).parent.rglob("*.duckdb_extension")
            self.connection.execute(f"LOAD '{extension}'")
        self.connection.execute("SET TimeZone = 'UTC'")

    def attach(self):
        if not self.attached:
            rest, self.attached = self.rest, True
            self.connection.execute(f"CREATE SECRET s (TYPE iceberg, TOKEN '{rest['token']}')")
            self.connection.execute(
                f"ATTACH '{rest['warehouse']}' AS lake (TYPE iceberg, ENDPOINT '{rest['uri']}', SECRET s)")

    def source(self, job, at_snapshot):
        snapshot = int(job["snapshot"]) if at_snapshot else None
        if job["reader"] == "duckdb-rest":
            self.attach()
            domain, table = job["table"]
            return f'lake.{domain}."{table}"' + (f" AT (VERSION => {snapshot})" if at_snapshot else "")
        place = unquote(urlparse(job["metadata"]).path)
        at = f", snapshot_from_id => {snapshot}" if at_snapshot else ""
        return f"iceberg_scan('{place}'{at})"

    def rows(self, job):
        arrow = self.connection.sql(f"SELECT * FROM {self.source(job, True)}").to_arrow_table()
        return rows_of(arrow, job["columns"])

    def answers(self, job):
        for question in job["questions"]:
            sql = f"SELECT {job['key']} FROM {self.source(job, False)} WHERE {question['sql']}"
            yield [key for (key,) in self.connection.sql(sql).fetchall()]


def main():
    work = json.load(sys.stdin)
    pyiceberg, duck = PyIceberg(work["catalogs"]), DuckDb(work["catalogs"]["rest"])
    for job in work["jobs"]:
        reader = duck if job["reader"].startswith("duckdb") else pyiceberg
        try:
            if "questions" in job:
                answer = {"answers": [sorted(keys) for keys in reader.answers(job)]}
            else:
                answer = {"rows": reader.rows(job)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:2000]}
        print(json.dumps(answer), flush=True)


main()
