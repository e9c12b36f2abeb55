#!/usr/bin/env python3
"""What `foreline plot` obeys of its options, seen in the SVG, in the table beside it, and in the bytes of PNG and PDF.

Error bars are compared with a slow computation on random rows from a seed. Names of any kind reach neither gnuplot's
commands nor the shell: none of them makes a file.

usage: plot_options.py FORELINE
"""
import collections
import html
import itertools
import math
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

FORELINE = str(pathlib.Path(sys.argv[1]).resolve())
ROWS = ("platform.nodes\tplan\tplatform.nic.bandwidth\tstatus\tsamples_per_s\n"
        "1\tDP 8, bucket 20 MB\t10Gbps\tok\t10\n1\tPP 8, bucket 20 MB\t10Gbps\tok\t8\n"
        "2\tDP 8, bucket 20 MB\t10Gbps\tok\t15\n2\tPP 8, bucket 20 MB\t10Gbps\tok\t14\n"
        "1\tDP 8, bucket 20 MB\t100Gbps\tok\t20\n1\tPP 8, bucket 20 MB\t100Gbps\tok\t11\n"
        "2\tDP 8, bucket 20 MB\t100Gbps\tok\t64\n2\tPP 8, bucket 20 MB\t100Gbps\tok\t43\n")
# What gnuplot, the shell, printf or XML could take for more than a name.
NASTY = ["it's", '"', "`touch hacked`", "$(touch hacked)", "'; system('touch hacked'); '", "a\n!touch hacked\nb",
         "@hacked", "%s%n", "{/Symbol a}_b^c", "\\n\\", "<b>&amp;", "EOD", "# no comment", "\u00e4\u4e2d\u2026", "\x1b[31m"]


def text_of(svg):
    """The texts of an SVG; gnuplot writes one for each font."""
    return [html.unescape(re.sub(r"<[^>]*>", "", t)).strip() for t in re.findall(r"<text[^>]*>(.*?)</text>", svg, re.S)]


def grid(*columns):
    """Rows of all combinations of 1, 2 and 4."""
    rows = itertools.product((1, 2, 4), repeat=len(columns))
    return "\t".join((*columns, "samples_per_s")) + "\n" + "".join("\t".join(map(str, (*row, sum(row)))) + "\n" for row in rows)


class Plot(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.at = pathlib.Path(self.folder.name)

    def call(self, *words, rows=ROWS, kind="throughput", output="p.svg"):
        if rows is not None:
            (self.at / "t.tsv").write_text(rows, encoding="utf-8", newline="")
        return subprocess.run([FORELINE, "plot", kind, *(["t.tsv"] if rows is not None else []), *words, "-o", output],
                              cwd=self.at, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def draw(self, *words, **how):
        """The SVG."""
        done = self.call(*words, **how)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return (self.at / "p.svg").read_text(encoding="utf-8")

    def table(self):
        lines = (self.at / "p.tsv").read_text(encoding="utf-8").splitlines()
        names = [line for line in lines if line.startswith("#")][-1][2:].split("\t")
        return [dict(zip(names, line.split("\t"))) for line in lines if not line.startswith("#")]

    def refused(self, *words, **how):
        """The message, of a line."""
        (self.at / "p.svg").unlink(missing_ok=True)
        done = self.call(*words, **how)
        said = done.stderr.decode()
        self.assertIn(done.returncode, (1, 2), said)
        self.assertEqual(said.count("\n"), 1, said)
        self.assertFalse((self.at / "p.svg").exists())
        return said

    def test_columns_are_in_words_and_names_without_what_all_share(self):
        svg = self.draw("--x", "platform.nodes", "--where", "platform.nic.bandwidth=10Gbps")
        texts = text_of(svg)
        for text in ("Nodes", "Samples per second", "DP 8", "PP 8"):
            self.assertIn(text, texts)
        self.assertTrue(any("all: bucket 20 MB" in t for t in texts), texts)
        self.assertIn("platform.nodes", self.table()[0])  # the table keeps the names
        self.assertEqual(self.table()[0]["plan"], "DP 8, bucket 20 MB")

    def test_quantities_have_units_that_read_well(self):
        for column, cells, label in (("peak_bytes", (2 << 30, 3 << 30), "Peak (GiB)"), ("nic", ("10Gbps", "20Gbps"), "NIC (Gb/s)"),
                                     ("wait_s", (2e-3, 3e-3), "Wait (ms)"), ("mfu_fraction", (0.25, 0.5), "MFU (%)")):
            self.assertIn(label, text_of(self.draw("--x", column, rows=f"{column}\tsamples_per_s\n{cells[0]}\t1\n{cells[1]}\t2\n")))

    def test_labels_rename_lines_categories_and_columns(self):
        svg = self.draw("--x", "plan", "--by", "platform.nodes", "--where", "platform.nic.bandwidth=10Gbps", "--label",
                        "DP 8=data parallel", "--label", "PP 8, bucket 20 MB=pipeline", "--label", "platform.nodes=Servers",
                        "--label", "samples_per_s=Throughput")
        texts = text_of(svg)
        for text in ("data parallel", "pipeline", "Servers 1", "Servers 2", "Throughput of each plan"):
            self.assertIn(text, texts)
        self.assertIn("expected OLD=NEW", self.refused("--label", "x"))
        self.assertIn("no line, category or column 'nothing'", self.refused("--label", "nothing=x"))
        svg = self.draw("--label", '"a=b"=c', rows="plan\tn\tsamples_per_s\na=b\t1\t1\na=b\t2\t2\nd\t1\t1\n")
        self.assertIn("c", text_of(svg))

    def test_labels_take_short_forms_and_errors_list_what_can_be_renamed(self):
        for words, texts in ((["--label", "2=two", "--label", "nodes=Servers"], ("Servers 1", "two", "Servers 4")),
                             (["--label", "nodes 2=two"], ("nodes 1", "two", "nodes 4"))):
            shown = text_of(self.draw("--x", "gpus", "--by", "plan.nodes", *words, rows=grid("gpus", "plan.nodes")))
            for text in texts:
                self.assertIn(text, shown)
        facets = ["--x", "gpus", "--facet", "devices,plan.nodes"]
        rows = grid("gpus", "devices", "plan.nodes")
        shown = " ".join(text_of(self.draw(*facets, "--label", "devices=GPUs", "--label", "nodes=n", rows=rows)))
        self.assertIn("GPUs 2, n 4", shown)
        facets = ["--x", "gpus", "--facet", "devices", "--by", "plan.nodes"]
        self.assertIn("use 'nodes 2' or 'devices 2'", self.refused(*facets, "--label", "2=two", rows=rows))
        said = self.refused(*facets, "--label", "zzz=two", rows=rows)
        for known in ("'gpus'", "'devices'", "'plan.nodes'", "'nodes 1'", "'nodes 4'", "'samples_per_s'"):
            self.assertIn(known, said)

    def test_no_name_loses_what_tells_it_apart(self):
        rows = grid("gpus", "devices", "plan.microbatches")
        for style, words in itertools.product(("paper", "web"), (["--facet", "devices,plan.microbatches"],
                                              ["--legend", "right", "--by", "devices,plan.microbatches"])):
            shown = " ".join(text_of(self.draw("--x", "gpus", "--style", style, *words, rows=rows)))
            for d, m in itertools.product((1, 2, 4), repeat=2):
                self.assertEqual(shown.count(f"devices {d}, microbatches {m}"), 1, shown)
        long = ["a" * 70 + "1" + "b" * 70, "a" * 70 + "2" + "b" * 70]  # the middle tells them apart
        rows = "plan\tn\tsamples_per_s\n" + "".join(f"{name}\t{n}\t{n}\n" for name in long for n in (1, 2))
        for words in (["--facet", "plan"], ["--by", "plan"], ["--by", "plan", "--legend", "right"]):
            shown = "".join(text_of(self.draw("--x", "n", *words, rows=rows)))
            for name in long:
                self.assertIn(name, shown)

    def test_a_legend_beside_the_axes_is_in_the_picture(self):
        rows = "plan\tn\tsamples_per_s\n" + "".join(f"{'word ' * 12}{k}\t{n}\t{n}\n" for k in range(12) for n in (1, 2))
        svg = self.draw("--x", "n", "--legend", "right", "--style", "paper", rows=rows)
        height = int(re.search(r'viewBox="0 0 \d+ (\d+)"', svg).group(1))
        at = [float(y) for y in re.findall(r'translate\([\d.]+,([\d.]+)\)"[^>]*>\s*<text>', svg)]
        self.assertEqual(" ".join(text_of(svg)).count("word"), 12 * 12)
        self.assertLess(max(at), height)
        svg = self.draw("--x", "n", "--legend", "right", "--style", "paper", rows=rows + f"{'word ' * 12}0\t1\t3\n")
        at = {text: float(y) for y, text in re.findall(r'translate\([\d.]+,([\d.]+)\)"[^>]*>\s*<text>(?:<tspan[^>]*>)?([^<]*)<', svg)}
        note = next(y for text, y in at.items() if text.startswith("medians of"))
        self.assertLess(max(y for text, y in at.items() if "word" in text), note - 8)
        self.assertIn("--size", self.refused("--x", "n", "--legend", "right", "--size", "480x300", rows=rows))

    def test_error_bars_have_the_colour_of_their_line(self):
        rows = "plan\tn\tsamples_per_s\n" + "".join(f"{p}\t{n}\t{n + e}\n" for p in "ab" for n in (5, 9) for e in (0, 1, 3))
        with_bars, without = (collections.Counter(re.findall(r"rgb\([ \d]+, *[ \d]+, *[ \d]+\)", self.draw(
            "--x", "n", "--note", "none", "--error-bars", bars, rows=rows))) for bars in ("range", "none"))
        blue, orange = "rgb(  0, 114, 178)", "rgb(230, 159,   0)"
        for colour in (blue, orange):
            self.assertGreater(with_bars[colour], without[colour])
        self.assertNotIn("rgb( 96,  96,  96)", with_bars)

    def test_numbers_below_facets_do_not_touch(self):
        for values in ((25, 50, 100, 200, 400), (1000000, 2000000, 4000000), (16, 32768)):
            rows = "f\tn\tsamples_per_s\n" + "".join(f"{f}\t{n}\t{n}\n" for f in range(3) for n in values)
            svg = self.draw("--x", "n", "--facet", "f", "--style", "paper", "--by", "f", "--legend", "right", rows=rows)
            at = sorted((float(x), text) for x, text in re.findall(
                r'translate\(([\d.]+),[\d.]+\)"[^>]*text-anchor="middle">\s*<text>(?:<tspan[^>]*>)?(\d+)<', svg)
                if int(text) in values)
            self.assertGreaterEqual(len(at), 3, values)
            for (x, text), (x2, text2) in zip(at, at[1:]):
                self.assertGreater(x2 - x, 3.5 * (len(text) + len(text2)) + 2, at)

    def test_labels_can_be_swapped(self):
        rows = "plan\tn\tsamples_per_s\na\t1\t1\na\t2\t2\nb\t1\t3\nb\t2\t4\n"
        texts = text_of(self.draw("--label", "a=b", "--label", "b=a", rows=rows))
        self.assertLess(texts.index("b"), texts.index("a"))

    def test_styles_have_their_size_and_their_letters(self):
        for style, width, dots in (("paper", 8.5 / 2.54 * 96, 3.125), ("slide", 960, 2), ("web", 720, 2)):
            svg = self.draw("--style", style, "--x", "platform.nodes", "--by", "plan,platform.nic.bandwidth")
            size, box = re.search(r'width="(\d+)" height="(\d+)"\s*viewBox="0 0 (\d+) (\d+)"', svg).groups()[::2]
            points = {"paper": 7.5, "slide": 18, "web": 9.75}[style]
            self.assertAlmostEqual(float(size), width, delta=1)
            self.assertAlmostEqual(float(size) / float(box), points / 9.75, delta=0.01)
            self.call("--style", style, output="p.png")
            png = struct.unpack(">II", (self.at / "p.png").read_bytes()[16:24])
            self.assertAlmostEqual(png[0], width * dots, delta=2)
        svg = self.draw("--style", "paper", "--size", "9x6cm", "--font", "Serif:10")
        self.assertEqual(re.findall(r'width="(\d+)" height="(\d+)"', svg)[0], ("341", "227"))  # whole pixels of the layout
        self.assertTrue("Serif" in svg and "Helvetica" not in svg)
        self.assertIn("expected paper, slide or web", self.refused("--style", "poster"))

    def test_fonts_that_are_no_names_are_refused(self):
        for font in ("", ":", "Times:", "Times:x", "Times:1e9", "Times:0", "x" * 99, "a'b", "a\nb", "a,9' ; system('touch hacked')"):
            self.assertIn("--font", self.refused("--font", font), font)
        self.assertTrue('font-family="Noto-Sans 2.x"' in self.draw("--font", "Noto-Sans 2.x"))

    def test_pdfs_embed_their_fonts(self):
        self.assertEqual(self.call("--style", "paper", "--font", "Serif", output="p.pdf").returncode, 0)
        data = (self.at / "p.pdf").read_bytes()
        parts = [data]
        for stream in re.findall(rb"stream\r?\n(.*?)endstream", data, re.S):
            try:
                parts.append(zlib.decompress(stream))
            except zlib.error:
                pass
        objects = b"\n".join(parts)
        fonts = len(re.findall(rb"/Type\s*/FontDescriptor", objects))
        self.assertGreater(fonts, 0)
        self.assertEqual(len(re.findall(rb"/FontFile[23]?\s+\d+ 0 R", objects)), fonts)
        if not shutil.which("pdffonts"):
            self.skipTest("pdffonts is not installed (the file itself was read)")
        said = subprocess.run(["pdffonts", str(self.at / "p.pdf")], stdout=subprocess.PIPE, check=True).stdout.decode()
        for line in said.splitlines()[2:]:
            self.assertEqual(line.split()[-5], "yes", said)

    def test_the_legend_goes_where_it_is_wanted(self):
        def place(where):
            svg = self.draw("--legend", where, "--where", "platform.nic.bandwidth=10Gbps", "--x", "platform.nodes")
            at = re.search(r'translate\(([\d.]+),([\d.]+)\)"[^>]*>\s*<text>DP 8<', svg)
            height = int(re.search(r'viewBox="0 0 \d+ (\d+)"', svg).group(1))
            return at and (float(at.group(1)), float(at.group(2)) / height)
        self.assertLess(place("top")[1], 0.1)
        self.assertGreater(place("bottom")[1], 0.8)
        self.assertGreater(place("right")[0], 360)
        self.assertIsNone(place("none"))
        self.assertIn("expected top, bottom, right or none", self.refused("--legend", "left"))

    def test_the_note_can_be_left_out(self):
        self.assertTrue("only platform.nodes=1" in self.draw("--where", "platform.nodes=1"))
        svg = self.draw("--where", "platform.nodes=1", "--note", "none").split("<?foreline")[0]
        self.assertFalse("only platform.nodes=1" in svg)
        self.assertIn("only platform.nodes=1", (self.at / "p.tsv").read_text())  # the table has it
        self.assertIn("expected below or none", self.refused("--note", "above"))

    def test_orders_are_by_value_or_by_name(self):
        rows = "plan\tsamples_per_s\na\t2\nb\t9\nc\t5\n"

        def names(*words):
            self.draw("--x", "plan", *words, rows=rows)
            return [row["plan"] for row in self.table()]
        self.assertEqual(names(), ["a", "b", "c"])
        self.assertEqual(names("--order", "value"), ["b", "c", "a"])
        self.assertEqual(names("--order", "c,a"), ["c", "a", "b"])
        self.assertIn("--order: the figure has no 'd' on the axis or legend", self.refused("--x", "plan", "--order", "a,d", rows=rows))
        rows = 'plan\titeration_s\n"x, y"\t2\nz\t1\n'
        for order, first in (("value", "z"), ('"""x, y""",z', '"x, y"')):  # of times the least is the best
            self.draw("--x", "plan", "--order", order, rows=rows)
            self.assertEqual(self.table()[0]["plan"].strip(), first.replace('"', " ").strip(), self.table())

    def test_conditions_may_have_quotes(self):
        rows = 'plan\tk=v\tn\tsamples_per_s\nDP 8, n=1\ta"b\t1\t1\nDP 8, n=1\tx\t2\t2\nPP\tx\t1\t3\n'
        self.draw("--where", 'plan="DP 8, n=1","k=v"=x', "--x", "n", rows=rows)
        self.assertEqual([row["samples per second"] for row in self.table()], ["2"])
        self.draw("--where", '"k=v"="a""b",plan="DP 8, n=1"', "--x", "n", rows=rows)
        self.assertEqual([row["samples per second"] for row in self.table()], ["1"])
        for bad in ('plan="DP 8', '"plan=PP', 'plan="PP"x', "plan", '"plan"'):
            self.assertIn("expected", self.refused("--where", bad), bad)

    def test_two_columns_make_a_line(self):
        self.draw("--x", "platform.nodes", "--by", "plan,platform.nic.bandwidth")
        self.assertEqual(len({row["plan,platform.nic.bandwidth"] for row in self.table()}), 4)
        texts = text_of((self.at / "p.svg").read_text())
        self.assertIn("DP 8, 100Gbps", texts)
        self.draw("--x", "platform.nic.bandwidth", "--by", "plan,platform.nodes")
        self.assertIn("PP 8, nodes 2", text_of((self.at / "p.svg").read_text()))
        self.assertIn("unknown column 'x'", self.refused("--by", "plan,x"))

    def test_facets_share_their_axes(self):
        svg = self.draw("--x", "platform.nodes", "--facet", "platform.nic.bandwidth")
        for text in ("NIC bandwidth 10 Gb/s", "NIC bandwidth 100 Gb/s"):
            self.assertIn(text, text_of(svg))
        self.assertEqual({row["platform.nic.bandwidth"] for row in self.table()}, {"10Gbps", "100Gbps"})
        self.assertEqual(len(self.table()), 8)
        self.assertEqual(text_of(svg).count("60"), 1)  # numbers stand at the left panel alone
        self.draw("--x", "platform.nodes", "--facet", "status")  # one value
        self.assertEqual(len(self.table()), 4)
        words = self.draw("--x", "plan", "--by", "platform.nodes", "--facet", "platform.nic.bandwidth")
        self.assertIn("NIC bandwidth 10 Gb/s", text_of(words))
        rows = "f\tn\tsamples_per_s\n" + "".join(f"{f}\t{n}\t{f + n}\n" for f in range(30) for n in (1, 2))
        said = self.refused("--x", "n", "--facet", "f", rows=rows)
        self.assertIn("has 30 values, --facet shows at most 12", said)
        self.assertIn("unknown column 'g'", self.refused("--facet", "g"))

    def test_regret_is_against_the_best_of_a_facet(self):
        self.draw("--x", "platform.nodes", "--facet", "platform.nic.bandwidth", kind="regret")
        at = {(r["platform.nic.bandwidth"], r["plan"][:2], r["platform.nodes"]): float(r["behind the best (%)"]) for r in self.table()}
        self.assertAlmostEqual(at["10Gbps", "PP", "1"], 25)
        self.assertAlmostEqual(at["100Gbps", "PP", "2"], 100 * (64 / 43 - 1), places=4)

    def test_error_bars_are_those_of_a_slow_computation(self):
        draw = random.Random(46)
        values = {x: [draw.lognormvariate(3, 0.4) for _ in range(n)] for x, n in ((1, 1), (2, 2), (3, 5), (4, 6), (5, 17), (6, 60))}
        rows = [f"{x}\t{v!r}" for x, all_ in values.items() for v in all_]
        draw.shuffle(rows)
        rows = "n\tsamples_per_s\n" + "\n".join(rows) + "\n"
        for errors in ("range", "iqr", "p5-p95", "ci", None):
            self.draw("--x", "n", *(["--error-bars", errors] if errors else []), rows=rows)
            for row in self.table():
                want = bar(errors or "range", sorted(values[int(row["n"])]))
                if want is None:
                    self.assertEqual((row["low"], row["high"]), ("-", "-"), (errors, row))
                else:
                    self.assertAlmostEqual(float(row["low"]), want[0], delta=1e-6 * want[0], msg=f"{errors} {row}")
                    self.assertAlmostEqual(float(row["high"]), want[1], delta=1e-6 * want[1], msg=f"{errors} {row}")
        self.draw("--x", "n", "--error-bars", "none", rows=rows)
        self.assertNotIn("low", self.table()[0])
        few = "n\tsamples_per_s\n" + "1\t2\n1\t3\n2\t4\n"
        self.assertIn("--error-bars ci needs at least 6 rows", self.refused("--x", "n", "--error-bars", "ci", rows=few))
        self.assertIn("repeats: 6 or more in the sweep", self.refused("--x", "n", "--error-bars", "ci", rows=few))
        self.assertIn("needs at least 2 rows", self.refused("--x", "n", "--error-bars", "iqr", rows="n\tsamples_per_s\n1\t2\n2\t4\n"))
        self.assertIn("expected none, range, iqr, p5-p95 or ci", self.refused("--error-bars", "sd"))

    def test_no_name_is_a_command(self):
        for text in NASTY:
            cell = text.replace("\n", " ").replace("\t", " ").replace('"', "'")
            rows = f"{cell}\tplan\tn\tsamples_per_s\n{cell}\t{cell}\t1\t2\n{cell}\t{cell}\t2\t3\nb\tb\t1\t3\nb\tb\t2\t4\n"
            words = ["--title", text, "--xlabel", text, "--label", f"b={text}", "--label", f"samples_per_s={text}"]
            for name in ("p.svg", "p.png"):
                done = self.call(*words, "--x", "n", "--by", "plan", "--facet", "plan", rows=rows, output=name)
                self.assertEqual(done.returncode, 0, (text, done.stderr.decode()))
                self.assertFalse((self.at / "hacked").exists(), text)
                self.assertEqual(set(os.listdir(self.at)) - {"t.tsv", "p.tsv", "p.svg", "p.png"}, set(), text)
            self.assertEqual(self.call(*words[:4], "--x", "plan", "--order", "value", rows=rows).returncode, 0)
        self.assertIn("it\u2019s", text_of(self.draw("--title", "it's")))
        self.assertIn("{/Symbol a}_b^c", text_of(self.draw("--title", "{/Symbol a}_b^c")))

    def measure(self):
        """Measurements of two plans in folders a and b, the first one three times."""
        for name, stages in (("a", "1"), ("b", "2")):
            (self.at / name).mkdir()
            for words in (["plan", "--model", "gpt-tiny", "--platform", "laptop", "--algorithm", "balanced", "--stages", stages,
                           "--microbatches", "4", "-o", f"{name}/plan.json"],
                          ["simulate", f"{name}/plan.json", "--engine", "analytic", "-o", f"{name}/m.json", "--trace", f"{name}/t.json"]):
                subprocess.run([FORELINE, *words], cwd=self.at, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        text = (self.at / "a" / "m.json").read_text()
        for factor in (2, 4):
            (self.at / "a" / f"m{factor}.json").write_text(
                re.sub(r'"iteration_s": ([\d.e-]+)', lambda m: f'"iteration_s": {float(m[1]) * factor}', text))
        return ["a/m.json", "a/m2.json", "a/m4.json", "b/m.json"]

    def test_files_have_error_bars_orders_and_names(self):
        files = self.measure()
        svg = self.draw(*files, "--error-bars", "range", "--order", "value", rows=None, kind="bars")
        rows = self.table()
        first = next(row for row in rows if row["files"] == "3")
        self.assertAlmostEqual(float(first["high"]) / float(first["low"]), 4, places=5)
        self.assertAlmostEqual(float(first["iteration_s"]) / float(first["low"]), 2, places=5)
        self.assertTrue({"a", "b"} <= set(text_of(svg)))  # both plans are called plan.json
        self.assertIn("needs at least 6 files", self.refused(*files, "--error-bars", "ci", rows=None, kind="bars"))
        svg = self.draw(files[0], files[3], "--label", "compute=work", "--label", "a/m.json=first", rows=None, kind="breakdown")
        self.assertTrue({"work", "first"} <= set(text_of(svg)))
        for kind, words in (("memory", [files[0], "--label", "stage 0=all layers"]), ("timeline", ["a/t.json", "--label", "idle=idle time"])):
            new = words[-1].split("=")[1]
            for style in ("paper", "slide", "web"):
                self.assertIn(new, text_of(self.draw(*words, "--style", style, "--legend", "right", rows=None, kind=kind)))

    def test_a_kind_names_those_that_do_what_it_does_not(self):
        for kind, words in (("heatmap", ["--x", "plan", "--y", "platform.nodes", "--legend", "none"]), ("regret", ["--error-bars", "ci"]),
                            ("candidates", ["--facet", "plan"])):
            self.assertRegex(self.refused(*words, kind=kind), f"plot {kind} does not support --[a-z-]+ \\(kinds that do: .*throughput")


def bar(errors, ascending):
    """Ends of an error bar, by definition; None: there is none."""
    n = len(ascending)

    def quantile(q):
        at = q * (n - 1)
        low = math.floor(at)
        return ascending[low] + (at - low) * (ascending[min(low + 1, n - 1)] - ascending[low])

    if n < 2:
        return None
    if errors == "ci":  # the narrowest pair of order statistics, as far from both ends, that holds the median often enough
        best = None
        for k in range(1, n // 2 + 1):
            inside = sum(math.comb(n, j) for j in range(k, n - k + 1)) / 2**n
            best = (ascending[k - 1], ascending[n - k]) if inside >= 0.95 else best
        return best
    share = {"range": 0, "iqr": 0.25, "p5-p95": 0.05}[errors]
    return quantile(share), quantile(1 - share)


if __name__ == "__main__":
    if not shutil.which("gnuplot"):
        print("gnuplot is not installed")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
