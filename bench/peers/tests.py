"""Tests of what needs no engine: `python3 bench/peers/tests.py`."""

import argparse
import contextlib
import functools
import io
import json
import socket
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import link
import measure
import misses
import oltp
import oltp_report
import oltp_servers
import peer_thermocline
import report
import run
from batch import Batch, Query
from common import Failure, Setting
from driver import driver
from processes import call
from results import Results, same

QUERY = Query("Q1", "select a, b from t")


class ResultsTest(unittest.TestCase):
    def test_numbers_are_equal_to_the_digits_of_the_coarser(self):
        self.assertTrue(same("25.575154", "25.575154611454693"))
        self.assertTrue(same("25.58", "25.575154"))
        self.assertTrue(same("100", "100.00"))
        self.assertFalse(same("25.60", "25.575154"))
        self.assertFalse(same("100", "101"))
        self.assertFalse(same("100", "100.4"))
        self.assertFalse(same("0", None))
        self.assertFalse(same("1", "one"))

    def check(self, first, second):
        results = Results(Path("missing"))
        results.check("first", QUERY, first)
        results.check("second", QUERY, second)

    def test_rows_have_no_order(self):
        self.check([["a", "1.5"], ["b", "2"], [None, "3"]], [[None, "3"], ["b", "2.0"], ["a", "1.50"]])

    def test_another_result_is_an_error_that_names_both(self):
        for rows in ([["a", "1"]], [["a", "1"], ["b", "3"]], [["a", "1"], ["c", "2"]], [["a"], ["b"]]):
            with self.assertRaisesRegex(Failure, "Q1.*second.*first"):
                self.check([["a", "1"], ["b", "2"]], rows)


class ArgumentsTest(unittest.TestCase):
    def test_rates(self):
        self.assertEqual(run.bandwidth("1gbit"), 10**9)
        self.assertEqual(run.bandwidth("200Mbps"), 2 * 10**8)
        self.assertIsNone(run.bandwidth("none"))
        for wrong in ("", "1", "0mbit", "fast", "1kbit"):
            with self.assertRaises(argparse.ArgumentTypeError):
                run.bandwidth(wrong)

    def test_cache_sizes(self):
        self.assertEqual([run.cache(text) for text in ("all", "half", "110")], ["all", "half", 110])
        for wrong in ("0", "-1", "10MB", ""):
            with self.assertRaises(argparse.ArgumentTypeError):
                run.cache(wrong)


class ReportTest(unittest.TestCase):
    def folder(self, parent):
        """A folder with Thermocline and another engine, one pass and two after it, of two queries each."""
        def records(mode, factor):
            for pass_number, name in enumerate(("warmup", "timed", "timed")):
                for query in ("Q1", "Q2"):
                    yield {
                        "mode": mode, "run": name, "query": query, "seconds": factor * (1 + pass_number),
                        "cache_bytes": 10**6, "bytes_from_storage": 10**6, "bytes_to_storage": 0,
                    }

        setting = {"workload": "tpch", "scale": 1, "bits_per_s": 10**9, "link": "none", "cache": "all"}
        setting |= {"threads": 2, "passes": 2}
        for peer, mode, factor in (("other", "other", 4), ("thermocline", "auto", 1)):
            lines = "".join(json.dumps(record) + "\n" for record in records(mode, factor))
            (parent / f"{peer}.jsonl").write_text(lines)
        (parent / "run.json").write_text(json.dumps({"setting": setting, "peers": {"other": {}, "thermocline": {}}}))

    def test_ratios_are_to_thermocline(self):
        with tempfile.TemporaryDirectory() as parent:
            self.folder(Path(parent))
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                report.print_report([Path(parent)])
        # A first pass of 2 queries at 1 s; later ones at the median of 2 and 3 s.
        self.assertIn("| thermocline auto | 1 | 2.000 | 5.000 | 2.0 | 2.0 | 1.00 | 1.00 |", output.getvalue())
        self.assertIn("| other | 1 | 8.000 | 20.000 | 2.0 | 2.0 | 4.00 | 4.00 |", output.getvalue())


    def test_a_query_s_seconds_are_medians(self):
        seconds = {"Q1": (1, 10, 2), "Q2": (4, 4, 1)}
        records = [
            {"run": "timed", "query": query, "seconds": of_pass[number]}
            for number in range(3) for query, of_pass in seconds.items()
        ]
        warmup = [{"run": "warmup", "query": "Q1", "seconds": 100}]
        table = report.query_table({("other", "other"): warmup + records}, report.LATER)
        self.assertEqual(table[2:], ["| Q1 | 2.000 |", "| Q2 | 4.000 |"])


class OltpTest(unittest.TestCase):
    def test_sizes(self):
        sizes = {"1GiB": 1 << 30, "32mib": 32 << 20, "1GB": 10**9, "5000": 5000, "10B": 10, "64k": 64_000}
        self.assertEqual({text: oltp.memory(text) for text in sizes}, sizes)
        for wrong in ("", "0", "-1", "1ib", "1.5GiB", "GiB", "1TiB", "all"):
            with self.assertRaises(argparse.ArgumentTypeError):
                oltp.memory(wrong)
        shown = [oltp_report.size(count) for count in (1 << 30, 1536 << 20, 10**9, 5000, 0)]
        self.assertEqual(shown, ["1 GiB", "1536 MiB", "1000000000 bytes", "5000 bytes", "0 bytes"])

    def test_seconds(self):
        self.assertEqual([oltp.seconds(text) for text in ("0", "1.5")], [0, 1.5])
        for wrong in ("", "-1", "nan", "1e9"):
            with self.assertRaises(argparse.ArgumentTypeError):
                oltp.seconds(wrong)

    def test_peers_come_once_each(self):
        self.assertEqual(oltp.peers("postgresql, mariadb,postgresql"), ["postgresql", "mariadb"])
        with self.assertRaises(argparse.ArgumentTypeError):
            oltp.peers("mysql")

    def record(self, rate, mix="50/50", skew=0.99, **others):
        return {"mix": mix, "skew": skew, "transactions_per_s": rate} | others

    def test_ratios(self):
        self.assertEqual(oltp_report.ratio(3000, 1500), "2.00")
        self.assertEqual(oltp_report.ratio(1500, 3000), "0.50")
        self.assertEqual(oltp_report.ratio(123_456, 1000), "123.5")
        for ours, theirs in ((None, 1), (1, None), (1, 0), (0, 1)):
            self.assertEqual(oltp_report.ratio(ours, theirs), "-")

    def test_a_row_for_each_mix_and_skew(self):
        peers = {
            "thermocline": [self.record(30_000.4), self.record(40_000, "100/0", 1.0)],
            "mariadb": [self.record(10_000), self.record(99, "0/100", 0.0)],
        }
        self.assertEqual(
            oltp_report.table(peers),
            [
                "| mix | skew | thermocline | mariadb | thermocline / mariadb |",
                "|---|---:|---:|---:|---:|",
                "| 50/50 | 0.99 | 30,000 | 10,000 | 3.00 |",
                "| 100/0 | 1 | 40,000 | - | - |",
                "| 0/100 | 0 | - | 99 | - |",
            ],
        )

    def test_without_thermocline_there_are_no_ratios(self):
        [heads, *_] = oltp_report.table({"mariadb": [self.record(1)], "postgresql": [self.record(2)]})
        self.assertEqual(heads, "| mix | skew | mariadb | postgresql |")

    def test_a_star_says_that_a_page_cache_is_not_bounded(self):
        of_server = {name: [self.record(1, page_cache_bounded=name == "mariadb")] for name in ("mariadb", "postgresql")}
        [heads, *_, note] = oltp_report.table(of_server)
        self.assertEqual(heads, "| mix | skew | mariadb | postgresql \\* |")
        self.assertIn("not bounded", note)
        self.assertNotIn("not bounded", oltp_report.table({"mariadb": of_server["mariadb"]})[-1])

    def test_memcached_and_the_buffer_pool_share_the_limit(self):
        for memory, of_cache in ((1 << 30, 512 << 20), (33 << 20, 16 << 20), (1 << 20, 0)):
            self.assertEqual(oltp_servers.memcached_bytes(memory), of_cache)

    def test_control_groups_with_a_memory_controller(self):
        with tempfile.TemporaryDirectory() as root:
            mount = Path(root) / "cgroup"
            (mount / "user" / "session").mkdir(parents=True)
            for group, controllers in ((mount, "cpu memory"), (mount / "user", "memory"), (mount / "user/session", "")):
                (group / "cgroup.subtree_control").write_text(f"{controllers}\n")
            mounts = "tmpfs /tmp tmpfs rw 0 0\ncgroup2 /cgroup cgroup2 rw 0 0\n"
            found = oltp_servers.group_parents(mounts, "4:memory:/old\n0::/user/session\n", Path(root))
            self.assertEqual(found, [mount / "user", mount])
            self.assertEqual(oltp_servers.group_parents("", "0::/\n", Path(root)), [])
            self.assertEqual(oltp_servers.group_parents(mounts, "4:memory:/old\n", Path(root)), [])

    def test_a_process_enters_its_control_group_first(self):
        self.assertEqual(oltp_servers.in_group(None, ["server", "-x"]), ["server", "-x"])
        with tempfile.TemporaryDirectory() as group:
            code = "import os, sys; print(os.getpid(), *sys.argv[1:])"
            said = call(oltp_servers.in_group(Path(group), [sys.executable, "-c", code, "an argument"]))
            process = (Path(group) / "cgroup.procs").read_text().strip()
        self.assertEqual(said, f"{process} an argument\n")


class MissesTest(unittest.TestCase):
    def test_harmonic_numbers(self):
        for s in (0.0, 0.5, 0.999999, 1.0, 1.000001, 1.5, 2.0):
            for n in (1, 2, misses.TERMS, misses.TERMS + 1, 50_000):
                exact = sum(rank**-s for rank in range(1, n + 1))
                self.assertAlmostEqual(misses.harmonic(n, s) / exact, 1, places=12)

    def test_the_share_of_calls_that_miss(self):
        self.assertAlmostEqual(misses.miss_share(100_000, 0.0, 25_000), 0.75)
        # 1 - (1 + 1/2) / (1 + 1/2 + 1/3 + 1/4)
        self.assertAlmostEqual(misses.miss_share(4, 1.0, 2), 0.28)
        for rows_in_memory, share in ((0, 1), (10, 0), (11, 0)):
            self.assertEqual(misses.miss_share(10, 1.0, rows_in_memory), share)
        shares = [misses.miss_share(8_000_000, s, 1_000_000) for s in (0.5, 0.75, 1.0, 1.25, 1.5)]
        self.assertEqual(shares, sorted(shares, reverse=True))

    RECORD = {
        "mix": "100/0", "skew": 0.0, "rows": 100_000, "memory_limit_bytes": 25_000 * 1008, "transactions": 1000,
        "transactions_per_s": 500, "eviction": {"reads": 900, "read_bytes": 4_096_000, "returned_rows": 800},
    }

    def test_reads_over_the_ideal(self):
        self.assertAlmostEqual(misses.ideal(self.RECORD), 750)
        self.assertAlmostEqual(misses.ideal(self.RECORD | {"row_bytes": 2016}), 875)
        self.assertAlmostEqual(misses.reads_over_ideal(self.RECORD), 1.2)
        self.assertEqual(misses.bytes_of_returned_row(self.RECORD), 5120)
        for other in ({"skew": None}, {"rows": None}, {"eviction": {}}, {"eviction": None}, {"memory_limit_bytes": 0},
                      {"memory_limit_bytes": 1 << 40}, {"transactions": 1}):
            self.assertIsNone(misses.reads_over_ideal(self.RECORD | other))
        self.assertIsNone(misses.bytes_of_returned_row(self.RECORD | {"eviction": {"returned_rows": 0}}))

    def test_columns_of_the_table(self):
        peers = {"thermocline": [self.RECORD], "mariadb": [{"mix": "100/0", "skew": 1.0, "transactions_per_s": 5}]}
        [heads, _, first, second] = oltp_report.table(peers)
        self.assertTrue(heads.endswith("| thermocline / mariadb | reads / ideal | bytes / row read |"))
        self.assertEqual(first, "| 100/0 | 0 | 500 | - | - | 1.20 | 5,120 |")
        self.assertEqual(second, "| 100/0 | 1 | - | 5 | - | - | - |")


class TimeoutTest(unittest.TestCase):
    """Whoever takes too long is ended, and the message says who, and at which query."""

    def setting(self, folder, program):
        thermocline = folder / "thermocline"
        thermocline.write_text(f"#!{sys.executable}\n{program}")
        thermocline.chmod(0o755)
        return Setting(
            workload="tpch", scale=1.0, threads=1, passes=1, bandwidth=None, cache="all", seconds_max=3,
            thermocline=thermocline, modes="auto", extra=[], batch=[], work=folder, out=folder, scratch=folder,
            link=link.Proxy(), queries=Batch([QUERY], [QUERY], ["query"]),
        )

    def message(self, program, measured):
        with tempfile.TemporaryDirectory() as folder:
            setting = self.setting(Path(folder), program)
            try:
                with self.assertRaises(Failure) as caught:
                    list(measured(setting))
            finally:
                setting.link.close()
        return str(caught.exception)

    # `bench` writes some records and never ends; `sql` has no rows.
    BENCH = (
        "import pathlib, sys, time\n"
        "if sys.argv[1] == 'bench':\n"
        "    pathlib.Path(sys.argv[sys.argv.index('--json') + 1]).write_text({records!r})\n"
        "    print('it works on', flush=True)\n"
        "    time.sleep(100)\n"
    )

    RECORD = json.dumps({"query": "Q1", "run": "warmup", "mode": "auto"})

    def test_thermocline(self):
        measured = functools.partial(peer_thermocline.run, results=Results(Path("missing")))
        said = self.message(self.BENCH.format(records=f"{self.RECORD}\n"), measured)
        for part in ("thermocline took longer than 6 s", "3 s for each query", "after Q1", "it works on"):
            self.assertIn(part, said)

    def test_the_query_of_thermocline_is_that_after_its_records(self):
        first, after = "at query Q1, the first one", "at the query after Q1 (warmup, mode auto)"
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "records"
            queries = Batch([QUERY], [QUERY], ["query"])
            self.assertIn(first, peer_thermocline.place(queries, path))
            for text, place in (
                ("", first),
                (self.RECORD[:10], first),
                (f"{self.RECORD}\n", after),
                (f"{self.RECORD}\n{self.RECORD[:10]}", after),
            ):
                path.write_text(text)
                self.assertIn(place, peer_thermocline.place(queries, path))

    # An engine that says what it is, and answers nothing.
    SILENT = "import time\nprint('{\"engine\": \"silent\"}', flush=True)\ntime.sleep({seconds})\n"

    def test_an_engine(self):
        @contextlib.contextmanager
        def start(setting, mode, _cache_bytes):
            with driver(setting, mode, [setting.thermocline]) as engine:
                yield engine

        def measured(setting):
            return measure.measure(setting, Results(Path("missing")), "silent", start, caches=False)

        said = self.message(self.SILENT.replace("{seconds}", "100"), measured)
        self.assertIn("query Q1 in silent: silent took longer than 3 s", said)
        said = self.message(self.SILENT.replace("{seconds}", "0.1"), measured)
        self.assertIn("query Q1 in silent: silent ended", said)


class ProxyTest(unittest.TestCase):
    def test_bytes_pass_both_ways_and_are_counted(self):
        def answer(server):
            connection, _ = server.accept()
            with connection:
                connection.recv(16)
                connection.sendall(b"x" * 1_000_000)

        proxy = link.Proxy()
        with socket.create_server(("127.0.0.1", 0)) as server:
            threading.Thread(target=answer, args=[server], daemon=True).start()
            before = proxy.attach(server.getsockname()[1])
            proxy.limit(80_000_000)
            received = 0
            with socket.create_connection(("127.0.0.1", before)) as connection:
                connection.sendall(b"all of it")
                while data := connection.recv(1 << 16):
                    received += len(data)
        self.assertEqual(received, 1_000_000)
        self.assertEqual(proxy.counters(), (1_000_000, 9))
        proxy.close()


if __name__ == "__main__":
    unittest.main()
