"""Processes that end with this program, and ports for them."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time

from common import Failure

SECONDS_TO_START = 180
SECONDS_TO_STOP = 10



@contextlib.contextmanager
def running(command, log, **options):
    """A process with its output in the file `log`; it and all that it started end with the context.

    It has a session of its own, so that Ctrl-C reaches only this program, which then stops it. If this program is
    killed, the kernel kills it too, where there is setpriv.
    """
    with open(log, "wb") as output:
        options = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output} | options
        prefix = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        command = [*prefix, *(str(part) for part in command)]
        process = subprocess.Popen(command, start_new_session=True, **options)
    try:
        yield process
    finally:
        stop(process)
        for pipe in (process.stdin, process.stdout):
            if pipe:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def stop(process):
    """Ends a process of `running` and its group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(SECONDS_TO_STOP)
            break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def call(command, **options):
    """Output of a command that must succeed."""
    command = [str(part) for part in command]
    done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options)
    if done.returncode != 0:
        said = done.stderr if done.stderr.strip() else done.stdout
        raise Failure(f"{' '.join(command)[:200]} ended with {done.returncode}: {said.strip()[-2000:]}")
    return done.stdout


def free_port():
    """A port of 127.0.0.1 on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def wait_for(what, ready, process, log):
    """Waits until `ready` returns something true, and returns that."""
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise Failure(f"{what} ended with {process.returncode}: {tail(log)}")
        with contextlib.suppress(OSError):
            if found := ready():
                return found
        time.sleep(0.1)
    raise Failure(f"{what} does not start: {tail(log)}")


def listens(port):
    with socket.create_connection(("127.0.0.1", port), timeout=1):
        return True


def tail(log):
    """The end of a log."""
    return log.read_text(errors="replace").strip()[-2000:] if log.exists() else "it logged nothing"
