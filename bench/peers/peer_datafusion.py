"""Plain DataFusion over MinIO: no cache of data, only its own of footers and listings."""

import contextlib
import json
import sys
import time

from driver import driver, serve
from measure import measure
from objectstore import BUCKET, PASSWORD, REGION, USER, object_store

NAME = "datafusion"
NEEDS = ["python", "minio"]


def run(setting, results):
    with object_store(setting) as setting.storage:
        yield from measure(setting, results, "datafusion", start, caches=False)


@contextlib.contextmanager
def start(setting, mode, _cache_bytes):
    settings = {"endpoint": setting.storage.endpoint, "tables": setting.tables, "threads": setting.threads}
    with driver(setting, mode, [setting.venv, __file__, json.dumps(settings)]) as engine:
        yield engine


def main(settings):
    import datafusion
    import pyarrow
    from datafusion.object_store import AmazonS3

    config = datafusion.SessionConfig().with_target_partitions(settings["threads"])
    context = datafusion.SessionContext(config)
    store = AmazonS3(
        bucket_name=BUCKET, region=REGION, access_key_id=USER, secret_access_key=PASSWORD,
        endpoint=f"http://{settings['endpoint']}", allow_http=True,
    )
    context.register_object_store("s3://", store, BUCKET)
    for table in settings["tables"]:
        context.register_parquet(table, f"s3://{BUCKET}/{table}/")

    def execute(sql):
        started = time.perf_counter()
        frame = context.sql(sql)
        batches = frame.collect()
        seconds = time.perf_counter() - started
        return seconds, pyarrow.Table.from_batches(batches, schema=frame.schema())

    serve(f"DataFusion {datafusion.__version__}", execute)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
