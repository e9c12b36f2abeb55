"""Chromium, driven through chromedriver's HTTP interface, and what every page must keep. Tests import it; exit status 77
where either program is missing."""
import base64, json, os, re, shutil, subprocess, sys, time, urllib.error, urllib.request


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


def check(ok, text):
    if not ok:
        sys.exit("failed: " + text)
    print("ok:", text, flush=True)


class Browser:
    """What of WebDriver the tests need. downloads: where files are saved; shots: where screenshots go, or None."""

    def __init__(self, downloads, shots=None):
        chromium, driver, self.shots = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver"), shots
        if not chromium or not driver:
            skip("no chromium and chromedriver")
        self.process = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        port = next(re.search(r"on port (\d+)\.", l)[1] for l in self.process.stdout if "successfully" in l)
        self.url = "http://127.0.0.1:" + port
        options = {"binary": chromium, "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"],
                   "prefs": {"download.default_directory": downloads}}
        self.url += "/session/" + self.call("/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}})["sessionId"]
        self.cdp("Browser.setDownloadBehavior", behavior="allow", downloadPath=downloads)

    def call(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as e:
            sys.exit("failed: " + path + ": " + e.read().decode()[:600])

    def cdp(self, command, **params):
        return self.call("/goog/cdp/execute", {"cmd": command, "params": params})

    def go(self, url):
        self.call("/url", {"url": url})

    def js(self, code, *args):
        return self.call("/execute/sync", {"script": code, "args": list(args)})

    def later(self, code, *args):
        return self.call("/execute/async", {"script": code, "args": list(args)})

    def wait(self, what, code, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.js("return " + code)
            if value:
                return value
            time.sleep(0.1)
        self.shot("failed")
        sys.exit("failed: waited for " + what + "; the page says: " + self.js("return document.body.innerText")[-1500:])

    def keys(self, text):
        actions = [{"type": t, "value": c} for c in text for t in ("keyDown", "keyUp")]
        self.call("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def shot(self, name):
        if not self.shots:
            return
        os.makedirs(self.shots, exist_ok=True)
        high = min(6000, self.js("return document.documentElement.scrollHeight"))
        self.cdp("Emulation.setDeviceMetricsOverride", width=1280, height=high, deviceScaleFactor=1, mobile=False)
        time.sleep(0.4)
        with open(os.path.join(self.shots, name + ".png"), "wb") as f:
            f.write(base64.b64decode(self.call("/screenshot")))
        self.cdp("Emulation.clearDeviceMetricsOverride")

    def night(self, on):
        self.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if on else "light"}])

    def complaints(self):
        return [l["message"] for l in self.call("/se/log", {"type": "browser"}) if l["level"] in ("SEVERE", "WARNING")]

    def close(self):
        try:
            urllib.request.urlopen(urllib.request.Request(self.url, method="DELETE"), timeout=20)
        finally:
            self.process.terminate()


# Rules that every state of the page keeps; returns what is against them.
RULES = r"""
const bad = [], all = [...document.querySelectorAll("body *")], shown = e => e.checkVisibility({visibilityProperty: true});
const named = e => (e.getAttribute("aria-label") || e.textContent || (e.labels && [...e.labels].map(l => l.textContent).join("")) || "").trim();
if (document.querySelectorAll("h1").length !== 1) bad.push("not one h1");
const ids = all.filter(e => !e.closest("svg")).map(e => e.id).filter(x => x); // pictures of gnuplot repeat their marks
for (const id of new Set(ids.filter((x, i) => ids.indexOf(x) !== i))) bad.push("id twice: " + id);
for (const e of all.filter(shown)) {
  if (["INPUT", "SELECT"].includes(e.tagName) && !(e.labels && e.labels.length) && !e.getAttribute("aria-label")) bad.push("no label: " + e.outerHTML.slice(0, 90));
  if (["BUTTON", "A"].includes(e.tagName) && !named(e)) bad.push("no name: " + e.outerHTML.slice(0, 90));
  for (const key of ["aria-labelledby", "aria-describedby", "aria-controls"])
    for (const id of (e.getAttribute(key) || "").split(" ").filter(x => x)) if (!document.getElementById(id)) bad.push(key + " names nothing: " + id);
  if (e.getAttribute("role") === "img" && !named(e)) bad.push("picture without a name");
}
const lum = c => { const [r, g, b] = c.map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const rgb = t => { const m = t.match(/[\d.]+/g).map(Number); return m.length > 3 && m[3] === 0 ? null : m.slice(0, 3); };
const ground = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c) return c; } return [255, 255, 255]; };
for (const e of all.filter(e => shown(e) && !e.closest("svg") && !e.disabled && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()))) {
  const a = lum(rgb(getComputedStyle(e).color)), b = lum(ground(e)), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) bad.push("contrast " + ratio.toFixed(2) + ": " + e.tagName + " " + e.textContent.trim().slice(0, 40));
}
for (const e of document.querySelectorAll("#ranking .scroll, #pins .scroll")) if (e.scrollWidth > e.clientWidth) bad.push("table cut: " + e.scrollWidth);
if (document.documentElement.scrollWidth > 1280) bad.push("wider than 1,280: " + document.documentElement.scrollWidth);
return bad;"""


def rules(b, state):
    for night in (False, True):
        b.night(night)
        bad = b.js(RULES)
        check(not bad, "rules of accessibility, %s, %s%s" % (state, "dark" if night else "light", ": " + "; ".join(bad[:8]) if bad else ""))
    b.shot(state + "-dark")
    b.night(False)
    b.shot(state)


# Moves the first timeline for three seconds: frames per second, and ms of drawing each.
PAN = """
const done = arguments[0], c = document.querySelector("canvas"), at = c.getBoundingClientRect(), first = Number(c.dataset.frames), begin = performance.now();
for (let k = 0; k < 4; k++) document.querySelector("[aria-label='Zoom in']").click();
const send = (type, x) => c.dispatchEvent(new PointerEvent(type, {clientX: at.left + x, clientY: at.top + 40, pointerId: 1, bubbles: true}));
c.setPointerCapture = () => {};
send("pointerdown", 500);
let k = 0, drawing = 0;
const step = () => {
  send("pointermove", 500 + 200 * Math.sin(k++ / 20));
  drawing += Number(c.dataset.ms);
  if (performance.now() - begin < 3000) requestAnimationFrame(step);
  else { send("pointerup", 500); done([(Number(c.dataset.frames) - first) / 3, drawing / k]); }
};
requestAnimationFrame(step);"""
