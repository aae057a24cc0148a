"""Runs `thermocline bench ycsb` over sizes of blocks and rows, merge strategies and choices of victims.

    python3 bench/peers/oltp_sweep.py --memory-limit 1GiB --data 8 --out target/sweep
    python3 bench/peers/oltp_sweep.py --quick --out target/sweep-quick

Each combination has a database of its own, with the same bytes of rows, and goes through all mixes and skews. Writes
OUT/records/*.jsonl, OUT/table.md and the figures of oltp_figures.py. A combination that has its file is not run
again, so that an interrupted sweep continues. Settings that this version of the bench does not have keep their
default, and the sweep says so.
"""

import argparse
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import misses
import oltp_figures
from common import Failure, choices, factor, open_folder, positive, run_program
from oltp import ROOT, memory, seconds
from processes import call, running, tail
from svg import size

KIB = 1 << 10

# Of `--quick`: what is given otherwise counts more.
QUICK = {
    "rows_max": 100_000, "memory_limit": 32 << 20, "data": 2.0, "blocks": [16 * KIB, 64 * KIB],
    "rows": [misses.ROW_BYTES], "mix": "90/10", "skew": "0.5,1.0", "seconds": 1.0, "warm_up": 0.5,
    "in_flight": 64,
}
FULL = {
    "rows_max": 50_000_000, "memory_limit": 1 << 30, "data": 2.0,
    "blocks": [4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, KIB * KIB],
    "rows": [100, 256, misses.ROW_BYTES, 4096], "mix": "100/0,90/10", "skew": "0.5,1.0,1.5", "seconds": 30.0,
    "warm_up": 15.0, "in_flight": 512,
}


@dataclass(frozen=True)
class Combination:
    """Settings of one database. None where the bench has no such flag."""

    block_bytes: int
    row_bytes: int | None
    merge: str
    victims: str | None
    """`sampled`, or `chain:` and the share of transactions that the chain follows."""

    def name(self):
        parts = [f"block-{self.block_bytes}", f"row-{self.row_bytes}", self.merge, self.victims]
        return "-".join(str(part).replace(":", "-") for part in parts if part not in (None, "row-None"))

    def rows(self, data_bytes, rows_max):
        """Rows of as many bytes, at most `rows_max`."""
        return max(1, min(int(data_bytes // (self.row_bytes or misses.ROW_BYTES)), rows_max))

    def arguments(self):
        arguments = ["--block-size", self.block_bytes, "--merge", self.merge]
        if self.row_bytes:
            arguments += ["--row-size", self.row_bytes]
        if self.victims:
            victims, _, sampling = self.victims.partition(":")
            arguments += ["--victims", victims, *(["--chain-sampling", sampling] if sampling else [])]
        return arguments

    def complete(self, record):
        """A record with what the bench itself may not write."""
        victims, _, sampling = (self.victims or "sampled").partition(":")
        own = {"row_bytes": self.row_bytes or misses.ROW_BYTES, "victims": victims}
        return own | {"chain_sampling": float(sampling) if sampling else None} | record


def combinations(blocks, rows, merges, victims, flags):
    """All combinations of what the bench has flags for, and what was left out."""
    left_out = []
    if "--row-size" not in flags:
        left_out.append("--row-size: rows have their default size")
        rows = [None]
    if "--victims" not in flags:
        left_out.append("--victims: victims are chosen as by default")
        victims = [None]
    return [Combination(*each) for each in itertools.product(blocks, rows, merges, victims)], left_out


def flags_of(help_text):
    return set(re.findall(r"--[a-z][a-z-]*", help_text))


def victims(text):
    found = list(dict.fromkeys(part.strip() for part in text.split(",")))
    for part in found:
        chosen = re.fullmatch(r"sampled|chain(:(0?\.\d+|1(\.0+)?))?", part)
        if not chosen or (chosen[2] and float(chosen[2]) == 0):
            raise argparse.ArgumentTypeError(f"'{part}' is neither sampled nor chain nor such as chain:0.01")
    return found


def sizes(text):
    return list(dict.fromkeys(memory(part.strip()) for part in text.split(",")))


def times(text):
    return factor(text, "number")


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    say = parser.add_argument
    say("--quick", action="store_true", help="small data and short runs, unless other arguments say otherwise")
    say("--memory-limit", type=memory, metavar="SIZE", help="such as 1GiB, the default")
    say("--data", type=times, metavar="TIMES", help="bytes of all rows, in memory limits (2)")
    say("--rows-max", type=positive, metavar="N", help="of a table, however small its rows are (50000000)")
    say("--block-sizes", dest="blocks", type=sizes, metavar="SIZES", help="4KiB,16KiB,64KiB,256KiB,1MiB by default")
    say("--row-sizes", dest="rows", type=sizes, metavar="SIZES", help="bytes; 100,256,1008,4096 by default")
    say("--merge", type=choices(["tuple", "block"]), default=["tuple", "block"], metavar="MERGES", help="tuple,block")
    say("--victims", type=victims, default=["sampled", "chain:0.01"], help="sampled,chain:0.01 by default")
    say("--mix", help="percentages of reads and updates, comma separated (100/0,90/10)")
    say("--skew", help="exponents of the Zipf distribution of keys, comma separated (0.5,1.0,1.5)")
    say("--seconds", type=seconds, help="measured seconds of each mix and skew (30)")
    say("--warm-up", type=seconds, help="unmeasured seconds before them (15)")
    say("--in-flight", type=positive, metavar="N",
        help="calls in flight (512); with block merge, each may hold a block in memory")
    say("--out", type=Path, required=True, metavar="DIR", help="for records, table and figures; created if missing")
    say("--work", type=Path, default=ROOT / "target" / "peers-work", metavar="DIR",
        help="for databases, which are removed")
    say("--thermocline", type=Path, default=ROOT / "target" / "release" / "thermocline", metavar="PATH")
    say("--timeout", type=positive, default=7200, metavar="SECONDS", help="longest time of a combination")
    given = parser.parse_args(words)
    for name, value in (QUICK if given.quick else FULL).items():
        if getattr(given, name) is None:
            setattr(given, name, value)
    return given


def run_one(given, combination, folder):
    """Records of a combination."""
    path, log = folder / "records.jsonl", folder / "log"
    rows = combination.rows(given.data * given.memory_limit, given.rows_max)
    command = [given.thermocline, "bench", "ycsb", "--partitions", 1, "--rows", rows, "--directory", folder]
    command += ["--memory-limit", given.memory_limit, "--mix", given.mix, "--skew", given.skew]
    command += ["--in-flight", given.in_flight]
    command += ["--seconds", given.seconds, "--warm-up", given.warm_up, *combination.arguments(), "--json", path]
    with running(command, log) as process:
        try:
            process.wait(given.timeout)
        except subprocess.TimeoutExpired:
            raise Failure(f"{combination.name()} took longer than {given.timeout} s: {tail(log)}") from None
    if process.returncode != 0:
        raise Failure(f"{combination.name()} ended with {process.returncode}: {tail(log)}")
    return [combination.complete(json.loads(line)) for line in path.read_text().splitlines()]


def sweep(given, all_of_them):
    """Runs what has no file yet. Returns what failed: a setting may not fit into the memory, and others still count."""
    failed = []
    for number, combination in enumerate(all_of_them, 1):
        path = given.out / "records" / f"{combination.name()}.jsonl"
        if path.exists():
            continue
        print(f"{number} of {len(all_of_them)}: {combination.name()}", flush=True)
        with tempfile.TemporaryDirectory(prefix="sweep-", dir=given.work, ignore_cleanup_errors=True) as folder:
            try:
                records = run_one(given, combination, Path(folder))
            except Failure as failure:
                print(f"failed: {failure}", file=sys.stderr, flush=True)
                failed.append((combination, str(failure)))
                continue
        whole = path.with_suffix(".part")
        whole.write_text("".join(json.dumps(record) + "\n" for record in records))
        os.replace(whole, path)
    return failed


def table(records):
    """Lines of a table with a row for each record, the fastest of a row size, mix and skew in bold."""
    heads = ["row", "mix", "skew", "block", "merge", "victims", "tx/s", "p99 ms", "reads / ideal", "bytes / row read"]
    lines = ["| " + " | ".join(heads) + " |", "|---:|---|---:|---:|---|---|" + "---:|" * 4]

    def point(record):
        return record["row_bytes"], record["mix"], record["skew"]

    best = {}
    for record in records:
        best[point(record)] = max(best.get(point(record), 0), record["transactions_per_s"])
    for record in sorted(records, key=lambda r: (*point(r), r["block_bytes"], r["merge"], oltp_figures.victims(r))):
        rate = f"{record['transactions_per_s']:,.0f}"
        over, of_row = misses.reads_over_ideal(record), misses.bytes_of_returned_row(record)
        cells = [
            record["row_bytes"], record["mix"], f"{record['skew']:g}", size(record["block_bytes"]), record["merge"],
            oltp_figures.victims(record),
            f"**{rate}**" if record["transactions_per_s"] == best[point(record)] else rate,
            f"{record['p99_us'] / 1000:.1f}", "-" if over is None else f"{over:.2f}",
            "-" if of_row is None else f"{of_row:,.0f}",
        ]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


def main():
    given = arguments()
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    given.thermocline = given.thermocline.resolve()
    if not given.thermocline.is_file():
        raise Failure(f"{given.thermocline} is missing: cargo build --release, or --thermocline PATH")
    flags = flags_of(call([given.thermocline, "bench", "ycsb", "--help"]))
    all_of_them, left_out = combinations(given.blocks, given.rows, given.merge, given.victims, flags)
    for what in left_out:
        print(f"this version has no {what}", file=sys.stderr)
    # What all records of the folder have in common; other sizes, merges and victims may be added to it.
    names = ("memory_limit", "data", "rows_max", "mix", "skew", "seconds", "warm_up", "in_flight")
    path, run = open_folder(given.out, {name: getattr(given, name) for name in names})
    path.write_text(json.dumps(run, indent=2) + "\n")
    (given.out / "records").mkdir(exist_ok=True)
    given.work.mkdir(parents=True, exist_ok=True)
    failed = sweep(given, all_of_them)
    records = oltp_figures.read([given.out / "records"])
    text = "\n".join(table(records))
    (given.out / "table.md").write_text(text + "\n")
    print(text)
    for image in oltp_figures.draw(records, given.out):
        print(image)
    if failed:
        raise Failure(f"{len(failed)} of {len(all_of_them)} failed: " + ", ".join(each.name() for each, _ in failed))


if __name__ == "__main__":
    run_program(main)
