"""Runs YCSB or TPC-C on Thermocline and on other databases with the same rows, calls and bytes of memory.

    python3 bench/peers/oltp.py --peers thermocline,mariadb,mariadb-memcached,postgresql --rows 4000000 \\
        --memory-limit 1GiB --mix 100/0,90/10,50/50 --skew 0.5,1.0,1.5 --seconds 60 --out target/peers/ycsb
    python3 bench/peers/oltp.py --workload tpcc --peers thermocline,mariadb --warehouses 4,16 \\
        --memory-limit 1GiB --seconds 60 --out target/peers/tpcc

Writes OUT/PEER.jsonl, one JSON object per mix and skew as `thermocline bench ycsb --json` does, or per number of
warehouses as `thermocline bench tpcc --json` does, and prints the table of oltp_report.py.
"""

import argparse
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import install
import oltp_report
import oltp_servers
from common import Failure, choices, open_folder, positive, run_program
from processes import call, running, tail

THERMOCLINE = "thermocline"

SERVERS = {
    "mariadb": oltp_servers.mariadb,
    "mariadb-memcached": oltp_servers.mariadb_memcached,
    "postgresql": oltp_servers.postgresql,
    "rocksdb": oltp_servers.rocksdb,
    "rocksdb-row-cache": oltp_servers.rocksdb,
}

# Peers that are a library of the client.
EMBEDDED = {"rocksdb", "rocksdb-row-cache"}

PEERS = [THERMOCLINE, *SERVERS]

# Peers with procedures of TPC-C.
TPCC_PEERS = [THERMOCLINE, "mariadb", "postgresql"]

WORKLOADS = ["ycsb", "tpcc"]

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class OltpSetting:
    """Everything that the peers of a run share."""

    workload: str
    rows: int
    memory_limit: int
    mix: str
    skew: str
    warehouses: list[int]
    """Of TPC-C, each with a database of its own."""
    seconds: float
    warm_up: float
    connections: int
    """Connections of a peer other than Thermocline, each with one call in flight."""
    seconds_max: int
    """Longest time of a peer with one database, its load included."""
    thermocline: Path
    extra: list[str]
    """More arguments of `thermocline bench`."""
    work: Path
    out: Path
    client: Path = Path()
    """The program oltp-peer."""
    scratch: Path = Path()
    """Folder that is removed at the end."""
    sockets: Path = Path()
    """Folder of Unix sockets, whose paths must be short; removed at the end."""

    def log(self, name):
        return self.scratch / f"{name}.log"

    def description(self):
        """What all records of a folder have in common."""
        own = {
            "ycsb": {"rows": self.rows, "mix": self.mix, "skew": self.skew},
            "tpcc": {"workload": "tpcc", "warehouses": self.warehouses},
        }
        return own[self.workload] | {
            "memory_limit_bytes": self.memory_limit,
            "seconds": self.seconds,
            "warm_up": self.warm_up,
            "connections": self.connections,
            "thermocline_arguments": " ".join(self.extra),
        }

    def loads(self):
        """Arguments that `thermocline bench` and oltp-peer have in common, for one database after the other."""
        measured = ["--seconds", self.seconds, "--warm-up", self.warm_up]
        if self.workload == "ycsb":
            return [["--rows", self.rows, "--mix", self.mix, "--skew", self.skew, *measured]]
        return [["--warehouses", count, *measured] for count in self.warehouses]


peers = choices(PEERS, "peer ")


def memory(text):
    """Bytes of a size such as 512MiB or 1GB."""
    found = re.fullmatch(r"(\d+)\s*([kmg]?)(i?)b?", text.lower())
    # "1ib" is no size.
    if not found or int(found[1]) == 0 or (found[3] and not found[2]):
        raise argparse.ArgumentTypeError(f"'{text}' is no size such as 512MiB")
    return int(found[1]) * (1024 if found[3] else 1000) ** " kmg".index(found[2] or " ")


def warehouses(text):
    """Numbers of warehouses, comma separated."""
    return list(dict.fromkeys(positive(part.strip()) for part in text.split(",")))


def seconds(text):
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value <= 86_400:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of seconds up to 86400")
    return value


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    say = parser.add_argument
    say("--workload", choices=WORKLOADS, default="ycsb")
    say("--peers", type=peers, default=[THERMOCLINE, "mariadb"],
        help=f"comma separated: {', '.join(PEERS)}; of TPC-C: {', '.join(TPCC_PEERS)}")
    say("--rows", type=positive, default=1_000_000, help="of YCSB")
    say("--memory-limit", type=memory, default="1GiB", metavar="SIZE", help="of each peer, such as 512MiB")
    say("--mix", default="100/0,90/10,50/50", help="percentages of YCSB's reads and updates, comma separated")
    say("--skew", default="0.5,1.0,1.5", help="exponents of the Zipf distribution of YCSB's keys, comma separated")
    say("--warehouses", type=warehouses, default=[4], help="of TPC-C, comma separated; each has a database of its own")
    say("--seconds", type=seconds, default=10.0, help="measured seconds of each mix and skew, or number of warehouses")
    say("--warm-up", type=seconds, default=2.0, help="unmeasured seconds before them")
    say("--connections", type=positive, default=32, help="of each peer other than Thermocline")
    say("--out", type=Path, required=True, metavar="DIR", help="for the records; created if missing")
    say("--work", type=Path, default=ROOT / "target" / "peers-work", metavar="DIR",
        help="for the client, kept between runs, and for databases, which are removed")
    say("--thermocline", type=Path, default=ROOT / "target" / "release" / "thermocline", metavar="PATH")
    say("--thermocline-arguments", default="", metavar="ARGUMENTS", help="more arguments of thermocline bench")
    say("--timeout", type=positive, default=7200, metavar="SECONDS",
        help="longest time of a peer with one database, with its load")
    given = parser.parse_args(words)
    if given.workload == "tpcc" and (others := [name for name in given.peers if name not in TPCC_PEERS]):
        parser.error(f"TPC-C has no procedures for {', '.join(others)}; there are {', '.join(TPCC_PEERS)}")
    return given


def setting_of(given):
    return OltpSetting(
        workload=given.workload,
        rows=given.rows,
        memory_limit=given.memory_limit,
        mix=given.mix,
        skew=given.skew,
        warehouses=given.warehouses,
        seconds=given.seconds,
        warm_up=given.warm_up,
        connections=given.connections,
        seconds_max=given.timeout,
        thermocline=given.thermocline.resolve(),
        extra=shlex.split(given.thermocline_arguments),
        work=given.work.resolve(),
        out=given.out.resolve(),
    )


def finish(setting, name, command):
    """Runs a command that measures to its end, prints what it says, and returns its records."""
    path, log = setting.scratch / f"{name}.jsonl", setting.log(f"{name}-client")
    with running([*command, "--json", path], log) as process:
        try:
            process.wait(setting.seconds_max)
        except subprocess.TimeoutExpired:
            raise Failure(f"{name} took longer than {setting.seconds_max} s: {tail(log)}") from None
        if process.returncode != 0:
            raise Failure(f"{name} ended with {process.returncode}: {tail(log)}")
    print(f"{name}\n{log.read_text()}", flush=True)
    return [json.loads(line) for line in path.read_text().splitlines()]


def run_thermocline(setting):
    """Records of the bench, and what run.json has about it."""
    version = call([setting.thermocline, "--version"]).strip()
    records = []
    for load in setting.loads():
        with oltp_servers.folder_of(setting.scratch, THERMOCLINE) as folder:
            command = [setting.thermocline, "bench", setting.workload, *load, "--memory-limit", setting.memory_limit]
            command += ["--directory", folder, *setting.extra]
            if "--partitions" not in setting.extra:
                command += ["--partitions", 1]
            records += finish(setting, THERMOCLINE, command)
    return records, {"engine": version}


def run_peer(setting, name):
    """Records of a server's runs, and what run.json has about it."""
    records = []
    for load in setting.loads():
        with SERVERS[name](setting, setting.memory_limit) as server:
            command = [setting.client, "--workload", setting.workload, "--peer", name, "--load", *load]
            command += ["--connections", setting.connections, "--memory-limit-bytes", setting.memory_limit]
            command += server.arguments
            if server.process:
                command += ["--server", server.process]
            records += finish(setting, name, command)
    for record in records:
        record["page_cache_bounded"] = server.has_bounded_page_cache
    return records, {"engine": records[0]["engine"], "page_cache_bounded": server.has_bounded_page_cache}


def measure(setting, names):
    """Runs the peers one after the other and writes their records."""
    path, run = open_folder(setting.out, setting.description())
    for name in names:
        records, notes = run_thermocline(setting) if name == THERMOCLINE else run_peer(setting, name)
        of_peer = setting.out / f"{name}.jsonl"
        of_peer.write_text("".join(json.dumps(record) + "\n" for record in records))
        run["peers"][name] = notes
        path.write_text(json.dumps(run, indent=2) + "\n")


def main():
    given = arguments()
    setting = setting_of(given)
    # As Ctrl-C: everything that was started is stopped.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    if THERMOCLINE in given.peers and not setting.thermocline.is_file():
        raise Failure(f"{setting.thermocline} is missing: cargo build --release, or --thermocline PATH")
    setting.work.mkdir(parents=True, exist_ok=True)
    if given.peers != [THERMOCLINE]:
        setting.client = install.oltp_peer(setting.work, with_rocksdb=not EMBEDDED.isdisjoint(given.peers))
    with contextlib.ExitStack() as stack:
        for name, parent in (("scratch", setting.work), ("sockets", None)):
            folder = Path(tempfile.mkdtemp(prefix="oltp-", dir=parent))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            setattr(setting, name, folder)
        # The servers' user passes through one and makes sockets in the other.
        setting.scratch.chmod(0o755)
        if ids := oltp_servers.account():
            os.chown(setting.sockets, *ids)
        measure(setting, given.peers)
    oltp_report.print_report([setting.out])


if __name__ == "__main__":
    run_program(main)
