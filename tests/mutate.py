#!/usr/bin/python3
"""Valid commands with something wrong in them: every line of tests/cli is run again and again with its words or the
files that it reads changed at random, from a seed. None may end by a signal or with a sanitizer's report, take more
than 10 s of CPU time (60 s where it trains), or (without sanitizers) 1 GB, fail without saying why in one line, print what a terminal would obey, or leave what
it was writing. Usage: mutate.py FORELINE CASES [--runs N] [--first I] [--seed S] [--jobs J]"""
import argparse
import collections
import concurrent.futures
import os
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

CPU_S, WALL_S, MEMORY = 10, 60, 1 << 30
TRAINS = {"bench", "calibrate", "emulate", "run", "validate"}  # for real, as long as that takes: six times CPU_S
ENDS_S = 60  # a search that is told a longer --time-limit is interrupted after WALL_S, and then may take that
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
NUMBERS = ["0", "-1", "1", "2", "3", "7", "-0", "0.5", "1e308", "1e-308", "-1e308", "nan", "inf", "2147483648", "4294967295",
           "9223372036854775807", "18446744073709551616", "1048577", "99999999999999999999999", "1e5", "", "0x10", "1,2"]
STRINGS = ["", "-", "--", ".", "..", "../x", "a/b/c", "/nonexistent/x", "\x1b[31mred\x1b[0m", "\x07", "a\nb", "\r", "\x7f", "\xff\xfe",
           "%s%n%x", "A" * 5000, "=", ",", ":", ",,", "a=b", "*", "'", '"', "é漢字", "true", "null", "auto", "list", "-o", "--json", "--help"]


def words_of(line):
    """The words of a line of `args`, None where a shell is needed."""
    parts = list(shlex.shlex(line, posix=True, punctuation_chars="();<>|&"))
    needs = "$" in line or "`" in line or any(set(w) <= set("();<>|&") for w in parts if w)
    return None if needs else shlex.split(line)


def mutate_number(r, text):
    """One number of a text becomes another."""
    found = list(NUMBER.finditer(text))
    if not found:
        return None
    m = r.choice(found)
    return text[:m.start()] + r.choice(NUMBERS) + text[m.end():]


def mutate_words(r, words, others):
    """One or two of: a number, a word or a value is another; a word goes, comes twice, or from elsewhere."""
    words = list(words)
    for _ in range(r.choice([1, 1, 1, 2])):
        k = r.randrange(len(words)) if len(words) > 1 else 0
        how = r.randrange(8)
        if how < 3:
            with_numbers = [i for i, w in enumerate(words) if NUMBER.search(w)]
            if with_numbers:
                i = r.choice(with_numbers)
                words[i] = mutate_number(r, words[i])
        elif how == 3 and k > 0:
            words[k] = r.choice(STRINGS)
        elif how == 4 and k > 0:
            head, equals, _ = words[k].rpartition("=")
            words[k] = head + equals + r.choice(STRINGS)
        elif how == 5:
            del words[k]
        elif how == 6:
            words.insert(k, words[k])
        else:
            from_other = r.choice(others)
            at = r.randrange(len(from_other))
            words[k + 1:k + 1] = from_other[at:at + 2]
        if not words:
            words = ["plan"]
    return [w.replace("\0", "") for w in words]


def mutate_file(r, data, all_files):
    """Its bytes with something wrong."""
    how = r.randrange(9)
    if how == 0:
        return b""
    if how == 1:
        return data[:r.randrange(len(data) + 1)]
    if how == 2:
        return data + data
    if how == 3 and all_files:
        with open(r.choice(all_files), "rb") as f:
            return f.read()
    if how == 4 and data:
        bad = bytearray(data)
        for _ in range(r.choice([1, 1, 4, 30])):
            bad[r.randrange(len(bad))] = r.choice([0, 10, 27, 34, 44, 123, 125, 255, r.randrange(256)])
        return bytes(bad)
    if how == 5 and len(data) > 2:  # a piece goes, or comes twice
        a, b = sorted(r.randrange(len(data)) for _ in range(2))
        return data[:a] + (data[a:b] * 2 if r.random() < 0.5 else b"") + data[b:]
    text = data.decode("latin-1")
    for _ in range(r.choice([1, 1, 2, 5])):
        text = mutate_number(r, text) or text
    if how == 8:  # a name or a text is another
        quoted = list(re.finditer(r'"[^"\n]*"', text))
        if quoted:
            m = r.choice(quoted)
            text = text[:m.start()] + '"' + r.choice(STRINGS) + '"' + text[m.end():]
    return text.encode("utf8" if how == 8 else "latin-1", "replace")


class Line:
    """A line of a case, with the files that are there when it begins."""
    def __init__(self, case, words, folder):
        self.case, self.words, self.folder = case, words, folder


def prepare(foreline, cases, folder):
    """All lines that need no shell, each with a copy of its folder as it is before it."""
    lines = []
    for case in sorted(os.listdir(cases)):
        here = os.path.join(folder, case)
        if not os.path.exists(os.path.join(cases, case, "args")):
            continue
        given = os.path.join(cases, case, "input")
        if os.path.isdir(given):
            shutil.copytree(given, here)
        else:
            os.mkdir(here)
        with open(os.path.join(cases, case, "args")) as f:
            texts = f.read().splitlines()
        for i, text in enumerate(texts):
            words = words_of(text)
            if words:
                before = f"{here}.{i}"
                shutil.copytree(here, before)
                lines.append(Line(case, words, before))
            if i + 1 < len(texts):
                subprocess.run(f"{shlex.quote(foreline)} {text}", shell=True, cwd=here, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=WALL_S)
    return lines


def run(foreline, words, folder, sanitized):
    """Status (negative: signal; None: had to be ended), both outputs, CPU seconds, bytes."""
    def limit():
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 28, 1 << 28))
        if not sanitized:
            resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        p = subprocess.Popen([os.fsencode(foreline)] + [os.fsencode(w) for w in words], cwd=folder, stdin=subprocess.DEVNULL,
                             stdout=out, stderr=err, preexec_fn=limit)
        end_s, status = time.monotonic() + WALL_S, None
        asks = any(w.startswith("--time-limit") for w in words)
        while True:
            pid, ended, used = os.wait4(p.pid, os.WNOHANG)
            if pid:
                status = os.waitstatus_to_exitcode(ended)
                break
            if time.monotonic() > end_s and asks:
                os.kill(p.pid, signal.SIGINT)
                end_s, asks = end_s + ENDS_S, False
            elif time.monotonic() > end_s:
                os.killpg(p.pid, signal.SIGKILL)
                used = os.wait4(p.pid, 0)[2]
                break
            time.sleep(0.002)
        p.returncode = status or 0
        out.seek(0)
        err.seek(0)
        return status, out.read(1 << 20), err.read(1 << 16), used.ru_utime + used.ru_stime, used.ru_maxrss << 10


def faults(words, result, sanitized):
    status, out, err, cpu_s, memory = result
    found = []
    said = err.decode("utf8", "replace")
    if status is None:
        found.append(f"does not end in {WALL_S} s ({cpu_s:.1f} s of CPU)")
    elif status < 0 or status > 2:
        found.append(f"ends with {status}")
    elif status:
        lines = [s for s in said.splitlines() if re.match(r"foreline( [a-z]+){0,2}: ", s)]
        usage = "usage: foreline" in said
        if not lines and not usage:
            found.append("fails without a word")
        elif len([s for s in lines if not re.match(r"foreline( [a-z]+){1,2}: warning", s)]) > 1:
            found.append("more than one line says why")
    if "Sanitizer" in said or "runtime error:" in said:
        found.append("a sanitizer complains")
    asked = any(w.startswith("--time-limit") for w in words)
    if not asked and cpu_s > (6 if sanitized or words[0] in TRAINS else 1) * CPU_S:
        found.append(f"{cpu_s:.1f} s of CPU")
    if not sanitized and memory > MEMORY:
        found.append(f"{memory >> 20} MB")
    for name, data in (("output", out), ("error", err)):
        if re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", data):
            found.append(f"control characters on standard {name}")
    return found


def one(a, lines, others, files, number, folder, sanitized):
    """Execution `number`, which follows from it and the seed."""
    r = random.Random(f"{a.seed}/{number}")
    line = r.choice(lines)
    here = os.path.join(folder, f"run{number}", "in", "side")
    shutil.copytree(line.folder, here)
    words, changed = line.words, None
    read = [os.path.join(d, n) for d, _, names in os.walk(here) for n in names]
    if read and r.random() < 0.5:
        changed = r.choice(sorted(read))
        with open(changed, "rb") as f:
            data = f.read()
        with open(changed, "wb") as f:
            f.write(mutate_file(r, data, files))
    else:
        words = mutate_words(r, words, others)
    result = run(a.foreline, words, here, sanitized)
    found = faults(words, result, sanitized)
    left = [n for d, _, names in os.walk(here) for n in names if re.search(r"\.[A-Za-z0-9]{6}$|\.tmp$", n) and os.path.join(d, n) not in read]
    if left:
        found.append(f"left: {left[:3]}")
    keep = None
    if found and a.keep:
        keep = os.path.join(a.keep, str(number))
        shutil.copytree(here, keep, dirs_exist_ok=True)
    shutil.rmtree(os.path.join(folder, f"run{number}"))
    return number, line.case, words, changed and os.path.relpath(changed, here), result, found


def main():
    p = argparse.ArgumentParser()
    p.add_argument("foreline")
    p.add_argument("cases")
    p.add_argument("--runs", type=int, default=100)
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--keep", help="a folder for what was wrong")
    a = p.parse_args()
    a.foreline = os.path.abspath(a.foreline)
    with open(a.foreline, "rb") as f:
        sanitized = b"__asan_init" in f.read()
    ends, bad, slowest, largest = collections.Counter(), 0, 0, 0
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        os.environ.update(XDG_CACHE_HOME=os.path.join(folder, "cache"), LC_ALL="C.UTF-8", OPENBLAS_NUM_THREADS="1")
        os.mkdir(os.path.join(folder, "cases"))
        lines = prepare(a.foreline, a.cases, os.path.join(folder, "cases"))
        others = [line.words for line in lines]
        files = sorted({os.path.join(d, n) for line in lines for d, _, names in os.walk(line.folder) for n in names})
        with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
            asked = (pool.submit(one, a, lines, others, files, i, folder, sanitized) for i in range(a.first, a.first + a.runs))
            for done in concurrent.futures.as_completed(list(asked)):
                number, case, words, changed, result, found = done.result()
                ends[result[0]] += 1
                slowest, largest = max(slowest, result[3]), max(largest, result[4])
                if found:
                    bad += 1
                    print(f"FAULT {number} ({case}): {'; '.join(found)}\n  foreline {' '.join(map(repr, words))}"
                          f"{'  with another ' + changed if changed else ''}\n  {result[2][-300:]!r}", flush=True)
    print(f"{sum(ends.values())} executions of {len(lines)} commands: "
          + ", ".join(f"{n} ended with {s}" for s, n in sorted(ends.items(), key=str))
          + f"; at most {slowest:.1f} s of CPU and {largest >> 20} MB; {bad} faults")
    return 1 if bad or not ends[0] or not ends[1] else 0


if __name__ == "__main__":
    sys.exit(main())
