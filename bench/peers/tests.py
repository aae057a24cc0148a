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
import xml.etree.ElementTree as xml
from pathlib import Path

import link
import measure
import misses
import oltp
import oltp_figures
import oltp_report
import oltp_servers
import oltp_sweep
import peer_thermocline
import report
import run
import svg
from batch import Batch, Query
from common import Failure, Setting, open_folder
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

    def arguments(self, *words):
        return oltp.arguments([*words, "--out", "out"])

    def test_a_workload_has_its_own_loads(self):
        given = self.arguments("--rows", "7", "--mix", "100/0", "--skew", "0.5", "--seconds", "3")
        measured = ["--seconds", 3.0, "--warm-up", 2.0]
        setting = oltp.setting_of(given)
        self.assertEqual(setting.loads(), [["--rows", 7, "--mix", "100/0", "--skew", "0.5", *measured]])
        self.assertNotIn("workload", setting.description())
        given = self.arguments("--workload", "tpcc", "--warehouses", "4, 16,4", "--seconds", "3")
        setting = oltp.setting_of(given)
        self.assertEqual(setting.loads(), [["--warehouses", 4, *measured], ["--warehouses", 16, *measured]])
        self.assertEqual(setting.description()["warehouses"], [4, 16])
        self.assertNotIn("rows", setting.description())
        for wrong in ("", "0", "4,-1", "all"):
            with self.assertRaises(argparse.ArgumentTypeError):
                oltp.warehouses(wrong)

    def test_tpcc_has_procedures_for_some_peers(self):
        self.assertLessEqual(set(oltp.TPCC_PEERS), set(oltp.PEERS))
        self.arguments("--workload", "tpcc", "--peers", "thermocline,mariadb,postgresql")
        said = io.StringIO()
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(said):
            self.arguments("--workload", "tpcc", "--peers", "thermocline,mariadb-memcached,rocksdb")
        self.assertIn("no procedures for mariadb-memcached, rocksdb", said.getvalue())

    def test_a_folder_has_one_workload(self):
        settings = [oltp.setting_of(self.arguments("--workload", workload)) for workload in oltp.WORKLOADS]
        for first, second in (settings, settings[::-1]):
            with tempfile.TemporaryDirectory() as folder:
                path, run_before = open_folder(Path(folder), first.description())
                path.write_text(json.dumps(run_before))
                open_folder(Path(folder), first.description())
                with self.assertRaisesRegex(Failure, "another setting"):
                    open_folder(Path(folder), second.description())

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

    def tpcc_record(self, rate, warehouses=4, memory=1 << 30):
        return {"warehouses": warehouses, "memory_limit_bytes": memory, "new_orders_per_s": rate}

    def test_a_row_for_each_number_of_warehouses(self):
        peers = {
            "thermocline": [self.tpcc_record(9000.4, 16), self.tpcc_record(10_000)],
            "mariadb": [self.tpcc_record(1000), self.tpcc_record(99, 64)],
        }
        self.assertEqual(
            oltp_report.tpcc_table(peers),
            [
                "| warehouses | memory | thermocline | mariadb | thermocline / mariadb |",
                "|---:|---:|---:|---:|---:|",
                "| 4 | 1 GiB | 10,000 | 1,000 | 10.0 |",
                "| 16 | 1 GiB | 9,000 | - | - |",
                "| 64 | 1 GiB | - | 99 | - |",
            ],
        )

    def test_folders_of_tpcc_make_one_table_of_memory_limits(self):
        with tempfile.TemporaryDirectory() as parent:
            folders = []
            for memory, rates in (("1GiB", (9000, 500)), ("8GiB", (10_000, 1000))):
                folder = Path(parent) / memory
                folders.append(folder)
                words = ["--workload", "tpcc", "--memory-limit", memory]
                path, record = open_folder(folder, oltp.setting_of(self.arguments(*words)).description())
                record["peers"] = {"mariadb": {}, "thermocline": {}}
                path.write_text(json.dumps(record))
                for name, rate in zip(("thermocline", "mariadb"), rates):
                    line = json.dumps(self.tpcc_record(rate, memory=oltp.memory(memory)))
                    (folder / f"{name}.jsonl").write_text(f"{line}\n")
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                oltp_report.print_report(folders)
        heads = "thermocline / mariadb | thermocline / with 8 GiB | mariadb / with 8 GiB |"
        self.assertIn(f"| warehouses | memory | thermocline | mariadb | {heads}\n", output.getvalue())
        self.assertIn("| 4 | 1 GiB | 9,000 | 500 | 18.0 | 0.90 | 0.50 |\n", output.getvalue())
        self.assertIn("| 4 | 8 GiB | 10,000 | 1,000 | 10.0 | 1.00 | 1.00 |\n", output.getvalue())
        self.assertEqual(output.getvalue().count("New-Orders a second"), 1)

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

    def test_rocksdb_has_a_folder_that_is_removed(self):
        self.assertLessEqual(oltp.EMBEDDED, set(oltp.SERVERS))
        self.assertEqual(oltp.peers("rocksdb,rocksdb-row-cache"), ["rocksdb", "rocksdb-row-cache"])
        with tempfile.TemporaryDirectory() as scratch:
            setting = argparse.Namespace(scratch=Path(scratch))
            with oltp_servers.rocksdb(setting, 1 << 30) as server:
                name, folder = server.arguments
                self.assertEqual((name, folder.is_dir(), server.process), ("--directory", True, None))
                (folder / "LOG").touch()
            self.assertFalse(folder.exists())

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


class SvgTest(unittest.TestCase):
    def draw(self, points, x=svg.Axis("x"), y=svg.Axis("y"), **more):
        return xml.fromstring(svg.lines("Rates <1>", "a & b", x, y, points, **more))

    def count(self, image, name):
        return len(image.findall(f".//{{http://www.w3.org/2000/svg}}{name}"))

    def words(self, image):
        return [text.text for text in image.findall(".//{http://www.w3.org/2000/svg}text")]

    def test_numbers_are_short(self):
        numbers = [0, 0.05, 0.0001234, 1.0, 1.005, 12.34, 123.4, 12_345, 2.5e-7, 3e9]
        texts = ["0", "0.05", "0.000123", "1", "1", "12.3", "123", "12345", "2.5e-07", "3.0e+09"]
        self.assertEqual([svg.number(value) for value in numbers], texts)
        self.assertEqual([svg.size(value) for value in (100, 4096, 1 << 20, 3 << 29)], ["100 B", "4 KiB", "1 MiB",
                                                                                          "1536 MiB"])

    def test_ticks_are_round_and_within(self):
        def ticks(axis, *bounds):
            return [svg.number(axis.value(place)) for place in axis.ticks(*bounds, [])]

        log = svg.Axis("", log=True)
        self.assertEqual(ticks(svg.Axis(""), 0, 0.99), ["0", "0.2", "0.4", "0.6", "0.8"])
        self.assertEqual(ticks(log, log.place(0.9), log.place(2000)), ["1", "10", "100", "1000"])
        self.assertEqual(ticks(log, log.place(0.045), log.place(1.1)), ["0.05", "0.1", "0.2", "0.5", "1"])
        for axis in (svg.Axis(""), log, svg.Axis("", ticks_at_values=True)):
            for values in ([], [0], [1], [-1], [float("nan")], [3, 3], [1e-9, 1e12]):
                low, high = axis.bounds(values)
                self.assertLess(low, high)

    def test_panels_series_and_labels(self):
        points = [svg.Point(panel, name, x, x + 1) for panel in ("p", "q") for name in ("s", "t") for x in (1, 2, 4)]
        image = self.draw(points, svg.Axis("skew"), svg.Axis("transactions/s"))
        self.assertEqual(self.count(image, "polyline"), 4)
        # A circle for each point of the first series, a triangle for each of the second.
        self.assertEqual(self.count(image, "circle"), 6)
        self.assertEqual(self.count(image, "path"), 6)
        words = self.words(image)
        for word, times in (("Rates <1>", 1), ("a & b", 1), ("p", 1), ("q", 1), ("s", 1), ("skew", 2),
                            ("transactions/s", 2)):
            self.assertEqual(words.count(word), times, word)

    def test_points_of_one_place_are_their_median(self):
        image = self.draw([svg.Point("p", "s", 1, y) for y in (1, 9, 2)])
        self.assertEqual(self.count(image, "circle"), 1)

    def test_an_axis_may_fall(self):
        points = [svg.Point("p", "s", x, 1) for x in (0.5, 1.5)]

        def places(**more):
            drawn = self.draw(points, svg.Axis("x", ticks_at_values=True, **more))
            drawn = drawn.find(".//{http://www.w3.org/2000/svg}polyline").get("points")
            return [float(at.split(",")[0]) for at in drawn.split()]

        self.assertEqual(places(), sorted(places()))
        self.assertEqual(places(falls=True), sorted(places(falls=True), reverse=True))

    def test_what_has_no_place_is_left_out(self):
        points = [svg.Point("p", "s", 1, y) for y in (0, -1, float("nan"))]
        self.assertIsNone(svg.lines("", "", svg.Axis(""), svg.Axis("", log=True), points))


def ycsb_record(rate=1000.0, **others):
    """A record of `thermocline bench ycsb`."""
    record = {
        "workload": "ycsb", "engine": "thermocline 0.1.0", "mix": "100/0", "skew": 1.0, "rows": 1000,
        "memory_limit_bytes": 504_000, "evicts": True, "block_bytes": 65536, "merge": "tuple", "transactions": 10_000,
        "transactions_per_s": rate, "p99_us": 2500.0,
        "eviction": {"reads": 100, "read_bytes": 409_600, "returned_rows": 100, "held_us_max": 250},
        "timeline": [
            {"seconds": 0.1 * count, "transactions": 100, "evicted_rows": 64 * (count == 2)} for count in range(1, 4)
        ],
    }
    return record | others


class FiguresTest(unittest.TestCase):
    def draw(self, records):
        """Titles of panels and names of series by figure."""
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            (folder / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
            paths = oltp_figures.draw(oltp_figures.read([folder]), folder / "figures")
            texts = ".//{http://www.w3.org/2000/svg}text"
            return {path.stem: [text.text for text in xml.parse(path).findall(texts)] for path in paths}

    def test_each_figure_has_what_varies(self):
        records = [
            ycsb_record(block_bytes=block, merge=merge, skew=skew)
            for block in (4096, 65536) for merge in ("tuple", "block") for skew in (0.5, 1.0)
        ]
        records += [ycsb_record(skew=skew, victims="chain", chain_sampling=0.01) for skew in (0.5, 1.0)]
        records += [ycsb_record(row_bytes=100)]
        tpcc = {"workload": "tpcc", "mix": "local", "skew": None, "rows": None}
        records += [ycsb_record(**tpcc, warehouses=count) for count in (4, 8)]
        drawn = self.draw(records)
        self.assertEqual(set(drawn), set(oltp_figures.FIGURES))
        self.assertIn("100/0, data 2.0 × memory", drawn["figure-6"])
        self.assertIn("blocks of 64 KiB, tuple merge, rows of 1008 bytes, victims sampled", drawn["figure-6"])
        for name, words in {
            "figure-8": ["tuple merge", "block merge", "100/0, data 2.0 × memory, 4 KiB"],
            "figure-9a": ["4 KiB", "64 KiB", "skew 0.5"],
            "figure-9b": ["100", "1008"],
            "figure-10": ["sampled", "chain, 1% sampled"],
            "figure-11a": ["milliseconds", "block merge"],
            "figure-12": ["tpcc local", "ycsb 100/0, data 2.0 × memory, skew 0.5"],
        }.items():
            for word in words:
                self.assertIn(word, drawn[name], name)

    def test_tpcc_over_time_has_all_systems(self):
        tpcc = {"workload": "tpcc", "mix": "remote", "skew": None, "rows": None, "warehouses": 4}
        records = [
            ycsb_record(**tpcc),
            ycsb_record(**tpcc, evicts=False),
            ycsb_record(**tpcc, engine="mariadb 10.11", evicts=False, memory_limit_bytes=1 << 30),
        ]
        drawn = self.draw(records)["figure-7"]
        for word in ("4 warehouses", "without eviction", "mariadb, memory 1 GiB"):
            self.assertIn(word, drawn)

    def test_what_does_not_vary_has_no_figure(self):
        self.assertEqual(set(self.draw([ycsb_record()])), {"figure-12", "misses"})
        self.assertEqual(self.draw([]), {})

    def test_systems_are_files_of_a_run(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            for name in ("mariadb", "mariadb-memcached"):
                (folder / f"{name}.jsonl").write_text(json.dumps(ycsb_record(engine="mariadb 10.11")) + "\n")
            (folder / "run.json").write_text("{}")
            systems = sorted(record["system"] for record in oltp_figures.read([folder]))
        self.assertEqual(systems, ["mariadb", "mariadb-memcached"])

    def test_a_long_timeline_is_drawn_in_pieces(self):
        moments = [{"seconds": count / 10, "transactions": 7, "evicted_rows": 0} for count in range(1, 601)]
        pieces, evicted = oltp_figures.timeline({"timeline": moments})
        self.assertEqual((len(pieces), evicted), (150, []))
        for _, rate in pieces:
            self.assertAlmostEqual(rate, 70)


class SweepTest(unittest.TestCase):
    FLAGS = {"--block-size", "--merge", "--row-size", "--victims", "--chain-sampling"}

    def arguments(self, *words):
        return oltp_sweep.arguments([*words, "--out", "out"])

    def test_quick_has_other_defaults(self):
        full, quick = self.arguments(), self.arguments("--quick", "--seconds", "3")
        self.assertEqual((full.memory_limit, full.in_flight, len(full.blocks)), (1 << 30, 512, 5))
        self.assertEqual((quick.memory_limit, quick.seconds, quick.blocks), (32 << 20, 3, [16384, 65536]))

    def test_arguments(self):
        given = self.arguments("--block-sizes", "4KiB,1MiB", "--merge", "block", "--victims", "chain:0.5,sampled")
        self.assertEqual((given.blocks, given.merge), ([4096, 1 << 20], ["block"]))
        self.assertEqual(given.victims, ["chain:0.5", "sampled"])
        for wrong in ("", "lru", "chain:0", "chain:0.0", "chain:2", "sampled:0.1"):
            with self.assertRaises(argparse.ArgumentTypeError):
                oltp_sweep.victims(wrong)
        for wrong in ("0", "-1", "nan", "x"):
            with self.assertRaises(argparse.ArgumentTypeError):
                oltp_sweep.times(wrong)

    def test_only_flags_of_the_bench_are_given(self):
        every, left_out = oltp_sweep.combinations([4096], [100], ["tuple"], ["sampled", "chain:0.01"], self.FLAGS)
        self.assertEqual(left_out, [])
        words = "--block-size 4096 --merge tuple --row-size 100 --victims chain --chain-sampling 0.01"
        self.assertEqual(" ".join(map(str, every[1].arguments())), words)
        flags = oltp_sweep.flags_of("--block-size <N>\n  --merge <M> [default: tuple]\n")
        [one], left_out = oltp_sweep.combinations([4096], [100, 200], ["tuple"], ["sampled", "chain"], flags)
        self.assertEqual(one.arguments(), ["--block-size", 4096, "--merge", "tuple"])
        self.assertEqual(len(left_out), 2)

    def test_names_are_of_one_combination_each(self):
        every, _ = oltp_sweep.combinations(
            [4096, 65536], [100, 1000], ["tuple", "block"], ["sampled", "chain", "chain:0.01", "chain:1"], self.FLAGS
        )
        self.assertEqual(len({each.name() for each in every}), 32)

    def test_all_tables_have_the_same_bytes(self):
        rows = [oltp_sweep.Combination(4096, size, "tuple", None).rows(1e6, 5000) for size in (100, 1000, None)]
        self.assertEqual(rows, [5000, 1000, 992])

    def test_the_fastest_is_bold(self):
        records = [
            oltp_sweep.Combination(4096, None, merge, "chain:0.01").complete(ycsb_record(rate, merge=merge))
            for merge, rate in (("tuple", 2000.0), ("block", 1000.0))
        ]
        [_, _, block, tuple_] = oltp_sweep.table(records)
        self.assertIn("| 1008 | 100/0 | 1 | 64 KiB | block | chain, 1% sampled | 1,000 | 2.5 |", block)
        self.assertIn("| tuple | chain, 1% sampled | **2,000** | 2.5 |", tuple_)
        self.assertTrue(tuple_.endswith("| 4,096 |"))


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
