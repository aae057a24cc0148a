"""Trino over MinIO, with and without its file system cache, which is on disk.

Tables are external ones of the Hive connector with a metastore of files. Statistics are collected, and all queries run
once over small data, before anything is measured: a plan without statistics and code that the JVM has not yet compiled
would be measured otherwise.
"""

import contextlib
import http.client
import json
import shutil
import time
import urllib.request

import install
from common import Failure
from driver import Answer
from measure import measure
from objectstore import BUCKET, BUCKET_SMALL, PASSWORD, REGION, USER, object_store
from processes import SECONDS_TO_START, free_port, running, tail, wait_for

NAME = "trino"
NEEDS = ["python", "minio", "trino"]

TYPES = {"int64": "bigint", "int32": "integer", "date32[day]": "date", "string": "varchar"}

JVM = """-server
-Xmx{heap}
-XX:+UseG1GC
-XX:G1HeapRegionSize=32M
-XX:+ExplicitGCInvokesConcurrent
-XX:+ExitOnOutOfMemoryError
-XX:-OmitStackTraceInFastThrow
-XX:ReservedCodeCacheSize=512M
-XX:PerMethodRecompilationCutoff=10000
-XX:PerBytecodeRecompilationCutoff=10000
-Djdk.attach.allowAttachSelf=true
-Djdk.nio.maxCachedBufferSize=2000000
-Dfile.encoding=UTF-8
-XX:+EnableDynamicAgentLoading
"""

NODE = """node.environment=peers
node.id=peers
node.data-dir={folder}/var
node.bind-ip=127.0.0.1
node.internal-address=127.0.0.1
"""

SERVER = """coordinator=true
node-scheduler.include-coordinator=true
http-server.http.port={port}
discovery.uri=http://127.0.0.1:{port}
task.concurrency={threads}
task.max-worker-threads={threads}
"""

HIVE = """connector.name=hive
hive.metastore=file
hive.metastore.catalog.dir=local:///metastore
hive.non-managed-table-writes-enabled=true
fs.native-local.enabled=true
local.location={folder}
fs.native-s3.enabled=true
s3.endpoint=http://{endpoint}
s3.region={region}
s3.path-style-access=true
s3.aws-access-key={user}
s3.aws-secret-key={password}
"""

CACHE = """fs.cache.enabled=true
fs.cache.directories={folder}/cache
fs.cache.max-sizes={bytes}B
"""


def run(setting, results):
    with object_store(setting) as setting.storage:
        for mode, caches in (("trino-cache", True), ("trino", False)):
            yield from measure(setting, results, mode, start, caches)


@contextlib.contextmanager
def start(setting, mode, cache_bytes):
    with contextlib.ExitStack() as stack:
        folder = setting.scratch / "trino"
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        port = free_port()
        configure(setting, folder, port, cache_bytes)
        log = setting.log(mode)
        launcher = setting.work / f"trino-server-{install.TRINO}" / "bin" / "launcher"
        command = [launcher, "run", "--etc-dir", folder / "etc", "--data-dir", folder / "var"]
        java_home = install.java_home(setting.work)
        environment = {"JAVA_HOME": str(java_home), "PATH": f"{java_home}/bin:/usr/bin:/bin", "HOME": str(folder)}
        process = stack.enter_context(running(command, log, env=environment))
        wait_for("Trino", lambda: is_ready(port), process, log)
        engine = Trino(port, setting, folder, log)
        setting.link.limit(None)
        engine.prepare()
        yield engine


def configure(setting, folder, port, cache_bytes):
    """Writes Trino's configuration: a catalog `plain`, and `data` with the cache over the same metastore."""
    for name in ("etc/catalog", "cache", "metastore"):
        (folder / name).mkdir(parents=True)
    hive = HIVE.format(
        folder=folder, endpoint=setting.storage.endpoint, region=REGION, user=USER, password=PASSWORD
    )
    cache = CACHE.format(folder=folder, bytes=cache_bytes)
    texts = {
        "jvm.config": JVM.format(heap=setting.java_heap),
        "node.properties": NODE.format(folder=folder),
        "config.properties": SERVER.format(port=port, threads=setting.threads),
        "log.properties": "io.trino=WARN\n",
        "catalog/plain.properties": hive,
        "catalog/data.properties": hive if cache_bytes is None else hive + cache,
    }
    for name, text in texts.items():
        (folder / "etc" / name).write_text(text)


def is_ready(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/info", timeout=5) as answer:
        return not json.load(answer)["starting"]


class Trino:
    """A running server, through its REST protocol."""

    def __init__(self, port, setting, folder, log):
        self.port, self.setting, self.folder, self.log = port, setting, folder, log
        self.version = f"Trino {install.TRINO}"

    def prepare(self):
        """Makes the tables, collects statistics and lets the JVM compile."""
        for schema, bucket in (("small", BUCKET_SMALL), ("data", BUCKET)):
            self.statement(f"CREATE SCHEMA plain.{schema}")
            for table, columns in self.setting.storage.columns.items():
                of_table = ", ".join(f"{name} {type_of(arrow)}" for name, arrow in columns)
                where = f"external_location = 's3://{bucket}/{table}', format = 'PARQUET'"
                self.statement(f"CREATE TABLE plain.{schema}.{table} ({of_table}) WITH ({where})")
                self.when_there_are_nodes(f"ANALYZE plain.{schema}.{table}")
        for query in self.setting.queries.first:
            self.statement(query.sql, "plain", "small")

    def when_there_are_nodes(self, sql):
        """Runs a statement again until the scheduler knows of its own node."""
        deadline = time.monotonic() + SECONDS_TO_START
        while True:
            try:
                return self.statement(sql)
            except Failure as failure:
                if "No nodes available" not in str(failure) or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def run(self, sql):
        started = time.perf_counter()
        rows = self.statement(sql, "data", "data")
        seconds = time.perf_counter() - started
        return Answer(seconds, [[None if value is None else str(value) for value in row] for row in rows])

    def statement(self, sql, catalog="plain", schema="data"):
        headers = {"X-Trino-User": "peers", "X-Trino-Catalog": catalog, "X-Trino-Schema": schema}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/statement", sql.encode(), headers)
        deadline = time.monotonic() + self.setting.seconds_max
        rows = []
        while True:
            try:
                with urllib.request.urlopen(request, timeout=self.setting.seconds_max) as answer:
                    page = json.loads(answer.read(), parse_float=str)
            # A connection that is lost or late while the answer is read is not an error of urllib.
            except (OSError, http.client.HTTPException) as error:
                raise Failure(f"Trino: {error}: {tail(self.log)}") from error
            if "error" in page:
                raise Failure(f"Trino: {page['error']['message']} in {sql}")
            rows += page.get("data", [])
            if "nextUri" not in page:
                return rows
            if time.monotonic() > deadline:
                raise Failure(f"Trino: longer than {self.setting.seconds_max} s: {sql}")
            request = page["nextUri"]

    def cached_bytes(self):
        """Bytes of the cache's files."""
        return sum(file.stat().st_size for file in (self.folder / "cache").rglob("*") if file.is_file())


def type_of(arrow):
    """Trino's name of an Arrow type."""
    return TYPES.get(arrow) or arrow.replace("decimal128", "decimal")
