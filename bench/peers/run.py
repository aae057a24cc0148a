"""Runs the same queries on Thermocline and on other engines, over the same files behind the same link.

    python3 bench/peers/run.py --peers thermocline,duckdb,trino --workload tpch --scale 0.1 --out target/peers/tpch

Writes OUT/PEER.jsonl, one JSON object per query as `thermocline bench --json` does, and prints the table of report.py.
"""

import argparse
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import install
import link
import peer_datafusion
import peer_duckdb
import peer_liquidcache
import peer_thermocline
import peer_trino
import report
from batch import Batch
from common import SMALL_SCALE, Failure, Setting, factor, open_folder, positive, run_program
from results import Results

PEERS = {peer.NAME: peer for peer in (peer_thermocline, peer_duckdb, peer_trino, peer_liquidcache, peer_datafusion)}

ROOT = Path(__file__).resolve().parents[2]


def peers(text):
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in PEERS:
            raise argparse.ArgumentTypeError(f"no peer '{name}'; there are {', '.join(PEERS)}")
    return names


def bandwidth(text):
    """Bits per second of a rate as tc writes it; None for `none`."""
    if text == "none":
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(k|m|g)?(?:bit|bps)", text.lower())
    bits = found and int(float(found[1]) * {None: 1, "k": 10**3, "m": 10**6, "g": 10**9}[found[2]])
    if not bits or bits < 1_000_000:
        raise argparse.ArgumentTypeError(f"'{text}' is no rate from 1mbit on, such as 1gbit, and not none")
    return bits


def cache(text):
    if text in ("all", "half"):
        return text
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is neither all, half, nor a number of bytes")
    return int(text)


def scale(text):
    return factor(text, "scale")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    say = parser.add_argument
    say("--peers", type=peers, default=["thermocline", "duckdb"], help=f"comma separated: {', '.join(PEERS)}")
    say("--workload", choices=["tpch", "ssb"], default="tpch")
    say("--scale", type=scale, default=1.0)
    say("--batch", type=positive, metavar="N", help="with ssb: N random queries instead of the 13")
    say("--theta", type=float, default=2.0, help="skew of the batch over years")
    say("--seed", type=int, default=1, help="seed of the batch")
    say("--queries", help="only these, such as 1,6,14")
    say("--bandwidth", type=bandwidth, default="1gbit", help="of the link from storage: 1gbit, 200mbit, ..., none")
    say("--cache-bytes", type=cache, default="all", metavar="N|all|half",
        help="the same bytes for every peer, or half of each one's own working set")
    say("--passes", type=positive, default=1, help="passes after the first one")
    say("--threads", type=positive, default=2, help="threads of an engine; all processes share as many cores")
    say("--link", choices=["auto", "namespace", "proxy"], default="auto")
    say("--out", type=Path, required=True, metavar="DIR", help="for the records; created if missing")
    say("--work", type=Path, default=ROOT / "target" / "peers-work", metavar="DIR",
        help="for installed peers and data, kept between runs")
    say("--thermocline", type=Path, default=ROOT / "target" / "release" / "thermocline", metavar="PATH")
    say("--modes", default="auto", help="Thermocline's modes, comma separated; others are compared with the first")
    say("--thermocline-arguments", default="", metavar="ARGUMENTS", help="more arguments of thermocline bench")
    say("--java-heap", default="6G", help="of Trino")
    say("--timeout", type=positive, default=600, metavar="SECONDS", help="longest time of a query")
    given = parser.parse_args()
    if given.batch and given.workload != "ssb":
        parser.error("--batch is for --workload ssb")
    if given.batch and given.queries:
        parser.error("--batch and --queries exclude each other")
    return given


def setting_of(given):
    batch = ["--queries", given.queries] if given.queries else []
    if given.batch:
        batch = ["--batch", str(given.batch), "--theta", str(given.theta), "--seed", str(given.seed)]
    return Setting(
        workload=given.workload,
        scale=given.scale,
        threads=given.threads,
        passes=given.passes,
        bandwidth=given.bandwidth,
        cache=given.cache_bytes,
        seconds_max=given.timeout,
        thermocline=given.thermocline.resolve(),
        modes=given.modes,
        extra=shlex.split(given.thermocline_arguments),
        batch=batch,
        work=given.work.resolve(),
        out=given.out.resolve(),
        java_heap=given.java_heap,
    )


def prepare(setting, names):
    """Installs what the peers need and makes the data: the only part that needs a network."""
    if not setting.thermocline.is_file():
        raise Failure(f"{setting.thermocline} is missing: cargo build --release, or --thermocline PATH")
    setting.work.mkdir(parents=True, exist_ok=True)
    for part in dict.fromkeys(need for name in names for need in PEERS[name].NEEDS):
        getattr(install, part)(setting.work)
    for of_scale, folder in ((setting.scale, setting.data), (SMALL_SCALE, setting.data_small)):
        install.generate(setting.thermocline, setting.workload, of_scale, folder)


def description(setting):
    """What all records of a folder have in common."""
    return {
        "workload": setting.workload,
        "scale": setting.scale,
        "queries": setting.batch,
        "passes": setting.passes,
        "bits_per_s": setting.bandwidth,
        "cache": setting.cache,
        "threads": setting.threads,
        "link": setting.link.kind,
        "modes": setting.modes,
        "thermocline_arguments": " ".join(setting.extra),
        "java_heap": setting.java_heap,
        "seconds_max": setting.seconds_max,
    }


def read_once(folder):
    """Reads all files, so that the storage has them in the system's page cache."""
    for file in folder.rglob("*.parquet"):
        file.read_bytes()


def measure(setting, names):
    """Runs the peers one after the other and writes their records."""
    path, run = open_folder(setting.out, description(setting))
    setting.queries = Batch.of(setting)
    results = Results(setting.out / "results.json")
    read_once(setting.data)
    for name in names:
        setting.notes = {}
        of_peer = setting.out / f"{name}.jsonl"
        unfinished = of_peer.with_suffix(".unfinished")
        with unfinished.open("w") as lines:
            for record in PEERS[name].run(setting, results):
                lines.write(json.dumps(record) + "\n")
        unfinished.rename(of_peer)
        run["peers"][name] = setting.notes
        path.write_text(json.dumps(run, indent=2) + "\n")
        results.save()
        print(f"{name}: {of_peer}", flush=True)


def main():
    given = arguments()
    setting = setting_of(given)
    # As Ctrl-C: everything that was started is stopped.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    if link.MARK not in os.environ:
        prepare(setting, given.peers)
        if given.link != "proxy":
            link.enter_namespace()
    cores = sorted(os.sched_getaffinity(0))[: setting.threads]
    if len(cores) < setting.threads:
        raise Failure(f"--threads {setting.threads}: there are {len(cores)} cores")
    os.sched_setaffinity(0, cores)
    with contextlib.ExitStack() as stack:
        setting.link = link.new_link(given.link)
        stack.callback(setting.link.close)
        setting.scratch = Path(tempfile.mkdtemp(prefix="run-", dir=setting.work))
        stack.callback(shutil.rmtree, setting.scratch, ignore_errors=True)
        measure(setting, given.peers)
    report.print_report([setting.out])


if __name__ == "__main__":
    run_program(main)
