"""Other people's clients of the catalog: PyIceberg over REST and over SQL, and DuckDB's iceberg extension.

    python clients.py COMMAND < settings.json

One JSON document goes to standard output. A refusal is part of the answer: {"refused": {name: [exception, message]}}.
"""
import glob
import json
import os
import sys
import threading

import duckdb
import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import EqualTo
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, StringType

settings = json.load(sys.stdin)


def rest():
    return RestCatalog(
        "rest", uri=settings["url"] + "/iceberg", warehouse=settings["warehouse"], token=settings["token"],
        **{f"header.{name}": value for name, value in settings.get("headers", {}).items()},
    )


def rows(table, **scan):
    found = table.scan(**scan).to_arrow().to_pylist()
    return sorted(found, key=lambda row: json.dumps(row, default=str))


def refusals(attempts):
    refused = {}
    for name, attempt in attempts.items():
        try:
            attempt()
            refused[name] = None
        except Exception as error:
            refused[name] = [type(error).__name__, str(error)]
    return refused


def read():
    catalog = rest()
    tables = [identifier for namespace in catalog.list_namespaces() for identifier in catalog.list_tables(namespace)]
    return {
        ".".join(identifier): {
            "rows": rows(catalog.load_table(identifier)),
            "comments": {field.name: field.doc for field in catalog.load_table(identifier).schema().fields},
            "snapshots": [
                rows(catalog.load_table(identifier), snapshot_id=snapshot.snapshot_id)
                for snapshot in catalog.load_table(identifier).metadata.snapshots
            ],
        }
        for identifier in tables
    }


PEOPLE = pa.schema([("id", pa.int64()), ("name", pa.string())])


def people(*ids):
    return pa.table({"id": list(ids), "name": [f"n{id}" for id in ids]}, schema=PEOPLE)


def write():
    catalog = rest()
    catalog.create_namespace_if_not_exists("sandbox")
    table = catalog.create_table("sandbox.people", schema=PEOPLE, properties={"owner": "tests"})
    table.append(people(1, 2, 3))
    table.append(people(4))
    first = table.current_snapshot().snapshot_id
    table.delete(EqualTo("id", 2))
    with table.update_schema() as change:
        change.add_column("score", LongType())
        change.rename_column("name", "title")
    with table.update_spec() as change:
        change.add_field("title", IdentityTransform(), "by_title")
    table.append(pa.table({"id": [5], "title": ["n5"], "score": [50]}))
    table.overwrite(pa.table({"id": [1], "title": ["one"], "score": [10]}), overwrite_filter=EqualTo("id", 1))
    with table.transaction() as change:
        change.set_properties(color="blue")
        change.remove_properties("owner")
    table.manage_snapshots().create_tag(first, "before").commit()
    staged = catalog.create_table_transaction("sandbox.staged", schema=PEOPLE)
    staged.append(people(7, 8))
    staged.commit_transaction()
    catalog.rename_table("sandbox.staged", "sandbox.moved")
    catalog.create_table("sandbox.staged", schema=PEOPLE).append(people(9))
    catalog.create_table("sandbox.gone", schema=PEOPLE).append(people(1))
    catalog.drop_table("sandbox.gone")
    table = catalog.load_table("sandbox.people")
    return {
        "now": rows(table),
        "before": rows(table, snapshot_id=table.snapshot_by_name("before").snapshot_id),
        "properties": {name: value for name, value in table.properties.items() if name in ("owner", "color")},
        "tables": sorted(".".join(name) for name in catalog.list_tables("sandbox")),
        "moved": rows(catalog.load_table("sandbox.moved")),
        "staged": rows(catalog.load_table("sandbox.staged")),
        "location": table.metadata.location,
    }


def refused():
    catalog = rest()
    product = catalog.load_table("crm.people")
    return refusals({
        "commit": lambda: product.append(product.scan().to_arrow()),
        "properties": lambda: product.transaction().set_properties(a="b").commit_transaction(),
        "drop": lambda: catalog.drop_table("crm.people"),
        "rename": lambda: catalog.rename_table("crm.people", "sandbox.mine"),
        "create": lambda: catalog.create_table("crm.mine", schema=PEOPLE),
        "namespace": lambda: catalog.create_namespace("mine"),
        "sandbox": lambda: catalog.create_table("sandbox.mine", schema=PEOPLE),
        "nested": lambda: catalog.create_table("sandbox.nested", schema=pa.schema([("a", pa.list_(pa.string()))])),
        "location": lambda: catalog.create_table("sandbox.mine", schema=PEOPLE, location="file:///etc"),
        "missing": lambda: catalog.load_table("crm.missing"),
        "credential": lambda: RestCatalog(
            "rest", uri=settings["url"] + "/iceberg", warehouse=settings["warehouse"], credential="id:secret"),
        "warehouse": lambda: RestCatalog(
            "rest", uri=settings["url"] + "/iceberg", warehouse="another", token=settings["token"]),
    })


def race():
    """Writers that know nothing of each other append to one table; who loses a race computes anew."""
    writers, commits = settings["writers"], settings["commits"]
    rest().create_table("sandbox.race", schema=PEOPLE)
    failures, lost = [], [0]

    def work(writer):
        try:
            catalog = rest()
            for commit in range(commits):
                while True:
                    try:
                        catalog.load_table("sandbox.race").append(people(writer * 1000 + commit))
                        break
                    except CommitFailedException:
                        lost[0] += 1
        except Exception as error:
            failures.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=work, args=(writer,)) for writer in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    table = rest().load_table("sandbox.race")
    return {
        "failures": failures, "lost": lost[0], "snapshots": len(table.metadata.snapshots),
        "ids": sorted(row["id"] for row in rows(table)),
    }


def attached():
    connection = duckdb.connect()
    packages = os.path.dirname(os.path.dirname(duckdb.__file__))
    for name in ("httpfs", "avro", "iceberg"):
        [file] = glob.glob(f"{packages}/duckdb_extension_{name}/**/*.duckdb_extension", recursive=True)
        connection.execute(f"LOAD '{file}'")
    connection.execute(f"CREATE SECRET s (TYPE iceberg, TOKEN '{settings['token']}')")
    connection.execute(
        f"ATTACH '{settings['warehouse']}' AS lake (TYPE iceberg, ENDPOINT '{settings['url']}/iceberg', SECRET s)")
    return connection


def duck_read():
    connection = attached()
    return connection.sql("SELECT id, email, city FROM lake.crm.people ORDER BY id").fetchall()


def duck_write():
    connection = attached()
    connection.execute("CREATE TABLE lake.sandbox.duck (id BIGINT, name VARCHAR, amount DECIMAL(38, 10))")
    connection.execute("INSERT INTO lake.sandbox.duck SELECT i, 'n' || i, i / 4 FROM range(100) t(i)")
    connection.execute("BEGIN")
    connection.execute("INSERT INTO lake.sandbox.duck VALUES (1000, 'x', 1.5)")
    connection.execute("INSERT INTO lake.sandbox.duck VALUES (1001, 'y', NULL)")
    connection.execute("COMMIT")
    connection.execute("DELETE FROM lake.sandbox.duck WHERE id % 10 = 5")
    connection.execute("UPDATE lake.sandbox.duck SET name = 'changed' WHERE id = 6")
    # Products are sorted, which this writer would otherwise stumble over before it asks.
    connection.execute("SET unsafe_iceberg_ignore_sort_order = true")
    refused = refusals({
        "product": lambda: connection.execute("INSERT INTO lake.crm.people SELECT * FROM lake.crm.people"),
    })
    found = connection.sql(
        "SELECT count(*), sum(id)::BIGINT, count(*) FILTER (name = 'changed') FROM lake.sandbox.duck").fetchall()
    return {"found": found, "refused": refused}


def sql():
    catalog = SqlCatalog(
        settings["catalog"], uri=settings["uri"].replace("postgresql://", "postgresql+psycopg2://"),
        warehouse="none", init_catalog_tables="false")
    tables = sorted(".".join(name) for space in catalog.list_namespaces() for name in catalog.list_tables(space))
    return {
        "tables": tables,
        "rows": {name: rows(catalog.load_table(name)) for name in tables},
        "comments": {
            name: {field.name: field.doc for field in catalog.load_table(name).schema().fields} for name in tables
        },
        "refused": refusals({
            "create": lambda: catalog.create_table("sandbox.sql", schema=PEOPLE, location="file:///tmp/none"),
            "drop": lambda: catalog.drop_table("sandbox.people"),
        }),
    }


print(json.dumps({
    "read": read, "write": write, "refused": refused, "race": race, "duck_read": duck_read, "duck_write": duck_write,
    "sql": sql,
}[sys.argv[1]](), default=str))
