"""
Prepares each statement that it is told on standard input at two servers, says of which types its parameters and columns are, and
what it gives, in text and in binary. What is bound in binary is the second server's own writing of the same text.
"""
import json
import sys

import psycopg
from psycopg.pq import ExecStatus


def fault(result):
    return {"error": (result.error_field(67) or b"?").decode(), "said": (result.error_message or b"").decode()}


def rows_of(result, told):
    return [[told(result.get_value(row, column)) for column in range(result.nfields)] for row in range(result.ntuples)]


def hexed(value):
    return None if value is None else value.hex()


def worded(value):
    return None if value is None else value.decode()


def in_binary(server, oid, text):
    """Of a value of that type, as the server that is the judge writes it."""
    if text is None:
        return None
    result = server.exec_params(b"SELECT $1", [text.encode()], [oid], [0], 1)
    if result.status != ExecStatus.TUPLES_OK:
        raise ValueError(result.error_message)
    return result.get_value(0, 0)


def told_by(server, writer, sql, values):
    prepared = server.prepare(b"", sql.encode())
    if prepared.status != ExecStatus.COMMAND_OK:
        return fault(prepared)
    described = server.describe_prepared(b"")
    if described.status != ExecStatus.COMMAND_OK:
        return fault(described)
    oids = [described.param_type(at) for at in range(described.nparams)]
    told = {"parameters": oids, "columns": [described.ftype(at) for at in range(described.nfields)]}
    texts = [None if value is None else value.encode() for value in values]
    result = server.exec_prepared(b"", texts, [0] * len(texts), 0)
    told["text"] = rows_of(result, worded) if result.status == ExecStatus.TUPLES_OK else fault(result)
    if "error" in told["text"]:
        return told
    binaries = [in_binary(writer, oid, value) for oid, value in zip(oids, values)]
    result = server.exec_prepared(b"", binaries, [1] * len(binaries), 1)
    told["binary"] = rows_of(result, hexed) if result.status == ExecStatus.TUPLES_OK else fault(result)
    return told


asked = json.load(sys.stdin)
ours = psycopg.connect(asked["ours"], autocommit=True).pgconn
judge = psycopg.connect(asked["theirs"], autocommit=True).pgconn
# Of its own: what it is asked takes the place of the statement that has no name.
writer = psycopg.connect(asked["theirs"], autocommit=True).pgconn
for case in asked["cases"]:
    sql, values = case
    print(json.dumps([told_by(ours, writer, sql, values), told_by(judge, writer, sql, values)]), flush=True)
