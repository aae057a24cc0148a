"""The queries: those of `thermocline bench`, and its records of them."""

import json
from dataclasses import dataclass

from common import SMALL_SCALE
from processes import call


@dataclass
class Query:
    name: str
    sql: str


@dataclass
class Batch:
    """Queries of the first pass and of every later one."""

    first: list
    again: list
    fields: list
    """Names of a record's fields, as `thermocline bench` writes them."""

    @staticmethod
    def of(setting):
        """The queries of `thermocline bench`, which runs them over small data to tell."""
        path = setting.scratch / "queries.jsonl"
        command = [setting.thermocline, "bench", setting.workload, "--scale", f"{SMALL_SCALE:g}", "--modes", "pullup"]
        call([*command, "--data", setting.work / "data", "--json", path, *setting.batch])
        records = [json.loads(line) for line in path.read_text().splitlines()]
        of_run = {run: [Query(r["query"], r["sql"]) for r in records if r["run"] == run] for run in ("warmup", "timed")}
        return Batch(of_run["warmup"], of_run["timed"], list(records[0]))

    def passes(self, count):
        """The passes: the field `run` and queries of each."""
        yield "warmup", self.first
        for _ in range(count):
            yield "timed", self.again

    def record(self, **values):
        """A record; what is not given is null."""
        return dict.fromkeys(self.fields) | values
