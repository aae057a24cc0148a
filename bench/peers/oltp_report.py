"""Prints the table of one or more folders of oltp.py: transactions a second, and Thermocline's over each peer's.

Two more columns of YCSB are Thermocline's: reads of blocks over the fewest misses that the distribution of keys allows
with the memory limit (misses.py), and bytes read for each row that came back. Folders of TPC-C that differ only in
memory and warehouses make one table, of New-Orders a second; if they have several memory limits, it also has each
one's share of what the same engine does with the largest.

    python3 bench/peers/oltp_report.py target/peers/ycsb
    python3 bench/peers/oltp_report.py target/peers/tpcc-*
"""

import argparse
import json
from pathlib import Path

import misses

OURS = "thermocline"


def read(folder):
    """The folder's run.json, and its records by peer, Thermocline first."""
    run = json.loads((folder / "run.json").read_text())
    names = sorted(run["peers"], key=lambda name: name != OURS)
    lines = {name: (folder / f"{name}.jsonl").read_text().splitlines() for name in names}
    return run, {name: [json.loads(line) for line in lines[name]] for name in names}


def size(count):
    """A number of bytes with the largest unit that divides it."""
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count and count % (1 << shift) == 0:
            return f"{count >> shift} {unit}"
    return f"{count} bytes"


def is_tpcc(setting):
    return setting.get("workload") == "tpcc"


def title(setting):
    extra = setting["thermocline_arguments"]
    what = "TPC-C, "
    if not is_tpcc(setting):
        what = f"YCSB, {setting['rows']:,} rows of 1 KB, {size(setting['memory_limit_bytes'])} of memory, "
    return (
        f"{what}{setting['connections']} connections of each peer, {setting['seconds']:g} s"
        f"{extra and f', {OURS} with {extra}'}"
    )


def by_point(records):
    """Transactions a second by mix and skew; the first record of a point counts."""
    rates = {}
    for record in records:
        rates.setdefault((record["mix"], record["skew"]), record["transactions_per_s"])
    return rates


def ratio(ours, theirs):
    if not ours or not theirs:
        return "-"
    value = ours / theirs
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def reads(records):
    """The cells of misses by mix and skew; nothing if no record has read blocks."""
    if not any((record.get("eviction") or {}).get("reads") for record in records):
        return {}
    cells = {}
    for record in records:
        over, of_row = misses.reads_over_ideal(record), misses.bytes_of_returned_row(record)
        of_point = ["-" if over is None else f"{over:.2f}", "-" if of_row is None else f"{of_row:,.0f}"]
        cells.setdefault((record["mix"], record["skew"]), of_point)
    return cells


def shown_names(peers):
    """Names by peer, with a star if its page cache is not bounded; and lines that explain the star."""
    stars = {name for name, records in peers.items() if not all(r.get("page_cache_bounded", True) for r in records)}
    shown = {name: f"{name} \\*" if name in stars else name for name in peers}
    return shown, ["", "\\* The system's page cache, which it reads through, is not bounded."] if stars else []


def table(peers):
    """Lines of a table of YCSB with a row for each mix and skew."""
    rates = {name: by_point(records) for name, records in peers.items()}
    shown, note = shown_names(peers)
    others = [name for name in rates if name != OURS and OURS in rates]
    heads = ["mix", "skew", *shown.values(), *(f"{OURS} / {name}" for name in others)]
    of_blocks = reads(peers.get(OURS, []))
    heads += ["reads / ideal", "bytes / row read"] if of_blocks else []
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    for point in dict.fromkeys(point for of_peer in rates.values() for point in of_peer):
        mix, skew = point
        cells = [mix, f"{skew:g}"]
        cells += [f"{of_peer[point]:,.0f}" if point in of_peer else "-" for of_peer in rates.values()]
        cells += [ratio(rates[OURS].get(point), rates[name].get(point)) for name in others]
        cells += of_blocks.get(point, ["-", "-"]) if of_blocks else []
        lines.append("| " + " | ".join(cells) + " |")
    return lines + note


def tpcc_table(peers):
    """Lines of a table of TPC-C with a row for each number of warehouses and memory limit: New-Orders a second."""
    rates = {}
    for name, records in peers.items():
        of_peer = rates[name] = {}
        for record in records:
            of_peer.setdefault((record["warehouses"], record["memory_limit_bytes"]), record["new_orders_per_s"])
    points = sorted({point for of_peer in rates.values() for point in of_peer})
    largest = max((memory for _, memory in points), default=0)
    has_spare = any(memory < largest for _, memory in points)
    shown, note = shown_names(peers)
    others = [name for name in rates if name != OURS and OURS in rates]
    heads = ["warehouses", "memory", *shown.values(), *(f"{OURS} / {name}" for name in others)]
    heads += [f"{name} / with {size(largest)}" for name in rates] if has_spare else []
    lines = ["| " + " | ".join(heads) + " |", "|" + "---:|" * len(heads)]
    for point in points:
        count, memory = point
        cells = [f"{count:,}", size(memory)]
        cells += [f"{of_peer[point]:,.0f}" if point in of_peer else "-" for of_peer in rates.values()]
        cells += [ratio(rates[OURS].get(point), rates[name].get(point)) for name in others]
        if has_spare:
            cells += [ratio(of_peer.get(point), of_peer.get((count, largest))) for of_peer in rates.values()]
        lines.append("| " + " | ".join(cells) + " |")
    return lines + note


def print_report(folders):
    # Records by the title of their table.
    tables = {}
    for folder in folders:
        run, peers = read(folder)
        if is_tpcc(run["setting"]):
            of_table = tables.setdefault(title(run["setting"]), {})
            for name, records in peers.items():
                of_table.setdefault(name, []).extend(records)
        else:
            print(f"\n{title(run['setting'])}: transactions a second\n")
            print("\n".join(table(peers)))
    for name, peers in tables.items():
        print(f"\n{name}: New-Orders a second\n")
        print("\n".join(tpcc_table(dict(sorted(peers.items(), key=lambda peer: peer[0] != OURS)))))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folders", nargs="+", type=Path)
    print_report(parser.parse_args().folders)


if __name__ == "__main__":
    main()
