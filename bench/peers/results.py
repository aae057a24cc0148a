"""Results of queries, which must be equal in all engines."""

import hashlib
import json
from decimal import Decimal, InvalidOperation

from common import Failure


class Results:
    """The first result of each query, which those of all other engines must equal. Kept in a file between runs."""

    def __init__(self, path):
        self.path = path
        self.known = json.loads(path.read_text()) if path.exists() else {}

    def save(self):
        self.path.write_text(json.dumps(self.known))

    def check(self, mode, query, rows):
        """Remembers or compares rows, without their order."""
        key = hashlib.sha256(query.sql.encode()).hexdigest()[:16]
        known = self.known.setdefault(key, {"mode": mode, "rows": rows})
        if len(rows) != len(known["rows"]):
            raise Failure(
                f"query {query.name} has {len(rows)} rows in {mode} and {len(known['rows'])} in {known['mode']}"
            )
        for ours, theirs in zip(sorted(known["rows"], key=order), sorted(rows, key=order)):
            if len(ours) != len(theirs) or not all(map(same, ours, theirs)):
                raise Failure(f"query {query.name} has the row {theirs} in {mode} and {ours} in {known['mode']}")


def number(text):
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def order(row):
    """Sort key: texts before numbers, which engines round differently."""
    words, numbers = [], []
    for cell in row:
        value = None if cell is None else number(cell)
        if value is None:
            words.append((cell is not None, cell or ""))
        else:
            numbers.append(float(f"{value:.3e}"))
    return words, numbers


def same(ours, theirs):
    """Whether two values as text are equal.

    Numbers may differ by a unit of the last digit of the one with fewer digits after the point (an average of decimals
    is rounded to 2 digits in Trino, cut to 6 in DataFusion, and a float in DuckDB), or by a billionth.
    """
    if ours == theirs:
        return True
    if ours is None or theirs is None:
        return False
    x, y = number(ours), number(theirs)
    if x is None or y is None or not (x.is_finite() and y.is_finite()):
        return False
    digits = min(-min(x.as_tuple().exponent, 0), -min(y.as_tuple().exponent, 0))
    unit = Decimal(10) ** -digits if digits else Decimal(0)
    return abs(x - y) <= max(unit, abs(x) * Decimal("1e-9"))
