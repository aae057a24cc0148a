"""Thermocline: `thermocline bench`, with a storage node whose egress is limited to the link's bandwidth.

The bench measures itself and writes the records. The rows that others are compared with come from `thermocline sql`
over the same files.
"""

import json

from common import Failure, bytes_for_everything
from processes import call, running

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
    log = setting.log("thermocline")
    before = setting.link.total()
    with running(command, log) as process:
        seconds_max = setting.seconds_max * (1 + setting.passes) * len(setting.queries.first)
        if process.wait(seconds_max) != 0:
            raise Failure(f"thermocline bench ended with {process.returncode}: {log.read_text()[-2000:]}")
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


def reference_rows(setting, results):
    """Remembers the rows of each query, or compares them with those of an engine before."""
    queries = {query.sql: query for query in setting.queries.first + setting.queries.again}
    tables = [f"CREATE EXTERNAL TABLE {t} STORED AS PARQUET LOCATION '{setting.data / t}';" for t in setting.tables]
    for sql, query in queries.items():
        arguments = ["--format", "json", "-c", "".join(tables), "-c", sql]
        lines = call([setting.thermocline, "sql", *arguments]).splitlines()
        objects = [json.loads(line, parse_float=str, parse_int=str) for line in lines]
        results.check("thermocline", query, [list(row.values()) for row in objects])
