#!/usr/bin/env python3
"""Pages of foreline report in a real browser, opened from disk: report_page.py FORELINE [FOLDER]

Exit status 77 without chromium and chromedriver. Prints how long 10,000 points take to load and to sort, and how many
frames a timeline of 512 ranks has; no time is asserted. FOLDER: screenshots."""
import json, os, re, subprocess, sys, tempfile

from browser import Browser, PAN, check, rules

FORELINE = os.path.abspath(sys.argv[1])
SHOTS = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else None

EVIL = "</script><img src=x onerror=alert(1)> '\"&é"
SWEEP = """# Which parallelism, and does the NIC change it?
model: gpt2-xl:dtype=bf16
platform: rail:nodes=2,type=H100
cases:
  - {name: "%s", platform.nic: 100Gbps}
  - {name: plain, platform.nic: 400Gbps}
plan: {algorithm: balanced, stages: [1, 2, 4, 8], zero: [0, 1, 3], microbatch-size: [1, 2, 4], replicas: fill,
  microbatches: 32, framework: megatron}
""" % EVIL.replace("\\", "\\\\").replace('"', '\\"')
CLUSTERS = """model: gpt2-xl:dtype=bf16
platform: rail:nodes=2,type=H100
devices: [8, 16]
plan: {algorithm: balanced, stages: [1, 2, 8], zero: [0, 1], microbatch-size: [2, 64], replicas: fill, microbatches: 32, framework: megatron}
"""
LARGE = """model: gpt-tiny
platform: rail:nodes=2,type=H100
plan: {algorithm: balanced, replicas: fill, stages: [1, 2, 4], microbatches: [16, 32, 48, 64, 80], microbatch-size: [1, 2, 3, 4, 5],
  zero: [0, 1, 3], bucket: [1MiB, 2MiB, 4MiB, 8MiB, 16MiB, 20MiB, 25MiB, 32MiB, 64MiB]}
platform.nic: [100Gbps, 200Gbps, 400Gbps, 800Gbps, 1600Gbps]
"""


def foreline(*words, **how):
    return subprocess.run([FORELINE, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True, check=True, **how).stdout


def sweep(folder, name, text, *words):
    with open(os.path.join(folder, name + ".yml"), "w") as f:
        f.write(text)
    foreline("sweep", name + ".yml", cwd=folder)
    foreline("report", name + ".db", *words, cwd=folder)
    path = os.path.join(folder, name + ".html")
    print("%s: %d bytes" % (name, os.path.getsize(path)), flush=True)
    return "file://" + path


ROWS = "[...document.querySelectorAll('[data-view=points] tbody tr')]"
COLUMN = """(name => {{ const i = [...document.querySelectorAll('[data-view=points] thead tr:first-child th')].findIndex(h => h.textContent.startsWith(name));
    return {rows}.map(r => r.cells[i].textContent); }})""".format(rows=ROWS)


def column(b, name):
    return b.js("return %s(arguments[0])" % COLUMN, name)


def sort(b, name):
    return b.js("""const h = [...document.querySelectorAll('[data-view=points] thead button')].find(h => h.textContent.startsWith(arguments[0]));
        const begin = performance.now(); h.click(); document.body.offsetHeight; return performance.now() - begin""", name)


def type_in(b, label, text):
    b.js("""const e = document.querySelector("[aria-label='" + arguments[0] + "']") ?? [...document.querySelectorAll("label")].find(l => l.textContent === arguments[0]).control;
        e.value = arguments[1]; for (const k of ["input", "change"]) e.dispatchEvent(new Event(k, {bubbles: true}))""", label, text)


def number(text):
    return float(text.replace(",", "").replace("GiB", ""))


def points(b, folder):
    b.go(sweep(folder, "small", SWEEP, "--tokens", "1T", "--price", "2.5"))
    rules(b, "points")
    check(not b.js("return document.querySelector('img')"), "a name is no markup")
    check(EVIL in "".join(column(b, "case")), "a name is shown as it is")
    answer = b.js("return document.querySelector('.answer').textContent")
    check(re.search(r"per GPU.*if masked attention counts.*1T tokens take .* days at a cost of .*second best, .*expected error", answer),
          "the answer comes first: " + answer)
    check("It is also the best per GPU, and at 2.5 per GPU-hour the cheapest to 1T tokens." in answer, "all have as many GPUs")
    best = number(re.search(r"\(([\d,]+) per GPU", answer)[1])
    check(number(column(b, "Tokens/s/GPU")[0]) == best, "the best point is the first row")
    sort(b, "Iteration")
    times = [number(x) for x in column(b, "Iteration") if x]
    check(times == sorted(times) and len(times) > 30, "a column sorts")
    check(b.js("return document.querySelectorAll('[aria-sort=ascending]').length") == 1, "and says how")
    type_in(b, "Filter plan.stages", ">= 2")
    type_in(b, "Filter case", "PLAIN")
    check(set(column(b, "plan.stages")) == {"2", "4", "8"} and set(column(b, "case")) == {"plain"}, "filters take values and texts")
    type_in(b, "Filter plan.stages", "")
    type_in(b, "Filter case", "")
    half, square = [[number(x) for x in column(b, "MFU, " + c) if x] for c in ("causal half", "full square")]
    check(all(a < c for a, c in zip(half, square)), "MFU has both conventions")
    days, price = [[number(x) for x in column(b, c) if x] for c in ("Days", "Price")]
    check(abs(price[0] / (days[0] * 24 * 16 * 2.5) - 1) < 1e-2, "money is days of 16 GPUs")
    type_in(b, "Tokens to train", "2T")
    check(abs(number([x for x in column(b, "Days") if x][0]) / (2 * days[0]) - 1) < 1e-2, "twice the tokens take twice the days")
    b.js("document.querySelector('.columns').closest('details').open = true")
    b.js("[...document.querySelectorAll('.columns label')].find(l => l.textContent.includes('bubble_s')).querySelector('input').click()")
    check(len(column(b, "bubble_s")) > 30, "a column is chosen")
    rules(b, "points-columns")
    repeat(b, folder)
    figure(b)


def repeat(b, folder):
    """The commands of a row, in a shell, say what the row says."""
    row = b.js("const r = %s.find(r => r.textContent.includes('onerror') && r.cells[2].textContent === '2'); r.querySelector('button').click(); return %s.indexOf(r)" % (ROWS, ROWS))
    said, name = column(b, "Iteration")[row], b.js("return [...document.querySelectorAll('[data-view=points] th')].find(h => h.textContent.startsWith('Iteration')).textContent")
    lines = b.js("return document.querySelector('.picked code').textContent").split("\n")
    for line in lines:
        subprocess.run(re.sub("^foreline", FORELINE, line) + (" --json >m.json" if "simulate" in line else ""), shell=True, cwd=folder,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    with open(os.path.join(folder, "m.json")) as f:
        s = json.load(f)["iteration_s"] * (1e3 if ", ms" in name else 1)
    check(abs(s / number(said) - 1) < 1e-3, "%d command lines repeat a row: %s %s" % (len(lines), said, name.split(", ")[-1]))


def figure(b):
    b.js("document.querySelector('[data-view=points] canvas').scrollIntoView()")
    b.later("""const done = arguments[0], c = document.querySelector('[data-view=points] canvas'), at = c.getBoundingClientRect();
        requestAnimationFrame(() => requestAnimationFrame(() => { for (let x = 80; x < at.width; x += 8) for (let y = 10; y < at.height; y += 8)
          if (!document.querySelector('tr.seen')) c.dispatchEvent(new PointerEvent('pointermove', {clientX: at.left + x, clientY: at.top + y, bubbles: true}));
          done(); }))""")
    check(b.js("return document.querySelectorAll('tr.seen').length") == 1, "a point under the pointer marks its row")
    check("Tokens/s/GPU" in b.js("return document.querySelector('#tip').textContent"), "and says its values")


def clusters(b, folder):
    """More GPUs are faster, and cost more: the answer says both."""
    b.go(sweep(folder, "clusters", CLUSTERS, "--tokens", "1T", "--price", "2.5"))
    answer = b.js("return document.querySelector('.answer').textContent")
    said = re.search(r"The best per GPU, and at 2.5 per GPU-hour the cheapest to 1T tokens, is .* with devices 8 \(8 GPUs\): "
                     r"([\d,]+) tokens/s per GPU, ([\d,.]+) days at a cost of ([\d,]+) \(the fastest", answer)
    check("with devices 16:" in answer and said, "the largest is the fastest, a smaller one the best per GPU: " + answer)
    first = [number(column(b, name)[0]) for name in ("Tokens/s/GPU", "Days", "Price")]
    check([abs(number(a) / c - 1) < 1e-3 for a, c in zip(said.groups(), first)] == [True] * 3, "which the first row says, too")
    ran = column(b, "status").count("ok")
    check(0 < ran < len(column(b, "status")) and any(column(b, "Iteration")[ran:]), "some do not fit, whose times are predicted")
    for name, sign in (("Iteration", 1), ("Iteration", -1), ("status", 1), ("status", -1)):
        sort(b, name)
        times = [sign * number(x) for x in column(b, "Iteration")[:ran]]
        check(column(b, "status")[:ran] == ["ok"] * ran and (name == "status" or times == sorted(times)), "they stand last by " + name)


def keyboard(b):
    b.js("document.querySelector('[data-view=points] input[type=search]').focus()")
    for _ in range(160):
        b.keys("\ue004")
        if b.js("return document.activeElement.textContent").startswith("Iteration"):
            break
    b.keys("\ue007")
    check(b.js("return document.activeElement.closest('th').getAttribute('aria-sort')") in ("ascending", "descending"), "keys sort")
    check(b.js("return getComputedStyle(document.activeElement).outlineStyle") != "none", "the focus is seen")


def without_script(b, url):
    b.cdp("Emulation.setScriptExecutionDisabled", value=True)
    b.go(url)
    b.cdp("Emulation.setScriptExecutionDisabled", value=False)
    text = b.js("return document.body.innerText")
    check("expected error" in text and "The best plans" in text and "400Gbps" in text and "need JavaScript" in text, "without scripts the answer and the best plans stand")
    b.shot("without-script")


def network(b):
    said = b.later("""const done = arguments[0]; fetch('https://localhost/').then(() => done('fetched'), e => done('refused'));""")
    check(said == "refused", "the page reaches no network")
    said = b.complaints()
    check(said and all("Content Security Policy" in l or "localhost" in l for l in said), "its policy says so")


def large(b, folder):
    url = sweep(folder, "large", LARGE)
    b.go("about:blank")
    b.go(url)
    b.wait("rows", ROWS + ".length")
    load = b.js("const n = performance.getEntriesByType('navigation')[0]; return n.loadEventEnd - n.startTime")
    n = b.js("return JSON.parse(document.querySelector('.note[role=status]').textContent.split(' of ')[1].split(' ')[0].replace(',', ''))")
    sorts = sorted(sort(b, name) for name in ("Iteration", "Tokens/s", "plan.stages", "plan.bucket", "Memory") for _ in range(2))
    begin = b.js("return performance.now()")
    type_in(b, "Search rows", "8MiB")
    search = b.js("return performance.now()") - begin
    print("%d points: loaded in %.0f ms; a sort takes %.0f ms (median), %.0f ms (slowest); a search %.0f ms" % (
        n, load, sorts[len(sorts) // 2], sorts[-1], search), flush=True)
    check(n > 10000, "%d points are in the page" % n)
    type_in(b, "Search rows", "")
    b.js("const s = document.querySelector('[data-view=points] .scroll'); s.scrollTop = s.scrollHeight")
    b.wait("more rows", ROWS + ".length > 100")


def directory(b, folder):
    """Predicted and measured, and 512 ranks."""
    out = os.path.join(folder, "out")
    os.mkdir(out)
    plan = ["plan", "--algorithm", "balanced", "--model", "gpt-tiny", "--platform", "laptop", "--stages", "2", "--microbatches", "4", "-o", "p.json"]
    foreline(*plan, cwd=folder)
    foreline("simulate", "p.json", "--engine", "analytic", "-o", "out/predicted.json", "--trace", "out/predicted.trace.json",
             "--timeline", "out/predicted.timeline.json", cwd=folder)
    foreline("run", "p.json", "--compute", "paced", "--steps", "2", "--warmup", "1", "-o", "out/measured.json", "--trace", "out/measured.trace.json", cwd=folder)
    os.rename(os.path.join(out, "measured.json"), os.path.join(out, "<b>measured.json"))
    foreline("report", "out", cwd=folder)
    b.go("file://" + out + "/report.html")
    b.wait("the timeline", "document.querySelector('canvas')?.dataset.frames")
    check("predictions of 1 plan" in b.js("return document.querySelector('.answer').textContent"), "the answer compares the prediction with the run")
    check(b.js("return document.querySelectorAll('canvas').length") == 1 and b.js("return document.body.textContent").count("A: out/measured") == 1 and
          "B: out/predicted" in b.js("return document.body.textContent"), "predicted and measured have one axis")
    b.js("document.querySelectorAll('details').forEach(d => { d.open = true })")
    b.wait("memory", "document.querySelector('svg.memory')", 20)
    rules(b, "directory")


def many(b, folder):
    out = os.path.join(folder, "many")
    os.mkdir(out)
    foreline("plan", "--algorithm", "balanced", "--model", "gpt2-small", "--platform", "rail:nodes=64,type=H100", "--pp", "4", "--replicas", "128",
             "--microbatches", "256", "-o", "p.json", cwd=folder)
    for name, more in (("a", []), ("b", ["--slow", "3=1.5"])):
        foreline("simulate", "p.json", "--engine", "analytic", "-o", "many/%s.json" % name, "--trace", "many/%s.trace.json" % name, *more, cwd=folder)
        foreline("report", "many", cwd=folder)
        print("512 ranks: %d bytes" % os.path.getsize(out + "/report.html"), flush=True)
        b.go("file://" + out + "/report.html")
        b.wait("the timeline", "document.querySelector('canvas')?.dataset.frames")
        b.js("document.querySelector('canvas').scrollIntoView()")
        frames = b.later(PAN)
        print("panning, %s: %.0f frames/s, %.1f ms of drawing each" % (b.js("return document.querySelector('canvas').getAttribute('aria-label')").split(".")[0], *frames), flush=True)
        check(frames[0] > 0, "the timeline moves")


def main():
    with tempfile.TemporaryDirectory() as folder:
        b = Browser(folder, SHOTS)
        try:
            points(b, folder)
            keyboard(b)
            clusters(b, folder)
            large(b, folder)
            directory(b, folder)
            many(b, folder)
            said = b.complaints()
            check(not said, "nothing on the console%s" % (": " + "; ".join(said[:5]) if said else ""))
            without_script(b, "file://" + folder + "/small.html")
            network(b)
        finally:
            b.close()


main()
