"""Engines in a process of their own: requests and answers as lines of JSON."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass

from common import Failure
from processes import running, stop, tail


@dataclass
class Answer:
    """What a query took and returned, values as text."""

    seconds: float
    rows: list


class Driver:
    """An engine in a process that takes a JSON request a line and gives a JSON answer a line."""

    def __init__(self, name, process, log, seconds_max):
        self.name, self.process, self.log, self.seconds_max = name, process, log, seconds_max
        self.version = self.read()["engine"]

    def read(self):
        is_late = threading.Event()

        def end():
            is_late.set()
            stop(self.process)

        timer = threading.Timer(self.seconds_max, end)
        timer.daemon = True
        timer.start()
        try:
            line = self.process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            why = f"took longer than {self.seconds_max} s" if is_late.is_set() else "ended"
            raise Failure(f"{self.name} {why}: {tail(self.log)}")
        answer = json.loads(line)
        if "error" in answer:
            raise Failure(f"{self.name}: {answer['error']}")
        return answer

    def ask(self, **request):
        # A process that has ended reads nothing, and answers nothing: that is the error to report.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        return self.read()

    def run(self, sql):
        answer = self.ask(sql=sql)
        return Answer(answer["seconds"], answer["rows"])

    def cached_bytes(self):
        return self.ask(cached=True)["bytes"]


@contextlib.contextmanager
def driver(setting, name, command, **options):
    """A running `Driver`."""
    log = setting.log(name)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with running(command, log, **pipes, **options) as process:
        yield Driver(name, process, log, setting.seconds_max)


def serve(engine, execute, **others):
    """The other side of a `Driver` in Python: `execute` returns seconds and an Arrow table.

    `others` are functions of requests besides `sql`, by name; each returns the answer.
    """
    # Answers have a descriptor of their own. Whatever a library prints goes to standard error.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value):
        print(json.dumps(value), file=answers, flush=True)

    answer({"engine": engine})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            [(name, value)] = request.items()
            if name in others:
                answer(others[name](value))
            else:
                seconds, table = execute(value)
                answer({"seconds": seconds, "rows": texts(table)})
        except Exception as error:  # noqa: BLE001 - every failure is an answer
            answer({"error": f"{type(error).__name__}: {error}"})


def texts(table):
    """Rows of an Arrow table, values as text."""
    columns = [column.to_pylist() for column in table.columns]
    return [[None if value is None else str(value) for value in row] for row in zip(*columns)]
