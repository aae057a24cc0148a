"""Servers of databases and memcached, each with a memory limit, on Unix sockets.

Root starts them as the user `nobody`: PostgreSQL and memcached refuse to run as root.
"""

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

import install
from common import Failure
from processes import call, running, wait_for

MIB = 1 << 20

# Share of the memory limit that memcached has; InnoDB's buffer pool has the rest.
MEMCACHED_SHARE = 0.5

# Memory of PostgreSQL besides its shared buffers, in its control group: of the server, and of a connection.
POSTGRESQL_BYTES, POSTGRESQL_BYTES_OF_CONNECTION = 48 * MIB, 3 * MIB


@dataclass
class Server:
    """A running server, for the arguments of oltp-peer."""

    arguments: list
    """Its address."""
    process: int | None
    """The process whose resident memory is the server's; None if several share theirs."""
    has_bounded_page_cache: bool = True
    """Whether what it reads through the system's page cache counts toward its limit, or it reads around it."""


def account():
    """User and group that servers run as if this program is root; None otherwise."""
    if os.geteuid() != 0:
        return None
    nobody = pwd.getpwnam("nobody")
    return nobody.pw_uid, nobody.pw_gid


def as_account(command):
    """The command of a server that must not be root."""
    if not (ids := account()):
        return command
    install.need("setpriv", "a server that does not run as root")
    user, group = ids
    # The kernel forgets the signal of `running` when the user changes.
    change = ["setpriv", "--reuid", user, "--regid", group, "--clear-groups", "--pdeathsig", "KILL"]
    return [*change, *command]


@contextlib.contextmanager
def folder_of(parent, name):
    """A folder that belongs to the servers' user, and that is removed at the end."""
    folder = parent / name
    folder.mkdir()
    try:
        if ids := account():
            os.chown(folder, *ids)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def listens(path):
    """Whether a server listens on a Unix socket."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    return True


def innodb_log_bytes(memory):
    """Size of a redo log that forces no checkpoint for lack of room in a run of some minutes."""
    return min(max(memory, 1 << 30), 4 << 30)


def mariadb_options(memory, connections):
    return [
        f"--innodb-buffer-pool-size={memory}",
        "--innodb-flush-method=O_DIRECT",
        "--innodb-flush-log-at-trx-commit=1",
        f"--innodb-log-file-size={innodb_log_bytes(memory)}",
        "--skip-log-bin",
        f"--max-connections={connections + 10}",
        # For solid-state disks; the defaults are for those that turn.
        "--innodb-flush-neighbors=0",
        "--innodb-io-capacity=2000",
        # Nothing is kept for the next start.
        "--innodb-fast-shutdown=2",
        "--innodb-buffer-pool-dump-at-shutdown=OFF",
    ]


@contextlib.contextmanager
def mariadb(setting, memory):
    """MariaDB with this many bytes of InnoDB's buffer pool, which files are read into around the page cache."""
    server = install.program("mariadbd", "mariadb-server-core")
    create = install.program("mariadb-install-db", "mariadb-server-core")
    # Which that script calls.
    install.program("my_print_defaults", "mariadb-client-core")
    with folder_of(setting.scratch, "mariadb") as folder:
        common = ["--no-defaults", f"--datadir={folder}"]
        root = "--auth-root-authentication-method=normal"
        call(as_account([create, *common, root, "--skip-test-db"]), cwd=folder)
        path, log = setting.sockets / "mariadb", setting.log("mariadb")
        command = [server, *common, f"--socket={path}", "--skip-networking", f"--pid-file={folder / 'pid'}"]
        with running(as_account(command + mariadb_options(memory, setting.connections)), log, cwd=folder) as process:
            wait_for("MariaDB", lambda: listens(path), process, log)
            yield Server(["--socket", path, "--user", "root"], process.pid)


def memcached_bytes(memory):
    """Bytes of memcached, which takes whole MiB; the rest of the limit is the buffer pool's."""
    return int(memory * MEMCACHED_SHARE) // MIB * MIB


@contextlib.contextmanager
def memcached(setting, memory):
    """memcached with this many bytes for its entries."""
    server = install.program("memcached", "memcached")
    path, log = setting.sockets / "memcached", setting.log("memcached")
    # It keeps some of its connections for itself.
    command = [server, "-s", path, "-m", memory // MIB, "-c", setting.connections + 1024, "-t", os.cpu_count()]
    with running(as_account(command), log) as process:
        wait_for("memcached", lambda: listens(path), process, log)
        yield Server(["--memcached-socket", path], process.pid)


@contextlib.contextmanager
def mariadb_memcached(setting, memory):
    """MariaDB and memcached, which share the memory."""
    of_cache = memcached_bytes(memory)
    if of_cache == 0:
        raise Failure(f"a memory limit of {memory} bytes leaves memcached no MiB")
    with mariadb(setting, memory - of_cache) as database, memcached(setting, of_cache) as cache:
        yield Server(database.arguments + cache.arguments + ["--server", cache.process], database.process)


@contextlib.contextmanager
def rocksdb(setting, _memory):
    """A folder for RocksDB, which the client opens with its memory limit. It runs as the client's user."""
    folder = setting.scratch / "rocksdb"
    folder.mkdir()
    try:
        yield Server(["--directory", folder], None)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def postgresql_options(memory, connections):
    return {
        "shared_buffers": f"{memory // 1024}kB",
        "fsync": "on",
        "synchronous_commit": "on",
        # No checkpoint for lack of room in a run of some minutes, as for InnoDB.
        "max_wal_size": f"{innodb_log_bytes(memory) // MIB}MB",
        "max_connections": connections + 10,
        "listen_addresses": "",
    }


@contextlib.contextmanager
def postgresql(setting, memory):
    """PostgreSQL with this many bytes of shared buffers, in a control group of about as many where that is possible."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: -int(folder.parent.name))
    folders = os.pathsep.join(map(str, folders)) or "/usr/sbin"
    programs = [install.program(name, "postgresql", folders) for name in ("postgres", "initdb", "pg_isready")]
    server, create, is_ready = programs
    with contextlib.ExitStack() as stack:
        data = stack.enter_context(folder_of(setting.scratch, "postgresql"))
        locale = ["--encoding=UTF8", "--locale=C"]
        call(as_account([create, "-D", data, "-U", "peers", "-A", "trust", "--no-sync", *locale]), cwd=data)
        options = postgresql_options(memory, setting.connections) | {"unix_socket_directories": setting.sockets}
        command = [server, "-D", data]
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]
        # A page table of the shared buffers for each connection, eight bytes a page.
        of_connection = POSTGRESQL_BYTES_OF_CONNECTION + memory // 512
        group = stack.enter_context(
            memory_group("peers-postgresql", memory + POSTGRESQL_BYTES + of_connection * setting.connections)
        )
        log = setting.log("postgresql")
        process = stack.enter_context(running(in_group(group, as_account(command)), log, cwd=data))
        ask = as_account([is_ready, "-q", "-h", setting.sockets])
        wait_for("PostgreSQL", lambda: succeeds(ask), process, log)
        address = ["--socket", setting.sockets, "--user", "peers", "--database", "postgres"]
        yield Server(address, None, has_bounded_page_cache=group is not None)


def succeeds(command):
    command = [str(part) for part in command]
    return subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0


def group_parents(mounts, membership, root=Path("/")):
    """Groups of cgroup v2 that may get a child with a memory limit: this process's and those around it.

    `mounts` and `membership` are the texts of /proc/mounts and /proc/self/cgroup.
    """
    mount = next((line.split()[1] for line in mounts.splitlines() if line.split()[2] == "cgroup2"), None)
    own = next((line[3:] for line in membership.splitlines() if line.startswith("0::")), None)
    if not mount or not own:
        return []
    mount = root / mount.lstrip("/")
    group = mount / own.lstrip("/")
    found = []
    while True:
        with contextlib.suppress(OSError):
            if "memory" in (group / "cgroup.subtree_control").read_text().split():
                found.append(group)
        if group == mount or mount not in group.parents:
            return found
        group = group.parent


@contextlib.contextmanager
def memory_group(name, memory):
    """A control group with this memory limit, page cache included; None where there is no right to make one."""
    for parent in group_parents(Path("/proc/mounts").read_text(), Path("/proc/self/cgroup").read_text()):
        group = parent / f"{name}-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / "memory.max").write_text(str(memory))
            with contextlib.suppress(OSError):
                (group / "memory.swap.max").write_text("0")
            yield group
        finally:
            with contextlib.suppress(OSError):
                group.rmdir()
        return
    yield None


def in_group(group, command):
    """The command of a process that enters a control group first."""
    if group is None:
        return command
    return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', group / "cgroup.procs", *command]
