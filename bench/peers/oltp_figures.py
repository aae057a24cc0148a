"""Draws figures like those of Anti-Caching (DeBrabant et al., VLDB 2013) from records of transactions.

    python3 bench/peers/oltp_figures.py target/peers/ycsb* target/sweep --out target/figures

Reads every *.jsonl of the folders: those of oltp.py and oltp_sweep.py, and of `thermocline bench ycsb|tpcc --json`.
Writes the figures that the records have points for:

    figure-6.svg    YCSB: transactions a second over skew, by system; a panel for each mix and size of the data
    figure-7.svg    TPC-C: transactions a second over time, by system and memory limit
    figure-7b.svg   TPC-C: transactions a second over data for each byte of memory, by system
    figure-8.svg    tuple merge and block merge over skew, by size of blocks
    figure-9a.svg   transactions a second over the size of blocks, by skew
    figure-9b.svg   transactions a second over the size of rows, by skew
    figure-10.svg   the choice of victims over skew
    figure-11a.svg  the longest time that eviction held a partition, over the size of blocks
    figure-11b.svg  bytes read for each row that came back, over the size of blocks
    figure-12.svg   transactions a second over time, with a line wherever rows were evicted
    misses.svg      reads of blocks over the fewest misses that the distribution allows
"""

import argparse
import json
from collections import Counter
from pathlib import Path

import misses
from common import Failure, run_program
from svg import Axis, Point, lines, size

OURS = "thermocline"

# What Thermocline has by default, as records write it. A figure keeps all but one or two of these fixed.
DEFAULTS = {"block_bytes": 64 << 10, "merge": "tuple", "row_bytes": misses.ROW_BYTES, "victims": "sampled"}

SHOWN = {
    "block_bytes": lambda value: f"blocks of {size(value)}",
    "merge": lambda value: f"{value} merge",
    "row_bytes": lambda value: f"rows of {value} bytes",
    "victims": lambda value: f"victims {value}",
}

# Points of a timeline.
TIMELINE_MAX = 150

RATE = Axis("transactions/s")
SKEW = Axis("skew (exponent of the Zipf distribution)", falls=True, ticks_at_values=True)
BLOCK = Axis("size of a block", log=True, ticks_at_values=True, text=lambda value: size(round(value)))
ROW = Axis("size of a row (bytes)", log=True, ticks_at_values=True, text=lambda value: f"{value:.0f}")


def read(paths):
    """Records of files and folders, each with its system's name."""
    records = []
    for path in paths:
        if not path.exists():
            raise Failure(f"there is no {path}")
        for file in sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]:
            # A folder of oltp.py, where two files may have one engine.
            has_peers = (file.parent / "run.json").exists()
            for text in file.read_text().splitlines():
                record = json.loads(text)
                if "transactions_per_s" in record:
                    name = file.stem if has_peers else record["engine"].split()[0]
                    records.append(with_defaults(record) | {"system": name})
    return records


def with_defaults(record):
    """A record with the fields that earlier versions of the bench did not have."""
    missing = {"row_bytes": misses.ROW_BYTES, "victims": "sampled", "chain_sampling": None}
    return missing | {name: value for name, value in record.items() if value is not None or name not in missing}


def victims(record):
    """The choice of victims, with the share of transactions that the chain follows."""
    if record["victims"] == "chain" and record["chain_sampling"] is not None:
        return f"chain, {record['chain_sampling'] * 100:g}% sampled"
    return record["victims"]


def pressure(record):
    """Bytes of all rows for each byte of memory; None without both."""
    if not record.get("rows") or not record.get("memory_limit_bytes"):
        return None
    return record["rows"] * misses.row_bytes(record) / record["memory_limit_bytes"]


def place(record):
    """Mix and size of the data, as a panel's title."""
    times = pressure(record)
    return f"{record['mix']}, data {times:.1f} × memory" if times else record["mix"]


def fixed(records, *free):
    """Records with one value of each setting that is not free, and a text that says which.

    The value is the default one, or the most frequent one if no record has that. Other systems have no such settings.
    """
    said = []
    for name, default in DEFAULTS.items():
        if name in free:
            continue
        values = Counter(record[name] for record in records if record["system"] == OURS and name in record)
        if not values:
            continue
        value = default if default in values else values.most_common(1)[0][0]
        records = [record for record in records if record["system"] != OURS or record.get(name) == value]
        said.append(SHOWN[name](value))
    return records, ", ".join(said)


def ycsb(records):
    return [record for record in records if record["workload"] == "ycsb" and record.get("skew") is not None]


def ours(records):
    return [record for record in records if record["system"] == OURS and record.get("evicts", True)]


def by_size(records):
    """In the order of panels: mixes as they come, data from small to large."""
    order = {mix: index for index, mix in enumerate(dict.fromkeys(record["mix"] for record in records))}
    return sorted(records, key=lambda record: (order[record["mix"]], pressure(record) or 0))


def several(points, of):
    """The points, if there are at least two different ones in this respect."""
    return points if len({of(point) for point in points}) > 1 else []


def over_skew(records):
    records, said = fixed(by_size(ycsb(records)))
    points = [Point(place(r), r["system"], r["skew"], r["transactions_per_s"]) for r in records]
    columns = len({point.panel.split(", ", 1)[-1] for point in points})
    return lines("YCSB over skew", said, SKEW, RATE, several(points, lambda p: p.x), columns=columns)


def timeline(record):
    """Seconds and transactions a second of a record, in at most `TIMELINE_MAX` pieces, and when rows were evicted."""
    moments = record.get("timeline") or []
    step = -(-len(moments) // TIMELINE_MAX) or 1
    before, found = 0.0, []
    for first in range(0, len(moments), step):
        piece = moments[first:first + step]
        until = piece[-1]["seconds"]
        if until > before:
            found.append((until, sum(moment["transactions"] for moment in piece) / (until - before)))
        before = until
    return found, [moment["seconds"] for moment in moments if moment["evicted_rows"]]


SECONDS = Axis("time (s)")


def tpcc_over_time(records):
    points = []
    for record in records:
        if record["workload"] == "tpcc":
            panel = f"{record['warehouses']} warehouses"
            is_limited = record["system"] != OURS or record["evicts"]
            limit = f"memory {size(record['memory_limit_bytes'])}" if is_limited else "without eviction"
            series = limit if record["system"] == OURS else f"{record['system']}, {limit}"
            points += [Point(panel, series, at, rate) for at, rate in timeline(record)[0]]
    return lines("TPC-C over time", "the data grows", SECONDS, RATE, points, marks=False)


def tpcc_over_data(records):
    points = []
    for record in records:
        if record["workload"] == "tpcc" and record.get("memory_limit_bytes"):
            times = record["warehouses"] / (record["memory_limit_bytes"] / (1 << 30))
            points.append(Point("TPC-C", record["system"], times, record["transactions_per_s"]))
    axis = Axis("warehouses for each GiB of memory", log=True, ticks_at_values=True)
    return lines("TPC-C over data and memory", "", axis, RATE, several(points, lambda p: p.x))


def merges(records):
    records, said = fixed(by_size(ours(ycsb(records))), "merge", "block_bytes")
    points = [
        Point(f"{place(r)}, {size(r['block_bytes'])}", f"{r['merge']} merge", r["skew"], r["transactions_per_s"])
        for r in records
    ]
    return lines("Merge strategies", said, SKEW, RATE, several(points, lambda p: p.series))


def over_blocks(records):
    records, said = fixed(by_size(ours(ycsb(records))), "block_bytes")
    points = [Point(place(r), f"skew {r['skew']:g}", r["block_bytes"], r["transactions_per_s"]) for r in records]
    return lines("Size of blocks", said, BLOCK, RATE, several(points, lambda p: p.x))


def over_rows(records):
    records, said = fixed(by_size(ours(ycsb(records))), "row_bytes")
    points = [Point(place(r), f"skew {r['skew']:g}", r["row_bytes"], r["transactions_per_s"]) for r in records]
    return lines("Size of rows", said, ROW, RATE, several(points, lambda p: p.x))


def over_victims(records):
    records, said = fixed(by_size(ours(ycsb(records))), "victims")
    points = [Point(place(r), victims(r), r["skew"], r["transactions_per_s"]) for r in records]
    return lines("Choice of victims", said, SKEW, RATE, several(points, lambda p: p.series))


def cost_of_blocks(title, axis, cost):
    """A figure of something that a record costs, by merge strategy."""
    def draw(records):
        records, said = fixed(by_size(ours(ycsb(records))), "block_bytes", "merge")
        points = [
            Point(f"{place(r)}, skew {r['skew']:g}", f"{r['merge']} merge", r["block_bytes"], cost(r))
            for r in records if cost(r) is not None
        ]
        return lines(title, said, BLOCK, axis, several(points, lambda p: p.x))

    return draw


def hold(record):
    return (record.get("eviction") or {}).get("held_us_max", 0) / 1000 or None


def evictions(records):
    points, events = [], {}
    records, said = fixed(by_size(ours(records)))
    for record in records:
        pieces, evicted = timeline(record)
        if evicted:
            skew = "" if record.get("skew") is None else f", skew {record['skew']:g}"
            panel = f"{record['workload']} {place(record)}{skew}"
            if panel not in events:
                events[panel] = evicted
                points += [Point(panel, OURS, at, rate) for at, rate in pieces]
    return lines("Evictions over time (grey)", said, SECONDS, RATE, points, marks=False, events=events)


def misses_over_skew(records):
    records, said = fixed(by_size(ours(ycsb(records))), "merge")
    points = [
        Point(place(r), f"{r['merge']} merge", r["skew"], misses.reads_over_ideal(r))
        for r in records if misses.reads_over_ideal(r) is not None
    ]
    return lines("Reads of blocks over the fewest misses", said, SKEW, Axis("reads / ideal"), points)


FIGURES = {
    "figure-6": over_skew,
    "figure-7": tpcc_over_time,
    "figure-7b": tpcc_over_data,
    "figure-8": merges,
    "figure-9a": over_blocks,
    "figure-9b": over_rows,
    "figure-10": over_victims,
    "figure-11a": cost_of_blocks("Longest hold of a partition by eviction", Axis("milliseconds"), hold),
    "figure-11b": cost_of_blocks(
        "Bytes read for each row that came back", Axis("bytes", log=True), misses.bytes_of_returned_row
    ),
    "figure-12": evictions,
    "misses": misses_over_skew,
}


def draw(records, out, names=tuple(FIGURES)):
    """Writes the figures that the records have points for; returns their paths."""
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for name in names:
        if image := FIGURES[name](records):
            path = out / f"{name}.svg"
            path.write_text(image)
            written.append(path)
    return written


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="folders or files of records")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="for the figures; created if missing")
    parser.add_argument("--figures", nargs="*", choices=FIGURES, default=list(FIGURES), help="all by default")
    given = parser.parse_args()
    written = draw(read(given.paths), given.out, given.figures)
    print("\n".join(map(str, written)) or "no figure has points")


if __name__ == "__main__":
    run_program(main)
