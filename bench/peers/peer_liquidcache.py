"""LiquidCache: its server beside the data, with its cache there, and a client at the other end of the link. Beside it,
plain DataFusion of the same version over MinIO.

The server has the policies that the crate chooses by itself: LiquidPolicy, TranscodeSqueezeEvict (what does not fit in
memory is squeezed to disk, without a limit) and AlwaysHydrate.
"""

import contextlib
import os

from common import bytes_for_everything
from driver import driver
from measure import measure
from objectstore import BUCKET, PASSWORD, REGION, USER, object_store
from processes import free_port, listens, wait_for

NAME = "liquidcache"
NEEDS = ["python", "minio", "liquidcache"]


def run(setting, results):
    yield from measure(setting, results, "liquidcache", start, caches=True)
    with object_store(setting) as setting.storage:
        yield from measure(setting, results, "datafusion-53", start_datafusion, caches=False)


def program(setting, name):
    return setting.work / "liquidcache" / "release" / name


class Client:
    """A client's driver that asks the server for what it caches."""

    def __init__(self, client, server):
        self.run, self.version, self.cached_bytes = client.run, client.version, server.cached_bytes


@contextlib.contextmanager
def start(setting, mode, cache_bytes):
    with contextlib.ExitStack() as stack:
        port, folder = free_port(), setting.scratch / "liquidcache"
        command = [program(setting, "liquidcache-server"), port, cache_bytes or bytes_for_everything(), folder]
        server = stack.enter_context(driver(setting, "liquidcache-server", command))
        wait_for("LiquidCache", lambda: listens(port), server.process, server.log)
        address = f"127.0.0.1:{setting.link.attach(port)}"
        command = [program(setting, "liquidcache-client"), address, setting.data, setting.threads, *setting.tables]
        client = stack.enter_context(driver(setting, "liquidcache-client", command))
        yield Client(client, server)


@contextlib.contextmanager
def start_datafusion(setting, mode, _cache_bytes):
    environment = {"AWS_ACCESS_KEY_ID": USER, "AWS_SECRET_ACCESS_KEY": PASSWORD, "AWS_REGION": REGION}
    command = [program(setting, "datafusion-s3"), setting.storage.endpoint, BUCKET, setting.threads, *setting.tables]
    with driver(setting, mode, command, env=os.environ | environment) as engine:
        yield engine
