"""MinIO on loopback with the data in a bucket, a folder for each table."""

import contextlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from processes import call, free_port, listens, running, wait_for

USER, PASSWORD, REGION = "peers", "peers-on-loopback", "us-east-1"
BUCKET, BUCKET_SMALL = "data", "small"


@dataclass
class ObjectStore:
    port: int
    """The port that engines connect to."""
    columns: dict
    """Names and Arrow types of each table's columns."""

    @property
    def endpoint(self):
        return f"127.0.0.1:{self.port}"


@contextlib.contextmanager
def object_store(setting):
    """A running MinIO behind the link, with the data and the small data."""
    port = free_port()
    folder = setting.scratch / "minio"
    log = setting.log("minio")
    command = [setting.work / "bin" / "minio", "server", "--quiet", "--address", f"127.0.0.1:{port}"]
    command += ["--console-address", f"127.0.0.1:{free_port()}", folder]
    environment = {"MINIO_ROOT_USER": USER, "MINIO_ROOT_PASSWORD": PASSWORD, "HOME": str(setting.scratch)}
    with running(command, log, env=environment) as process:
        wait_for("MinIO", lambda: listens(port), process, log)
        upload = [setting.venv, __file__, f"127.0.0.1:{port}"]
        call([*upload, BUCKET_SMALL, setting.data_small, *setting.tables])
        columns = json.loads(call([*upload, BUCKET, setting.data, *setting.tables]))
        yield ObjectStore(setting.link.attach(port), columns)


def upload(endpoint, bucket, data, *tables):
    """Copies the tables' files into a new bucket, and prints their columns."""
    from pyarrow import fs, parquet

    store = fs.S3FileSystem(
        endpoint_override=endpoint, scheme="http", access_key=USER, secret_key=PASSWORD, region=REGION,
        allow_bucket_creation=True,
    )
    store.create_dir(bucket)
    columns = {}
    for table in tables:
        files = sorted((Path(data) / table).glob("*.parquet"))
        for file in files:
            fs.copy_files(str(file), f"{bucket}/{table}/{file.name}", destination_filesystem=store)
        columns[table] = [(column.name, str(column.type)) for column in parquet.read_schema(files[0])]
    print(json.dumps(columns))


if __name__ == "__main__":
    upload(*sys.argv[1:])
