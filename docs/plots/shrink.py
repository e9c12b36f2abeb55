#!/usr/bin/env python3
"""Pictures of few colours in few bytes: a PNG of gnuplot (8 bits, red, green and blue) becomes one with a palette of at most
256 colours, the most frequent of those whose channels are rounded to 5 bits; other colours take the nearest of these.

usage: shrink.py FILE.png...
"""
import collections
import struct
import sys
import zlib


def chunks(data):
    at = 8
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        yield kind, data[at + 8:at + 8 + length]
        at += 12 + length


def rows_of(raw, width, height):
    """The bytes of each row without PNG's filters (RFC 2083, section 6)."""
    stride, before, at = 3 * width, bytearray(3 * width), 0
    for _ in range(height):
        kind, row = raw[at], bytearray(raw[at + 1:at + 1 + stride])
        at += 1 + stride
        for i in range(stride):
            left, up, corner = row[i - 3] if i > 2 else 0, before[i], before[i - 3] if i > 2 else 0
            if kind == 1:
                row[i] = row[i] + left & 255
            elif kind == 2:
                row[i] = row[i] + up & 255
            elif kind == 3:
                row[i] = row[i] + (left + up) // 2 & 255
            elif kind == 4:
                guess = left + up - corner
                row[i] = row[i] + min((left, up, corner), key=lambda v: abs(guess - v)) & 255
        yield row
        before = row


def rounded(pixel):
    return tuple(255 if v >= 252 else v & 0xF8 | v >> 5 for v in pixel)


def shrink(path):
    with open(path, "rb") as f:
        parts = list(chunks(f.read()))
    width, height, depth, colours = struct.unpack(">IIBB", parts[0][1][:10])
    if (depth, colours) != (8, 2):
        return
    raw = zlib.decompress(b"".join(data for kind, data in parts if kind == b"IDAT"))
    rows = [[rounded(row[i:i + 3]) for i in range(0, 3 * width, 3)] for row in rows_of(raw, width, height)]
    palette = [c for c, _ in collections.Counter(c for row in rows for c in row).most_common(256)]
    index = {c: i for i, c in enumerate(palette)}
    for row in rows:
        for c in row:
            if c not in index:
                index[c] = min(range(len(palette)), key=lambda i: sum((a - b) ** 2 for a, b in zip(c, palette[i])))
    packed = zlib.compress(b"".join(b"\0" + bytes(index[c] for c in row) for row in rows), 9)
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n")
        for kind, data in ((b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
                           (b"PLTE", b"".join(map(bytes, palette))), (b"IDAT", packed), (b"IEND", b"")):
            f.write(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))


for name in sys.argv[1:]:
    shrink(name)
