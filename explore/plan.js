// The chosen plan in the views: made, simulated, again while sliders move; saved.
import { state, remember, step, fileName, keepFiles, button, el, put, field, options, seconds, most, note, warning } from "./state.js";
import { run, latest, showCommand, complaint, download, fetchFile } from "./requests.js";
import { showAnswer, showBreakdown, showRemedies, stopRemedies } from "./chosen.js";
import { drawSliders, report, slowsLink, whatWords, whatText, whatPlatform, experiment } from "./sliders.js";
import { prepare, showTimeline } from "./timeline.js";
import { showMemory } from "./memory.js";
import { showNetwork } from "./topology.js";
import { showRanks, showCalls } from "./tables.js";
import { layOver, readTable } from "./traces.js";
import { pin, firstPin, traces } from "./pins.js";

export const now = { words: "", file: "", command: [], m: null, base: {}, timeline: null };

const engineNow = () => slowsLink() ? "simgrid" : state.engine;
const simulateWords = (more, engine = engineNow(), what = whatWords()) =>
  ["simulate", now.file, "--engine", engine, ...what, ...more, "--json"];
const quick = latest(), whole = latest();

const fail = text => put("chosen-error", text ? warning(text) : null);

// ---- views

const graphs = new Map(); // of platforms
async function findGraph() {
  const platform = whatPlatform();
  if (!graphs.has(platform)) {
    const r = await run(["topology", "show", platform, "--json"]).catch(() => ({}));
    graphs.set(platform, r.json ?? {});
  }
  return graphs.get(platform);
}

// Measured timelines by their files: the command that reads one, and a promise of its ops.
const measured = new Map();
function readMeasured(name) {
  const file = fileName("ops" + traces.indexOf(name) + "-", ".tsv"), command = ["plot", "timeline", name, "-o", file];
  const read = async () => {
    const r = await run(command);
    if (r.status !== 0) throw new Error(complaint(r));
    return readTable(await (await fetchFile(file)).text());
  };
  if (!measured.has(name)) measured.set(name, { command, ops: read() });
  return measured.get(name);
}

function drawTimeline(box) {
  if (!now.timeline || !traces.length) { now.timeline ? showTimeline(box, now.timeline, now.m) : waiting(box); return; }
  const at = el("div"), command = el("div"), { timeline, m } = now;
  const draw = async () => {
    const name = traces.includes(state.over) ? state.over : "";
    put(command);
    if (!name) { showTimeline(at, timeline, m); return; }
    const run = readMeasured(name);
    showCommand(command, "the measured ops", run.command);
    try {
      const ops = await run.ops;
      if (name !== state.over) return;
      command.append(note("Predicted " + seconds(m.iteration_s) + " per iteration; the last op of " + name + " ends after "
        + seconds(most(ops, o => o.start + o.duration) / 1e9) + "."));
      showTimeline(at, layOver(timeline, m, ops), m);
    } catch (e) { put(at, warning(e.message)); }
  };
  const choice = el("select", { onchange: e => { state.over = e.target.value; remember(); draw(); } },
    options([["", "nothing"], ...traces.map(name => [name])], state.over));
  put(box, el("div", { class: "row" }, field("Lay over the predicted ops", choice)), command, at);
  draw();
}

const views = [
  ["timeline", "Timeline", drawTimeline],
  ["memory", "Memory", box => showMemory(box, now.m, now.timeline)],
  ["network", "Network", box => showNetwork(box, now.m, findGraph)],
  ["ranks", "Ranks", box => showRanks(box, now.m)],
  ["calls", "Collectives", box => showCalls(box, now.m)]];
const waiting = box => put(box, note("Simulating every op ..."));

function drawView() {
  const box = document.getElementById("view");
  if (box && now.m) views.find(v => v[0] === state.tab)[2](box);
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawView);

function drawTabs() {
  const go = (i, focus) => {
    state.tab = views[i][0];
    remember();
    [...list.children].forEach((b, k) => { b.setAttribute("aria-selected", k === i); b.tabIndex = k === i ? 0 : -1; });
    if (focus) list.children[i].focus();
    panel.setAttribute("aria-labelledby", "tab-" + state.tab);
    drawView();
  };
  const list = el("div", { role: "tablist", "aria-label": "Views", onkeydown: e => {
    const i = views.findIndex(v => v[0] === state.tab), n = views.length;
    const to = { ArrowRight: i + 1, ArrowLeft: i + n - 1, Home: 0, End: n - 1 }[e.key];
    if (to !== undefined) { e.preventDefault(); go(to % n, true); }
  } }, views.map(([key, name], i) => el("button", { type: "button", role: "tab", id: "tab-" + key, "aria-controls": "view",
    onclick: () => go(i) }, name)));
  const panel = el("div", { role: "tabpanel", id: "view", tabindex: 0 });
  put("tabs", list, panel);
  go(Math.max(0, views.findIndex(v => v[0] === state.tab)));
}

// ---- simulation

function showAll() {
  showAnswer(now.m, now.words + whatText());
  showBreakdown(now.m);
  drawView();
}

// The plan as it is, by the same engine: what the ratio is of.
async function findBase(engine) {
  if (!whatText()) { if (now.m?.engine === engine) now.base[engine] = now.m; return; }
  now.base[engine] ??= (await run(simulateWords([], engine, []))).json ?? undefined;
}

// While a slider moves: the answer of the analytic engine, without a timeline.
async function simulateQuick() {
  stopRemedies();
  const command = simulateWords([], "analytic");
  showCommand("chosen-command", "the chosen plan", ...[now.command, command].filter(c => c));
  try {
    const r = await quick(command);
    if (!r) return;
    await findBase("analytic");
    fail(complaint(r));
    now.ok = Boolean(r.json);
    if (!r.json) { report(null, r.ms); return; }
    now.m = r.json;
    now.timeline = null;
    showAnswer(now.m, now.words + whatText());
    showBreakdown(now.m);
    if (state.tab !== "timeline") drawView();
    report(r.json, r.ms);
  } catch (e) { fail(e.message); }
}

// All views, by the engine that is chosen.
export async function simulateWhole() {
  quick.cancel();
  const command = simulateWords(["--timeline", fileName("timeline"), "-o", fileName("predicted")]);
  showCommand("chosen-command", "the chosen plan", ...[now.command, command].filter(c => c));
  remember();
  document.getElementById("tabs").setAttribute("aria-busy", "true");
  try {
    const r = await whole(command);
    if (!r) return;
    fail(complaint(r));
    now.ok = Boolean(r.json);
    if (!r.json) return;
    now.m = r.json;
    now.timeline = prepare(JSON.parse(await (await fetchFile(fileName("timeline"))).text()));
    await findBase(engineNow());
    showAll();
    now.ms = r.ms;
    if (whatText()) report(now.m, r.ms);
  } catch (e) { fail(e.message); }
  finally { document.getElementById("tabs").removeAttribute("aria-busy"); }
}

let opened = 0;
export function closePlan() {
  opened++;
  quick.cancel();
  whole.cancel();
  document.getElementById("chosen").hidden = true;
}

// file: the plan's; command: what has made it, null for a plan among the files; asked: what makes one like it.
export async function openPlan({ file, command, asked, words }) {
  const mine = ++opened;
  document.getElementById("chosen").hidden = false;
  Object.assign(now, { words, file, command, asked, base: {}, m: null, timeline: null });
  fail();
  put("answer", el("p", {}, "Simulating ..."));
  const hooks = { quick: simulateQuick, whole: () => { step(); simulateWhole(); }, base: m => now.base[m?.engine ?? engineNow()], pinned: firstPin,
    links: () => now.m?.links, ranks: () => now.m?.ranks.length ?? 0, batch: () => now.m ? Math.round(now.m.samples_per_s * now.m.iteration_s) : 0 };
  drawSliders(hooks);
  drawTabs();
  drawSave();
  await simulateWhole();
  if (mine !== opened) return;
  drawSliders(hooks); // whose links and batch are known now
  if (whatText() && now.ok) report(now.m, now.ms);
  if (now.ok) showRemedies(now.file, now.m.ranks.length);
}

// ---- saved

async function saveFile(command, name, text = "") {
  fail();
  try {
    if (command) {
      const r = await run(command);
      if (r.status !== 0) { fail(complaint(r)); return; }
    }
    download(name, await fetchFile(name));
    put("saved", "saved " + name + text);
  } catch (e) { fail(e.message); }
}

// A plan file and its launch file know of no what-if.
const asItIs = () => whatText() ? " of the plan as it is, without what-if; Search with these makes a plan for it" : "";

function pinNow() {
  if (!now.ok || !now.timeline) { fail("nothing to pin: the simulation has not answered"); return; }
  const file = fileName("predicted"), commands = [now.command, simulateWords(["-o", file])].filter(c => c);
  pin(now.words + whatText(), now.file, commands, now.m, file);
  keepFiles();
  put("saved", "pinned");
  simulateWhole();
}

function drawSave() {
  const to = el("select", {}, options(["megatron", "torchtitan", "torchtitan_toml", "deepspeed", "nemo"].map(x => [x]), "megatron"));
  const figure = el("select", {}, options(["breakdown", "memory", "links", "timeline"].map(x => [x]), "breakdown"));
  put("save", el("h3", {}, "Save"),
    el("div", { class: "row" }, button("Pin this scenario", pinNow), button("Plan", () => saveFile(null, now.file, asItIs())),
      button("Experiment for foreline sweep", () => download("experiment.yml", new Blob([experiment(now)], { type: "text/yaml" })))),
    el("div", { class: "row" }, field("Launch arguments for", to), button("Launch file", () => {
      const name = "launch." + (to.value.endsWith("toml") ? "toml" : to.value === "nemo" ? "yaml" : "sh");
      saveFile(["plan", "export", now.file, "--to", to.value, "-o", name], name, asItIs());
    }), field("Figure", figure), button("SVG", async () => {
      const kind = figure.value, from = fileName(kind === "timeline" ? "trace" : "predicted");
      if (kind === "timeline") {
        const r = await run(["simulate", now.file, "--engine", engineNow(), ...whatWords(), "--trace", from]);
        if (r.status !== 0) { fail(complaint(r)); return; }
      }
      saveFile(["plot", kind, from, "-o", kind + ".svg"], kind + ".svg");
    }), el("span", { id: "saved", role: "status" })),
    note("Pin scenarios to compare them here, with each other and with measured runs: foreline explore RUN.json TRACE.json."));
}
