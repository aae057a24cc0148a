"""A link of limited bandwidth to the storage, which counts the bytes on it.

    engine  <-- 127.0.0.1 -->  port of the storage: limited from the storage, counted both ways
    engine  <-- 127.0.0.1 -->  any other port: free

The first choice is a network namespace that has nothing but a loopback device, with an HTB class for what the storage
sends. Where that is not permitted, a proxy before the storage holds back what it passes on.
"""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import threading
import time

from common import Failure
from processes import call, free_port

# Set in the environment of the program that runs in the namespace.
MARK = "THERMOCLINE_PEERS_NAMESPACE"

NO_LIMIT = "100gbit"
FROM_STORAGE, OTHER, TO_STORAGE = "1:1", "1:2", "1:3"


def burst_bytes(bits_per_s):
    """Bytes that may be sent at once: those of 8 ms, and at least two packets of loopback."""
    return max(bits_per_s // 1000, 2 << 16)


def tc(*arguments):
    call(["tc", *arguments])


def set_up(port=None):
    """Classes of the loopback device, with a filter for the storage's port, if there is one."""
    subprocess.run(["tc", "qdisc", "del", "dev", "lo", "root"], check=False, capture_output=True)
    tc("qdisc", "add", "dev", "lo", "root", "handle", "1:", "htb", "default", OTHER.split(":")[1])
    for number in (FROM_STORAGE, OTHER, TO_STORAGE):
        tc("class", "add", "dev", "lo", "parent", "1:", "classid", number, "htb", "rate", NO_LIMIT, "quantum", "200000")
    if port is None:
        return
    for side, number in (("sport", FROM_STORAGE), ("dport", TO_STORAGE)):
        is_tcp = ["match", "ip", "protocol", "6", "0xff"]
        match = ["match", "ip", side, str(port), "0xffff"]
        tc("filter", "add", "dev", "lo", "parent", "1:", "protocol", "ip", "u32", *is_tcp, *match, "flowid", number)


def unshare():
    """Command that runs another in a network namespace, with the rights to set it up; None without them."""
    if not all(map(shutil.which, ("unshare", "ip", "tc"))):
        return None
    command = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]
    probe = [sys.executable, __file__, "probe"]
    done = subprocess.run([*command, *probe], check=False, capture_output=True)
    return command if done.returncode == 0 else None


def enter_namespace():
    """Starts this program again in a namespace; returns only if that is not permitted."""
    if command := unshare():
        os.environ[MARK] = "yes"
        os.execvp(command[0], [*command, sys.executable, *sys.argv])


def new_link(kind):
    """A link: in a namespace if this program is in one."""
    if MARK in os.environ:
        return Namespace()
    if kind == "namespace":
        raise Failure("--link namespace: no right to make a network namespace with tc's htb and u32")
    return Proxy()


class Namespace:
    """A class of the loopback device of a network namespace."""

    kind = "network namespace, HTB"

    def __init__(self):
        call(["ip", "link", "set", "lo", "up"])
        set_up()

    def attach(self, port):
        """Limits what is sent from the port. Returns the port that engines connect to."""
        set_up(port)
        return port

    def detach(self):
        """Limits nothing; what all ports send is still counted."""
        set_up()

    def limit(self, bits_per_s):
        """Sets the limit on what is sent from the port; None for no limit."""
        rate = [NO_LIMIT] if bits_per_s is None else [f"{bits_per_s}bit", "burst", str(burst_bytes(bits_per_s))]
        tc("class", "change", "dev", "lo", "parent", "1:", "classid", FROM_STORAGE, "htb", "rate", *rate,
           "quantum", "200000")

    def of_class(self):
        text = call(["tc", "-s", "class", "show", "dev", "lo"])
        found = re.findall(r"^class htb (\S+) .*\n Sent (\d+) bytes", text, re.MULTILINE)
        return {number: int(sent) for number, sent in found}

    def counters(self):
        """Bytes from and to the storage so far, with the headers of TCP and IP."""
        sent = self.of_class()
        return sent[FROM_STORAGE], sent[TO_STORAGE]

    def total(self):
        """Bytes so far on all ports together."""
        return sum(self.of_class().values())

    def close(self):
        """The namespace ends with this program."""


class Proxy:
    """A proxy in a thread, with one token bucket for all connections."""

    kind = "TCP proxy"

    def __init__(self):
        self.bits_per_s = None
        self.tokens, self.filled = 0.0, time.monotonic()
        self.sent = [0, 0]
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def attach(self, port):
        """Listens before the port. Returns the port that engines connect to."""
        before = free_port()
        listen = asyncio.start_server(lambda *ends: self.connection(port, *ends), "127.0.0.1", before, limit=1 << 18)
        asyncio.run_coroutine_threadsafe(listen, self.loop).result()
        return before

    def detach(self):
        """Nothing: who does not use the proxy's port is not limited."""

    def limit(self, bits_per_s):
        """Sets the limit on what is sent from the storage; None for no limit."""
        self.bits_per_s = bits_per_s

    def counters(self):
        """Bytes from and to the storage so far."""
        return tuple(self.sent)

    def total(self):
        """None: what does not pass the proxy is not counted."""

    def close(self):
        asyncio.run_coroutine_threadsafe(self.end(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    async def end(self):
        """Ends all connections."""
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def connection(self, port, reader, writer):
        try:
            of_storage = await asyncio.open_connection("127.0.0.1", port, limit=1 << 18)
        except OSError:
            writer.close()
            return
        await asyncio.gather(
            self.copy(of_storage[0], writer, 0), self.copy(reader, of_storage[1], 1), return_exceptions=True
        )

    async def copy(self, reader, writer, direction):
        try:
            while data := await reader.read(1 << 16):
                if direction == 0:
                    await self.take(len(data))
                self.sent[direction] += len(data)
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()

    async def take(self, count):
        """Waits until the bucket has tokens left after those of all bytes taken before."""
        if self.bits_per_s is None:
            return
        now, rate = time.monotonic(), self.bits_per_s / 8
        self.tokens = min(self.tokens + (now - self.filled) * rate, burst_bytes(self.bits_per_s))
        self.filled = now
        self.tokens -= count
        if self.tokens < 0:
            await asyncio.sleep(-self.tokens / rate)


if __name__ == "__main__" and sys.argv[1:] == ["probe"]:
    probe = Namespace()
    probe.attach(free_port())
    probe.limit(1_000_000_000)
