"""One statement: DuckDB over tables of the lake, which PyIceberg finds in the catalog and reads.

A line of JSON says what is to be done, and is answered by the types of the columns; each line behind it by a page of
rows, the last of which is empty. The author's SQL is hostile: DuckDB is given no file, no network and no variable of this
process, may change none of that, and sees the inputs alone, of each the columns that were chosen.
"""
import json
import sys

import duckdb

PAGE_ROWS = 2_000


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def opened(memory_mb):
    connection = duckdb.connect(config={
        "enable_external_access": "false", "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false", "memory_limit": f"{memory_mb}MB", "threads": "1"})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET python_enable_replacements = false")
    connection.execute("SET lock_configuration = true")
    return connection


def require_one_query(connection, sql):
    statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise duckdb.ParserException("not one SELECT")
    return sql


def arrow_of(connection, catalog, given):
    table = given["table"]
    if table is None:
        nulls = ", ".join(f"CAST(NULL AS {column['type']}) AS {quoted(column['name'])}" for column in given["columns"])
        return connection.execute(f"SELECT {nulls} LIMIT 0").to_arrow_table()
    found = catalog.load_table((table["namespace"], table["table"]))
    return found.scan(snapshot_id=int(table["snapshotId"])).to_arrow()


def input_rows(connection, catalog, given):
    """The chosen columns of the rows that pass the condition: nothing else of the table is there for the transform."""
    columns = ", ".join(quoted(column["name"]) for column in given["columns"])
    where = "true" if given["where"] is None else given["where"]
    connection.register("__table", arrow_of(connection, catalog, given))
    sql = require_one_query(connection, f"SELECT * FROM (SELECT {columns} FROM __table) WHERE (\n{where}\n)")
    rows = connection.execute(sql).to_arrow_table()
    connection.unregister("__table")
    return rows


def catalog_of(properties):
    from pyiceberg.catalog import load_catalog
    return load_catalog(**properties)


def run(job):
    connection = opened(job["memory_mb"])
    is_read = any(given["table"] is not None for given in job["inputs"])
    catalog = catalog_of(job["catalog"]) if is_read else None
    inputs = [(given["alias"], input_rows(connection, catalog, given)) for given in job["inputs"]]
    for alias, rows in inputs:
        connection.register(alias, rows)
    require_one_query(connection, job["authored"])
    result = connection.execute(require_one_query(connection, job["sql"]))
    yield {"types": [str(column[1]) for column in result.description]}
    while True:
        rows = result.fetchmany(PAGE_ROWS)
        yield {"rows": rows}
        if not rows:
            return


def failure(error):
    if isinstance(error, (duckdb.OutOfMemoryException, MemoryError)):
        return {"error": type(error).__name__, "of": "memory"}
    return {"error": type(error).__name__, "of": "author" if isinstance(error, duckdb.Error) else "engine"}


def main():
    answers = run(json.loads(sys.stdin.readline()))
    try:
        for answer in answers:
            print(json.dumps(answer), flush=True)
            if not sys.stdin.readline():
                return
    except Exception as error:
        print(json.dumps(failure(error)), flush=True)


main()
