"""Reads crm.people with each client, as PGHOST, PGPORT, PGDATABASE, PGUSER and PGPASSWORD say, and prints as JSON what it got."""
import asyncio
import json

import asyncpg
import psycopg
import psycopg2
import sqlalchemy

ROW = "SELECT id, email, big, amount, ok, day, instant, mark, doc, bytes FROM crm.people WHERE id = "


def by_psycopg():
    with psycopg.connect() as connection:
        text = connection.execute(ROW + "%s", (7,)).fetchone()
        binary = connection.cursor(binary=True).execute(ROW + "%s", (7,)).fetchone()
        with connection.cursor(name="part") as part:
            part.execute("SELECT id FROM crm.people WHERE id > %s ORDER BY id", (5,))
            parts = [[id for (id,) in part.fetchmany(3)], [id for (id,) in part.fetchmany(2)]]
        with connection.cursor() as cursor, cursor.copy("COPY (SELECT id FROM crm.people WHERE id IN (1, 2) ORDER BY id) TO STDOUT") as copy:
            copied = b"".join(bytes(data) for data in copy).decode()
    return {"text": text, "binary": binary, "parts": parts, "copied": copied}


def by_psycopg2():
    connection = psycopg2.connect("")
    try:
        cursor = connection.cursor()
        cursor.execute(ROW + "%s", (7,))
        row = cursor.fetchone()
        return [bytes(value) if isinstance(value, memoryview) else value for value in row]
    finally:
        connection.close()


async def by_asyncpg():
    connection = await asyncpg.connect()
    try:
        row = await connection.fetchrow(ROW + "$1::integer", 7)
        count = 0
        async with connection.transaction():
            async for _ in connection.cursor("SELECT id FROM crm.people"):
                count += 1
        return {"row": list(row), "count": count}
    finally:
        await connection.close()


def by_sqlalchemy(driver):
    engine = sqlalchemy.create_engine(f"postgresql+{driver}://")
    inspector = sqlalchemy.inspect(engine)
    people = sqlalchemy.Table("people", sqlalchemy.MetaData(), schema="crm", autoload_with=engine)
    with engine.connect() as connection:
        email = connection.execute(sqlalchemy.select(people.c.email).where(people.c.id == 7)).scalar_one()
    return {
        "schemas": inspector.get_schema_names(),
        "tables": inspector.get_table_names(schema="crm"),
        "columns": {column.name: [str(column.type), column.comment] for column in people.columns},
        "email": email,
    }


print(
    json.dumps(
        {
            "psycopg": by_psycopg(),
            "psycopg2": by_psycopg2(),
            "asyncpg": asyncio.run(by_asyncpg()),
            "sqlalchemy": [by_sqlalchemy("psycopg"), by_sqlalchemy("psycopg2")],
        },
        default=lambda value: value.hex() if isinstance(value, bytes) else str(value),
    )
)
