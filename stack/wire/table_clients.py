"""Reads crm.people by each way of each client from a PostgreSQL and from here: `table_clients.py THEIRS OURS`, two URIs.

Prints as JSON, by the name of the way, null where both gave the same types and values, else what each gave."""
import asyncio
import io
import json
import sys

import adbc_driver_postgresql.dbapi as adbc
import asyncpg
import connectorx
import pandas
import polars
import psycopg
import psycopg2
import sqlalchemy

THEIRS, OURS = sys.argv[1:]
COLUMNS = "id, email, city, big, amount, ok, ratio, small, day, moment, instant, mark, doc, bytes"
ALL = f"SELECT {COLUMNS} FROM crm.people ORDER BY id"
SOME = "SELECT id, email, big, ok FROM crm.people WHERE id > 0"
TYPES = "int4 text text int8 numeric bool float8 float4 date timestamp timestamptz uuid json bytea".split()


def framed(frame):
    """Types and values of a table of pandas."""
    return frame.dtypes.to_dict(), frame.to_dict("records")


def engine(uri):
    return sqlalchemy.create_engine(uri.replace("postgresql://", "postgresql+psycopg://"))


def arrow(sql, parameters=None, **statement):
    def read(uri):
        with adbc.connect(uri) as connection, connection.cursor(adbc_stmt_kwargs=statement) as cursor:
            cursor.execute(sql, parameters)
            table = cursor.fetch_arrow_table()
        return table.schema, table.to_pylist()

    return read


def of_connection(ask):
    def read(uri):
        with adbc.connect(uri) as connection:
            return ask(connection)

    return read


def objects(depth):
    """Of its own database: there are others at a server of many."""

    def ask(connection):
        own = connection.adbc_current_catalog
        catalogs = connection.adbc_get_objects(depth=depth, db_schema_filter="crm").read_all().to_pylist()
        (catalog,) = [one for one in catalogs if one["catalog_name"] == own]
        return catalog["catalog_db_schemas"]

    return of_connection(ask)


def in_parts(connection):
    with connection.cursor() as cursor:
        cursor.execute(ALL)
        return sum(batch.num_rows for batch in cursor.fetch_record_batch())


def in_transactions(connection):
    counts = []
    for end in (connection.commit, connection.rollback):
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM (SELECT * FROM crm.people) AS rows")
            counts.append(cursor.fetchone())
        end()
    return counts


def by_connectorx(sql, **how):
    def read(uri):
        frame = connectorx.read_sql(uri, sql, **how)
        return framed(frame.sort_values("id").reset_index(drop=True))

    return read


def copied_rows(sql, types):
    def read(uri):
        with psycopg.connect(uri) as connection, connection.cursor() as cursor, cursor.copy(sql) as copy:
            copy.set_types(types)
            return sorted(copy.rows(), key=lambda row: row[0])

    return read


def copied_bytes(uri):
    connection = psycopg2.connect(uri)
    try:
        out = io.BytesIO()
        connection.cursor().copy_expert(f"COPY ({ALL}) TO STDOUT WITH BINARY", out)
        return out.getvalue()
    finally:
        connection.close()


def by_asyncpg(ask):
    async def work(uri):
        connection = await asyncpg.connect(uri)
        try:
            return await ask(connection)
        finally:
            await connection.close()

    return lambda uri: asyncio.run(work(uri))


async def query_copied(connection):
    out = io.BytesIO()
    one = await connection.copy_from_query("SELECT id FROM crm.people WHERE id = $1::integer", 7, output=io.BytesIO())
    return one, await connection.copy_from_query(ALL, output=out, format="binary"), out.getvalue()


async def table_copied(connection):
    out = io.BytesIO()
    done = await connection.copy_from_table("people", schema_name="crm", columns=["id"], output=out, format="csv", header=True)
    return done, sorted(out.getvalue().split())


async def fetched(connection):
    async with connection.transaction(readonly=True):
        return [tuple(row) for row in await connection.fetch(ALL)]


def by_pandas(uri):
    with engine(uri).connect() as connection:
        return framed(pandas.read_sql(sqlalchemy.text(ALL), connection))


def by_pandas_in_parts(uri):
    with engine(uri).connect().execution_options(stream_results=True) as connection:
        return [framed(part) for sql in (ALL, sqlalchemy.text(ALL)) for part in pandas.read_sql(sql, connection, chunksize=700)]


def table_by_pandas(uri):
    return framed(pandas.read_sql_table("people", engine(uri), schema="crm").sort_values("id").reset_index(drop=True))


def pandas_by_adbc(connection):
    return framed(pandas.read_sql(ALL, connection))


def by_polars(uri, **how):
    frame = polars.read_database_uri(f"{SOME}", uri, **how).sort("id")
    return frame.schema, frame.to_dicts()


WAYS = {
    "adbc": arrow(ALL),
    "adbc without copy": arrow(ALL, **{"adbc.postgresql.use_copy": "false"}),
    "adbc of no rows": arrow("SELECT id, amount, doc FROM crm.people LIMIT 0"),
    "adbc with a parameter": arrow("SELECT id, email FROM crm.people WHERE id = $1::integer", (7,)),
    "adbc of times": arrow("SELECT time '10:00:00.5' AS clock, interval '-1 month' AS span"),
    "adbc in parts": of_connection(in_parts),
    "adbc in transactions": of_connection(in_transactions),
    "adbc's schemas": objects("db_schemas"),
    "adbc's tables": objects("tables"),
    "adbc's columns": objects("all"),
    "adbc's schema of a table": of_connection(lambda one: one.adbc_get_table_schema("people", db_schema_filter="crm")),
    "adbc's schema of a statement": of_connection(lambda one: one.cursor().adbc_execute_schema(ALL)),
    "adbc's types of tables": of_connection(lambda one: one.adbc_get_table_types()),
    "adbc's vendor": of_connection(lambda one: one.adbc_get_info()["vendor_name"]),
    "psycopg, copied": copied_rows(f"COPY ({ALL}) TO STDOUT (FORMAT binary)", TYPES),
    "psycopg, a table copied": copied_rows(f"COPY crm.people ({COLUMNS}) TO STDOUT (FORMAT binary)", TYPES),
    "psycopg2, copied": copied_bytes,
    "asyncpg, copied": by_asyncpg(query_copied),
    "asyncpg, a table copied": by_asyncpg(table_copied),
    "asyncpg": by_asyncpg(fetched),
    "pandas": by_pandas,
    "pandas in parts": by_pandas_in_parts,
    "pandas, a table": table_by_pandas,
    "pandas by adbc": of_connection(pandas_by_adbc),
    "polars": by_polars,
    "polars by adbc": lambda uri: by_polars(uri, engine="adbc"),
}
for protocol in ("binary", "csv", "cursor"):
    WAYS[f"connectorx, {protocol}"] = by_connectorx(ALL, protocol=protocol)
    WAYS[f"connectorx, {protocol}, of no rows"] = by_connectorx(f"{SOME} LIMIT 0", protocol=protocol)
    WAYS[f"connectorx, {protocol}, partitioned"] = by_connectorx(
        SOME, protocol=protocol, partition_on="id", partition_num=3
    )


def told(way, uri):
    try:
        return repr(way(uri))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def difference(way):
    theirs, ours = told(way, THEIRS), told(way, OURS)
    return None if theirs == ours and "Error: " not in theirs else [theirs[:2_000], ours[:2_000]]


print(json.dumps({name: difference(way) for name, way in WAYS.items()}))
