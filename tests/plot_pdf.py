#!/usr/bin/env python3
"""Letters of a PDF are as large as its layout takes them for: 13 pixels of 1/96 inch, less on pages narrower than 480 pixels.

usage: plot_pdf.py FORELINE
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import zlib

TABLE = "gpus\tsamples_per_s\tcase\n8\t10\tDP\n16\t19\tDP\n8\t12\tPP 8\n16\t21\tPP 8\n"


def letters(path):
    """Sizes of its letters in points, and width and height of its page."""
    data = path.read_bytes()
    texts = b""
    for stream in re.findall(rb"stream\r?\n(.*?)endstream", data, re.S):
        try:
            texts += zlib.decompress(stream)
        except zlib.error:  # not every stream is packed
            pass
    box = re.search(rb"/MediaBox \[ *\S+ \S+ (\S+) (\S+)", data + texts)
    return {round(float(m), 2) for m in re.findall(rb"([\d.]+) \S+ \S+ -\1 \S+ \S+ Tm", texts)}, [float(x) for x in box.groups()]


def main():
    with tempfile.TemporaryDirectory() as folder:
        table, picture = pathlib.Path(folder, "t.tsv"), pathlib.Path(folder, "p.pdf")
        table.write_text(TABLE)
        for size, points, width in ((None, 9.75, 360), ("8.5x6cm", 6.53, 8.5 / 2.54 * 72), ("20x10cm", 9.75, 20 / 2.54 * 72)):
            subprocess.run([sys.argv[1], "plot", "throughput", str(table), "--x", "gpus", "--by", "case", "-o", str(picture)]
                           + (["--size", size] if size else []), check=True)
            sizes, page = letters(picture)
            assert sizes == {points}, (size, sizes)
            assert abs(page[0] - width) < 1, (size, page)  # gnuplot takes whole points
    print("letters of three PDFs have the size of their layout")


main()
