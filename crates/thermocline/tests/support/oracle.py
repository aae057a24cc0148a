"""Answers SQL with DuckDB: one JSON request per line in, one JSON answer per line out.

Request: {"sql": "..."}; answer: {"rows": [[...], ...]} or {"error": "..."}.
Values are null, or text in one canonical form per type.
"""

import datetime
import decimal
import json
import sys

import duckdb


def canonical(value):
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(inner(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {inner(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    return str(value)


def inner(value):
    return "NULL" if value is None else canonical(value)


def main():
    connection = duckdb.connect()
    connection.execute("SET threads = 2")
    for line in sys.stdin:
        try:
            cursor = connection.execute(json.loads(line)["sql"])
            rows = cursor.fetchall() if cursor.description else []
            answer = {"rows": [[canonical(value) for value in row] for row in rows]}
        except Exception as error:  # every failure is an answer
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


main()
