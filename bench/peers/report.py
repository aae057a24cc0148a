"""Prints the table of one or more folders of run.py: seconds and bytes of each peer, and the ratio to Thermocline.

    python3 bench/peers/report.py target/peers/tpch [--queries]
"""

import argparse
import json
from pathlib import Path
from statistics import median

FIRST, LATER = "warmup", "timed"


def read(folder):
    """The folder's run.json, and its records by mode, Thermocline's modes first."""
    run = json.loads((folder / "run.json").read_text())
    modes = {}
    for peer in sorted(run["peers"], key=lambda name: (name != "thermocline", name)):
        for line in (folder / f"{peer}.jsonl").read_text().splitlines():
            record = json.loads(line)
            modes.setdefault((peer, record["mode"]), []).append(record)
    return run, modes


def seconds(records, run, passes):
    """Seconds of a pass: the sum of each query's median."""
    records = [record for record in records if record["run"] == run]
    length = len(records) // passes
    return sum(median(record["seconds"] for record in records[at::length]) for at in range(length))


def megabytes(records, run, passes):
    """Megabytes from and to storage in a pass; None if nobody counted them."""
    records = [record for record in records if record["run"] == run]
    moved = [(record["bytes_from_storage"], record["bytes_to_storage"]) for record in records]
    if any(None in both for both in moved):
        return None
    return sum(map(sum, moved)) / passes / 1e6


def cell(value, digits):
    return "-" if value is None else f"{value:,.{digits}f}"


def title(setting):
    rate = "no limit" if setting["bits_per_s"] is None else f"{setting['bits_per_s'] / 1e6:g} Mbit/s"
    cache = setting["cache"] if isinstance(setting["cache"], str) else f"{setting['cache'] / 1e6:g} MB"
    return (
        f"{setting['workload']} scale {setting['scale']:g}, {rate} ({setting['link']}), cache: {cache}, "
        f"{setting['threads']} threads, {setting['passes']} pass(es) after the first"
    )


def table(run, modes):
    """Lines of a table in Markdown."""
    count = run["setting"]["passes"]
    heads = ["mode", "cache MB", "first s", "later s", "first MB", "later MB", "first / ours", "later / ours"]
    lines = ["| " + " | ".join(heads) + " |", "|---" + "|---:" * (len(heads) - 1) + "|"]
    ours = next((records for (peer, _), records in modes.items() if peer == "thermocline"), None)
    for (peer, mode), records in modes.items():
        name = f"thermocline {mode}" if peer == "thermocline" else mode
        caches = records[0]["cache_bytes"]
        cells = [name, cell(caches / 1e6 if caches else None, 0)]
        cells += [cell(seconds(records, at, passes), 3) for at, passes in ((FIRST, 1), (LATER, count))]
        cells += [cell(megabytes(records, at, passes), 1) for at, passes in ((FIRST, 1), (LATER, count))]
        for at, passes in ((FIRST, 1), (LATER, count)):
            cells.append(cell(ours and seconds(records, at, passes) / seconds(ours, at, passes), 2))
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def query_table(modes, at):
    """Median seconds of each query in the passes `at`, a column for each mode."""
    names = {}
    for (peer, mode), records in modes.items():
        of_mode = names.setdefault(f"thermocline {mode}" if peer == "thermocline" else mode, {})
        for record in records:
            if record["run"] == at:
                of_mode.setdefault(record["query"], []).append(record["seconds"])
    lines = ["| query | " + " | ".join(names) + " |", "|---" + "|---:" * len(names) + "|"]
    for query in next(iter(names.values())):
        cells = [cell(median(of_mode[query]) if query in of_mode else None, 3) for of_mode in names.values()]
        lines.append(f"| {query} | " + " | ".join(cells) + " |")
    return lines


def print_report(folders, queries=False):
    for folder in folders:
        run, modes = read(folder)
        print(f"\n{title(run['setting'])}\n")
        print("\n".join(table(run, modes)))
        if queries:
            for at, name in ((FIRST, "first pass"), (LATER, "later passes")):
                print(f"\nmedian seconds of a query, {name}\n")
                print("\n".join(query_table(modes, at)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--queries", action="store_true", help="also the median seconds of each query")
    given = parser.parse_args()
    print_report(given.folders, given.queries)


if __name__ == "__main__":
    main()
