"""Thermocline: `thermocline bench`, with a storage node whose egress is limited to the link's bandwidth.

The bench measures itself and writes the records. The rows that others are compared with come from `thermocline sql`
over the same files.
"""

import json
import subprocess

from common import Failure, bytes_for_everything
from processes import call, running, tail

NAME = "thermocline"
NEEDS = []

# The node's limit when the link has none.
NO_LIMIT = 100_000_000_000


def run(setting, results):
    setting.link.detach()
    version = call([setting.thermocline, "--version"]).strip()
    reference_rows(setting, results)
    path = setting.scratch / "thermocline.jsonl"
    cache = bytes_for_everything() if setting.cache == "all" else setting.cache
    command = [setting.thermocline, "bench", setting.workload, "--scale", f"{setting.scale:g}"]
    command += ["--data", setting.work / "data", "--json", path, "--passes", setting.passes]
    command += ["--modes", setting.modes, "--cache-size", cache]
    command += ["--egress-limit", f"{setting.bandwidth or NO_LIMIT}bps", *setting.batch, *setting.extra]
    if not any("cached_answers" in argument for argument in setting.extra):
        # No other peer keeps results.
        command += ["--set", "cached_answers=off"]
    log = setting.log("thermocline")
    before = setting.link.total()
    with running(command, log) as process:
        runs = (1 + setting.passes) * len(setting.modes.split(","))
        seconds_max = setting.seconds_max * runs * len(setting.queries.first)
        try:
            process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            raise Failure(
                f"thermocline took longer than {seconds_max} s, {setting.seconds_max} s for each query: it was "
                f"{place(setting.queries, path)}: {tail(log)}"
            ) from None
        if process.returncode != 0:
            raise Failure(f"thermocline bench ended with {process.returncode}: {tail(log)}")
    after = setting.link.total()
    print(log.read_text())
    records = [json.loads(line) for line in path.read_text().splitlines()]
    counted = sum(record["bytes_from_storage"] + record["bytes_to_storage"] for record in records)
    setting.notes["thermocline"] = {
        "engine": version,
        "bytes_counted": counted,
        # Also what the bench does before and between its passes: schemas and, for half of it, the working set.
        "bytes_on_loopback": None if before is None else after - before,
    }
    yield from records


def place(queries, path):
    """Which query a bench has come to, by its records at `path`."""
    text = path.read_text() if path.exists() else ""
    lines = text[: text.rfind("\n") + 1].splitlines()
    if not lines:
        return f"at query {queries.first[0].name}, the first one, or before it"
    last = json.loads(lines[-1])
    return f"at the query after {last['query']} ({last['run']}, mode {last['mode']})"


def reference_rows(setting, results):
    """Remembers the rows of each query, or compares them with those of an engine before."""
    queries = {query.sql: query for query in setting.queries.first + setting.queries.again}
    tables = [f"CREATE EXTERNAL TABLE {t} STORED AS PARQUET LOCATION '{setting.data / t}';" for t in setting.tables]
    for sql, query in queries.items():
        arguments = ["--format", "json", "-c", "".join(tables), "-c", sql]
        lines = call([setting.thermocline, "sql", *arguments]).splitlines()
        objects = [json.loads(line, parse_float=str, parse_int=str) for line in lines]
        results.check("thermocline", query, [list(row.values()) for row in objects])
