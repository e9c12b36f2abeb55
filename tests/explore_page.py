#!/usr/bin/env python3
"""The page of foreline explore in a real browser, as a new user would go: explore_page.py FORELINE [FOLDER]

Exit status 77 without chromium and chromedriver. Prints how fast sliders
are answered and how many frames a timeline of 512 ranks has; no time is asserted. FOLDER: screenshots."""
import json, os, subprocess, sys, tempfile, time, urllib.parse

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
    b.js("document.querySelector('[data-sort=spare]').click(); document.querySelector('[data-sort=spare]').click()")
    check(b.js("return document.querySelector('[data-sort=spare]').closest('th').getAttribute('aria-sort')") == "descending", "the ranking is sorted")
    press(b, "Pin this scenario")
    b.wait("the pin", "document.querySelectorAll('.pin').length === 1 && " + ANSWERED)
    b.js("document.querySelectorAll('#ranking button.pick')[1].click()")
    b.wait("the second plan", "!document.querySelector('#answer').textContent.includes('Making') && " + ANSWERED)
    b.js("const i = document.querySelector('#sliders input[type=range]'); i.value = 1; for (const k of ['input', 'change']) i.dispatchEvent(new Event(k, {bubbles: true}))")
    b.wait("the slider's answer", "document.querySelector('#latency-ms') && " + ANSWERED)
    check("--platform" in b.js("return document.querySelector('#chosen-command code').textContent"), "the command line follows the slider")
    press(b, "Pin this scenario")
    b.wait("two pins", "document.querySelectorAll('.pin').length === 2 && " + ANSWERED)
    press(b, "Why do A and B differ?")
    b.wait("the comparison", "document.querySelector('#pins').textContent.includes('What differs')")
    check("--micro-batch-size" in saved(b, "Launch file", downloads, "launch.sh"), "the launch file has Megatron's arguments")
    check("</svg>" in saved(b, "SVG", downloads, "breakdown.svg"), "a figure is saved")
    saved(b, "Experiment for foreline sweep", downloads, "experiment.yml")
    listed = subprocess.run([FORELINE, "sweep", os.path.join(downloads, "experiment.yml"), "--list"], stdout=subprocess.PIPE, universal_newlines=True)
    check(listed.returncode == 0 and listed.stdout.count("\n") > 20, "the saved experiment can be swept: %d lines" % listed.stdout.count("\n"))
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


def link(**state):
    return "#" + urllib.parse.quote(json.dumps(state))


PP4 = ["--pp", "4", "--tp", "4", "--replicas", "%d", "--vp", "4", "--schedule", "interleaved", "--microbatches", "%d", "--mbs", "1", "--bucket", "256MiB",
       "--sp", "--zero", "1", "--zero-keep", "--recompute", "full", "--cp", "1"]


def large(b, url, nodes, **more):
    row = [w.replace("%d", str(nodes * 8 // 16) if w == "%d" and i == 5 else str(nodes * 8)) for i, w in enumerate(PP4)]
    b.go("about:blank")
    b.go(url.split("?")[0] + link(model={"name": "llama3-70b"}, cluster={"kind": "family", "family": "rail", "values": {"nodes": str(nodes), "type": "H100"}},
                                  batch=str(nodes * 8), row=row, ran=True, words="large", **more))
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
    for name, key, then in (("Time", "\ue007", "document.querySelector('[aria-sort=ascending] [data-sort=time]')"),
                            ("Choose plan 2", "\ue007", "document.querySelector('tr.chosen')?.textContent.startsWith('2') && " + ANSWERED),
                            ("Choose plan 1", "\ue007", "document.querySelector('tr.chosen')?.textContent.startsWith('1') && " + ANSWERED),
                            ("NIC rate", "\ue014", "document.querySelector('#latency-ms')"),
                            ("Timeline of", "\ue014\ue014", "document.querySelector('#op').textContent.includes('holds')"),
                            ("Launch file", "\ue007", "document.querySelector('#saved').textContent.startsWith('saved')")):
        tab_to(b, name)
        b.keys(key)
        b.wait(name + " by keys", then)
    check(b.js("return getComputedStyle(document.activeElement).outlineStyle") != "none", "the focus is seen")


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
        server = subprocess.Popen([FORELINE, "explore", "--no-browser", evil, plan], stdout=subprocess.PIPE, text=True)
        url = next(w for l in server.stdout for w in l.split() if w.startswith("http://"))
        try:
            new_user(b, url, folder)
            check(not b.js("return document.querySelector('img')"), "a file's name is no markup")
            open_file(b, url)
            measure_sliders(b, url)
            measure_frames(b, url)
            keyboard(b, url)
            said = b.complaints()
            check(not said, "nothing on the console%s" % (": " + "; ".join(said[:5]) if said else ""))
        finally:
            b.close()
            server.terminate()
            server.wait(20)


main()
