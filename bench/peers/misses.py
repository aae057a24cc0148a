"""The fewest misses that a Zipf distribution of keys allows a cache of rows, and a record's reads beside them.

A cache that always holds the M most popular of N rows has the fewest misses of all, because keys are drawn
independently: a call misses with the probability of the ranks above M, which is 1 - H(M, s) / H(N, s), where
H(n, s) = 1 + 2^-s + ... + n^-s.
"""

import math

# Bytes of a row as loaded: a key of 8 bytes and ten fields of 100.
ROW_BYTES = 1008

# Terms of a harmonic number that are added one by one; Euler and Maclaurin's formula has the others.
TERMS = 1000


def harmonic(n, s):
    """H(n, s), for n > 0 and any s."""
    head = sum(rank**-s for rank in range(1, min(n, TERMS) + 1))
    if n <= TERMS:
        return head
    logs = math.log(n) - math.log(TERMS)
    # The integral of x^-s from TERMS to n, also near s = 1.
    power = (1 - s) * logs
    area = TERMS ** (1 - s) * logs * (math.expm1(power) / power if abs(power) > 1e-12 else 1.0)
    return head + area + (n**-s - TERMS**-s) / 2 + s * (TERMS ** (-s - 1) - n ** (-s - 1)) / 12


def miss_share(rows, skew, rows_in_memory):
    """Share of the calls whose row is none of the most popular `rows_in_memory`."""
    if rows_in_memory >= rows:
        return 0.0
    if rows_in_memory <= 0:
        return 1.0
    return 1 - harmonic(rows_in_memory, skew) / harmonic(rows, skew)


def row_bytes(record):
    """Bytes of a row: the record's, or those of YCSB."""
    return record.get("row_bytes") or ROW_BYTES


def ideal(record):
    """Misses of the record's transactions if memory held nothing but its most popular rows; None without a Zipf
    distribution or a memory limit."""
    if record.get("skew") is None or not record.get("rows") or not record.get("memory_limit_bytes"):
        return None
    rows_in_memory = record["memory_limit_bytes"] // row_bytes(record)
    return record["transactions"] * miss_share(record["rows"], record["skew"], rows_in_memory)


def reads_over_ideal(record):
    """Reads of blocks over the fewest misses; None where nothing has to miss, or nothing was counted."""
    reads = (record.get("eviction") or {}).get("reads")
    fewest = ideal(record)
    # Fewer than one miss: chance decides.
    return reads / fewest if reads is not None and fewest and fewest >= 1 else None


def bytes_of_returned_row(record):
    """Bytes read for each row that came back; None if none did."""
    eviction = record.get("eviction") or {}
    return eviction["read_bytes"] / eviction["returned_rows"] if eviction.get("returned_rows") else None
