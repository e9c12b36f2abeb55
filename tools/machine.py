"""What the readers of machines share: the machine that they make, the file that they are given, texts and numbers.

foreline runs `python3 NAME.py` with a line of JSON on standard input, {"gpus": [[name, FLOP/s of 16 bits, bytes], ...]},
and behind it the file: as it is, or, where it is YAML, as JSON in which every value is [line, value]. Its syntax has
been checked by then. The answer is one object of JSON on standard output: a machine (docs/reference/formats.md), or
{"error": {"text": what is wrong, "line": 3}}, of JSON files with "at": [key or index, ...] instead of a line.
A program needs Python 3.9 and its standard library.
"""
import json
import math
import re
import resource
import sys

PARTS, NAMES = 1 << 21, 1 << 18
MEMORY = 2 << 30  # of the process, bytes
GPU, CPU, BRIDGE, NVSWITCH, NIC, SWITCH, NODE = "gpu", "cpu", "bridge", "nvswitch", "nic", "switch", "node"


class Bad(Exception):
    """The file is wrong: in a line (0: as a whole), or at a path of keys and indices of JSON."""

    def __init__(self, text, line=0, at=None):
        super().__init__(text)
        self.answer = {"text": text, "line": line} if at is None else {"text": text, "at": at}


class Machine:
    """Parts and links, each a row of docs/reference/formats.md."""

    KIND, NAME, PART_NODE, MODEL, DOMAIN, UP, UP_BPS, BPS = range(8)

    def __init__(self):
        self.nodes, self.parts, self.links, self.inside = 0, [], [], None
        self.assumed, self.warnings = {}, {}  # texts, each once, in their order

    def part(self, kind, name, node=None, model=None, domain=None, up=None, up_Bps=0, Bps=0):
        if len(self.parts) == PARTS:
            raise Bad("more than %d parts of machines" % PARTS)
        self.parts.append([kind, name, node, model, domain, up, up_Bps, Bps])
        return len(self.parts) - 1

    def link(self, kind, a, b, count=1, Bps=0, latency_s=0):
        if len(self.links) == PARTS:
            raise Bad("more than %d links" % PARTS)
        self.links.append([kind, a, b, count, Bps, latency_s])

    def kind(self, part):
        return self.parts[part][self.KIND]

    def assume(self, text):
        self.assumed[text] = None

    def warn(self, text):
        if len(self.warnings) <= 64:  # of which foreline shows 64
            self.warnings[text] = None

    def answer(self):
        out = {"format": "foreline-machine", "version": 1, "nodes": self.nodes,
               "parts": [trimmed(p, (None, None, None, None, None, None, 0, 0)) for p in self.parts],
               "links": [trimmed(l, (None, None, None, 1, 0, 0)) for l in self.links],
               "assumed": list(self.assumed), "warnings": list(self.warnings)}
        if self.inside:
            out["inside"] = self.inside.answer()
        return out


def trimmed(row, usual):
    n = len(row)
    while row[n - 1] == usual[n - 1]:
        n -= 1
    return row[:n]


class Names(dict):
    """What names stand for; at most NAMES of them."""

    def __setitem__(self, name, value):
        super().__setitem__(name, value)
        if len(self) > NAMES:
            raise Bad("more than %d names" % NAMES)


# ---- texts and numbers, read as foreline reads them

NUMBER = re.compile(r"[ \t\n\v\f\r]*([+-]?)(0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)(?:[pP][+-]?[0-9]+)?"
                    r"|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)")


def cut(text, n):
    """At most n bytes."""
    return text.encode()[:n].decode(errors="ignore")


def number_before(text):
    """The number that a text begins with, and what is behind it; None: no number."""
    found = NUMBER.match(text)
    if not found:
        return None, text
    digits = found.group(2)
    try:
        value = float.fromhex(digits) if digits[:2] in ("0x", "0X") else float(digits)
    except OverflowError:
        value = math.inf
    return -value if found.group(1) == "-" else value, text[found.end():]


def real(text):
    """A finite number, or None."""
    value, rest = number_before(text)
    if value is None or rest or not math.isfinite(value):
        return None
    tiny = abs(value) < sys.float_info.min and re.search("[1-9a-fA-F]", re.split("[eEpP]", text.lower().replace("0x", ""))[0])
    return None if tiny else value


def count(text, most):
    """A number of decimal digits alone, at most `most`; or None."""
    if not text.isascii() or not text.isdigit() or len(text.lstrip("0")) > 20:
        return None
    value = int(text)
    return value if value <= most else None


PREFIXES = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "K": 1e3,
            "Ki": 1024.0, "Mi": 1048576.0, "Gi": 1073741824.0, "Ti": 1099511627776.0}
RATES = {p + unit: factor * PREFIXES[p] for unit, factor in
         (("bps", 0.125), ("Bps", 1), ("B/s", 1), ("b/s", 0.125)) for p in PREFIXES}
TIMES = {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60, "h": 3600}


def quantity(text, units):
    """A number, blanks and a unit of the table, in SI; zero needs no unit. None: it is none."""
    value, rest = number_before(text)
    if value is None or not value >= 0 or value == math.inf:
        return None
    unit = rest.lstrip(" ")
    factor = 1 if not unit and value == 0 else units.get(unit)
    return value * factor if factor and math.isfinite(value * factor) else None


# ---- lists of hosts

def hostlist(text):
    """The names of "node[01-04,7],x3"."""
    names = [0]
    while text:
        n = depth = 0
        while n < len(text) and (text[n] != "," or depth > 0):
            depth += 1 if text[n] == "[" else -1 if text[n] == "]" else 0
            n += 1
        if n > 0:
            yield from expand("", text, names)
        text = text[n + 1:]


def before(text, stops):
    """How many characters stand before the first of the stops."""
    return len(re.match("[^%s]*" % re.escape(stops), text).group())


def expand(prefix, rest, names):
    plain = before(rest, "[,")
    name = prefix + rest[:plain]
    if len(name.encode()) >= 256:
        raise Bad("name longer than 255 characters")
    if rest[plain:plain + 1] != "[":
        names[0] += 1
        if names[0] > NAMES:
            raise Bad("list of more than %d names" % NAMES)
        yield name
        return
    begin, end = plain + 1, rest.find("]", plain + 1)
    if end < 0 or end == begin:  # without a range there would be no name to count
        raise Bad("'%s': missing %s" % (cut(rest, 40), "']'" if end < 0 else "range in '[]'"))
    while begin < end:
        yield from expand_range(name, rest, begin, end, names)
        begin += before(rest[begin:end + 1], ",]") + 1


def expand_range(prefix, rest, begin, end, names):
    span = rest[begin:begin + before(rest[begin:end + 1], ",]")]
    found = re.fullmatch("([0-9]{1,9})(?:-([0-9]{1,9}))?", span)
    if not found:
        raise Bad("got '%s', expected a range such as 01-04" % cut(rest[begin:], 40))
    low, high = int(found.group(1)), int(found.group(2) or found.group(1))
    if high < low or high - low >= NAMES:
        raise Bad("'%s': expected a range of up to %d names, from low to high" % (span, NAMES))
    for k in range(low, high + 1):
        name = "%s%0*d" % (prefix, len(found.group(1)), k)
        if len(name.encode()) >= 256:
            raise Bad("name longer than 255 characters")
        yield from expand(name, rest[end + 1:], names)


# ---- YAML: [line, text or list or map]

def get(value, key):
    return value[1].get(key) if value and isinstance(value[1], dict) else None


def items(value):
    return value[1] if value and isinstance(value[1], list) else []


def entries(value):
    return value[1].items() if value and isinstance(value[1], dict) else ()


def text_of(value):
    """None: a list or a map, or nothing."""
    return value[1] if value and isinstance(value[1], str) else None


def text_at(value, key):
    return text_of(get(value, key)) or ""


# ---- JSON, in words as foreline's own reader has them

def type_name(value):
    names = ((bool, "true" if value else "false"), ((int, float), "a number"), (str, "a string"), (list, "an array"),
             (dict, "an object"), (type(None), "null"))
    return next(name for kind, name in names if isinstance(value, kind))


class At:
    """A value of a JSON file and where it is."""

    def __init__(self, value, at=()):
        self.value, self.at = value, at

    def bad(self, text):
        return Bad(text, at=list(self.at))

    def optional(self, key):
        """None where it is absent or null."""
        if not isinstance(self.value, dict):
            raise self.bad("expected an object, found %s" % type_name(self.value))
        value = self.value.get(key)
        return None if value is None else At(value, self.at + (key,))

    def field(self, key):
        found = self.optional(key)
        if found is None:
            raise self.bad('"%s" is missing' % key)
        return found

    def array(self, limit):
        if not isinstance(self.value, list):
            raise self.bad("expected an array, found %s" % type_name(self.value))
        if len(self.value) > limit:
            raise self.bad("got %d items, expected at most %d" % (len(self.value), limit))
        return [At(v, self.at + (i,)) for i, v in enumerate(self.value)]

    def string(self):
        if not isinstance(self.value, str):
            raise self.bad("expected a string, found %s" % type_name(self.value))
        if "\0" in self.value:
            raise self.bad("string contains a NUL character")
        return self.value

    def integer(self, least, most):
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            what = "a fraction" if isinstance(self.value, float) else type_name(self.value)
            raise self.bad("expected an integer, found %s" % what)
        return self.within(self.value, least, most, "%d is out of range, expected %d to %d")

    def real(self, least, most):
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)):
            raise self.bad("expected a number, found %s" % type_name(self.value))
        return self.within(float(self.value), least, most, "%g is out of range, expected %g to %g")

    def within(self, value, least, most, text):
        if not least <= value <= most:
            raise self.bad(text % (value, least, most))
        return value


# ---- GPUs of the catalogue by what others call them, as topologies/catalogue_names.c does

def gpu_words(text):
    words = []
    for word in re.findall("[A-Za-z0-9]+", text):
        while re.match("[0-9]+x[A-Za-z0-9]", word):  # "4x8xH200"
            word = word[word.index("x") + 1:]
        words.append(word[:31].upper())
    return words


def is_gpu(text, gpus):
    words = gpu_words(text)

    def has(word):
        return any(w.startswith(word) and (len(w) == len(word) or (word[0].isdigit() and w[len(word):] == "GB"))
                   for w in words)
    return any(all(has(w) for w in gpu_words(name)) for name, _, _ in gpus)


# ---- the program

def answer(read, data, gpus):
    """What a program prints: `read` takes the file's bytes and the catalogue and returns a machine."""
    try:
        return read(data, gpus).answer()
    except Bad as bad:
        return {"error": bad.answer}
    except MemoryError:
        return {"error": {"text": "its machine takes more than %d GiB" % (MEMORY >> 30), "line": 0}}


def main(read):
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.setrecursionlimit(5000)  # JSON of foreline's depth
    head = json.loads(sys.stdin.buffer.readline())
    said = answer(read, sys.stdin.buffer.read(), head["gpus"])
    sys.stdout.write(json.dumps(said, separators=(",", ":")))  # json.dump() is four times slower
