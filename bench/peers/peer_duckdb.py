"""DuckDB with its httpfs extension over MinIO, with and without its cache of external files.

That cache has no limit of its own: its blocks stay in the buffer pool until something else needs the memory. Here it is
limited between queries by a memory limit of its bytes, which evicts the least recently used blocks. While a query runs,
the memory limit is those bytes and, on top, the most memory that the same query took without the cache.
"""

import contextlib
import json
import sys
import time
from pathlib import Path

from common import bytes_for_everything
from driver import driver, serve
from measure import measure
from objectstore import BUCKET, PASSWORD, REGION, USER, object_store

NAME = "duckdb"
NEEDS = ["python", "minio"]

# Memory for the statements that set limits and ask for sizes.
MEMORY_SPARE = 256 << 10


def run(setting, results):
    with object_store(setting) as setting.storage:
        for mode, caches in (("duckdb-cache", True), ("duckdb", False)):
            yield from measure(setting, results, mode, start, caches)


@contextlib.contextmanager
def start(setting, mode, cache_bytes):
    is_limited = cache_bytes is not None and cache_bytes < bytes_for_everything()
    settings = {
        "endpoint": setting.storage.endpoint,
        "tables": setting.tables,
        "threads": setting.threads,
        "caches": cache_bytes is not None,
        "cache_bytes": cache_bytes if is_limited else None,
        "spill": str(setting.scratch / "duckdb-spill"),
    }
    with driver(setting, mode, [setting.venv, __file__, json.dumps(settings)]) as engine:
        if is_limited:
            setting.link.limit(None)
            for sql in {query.sql for query in setting.queries.first + setting.queries.again}:
                engine.ask(peak=sql)
        yield engine


class DuckDb:
    """A connection, in the driver's process."""

    def __init__(self, settings):
        import duckdb
        import duckdb_extension_httpfs

        self.version = duckdb.__version__
        self.cache_bytes = settings["cache_bytes"]
        self.caches = settings["caches"]
        # Most memory that each query takes without the cache.
        self.peaks = {}
        self.connection = duckdb.connect()
        [extension] = Path(duckdb_extension_httpfs.__path__[0]).rglob("httpfs.duckdb_extension")
        self.set(f"LOAD '{extension}'")
        self.set(
            f"CREATE SECRET (TYPE s3, KEY_ID '{USER}', SECRET '{PASSWORD}', REGION '{REGION}', URL_STYLE 'path', "
            f"USE_SSL false, ENDPOINT '{settings['endpoint']}')"
        )
        self.set("SET enable_progress_bar = false")
        self.set(f"SET temp_directory = '{settings['spill']}'")
        self.set(f"SET threads = {settings['threads']}")
        self.set(f"SET enable_external_file_cache = {str(self.caches).lower()}")
        for table in settings["tables"]:
            self.set(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('s3://{BUCKET}/{table}/*.parquet')")

    def set(self, sql):
        self.connection.execute(sql)

    def execute(self, sql):
        """Runs a query: its seconds, and its rows as an Arrow table."""
        if self.cache_bytes is not None:
            self.limit(self.cache_bytes + self.peaks[sql])
        started = time.perf_counter()
        table = self.connection.execute(sql).fetch_arrow_table()
        seconds = time.perf_counter() - started
        if self.cache_bytes is not None:
            self.limit(self.cache_bytes)
        return seconds, table

    def limit(self, count):
        """Sets the memory limit to these bytes and what is in use besides the cache, which evicts what is above it."""
        others = self.memory("<>")
        self.set(f"SET memory_limit = '{count + others + MEMORY_SPARE}B'")

    def memory(self, compared):
        """Bytes in use by the cache (`=`) or by all else (`<>`)."""
        query = f"SELECT sum(memory_usage_bytes) FROM duckdb_memory() WHERE tag {compared} 'EXTERNAL_FILE_CACHE'"
        return int(self.connection.execute(query).fetchone()[0])

    def peak(self, sql):
        """Runs a query without the cache and remembers the memory that it took."""
        self.set("SET enable_external_file_cache = false")
        self.set("PRAGMA enable_profiling = 'no_output'")
        self.connection.execute(sql).fetch_arrow_table()
        profile = json.loads(self.connection.get_profiling_information(format="json"))
        self.peaks[sql] = profile["system_peak_buffer_memory"]
        self.set("PRAGMA disable_profiling")
        self.set("SET enable_external_file_cache = true")
        return {"bytes": self.peaks[sql]}

    def cached(self, _request):
        """Bytes of the cache's blocks in memory."""
        return {"bytes": self.memory("=")}


if __name__ == "__main__":
    duckdb = DuckDb(json.loads(sys.argv[1]))
    serve(f"DuckDB {duckdb.version}", duckdb.execute, peak=duckdb.peak, cached=duckdb.cached)
