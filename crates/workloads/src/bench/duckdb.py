"""Runs SQL in DuckDB: one JSON request a line in, one JSON answer a line out.

The first of these lines is {"duckdb": "VERSION"}, before any request. {"sql": "..."} is answered by
{"seconds": s, "count": n}: the time from the SQL text to the last row, taken as Arrow batches, which
makes no Python object of a value. {"sql": "...", "rows": true} is answered by {"rows": [[...], ...]},
values as text. A failure is {"error": "..."}.
"""

import os
import sys

# Answers have a descriptor of their own. Whatever is printed from here on, such as DuckDB's progress, goes
# to standard error.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import ctypes
import json
import time

import duckdb


class Array(ctypes.Structure):
    """ArrowArray of Arrow's C data interface."""


Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.c_void_p),
    ("children", ctypes.c_void_p),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(Array))),
    ("private_data", ctypes.c_void_p),
]


class Stream(ctypes.Structure):
    """ArrowArrayStream of Arrow's C stream interface."""


Stream._fields_ = [
    ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Stream), ctypes.c_void_p)),
    ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Stream), ctypes.POINTER(Array))),
    ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(Stream))),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(Stream))),
    ("private_data", ctypes.c_void_p),
]

pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
pointer_of.restype = ctypes.c_void_p
pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]


def timed(connection, sql):
    # A relation binds its SQL when it is made, for its columns, and once more when it runs, which starts
    # from the text again. Only that is timed: it is all that a plain execution does.
    # (execute() has Arrow batches only with the package pyarrow, and copies the result for them.)
    relation = connection.sql(sql)
    started = time.perf_counter()
    capsule = relation.__arrow_c_stream__()
    stream = ctypes.cast(pointer_of(capsule, b"arrow_array_stream"), ctypes.POINTER(Stream))
    count = 0
    while True:
        array = Array()
        if stream.contents.get_next(stream, ctypes.byref(array)):
            raise RuntimeError((stream.contents.get_last_error(stream) or b"no rows").decode())
        if not array.release:
            return {"seconds": time.perf_counter() - started, "count": count}
        count += array.length
        array.release(ctypes.byref(array))


def rows(connection, sql):
    cursor = connection.execute(sql)
    fetched = cursor.fetchall() if cursor.description else []
    return {"rows": [[None if value is None else str(value) for value in row] for row in fetched]}


def answer(value):
    print(json.dumps(value), file=answers, flush=True)


def main():
    answer({"duckdb": duckdb.__version__})
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer((rows if request.get("rows") else timed)(connection, request["sql"]))
        except Exception as error:  # every failure is an answer
            answer({"error": str(error)})


main()
