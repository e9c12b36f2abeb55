#!/usr/bin/python3
"""foreline explore over HTTP: who may ask, what may be run, what is bounded, what is left behind.

Usage: explore.py FORELINE
"""
import contextlib
import glob
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

FORELINE = os.path.abspath(sys.argv[1])
LONG = ["plan", "--model", "llama3-70b", "--platform", "rail:nodes=16,type=H100", "--json"]
PLAN = ["plan", "--model", "mlp", "--platform", "laptop", "--algorithm", "balanced", "--stages", "2"]
failed = []


def check(truth, *what):
    if not truth:
        failed.append(what)
        print("FAILED:", *what, flush=True)


def within(seconds, question):
    end = time.monotonic() + seconds
    while not question() and time.monotonic() < end:
        time.sleep(0.05)
    return question()


class Page:
    """A server, and a browser that has opened its page."""

    def __init__(self, folder, *words, **variables):
        self.folder = tempfile.mkdtemp(dir=folder)
        variables = {**os.environ, "TMPDIR": self.folder, "XDG_CACHE_HOME": folder + "/cache", **variables}
        for name in ("DISPLAY", "WAYLAND_DISPLAY"):
            variables.setdefault(name, "")
        self.process = subprocess.Popen([FORELINE, "explore", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, cwd=folder, env=variables)
        self.url = self.process.stdout.readline().strip()
        self.port, self.key = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\?key=([0-9a-f]{64})", self.url).groups()
        self.headers = {"Cookie": f"other=1; foreline_{self.port}={self.key}", "X-Foreline": "1"}

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", int(self.port), timeout=60)

    def ask(self, method, path, body=None, drop=(), **more):
        """Status, body and headers of an answer; header names of `more` have '_' for '-', `drop` leaves some out."""
        headers = {k: v for k, v in self.headers.items() if k not in drop}
        headers.update({k.replace("_", "-"): v for k, v in more.items()})
        c = self.connect()
        try:
            c.request(method, path, body, headers)
            r = c.getresponse()
            return r.status, r.read(), r.headers
        finally:
            c.close()

    def begin(self, *command):
        """A command that runs: what closes the connection, and its lines as they come."""
        c = self.connect()
        c.request("POST", "/run", json.dumps({"command": command}), self.headers)
        s, r = c.sock, c.getresponse()

        def close():
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
        return close, (json.loads(line) for line in r)

    def run(self, *command):
        status, body, _ = self.ask("POST", "/run", json.dumps({"command": command}))
        return json.loads(body.splitlines()[-1]) if status == 200 else {"status": status, "error": body.decode()}

    def scratch(self):
        return glob.glob(self.folder + "/foreline-tmp-*")[0]

    def children(self):
        found = []
        for stat in glob.glob("/proc/[0-9]*/stat"):
            with contextlib.suppress(OSError):
                with open(stat) as f:
                    words = f.read().rpartition(") ")[2].split()
                if int(words[1]) == self.process.pid and words[0] != "Z":
                    found.append(stat)
        return found

    def end(self, number=signal.SIGINT):
        self.process.send_signal(number)
        status = self.process.wait(timeout=60)
        check(status == 0, "status after", number, status, self.process.stderr.read())
        check(not os.listdir(self.folder), "left behind:", os.listdir(self.folder))


def who_may_ask(page):
    """The key, the cookie, Host, Origin, the header; headers of every answer."""
    status, _, headers = page.ask("GET", "/?key=" + page.key, drop=("Cookie", "X-Foreline"))
    check(status == 303 and headers["Location"] == "/", "the key", status)
    check(headers["Set-Cookie"] == f"foreline_{page.port}={page.key}; Path=/; HttpOnly; SameSite=Strict",
          headers["Set-Cookie"])
    for wrong in ("", "0", page.key[:-1], page.key + "0", page.key[:-1] + "g", "0" * 64):
        status, body, _ = page.ask("GET", "/?key=" + wrong)
        check(status == 403 and body.count(b"\n") == 1, "key", wrong, status)
        for path in ("/", "/app.js", "/start", "/file/x"):
            status = page.ask("GET", path, Cookie=f"foreline_{page.port}={wrong}")[0]
            check(status == 403, "cookie", wrong, path, status)
    asked = [("GET", "/"), ("GET", "/page.css"), ("GET", "/app.js"), ("GET", "/start"), ("GET", "/file/none"), ("GET", "/none"),
             ("POST", "/run"), ("POST", "/stop"), ("POST", "/none"), ("PUT", "/run"), ("OPTIONS", "/run"), ("DELETE", "/")]
    expected = [200, 200, 200, 200, 404, 404, 400, 400, 404, 405, 405, 405]
    for (method, path), status in zip(asked, expected):
        got, _, headers = page.ask(method, path, "{}" if method == "POST" else None)
        check(got == status, method, path, got)
        policy = headers["Content-Security-Policy"]
        check(policy.startswith("default-src 'none'; script-src 'self';") and "unsafe" not in policy, path, policy)
        check(headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "no-store"
              and headers["Cross-Origin-Resource-Policy"] == "same-origin", path, headers)
        check("Access-Control-Allow-Origin" not in headers, path, headers)
        for host in ("evil.example", f"evil.example:{page.port}", "127.0.0.1", "127.0.0.1:1", f"127.0.0.1.evil:{page.port}"):
            got = page.ask(method, path, Host=host)[0]
            check(got == 403, "Host", host, method, path, got)
        for origin in ("http://evil.example", "null", f"https://127.0.0.1:{page.port}", "http://127.0.0.1"):
            got = page.ask(method, path, Origin=origin)[0]
            check(got == 403, "Origin", origin, method, path, got)
        if path not in ("/", "/page.css", "/app.js"):
            got = page.ask(method, path, drop=("X-Foreline",))[0]
            check(got == 403, "without X-Foreline", method, path, got)
    for host in ("127.0.0.1", "localhost"):
        got = page.ask("GET", "/start", Host=f"{host}:{page.port}", Origin=f"http://{host}:{page.port}")[0]
        check(got == 200, host, got)
    check(page.ask("GET", "/?key=" + page.key, Host="evil.example")[0] == 403, "the key through another name")
    start = json.loads(page.ask("GET", "/start")[1])
    check(start["files"] == ["a.xml"] and start["version"].startswith("foreline "), start["files"], start["version"])
    for name in ("models", "platforms", "families"):
        check(all(row["name"] and row["summary"] for row in start[name]) and start[name], name)
    check("H100" in start["gpus"] and "megatron" in start["frameworks"], start["gpus"], start["frameworks"])


def where_it_listens(page):
    listening = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(table) as f:
            listening += [w[1] for w in map(str.split, f) if w[3] == "0A" and w[1].endswith(":%04X" % int(page.port))]
    check(listening == ["0100007F:%04X" % int(page.port)], "listens at", listening)


def what_may_run(page, folder):
    """Commands and options of the tables; no word that leaves the folder."""
    with open(folder + "/secret", "w") as f:
        f.write("secret")
    refused = [[], ["help"], ["run", "p.json"], ["capture"], ["calibrate"], ["emulate"], ["explore"], ["lab", "kernels", "x"],
               ["topology", "import", "x"], ["topology", "check", "x"], ["model", "profile", "mlp", "-o", "x"], ["model"],
               ["plan", "import", "x"], ["plan", "--json", "import", "x"], PLAN + ["--limit", "size=2"], PLAN + ["--workers", "9999"], ["sweep", "a.yml", "--shard", "1/2"],
               PLAN + ["--shell", "x"], PLAN + ["--hosts", "x"], PLAN + ["--"], PLAN + ["-x"], PLAN + ["-"], PLAN + ["--help"],
               ["x"] * 257, PLAN + ["a" * 5000], ["manual", "plan"], ["--version"], ["/bin/sh"]]
    for word in ("/etc/passwd", "../secret", "..", ".", ".foreline-owner", "~", "~root", "-", "a/b", "x\n", "\x1b", "a=.ssh", "goal=..",
                 "a,~b", "a@.b", "a:-", "\x7f"):
        refused += [PLAN + ["-o", word], PLAN + ["--output=" + word], ["simulate", word], ["model", "show", word], ["compare", "p", word]]
    rng = random.Random(1)
    for _ in range(20):
        word = "".join(rng.choice("ab.:=,@1-") for _ in range(rng.randrange(9)))
        at = rng.randrange(len(word) + 1)
        refused.append(["simulate", word[:at] + rng.choice(["/", "..", "\n"]) + word[at:]])
    for command in refused:
        r = page.run(*command)
        check(r["status"] == 400 and r["error"].count("\n") == 1, "not refused:", command, r)
    for body in (b"", b"x", b"{}", b"[]", b"1", b'{"command": 1}', b'{"command": "plan"}', b'{"command": [1]}', b'{"command": [["plan"]]}',
                 b'{"command": ["pl\\u0000an"]}', b'{"command": ["\xff"]}', b'{"command":["plan"],"command":["model"]}', b"[" * 60000):
        check(page.ask("POST", "/run", body)[0] == 400, "body", body[:40])
    check(page.ask("POST", "/stop", b'{"id": "0"}')[0] == 404, "stop of nothing")

    r = page.run(*PLAN, "--json", "-o", "p.json")
    check(r["status"] == 0 and len(r["json"]["stages"]) == 2 and r["text"] == "", "plan", r)
    r = page.run("plan", "--model", "mlp", "--platform", "a.xml", "--tp", "1", "--no-launchable", "--batch=8", "--json")
    check(r["status"] == 0 and r["json"], "plan on a file", r)
    r = page.run("simulate", "p.json", "--json", "--trace", "t.json")
    check(r["status"] == 0 and r["json"]["iteration_s"] > 0, "simulate", r)
    r = page.run("model", "show", "mlp")
    check(r["status"] == 0 and r["json"] is None and "mlp" in r["text"] and not r["error"], "model show", r)
    r = page.run("simulate", "none.json", "--json")
    check(r["status"] == 1 and r["json"] is None and "none.json" in r["error"], "an error", r)
    for command in (["plan", "export", "p.json", "--to", "torchtitan"], ["topology", "list", "--json"], ["topology", "show", "laptop"],
                    ["topology", "draw", "a.xml", "-o", "f.svg"], ["compare", "p.json", "p.json"]):
        r = page.run(*command)
        check(r["status"] in (0, 1) and "usage" not in r["error"], command, r)


def files(page, folder):
    scratch = page.scratch()
    os.symlink(folder + "/secret", scratch + "/link")
    os.symlink(scratch + "/p.json", scratch + "/inside")
    os.mkfifo(scratch + "/pipe")
    os.mkdir(scratch + "/below")
    with open(scratch + "/p.json", "rb") as f:
        truth = f.read()
    status, body, headers = page.ask("GET", "/file/p.json")
    check(status == 200 and body == truth and headers["Content-Disposition"] == "attachment", "p.json", status)
    for name in ("link", "inside", "pipe", "below", "none", "", ".", "..", ".foreline-owner", "../secret", "..%2fsecret", "%2e%2e%2fsecret",
                 "%2fetc%2fpasswd", "/etc/passwd", "below/../p.json", "p.json/", "a" * 300):
        status, body, _ = page.ask("GET", "/file/" + name)
        check(status == 404 and b"secret" not in body, "file", name, status)


def bounds(page):
    """Bodies, headers, connections."""
    check(page.ask("POST", "/run", b" " * 65536)[0] == 400, "64 KiB")
    check(page.ask("POST", "/run", b" " * 65537)[0] == 413, "more than 64 KiB")
    check(page.ask("GET", "/", X_Long="x" * 100000)[0] in (413, 431), "headers")
    with socket.create_connection(("127.0.0.1", int(page.port))) as s: # a body without end
        head = "".join(f"{k}: {v}\r\n" for k, v in page.headers.items())
        s.sendall(f"POST /run HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\n{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        sent = 0
        with contextlib.suppress(OSError):
            while sent < 64 << 20:
                s.sendall(b"8000\r\n" + b" " * 0x8000 + b"\r\n")
                sent += 0x8000
        check(sent < 64 << 20, "a body without end")
    for line in (b"GET  HTTP/1.1", b"GET HTTP/1.1", b"GET x HTTP/1.1", b"OPTIONS * HTTP/1.1", b"GET http://127.0.0.1/ HTTP/1.1", b"GET //app.js HTTP/1.1"):
        with socket.create_connection(("127.0.0.1", int(page.port)), timeout=20) as s, contextlib.suppress(ConnectionResetError):
            s.sendall(line + b"\r\n" + head.encode() + b"Host: 127.0.0.1:" + page.port.encode() + b"\r\nConnection: close\r\n\r\n")
            got = s.recv(12)
            check(got[9:] in (b"", b"400", b"404", b"405"), line, got)
    rng = random.Random(2)
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", int(page.port))) as s, contextlib.suppress(OSError):
            s.sendall(rng.randbytes(rng.randrange(1, 3000)) + b"\r\n\r\n")
    flood = []
    for _ in range(200):
        s = socket.socket()
        s.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            s.connect(("127.0.0.1", int(page.port)))
        flood.append(s)
    time.sleep(0.5)
    threads = len(os.listdir(f"/proc/{page.process.pid}/task"))
    check(threads <= 64 + 8, "threads of 200 connections:", threads)
    for s in flood:
        s.close()

    def answers():
        with contextlib.suppress(OSError, http.client.HTTPException): # while the last ones of the flood are let go
            return page.ask("GET", "/")[0] == 200
    check(within(20, answers), "after a flood")


def children(page):
    """Four at once; stopped, and killed when nobody listens; two tabs."""
    runs = [page.begin(*LONG) for _ in range(6)]
    ids = [next(lines)["id"] for _, lines in runs]
    check(len(set(ids)) == 6, "ids", ids)
    for _, lines in runs[:4]:
        check(next(lines)["progress"]["text"], "progress")
    check(len(page.children()) == 4, "children", len(page.children()))
    before = page.children()
    runs[0][0]()
    check(within(20, lambda: len(set(page.children()) - set(before)) == 1), "the fifth, once the first's client is gone")
    check(len(page.children()) == 4, "children", len(page.children()))
    for close, _ in runs[2:]:
        close()
    check(page.ask("POST", "/stop", json.dumps({"id": ids[1]}))[0] == 200, "stop")
    last = list(runs[1][1])[-1]
    check(last["status"] == 130 and (last["json"] or "interrupted" in last["error"]), "stopped", str(last)[:200])
    check(within(20, lambda: not page.children()), "children of nobody", len(page.children()))
    check(page.run("model", "list", "--json")["status"] == 0, "after all are gone")


def ends(folder):
    """Signals with a command that runs; SIGKILL; a browser; files of one name; slow clients and commands."""
    for number in (signal.SIGINT, signal.SIGTERM):
        page = Page(folder)
        lines = page.begin(*LONG)[1]
        check("id" in next(lines) and "progress" in next(lines), "begun")
        page.end(number)
    browser = folder + "/browser"
    with open(browser, "w") as f:
        f.write(f'#!/bin/sh\necho "$1" >"{folder}/opened.new" && mv "{folder}/opened.new" "{folder}/opened"\n')
    os.chmod(browser, 0o755)
    page = Page(folder, "--limit", "wait=0.005,size=0.001", BROWSER=browser, DISPLAY=":0")
    check(within(20, lambda: os.path.exists(folder + "/opened")), "no browser")
    with open(folder + "/opened") as f:
        once = f.read().strip().partition("?")[2]
    check(once != "key=" + page.key, "the browser's command line has the key")
    status, _, headers = page.ask("GET", "/?" + once, drop=("Cookie",))
    check(status == 303 and page.key in headers["Set-Cookie"], "the browser's key", status)
    check(page.ask("GET", "/?" + once, drop=("Cookie",))[0] == 403, "the browser's key twice")
    with socket.create_connection(("127.0.0.1", int(page.port)), timeout=20) as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost:")
        check(s.recv(1000)[:12] in (b"", b"HTTP/1.1 408"), "a slow client")
    r = page.run(*LONG)
    check(r["status"] != 0 and "timeout" in r["error"], "a slow command", r)
    r = page.run("model", "show", "llama3-405b", "--json")
    check(r["status"] != 0 and "too much" in r["error"] and not r["json"], "a long answer", str(r)[:200])
    written = [page.run(*PLAN, "-o", f"{i}.json") for i in range(5)]
    check(written[0]["status"] == 0 and written[-1]["status"] == 1 and "full" in written[-1]["error"], "a full folder", written)
    page.process.kill()
    page.process.wait()
    taken = socket.create_server(("127.0.0.1", 0))
    busy = str(taken.getsockname()[1])
    os.makedirs(folder + "/d", exist_ok=True)
    for name in ("a.xml", "d/a.xml"):
        with open(f"{folder}/{name}", "w") as f:
            f.write("x" * 10000)
    for words, status in ((["a.xml", "d/a.xml"], 2), (["none.xml"], 1), (["-"], 2), (["d/.."], 2), (["a.xml", "--limit", "size=0.00001"], 1),
                          (["--port", "70000"], 2), (["--port", busy], 1)):
        r = subprocess.run([FORELINE, "explore", "--no-browser", *words], cwd=folder, capture_output=True, text=True, timeout=60,
                           env={**os.environ, "TMPDIR": page.folder})
        check(r.returncode == status and r.stderr.count("\n") == 1 and not r.stdout, words, r)
    check(not os.listdir(page.folder), "a killed server's folder", os.listdir(page.folder))


def progress(folder):
    """Lines "DONE ALL TEXT" on the descriptor of FORELINE_PROGRESS, and the same answer without it."""
    with open(folder + "/grid.yml", "w") as f:
        f.write("model: mlp\nplatform: laptop\nplan: {algorithm: balanced}\nplan.stages: [1, 2]\n")
    command = [FORELINE, "plan", "--model", "mlp", "--platform", "laptop", "--finalists", "1", "--json"]
    for words, what in ((command, r"plan: \d+ plans scored"), ([FORELINE, "sweep", "grid.yml", "-o", "grid.db"], r"sweep: \d+ % of 2 points")):
        end, to = os.pipe()
        r = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[to], text=True, check=True,
                           env={**os.environ, "FORELINE_PROGRESS": str(to)})
        os.close(to)
        with os.fdopen(end) as f:
            lines = f.read().splitlines()
        check(all(re.match(r"\d+ \d+ \w+: ", line) for line in lines) and any(re.search(what, line) for line in lines), words, lines)
        check("\r" not in r.stderr, words, r.stderr)
        if words == command:
            for wrong in ("", "x", "-1", "999", "99999999999"):
                again = subprocess.run(words, capture_output=True, text=True, check=True, env={**os.environ, "FORELINE_PROGRESS": wrong})
                check(json.loads(again.stdout)["candidates"] == json.loads(r.stdout)["candidates"], "FORELINE_PROGRESS", wrong)


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([FORELINE, "topology", "generate", "rail:nodes=1,gpus=2,type=H100", "-o", "a.xml"], cwd=folder, check=True,
                       env={**os.environ, "XDG_CACHE_HOME": folder + "/cache"})
        page = Page(folder, "--no-browser", "a.xml")
        for test in (lambda: who_may_ask(page), lambda: where_it_listens(page), lambda: what_may_run(page, folder), lambda: files(page, folder),
                     lambda: bounds(page), lambda: children(page), page.end, lambda: ends(folder), lambda: progress(folder)):
            begin = time.monotonic()
            test()
            print(f"{time.monotonic() - begin:.1f} s", flush=True)
    sys.exit(bool(failed))


main()
