#!/usr/bin/env python3
"""The page of foreline explore in a real browser, as a new user would go: explore_page.py FORELINE [FOLDER]

Exit status 77 without chromium and chromedriver. Prints how fast sliders
are answered and how many frames a timeline of 512 ranks has; no time is asserted. FOLDER: screenshots."""
import contextlib, json, os, re, subprocess, sys, tempfile, time, urllib.parse

from browser import Browser, PAN, check, rules, skip

FORELINE = os.path.abspath(sys.argv[1])
SHOTS = sys.argv[2] if len(sys.argv) > 2 else None


ANSWERED = "document.querySelector('#answer strong') && document.querySelector('canvas') && !document.querySelector('#tabs[aria-busy]')"


def set_field(b, label, value):
    b.js("""const l = [...document.querySelectorAll("label")].find(l => l.textContent === arguments[0]), e = l.control;
        e.value = arguments[1]; e.dispatchEvent(new Event("input", {bubbles: true})); e.dispatchEvent(new Event("change", {bubbles: true}));""", label, value)


def press(b, text):
    b.js("[...document.querySelectorAll('button')].find(x => x.textContent === arguments[0]).click()", text)


def saved(b, button, downloads, name):
    path, end = os.path.join(downloads, name), time.monotonic() + 30
    press(b, button)
    while not os.path.exists(path) and time.monotonic() < end:
        time.sleep(0.1)
    check(os.path.exists(path), name + " is saved" + b.js("return document.querySelector('#chosen-error').textContent"))
    with open(path) as f:
        return f.read()


def sweeps(b, downloads):
    with contextlib.suppress(FileNotFoundError):
        os.remove(os.path.join(downloads, "experiment.yml"))
    saved(b, "Experiment for foreline sweep", downloads, "experiment.yml")
    listed = subprocess.run([FORELINE, "sweep", os.path.join(downloads, "experiment.yml"), "--list"], stdout=subprocess.PIPE, universal_newlines=True)
    check(listed.returncode == 0 and listed.stdout.count("\n") > 20, "the saved experiment can be swept: %d lines" % listed.stdout.count("\n"))


def new_user(b, url, downloads):
    """Model, search, chosen plan, slider, pinned comparison, launch file."""
    b.go(url)
    b.wait("the form", "document.querySelector('#form select')")
    rules(b, "form")
    set_field(b, "Search models", "gpt2-x")
    set_field(b, "Model", "gpt2-xl")
    set_field(b, "dtype", "bf16")
    set_field(b, "nodes", "2")
    set_field(b, "Global batch", "64")
    words = b.js("return document.querySelector('#search-command code').textContent")
    check("gpt2-xl:dtype=bf16" in words and "nodes=2" in words, "the command line follows the form: " + words)
    press(b, "Search")
    b.wait("the ranking", "document.querySelector('#ranking table')")
    b.wait("the answer", ANSWERED)
    with tempfile.TemporaryDirectory() as folder:
        for line in b.js("return document.querySelector('#chosen-command code').textContent").split("\n"):
            said = subprocess.run(line.replace("foreline", FORELINE, 1), shell=True, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    m = json.loads(said.stdout)
    answer = b.js("return document.querySelector('#answer strong').textContent")
    check(answer.startswith("%.4g" % (m["iteration_s"] * (1e3 if m["iteration_s"] < 1 else 1))), "a shell says the same as the page: " + answer)
    b.js("const e = document.querySelector('#ranking th:nth-child(7) button'); e.click(); e.click()")
    head = b.js("const e = document.querySelector('#ranking th:nth-child(7)'); return [e.textContent.split(' ')[0], e.getAttribute('aria-sort')]")
    check(head == ["Spare", "descending"], "the ranking is sorted: %s" % head)
    sweeps(b, downloads)
    press(b, "Pin this scenario")
    b.wait("the pin", "document.querySelectorAll('.pin').length === 1 && " + ANSWERED)
    b.js("document.querySelectorAll('#ranking button.pick')[1].click()")
    b.wait("the second plan", "!document.querySelector('#answer').textContent.includes('Simulating') && " + ANSWERED)
    b.js("const i = document.querySelector('#sliders input[type=range]'); i.value = 1; for (const k of ['input', 'change']) i.dispatchEvent(new Event(k, {bubbles: true}))")
    b.wait("the slider's answer", "document.querySelector('#latency-ms') && " + ANSWERED)
    check("--platform" in b.js("return document.querySelector('#chosen-command code').textContent"), "the command line follows the slider")
    press(b, "Pin this scenario")
    b.wait("two pins", "document.querySelectorAll('.pin').length === 2 && " + ANSWERED)
    press(b, "Why do A and B differ?")
    b.wait("the comparison", "document.querySelector('#pins').textContent.includes('What differs')")
    said = b.js("return document.querySelector('#pins').innerText")
    check(said.count("gpt2-xl:dtype=bf16 on rail:nodes=2") >= 4, "pins name model and cluster")
    check("Time of B against A, per iteration" in said and "cluster rail:nodes=2,type=H100 \u2192 rail:nodes=2,type=H100,nic=100Gbps" in said,
          "the comparison says what of what: " + said[-600:])
    check("--micro-batch-size" in saved(b, "Launch file", downloads, "launch.sh"), "the launch file has Megatron's arguments")
    check("</svg>" in saved(b, "SVG", downloads, "breakdown.svg"), "a figure is saved")
    sweeps(b, downloads)
    for view in ("memory", "network", "ranks", "calls", "timeline"):
        b.js("document.getElementById('tab-' + arguments[0]).click()", view)
        rules(b, "plan-" + view)
    text = b.js("document.querySelector('#link').click(); return location.hash")
    b.go("about:blank")
    b.go(url.split("?")[0] + text)
    b.wait("the link's state", "document.querySelectorAll('.pin').length === 2 && " + ANSWERED)
    check("what if" in b.js("return document.querySelector('#answer').textContent"), "a link restores plan, sliders and pins")
    press(b, "Search with these")
    b.wait("the search", "!document.querySelector('#chosen').hidden && document.querySelectorAll('#ranking tbody tr').length > 3 && " + ANSWERED)
    words = b.js("return document.querySelector('#search-command code').textContent")
    check("nic=" in words and "what if" not in b.js("return document.querySelector('#answer').textContent"), "a what-if becomes a search: " + words)


def text_of(b, where):
    return b.js("return document.querySelector(arguments[0]).innerText", where)


def chosen(b, row):
    b.wait("row %d" % row, "document.querySelector('tr.chosen')?.textContent.startsWith('%d') && %s" % (row, ANSWERED))
    return text_of(b, "#chosen-command code"), text_of(b, "#answer strong")


def history(b, url):
    """Two rows that differ in the order of ranks alone; a reload; Back."""
    b.go("about:blank")
    b.go(url.split("?")[0] + link(model={"name": "gpt3-175b"}, cluster={"kind": "family", "family": "rail", "values": {"nodes": "16", "type": "H100"}}, batch="512"))
    b.wait("the form", "document.querySelector('#form select')")
    press(b, "Search")
    b.wait("the ranking", "document.querySelectorAll('#ranking tbody tr').length > 3 && " + ANSWERED)
    first = chosen(b, 1)
    cells = b.js("return [...document.querySelectorAll('#ranking tbody tr')].map(r => [...r.cells].slice(2).map(c => c.textContent).join())")
    pair = next((k for k in range(2, len(cells)) if cells[k] == cells[k - 1]), 0)
    check(pair > 0, "two rows differ in the order of ranks alone")
    rows, times = [], b.js("return [...document.querySelectorAll('#ranking tbody tr')].map(r => r.cells[2].textContent.replace('~', ''))")
    for k in (pair, pair + 1):
        b.js("document.querySelectorAll('#ranking button.pick')[arguments[0] - 1].click()", k)
        rows.append(chosen(b, k))
        check(rows[-1][1].split(" per")[0] == times[k - 1], "row %d has the ranking's time: %s" % (k, rows[-1][1]))
    files = [re.search(r"simulate (plan\S+)", commands)[1] for commands, _ in rows]
    check(files[0] != files[1] and all(f.endswith(".%d.json" % k) for f, k in zip(files, (pair, pair + 1))), "each is a file of its own: " + " ".join(files))
    plain = lambda commands: re.sub(r"-\w{3}\.", ".", commands)
    ranked = len(cells)
    b.call("/refresh", {})
    b.wait("the ranking after a reload", "document.querySelectorAll('#ranking tbody tr').length === %d" % ranked)
    again = chosen(b, pair + 1)
    check((plain(again[0]), again[1]) == (plain(rows[1][0]), rows[1][1]), "a reload keeps ranking and row")
    set_field(b, "NIC rate, typed", "350")
    b.wait("the typed rate", "document.querySelector('#latency-ms') && " + ANSWERED)
    check("nic=350Gbps" in text_of(b, "#chosen-command code"), "a rate between the stops is typed")
    b.call("/back", {})
    b.wait("the plan as it is", "document.querySelector('#latency')?.textContent === 'The plan as it is.' && " + ANSWERED)
    check(plain(chosen(b, pair + 1)[0]) == plain(rows[1][0]), "Back undoes a what-if")
    b.call("/back", {})
    check(plain(chosen(b, pair)[0]) == plain(rows[0][0]), "Back goes to the row before")
    b.call("/back", {})
    check(plain(chosen(b, 1)[0]) == plain(first[0]), "and to the first")
    b.call("/back", {})
    b.wait("the form alone", "document.querySelector('#chosen').hidden && !document.querySelector('#ranking').children.length")
    b.call("/forward", {})
    check(chosen(b, 1)[1] == first[1], "Forward searches again")


def mistakes(b, url):
    """Nothing found, nothing to choose, values that are wrong."""
    b.go(url)
    b.wait("the form", "document.querySelector('#form select')")
    set_field(b, "Search models", "nothing of the kind")
    check("No model or file has" in text_of(b, "#form"), "a filter without a match says so")
    set_field(b, "Search models", "")
    set_field(b, "nodes", "3")
    set_field(b, "Family", "leaf-spine")
    set_field(b, "rack", "2")
    set_field(b, "Family", "torus")
    set_field(b, "Family", "leaf-spine")
    words = text_of(b, "#search-command code")
    check("nodes=3" in words and "rack=2" in words, "another family keeps what was typed: " + words)
    set_field(b, "Global batch", "x")
    press(b, "Search")
    b.wait("the refusal", "document.querySelector('#search-error').textContent")
    check("Global batch (--batch)" in text_of(b, "#search-error"), "an error names the field: " + text_of(b, "#search-error"))
    set_field(b, "Kind of cluster", "file")
    press(b, "Search")
    b.wait("the refusal", "document.querySelector('#search-error').textContent.startsWith('Cluster')")
    check("foreline explore cluster.xml" in text_of(b, "#form"), "without files the page says how to start with one")


def link(**state):
    return "#" + urllib.parse.quote(json.dumps(state))


PP4 = ["--pp", "4", "--tp", "4", "--vp", "4", "--schedule", "interleaved", "--mbs", "1", "--bucket", "256MiB", "--sp", "--zero", "1", "--zero-keep",
       "--recompute", "full", "--cp", "1", "--framework", "megatron"]


def make_large(folder, nodes):
    path = os.path.join(folder, "nodes%d.json" % nodes)
    subprocess.run([FORELINE, "plan", "--model", "llama3-70b", "--platform", "rail:nodes=%d,type=H100" % nodes, *PP4, "--replicas", str(nodes // 2),
                    "--microbatches", str(nodes * 8), "-o", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return path


def large(b, url, nodes, **more):
    b.go("about:blank")
    b.go(url.split("?")[0] + link(model={"name": "llama3-70b"}, cluster={"kind": "family", "family": "rail", "values": {"nodes": str(nodes), "type": "H100"}},
                                  batch=str(nodes * 8), open="nodes%d.json" % nodes, **more))
    b.wait("%d GPUs" % (nodes * 8), ANSWERED)


def measure_sliders(b, url):
    large(b, url, 128)
    times = []
    for k in range(12):
        b.js("document.querySelector('#latency').replaceChildren(); const i = document.querySelectorAll('#sliders input[type=range]')[arguments[0]];"
             "i.value = arguments[1]; i.dispatchEvent(new Event('input', {bubbles: true}))", k % 2, k // 2 % 4)
        b.wait("the slider's answer", "document.querySelector('#latency-ms')")
        times.append(float(b.js("return document.querySelector('#latency-ms').dataset.ms")))
    times.sort()
    print("sliders at 1,024 GPUs: median %.0f ms, slowest %.0f ms" % (times[len(times) // 2], times[-1]), flush=True)
    b.js("for (let k = 0; k < 40; k++) { const i = document.querySelectorAll('#sliders input[type=range]')[0]; i.value = k % 4; i.dispatchEvent(new Event('input', {bubbles: true})); }")
    b.wait("the last answer", "document.querySelector('#latency-ms') && document.querySelector('#chosen-command code').textContent.includes('nic=400Gbps')")
    check(True, "of 40 moves the last is answered")


def measure_frames(b, url):
    for what, slow in (("ranks alike", {}), ("one slow rank, so that all are simulated", {"slow": "1.5", "who": "3"})):
        large(b, url, 64, what=slow)
        rows, frames = b.js("return document.querySelector('canvas').getAttribute('aria-label')"), b.later(PAN)
        print("panning, %s (%s): %.0f frames/s, %.1f ms of drawing each" % (rows.split(".")[0], what, frames[0], frames[1]), flush=True)
        check(frames[0] > 0, "the timeline moves")
    b.shot("512-ranks")


def open_file(b, url):
    """A plan among the FILEs, with a slow link, which only SimGrid knows."""
    b.go("about:blank")
    b.go(url.split("?")[0])
    b.wait("the file", "document.querySelector('#files button')")
    press(b, "Open p.json")
    b.wait("the plan", ANSWERED)
    set_field(b, "which: rank, GPU or link:NAME", "link:n0g0-nic")
    b.js("const i = [...document.querySelectorAll('label')].find(l => l.textContent === 'Slow rank or link').control; i.value = 6;"
         "for (const k of ['input', 'change']) i.dispatchEvent(new Event(k, {bubbles: true}))")
    b.wait("the slow link's answer", "document.querySelector('#latency-ms') && " + ANSWERED)
    words = b.js("return document.querySelector('#chosen-command code').textContent")
    check("simulate p.json --engine simgrid --slow link:n0g0-nic=4@0s" in words, "a plan file is opened, a link slowed down")


def make_run(folder):
    """A plan, its measurement and the timeline of a real run on this machine."""
    plan, run, trace = (os.path.join(folder, name) for name in ("tiny.json", "run.json", "run.trace.json"))
    for words in (["plan", "--model", "gpt-tiny", "--platform", "laptop@devices=2", "--algorithm", "balanced", "--microbatches", "4", "-o", plan],
                  ["run", plan, "--steps", "3", "-o", run, "--trace", trace]):
        subprocess.run([FORELINE, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return plan, run, trace


def measured(b, url):
    """A measured timeline over the predicted one, rank by rank, and in the link."""
    b.go("about:blank")
    b.go(url.split("?")[0])
    b.wait("the files", "document.querySelectorAll('#files button').length > 2")
    press(b, "Open tiny.json")
    b.wait("the plan", ANSWERED)
    set_field(b, "Lay over the predicted ops", "run.trace.json")
    b.wait("four rows", "document.querySelector('canvas')?.getAttribute('aria-label').startsWith('Timeline of 4 ranks')")
    check("plot timeline run.trace.json -o ops" in text_of(b, "#view .command"), "the command that reads the trace: " + text_of(b, "#view .command"))
    b.js("document.querySelector('canvas').focus()")
    b.keys("\ue014\ue015")  # right, down: the row below the first rank's
    b.wait("a measured op", "document.querySelector('#op').textContent.includes('on 0 measured')")
    said = text_of(b, "#op")
    check("stage" not in said.split("\n")[0], "a measured op: " + said)
    rules(b, "measured")
    b.shot("measured")
    b.call("/refresh", {})
    b.wait("the same after a reload", "document.querySelector('canvas')?.getAttribute('aria-label').startsWith('Timeline of 4 ranks')")
    press(b, "Lay over the measured run run.json")
    b.wait("the pin", "document.querySelectorAll('.pin').length === 1")


def focused(b):
    return b.js("const e = document.activeElement; return (e.getAttribute('aria-label') || (e.labels && e.labels[0] && e.labels[0].textContent) || e.textContent || '').trim()")


def tab_to(b, name, most=160):
    for _ in range(most):
        b.keys("\ue004")
        if focused(b).startswith(name):
            return
    sys.exit("failed: Tab does not come to " + name)


def keyboard(b, url):
    b.go("about:blank")
    b.go(url.split("?")[0])
    b.wait("the form", "document.querySelector('#form select')")
    tab_to(b, "Search models")
    b.keys("gpt2-small")
    tab_to(b, "Model")
    b.keys("\ue015")
    tab_to(b, "nodes")
    b.keys("\ue010\ue003\ue0032")  # End, Backspace twice
    tab_to(b, "Global batch")
    b.keys("\ue010\ue003\ue003\ue00332")
    tab_to(b, "Search")
    b.keys("\ue007")
    b.wait("the ranking", ANSWERED)
    check("gpt2-small" in b.js("return document.querySelector('#search-command code').textContent"), "keys choose a model and search")
    for name, key, then in (("Time", "\ue007", "document.querySelector('#ranking th:nth-child(3)[aria-sort=ascending]')"),
                            ("Choose plan 2", "\ue007", "document.querySelector('tr.chosen')?.textContent.startsWith('2') && " + ANSWERED),
                            ("Choose plan 1", "\ue007", "document.querySelector('tr.chosen')?.textContent.startsWith('1') && " + ANSWERED),
                            ("NIC rate", "\ue014", "document.querySelector('#latency-ms')"),
                            ("Timeline of", "\ue014\ue014", "document.querySelector('#op').textContent.includes('holds')"),
                            ("Launch file", "\ue007", "document.querySelector('#saved').textContent.startsWith('saved')")):
        tab_to(b, name)
        b.keys(key)
        b.wait(name + " by keys", then)
    check(b.js("return getComputedStyle(document.activeElement).outlineStyle") != "none", "the focus is seen")


@contextlib.contextmanager
def started(*files):
    server = subprocess.Popen([FORELINE, "explore", "--no-browser", *files], stdout=subprocess.PIPE, text=True)
    try:
        yield next(w for l in server.stdout for w in l.split() if w.startswith("http://"))
    finally:
        server.terminate()
        server.wait(20)


def main():
    if not os.path.exists(os.path.join(os.path.dirname(FORELINE), "foreline-explore")):
        skip("foreline-explore is not built")
    with tempfile.TemporaryDirectory() as folder:
        evil = os.path.join(folder, "<img src=x onerror=alert(1)>.json")
        with open(evil, "w") as f:
            f.write("{}")
        plan = os.path.join(folder, "p.json")
        subprocess.run([FORELINE, "plan", "--algorithm", "balanced", "--model", "gpt2-small", "--platform", "rail:nodes=2,type=H100", "--pp", "2", "--replicas", "8",
                        "-o", plan], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        b = Browser(folder, SHOTS)
        with contextlib.closing(b), started(evil, plan, *make_run(folder), make_large(folder, 128), make_large(folder, 64)) as url:
            new_user(b, url, folder)
            check(not b.js("return document.querySelector('img')"), "a file's name is no markup")
            open_file(b, url)
            measured(b, url)
            history(b, url)
            measure_sliders(b, url)
            measure_frames(b, url)
            keyboard(b, url)
            said = b.complaints()
            check(not said, "nothing on the console%s" % (": " + "; ".join(said[:5]) if said else ""))
            with started() as bare:
                mistakes(b, bare) # refused commands are on the console


main()
