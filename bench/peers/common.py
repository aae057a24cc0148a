"""What all files here share: the setting of a run, and the error of anything that fails."""

import argparse
import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

TABLES = {
    "tpch": ["customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"],
    "ssb": ["customer", "dates", "lineorder", "part", "supplier"],
}

# Scale of the data for what is not measured: the list of queries, and Trino's warm-up.
SMALL_SCALE = 0.01

# Stored bytes of an object, as `thermocline bench` makes them.
PARTITION_SIZE = 16 << 20


class Failure(Exception):
    """An error that its message explains."""


def run_program(main):
    """Runs a program's `main`; a failure, or Ctrl-C, ends the process."""
    try:
        main()
    except Failure as failure:
        sys.exit(f"error: {failure}")
    except KeyboardInterrupt:
        sys.exit(130)



@dataclass
class Setting:
    """Everything that the peers of a run share."""

    workload: str
    scale: float
    threads: int
    passes: int
    bandwidth: int | None
    """Bits per second from storage; None for no limit."""
    cache: str | int
    """Bytes of cache; "all" for more than the data, "half" for half of the peer's own working set."""
    seconds_max: int
    """Longest time of a query."""
    thermocline: Path
    modes: str
    """Modes of Thermocline."""
    extra: list[str]
    """More arguments of `thermocline bench`."""
    batch: list[str]
    """Arguments of `thermocline bench` that choose the queries."""
    work: Path
    out: Path
    java_heap: str = "6G"
    link: object = None
    """A link of link.py."""
    scratch: Path = Path()
    """Folder that is removed at the end."""
    storage: object = None
    """The `ObjectStore` of the peer that runs."""
    queries: object = None
    """The `Batch`."""
    notes: dict = field(default_factory=dict)
    """What a peer has to say about its measurement, for run.json."""

    @property
    def tables(self):
        return TABLES[self.workload]

    @property
    def data(self):
        """Folder with a folder of Parquet files for each table."""
        return data_folder(self.work, self.workload, self.scale)

    @property
    def data_small(self):
        return data_folder(self.work, self.workload, SMALL_SCALE)

    @property
    def venv(self):
        return self.work / "venv" / "bin" / "python"

    def log(self, name):
        return self.scratch / f"{name}.log"


def data_folder(work, workload, scale):
    # The name that `thermocline bench --data` looks for, so that it reads the same files.
    return work / "data" / f"{workload}-{scale:g}-parquet-{PARTITION_SIZE}"


def bytes_for_everything():
    """Bytes of cache that hold everything: half of the memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def positive(text):
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number above 0")
    return int(text)


def choices(known, what=""):
    """A parser of names, comma separated."""
    def parse(text):
        names = list(dict.fromkeys(name.strip() for name in text.split(",")))
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"no {what}'{name}'; there are {', '.join(known)}")
        return names

    return parse


def factor(text, what):
    """A number above 0 and up to 1000."""
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value <= 1000:
        raise argparse.ArgumentTypeError(f"'{text}' is no {what} above 0 and up to 1000")
    return value


def open_folder(out, description):
    """The folder's run.json; refuses a folder with measurements of another kind."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / "run.json"
    run = {"setting": description, "peers": {}}
    if path.exists():
        before = json.loads(path.read_text())
        for name, value in run["setting"].items():
            if before["setting"].get(name) != value:
                is_now = f"{name} is {value}, and there {before['setting'].get(name)}"
                raise Failure(f"{out} has measurements under another setting: {is_now}; use another --out")
        run = before
    return path, run
