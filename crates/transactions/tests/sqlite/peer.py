"""SQLite as a child process: a statement a line in, an answer out.

The answer is "ok COUNT ROWS" and then a line for each row, or "error CONSTRAINT MESSAGE", where
CONSTRAINT is 1 for a violated constraint. A row has its values separated by spaces: n for NULL, i and
a number, or t and UTF-8 as hexadecimal digits.
"""

import sqlite3
import sys

connection = sqlite3.connect(":memory:", isolation_level=None)
connection.execute("PRAGMA case_sensitive_like = ON")


def text(value):
    if value is None:
        return "n"
    if isinstance(value, int):
        return f"i{value}"
    if isinstance(value, str):
        return "t" + value.encode().hex()
    raise TypeError(f"{value!r}")


for line in sys.stdin:
    try:
        cursor = connection.execute(line)
        rows = cursor.fetchall()
        print("ok", cursor.rowcount, len(rows))
        for row in rows:
            print(" ".join(map(text, row)))
    except sqlite3.Error as error:
        print("error", int(isinstance(error, sqlite3.IntegrityError)), error)
    sys.stdout.flush()
