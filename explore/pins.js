// Pinned scenarios side by side: bars on one scale, a table, what differs in words; measured runs beside predicted ones.
import { state, remember, el, put, key, button, most, seconds, bytes, count, percent, note, warning } from "./state.js";
import { run, complaint, showCommand, fetchFile } from "./requests.js";
import { bar, causeWords, fullest, parts } from "./chosen.js";
import { table } from "./tables.js";

const pins = []; // {name, plan: its file, commands, m, file: of the prediction; measured: a run}
let runs = [];   // measured runs among the files
export const traces = []; // timelines among the files

export function pin(name, plan, commands, m, file) {
  pins.push({ name, plan, commands, m, file });
  state.pins.push({ name, plan, commands });
  remember();
  drawPins();
}

function remove(i) {
  const k = pins.slice(0, i).filter(p => !p.measured).length;
  if (!pins[i].measured) state.pins.splice(k, 1);
  pins.splice(i, 1);
  remember();
  drawPins();
}

// Those of a link: their commands are run again.
export async function restorePins() {
  const list = state.pins.filter(p => typeof p.name === "string" && Array.isArray(p.commands));
  state.pins = list;
  const ran = new Set(); // searches: several pins may be of one
  for (const p of list) {
    let last = null;
    for (const c of p.commands.map(c => c.map(String))) {
      if (!ran.has(c.join("\0"))) last = await run(c);
      ran.add(c.join("\0"));
    }
    const words = p.commands.at(-1);
    if (last?.json) pins.push({ ...p, m: last.json, file: words[words.indexOf("-o") + 1] });
  }
  if (list.length) drawPins();
}

// Files by what they are: plans, and measurements of real runs.
export async function findFiles(files) {
  const plans = [];
  traces.push(...files.filter(f => f.endsWith(".json.gz")));
  for (const name of files.filter(f => f.endsWith(".json"))) {
    const m = await fetchFile(name).then(b => b.size < 5e7 ? b.text() : "{}").then(JSON.parse).catch(() => ({}));
    if (m.traceEvents) traces.push(name);
    if (m.format === "foreline-plan") plans.push({ name, plan: m });
    if (m.format === "foreline-measurement" && !["analytic", "simgrid", "ns3"].includes(m.engine)) runs.push({ name, m });
  }
  if (runs.length) drawPins();
  return plans;
}

const ofWhat = p => p.m.model + " on " + p.m.platform;

export const firstPin = () => pins[0]?.m;

const letter = i => String.fromCharCode(65 + i % 26);
const against = (a, b) => (a / b).toFixed(3) + "\u00d7";

// What of the plans differs, and by how much each part of the time.
function differences(i) {
  const box = el("div", { role: "status" }), a = pins[0], b = pins[i];
  const commands = [["compare", a.file, b.file, "--json"]];
  if (a.plan !== b.plan) commands.push(["compare", a.plan, b.plan, "--engine", "analytic", "--json"]);
  const ask = async () => {
    put(box, "Comparing ...");
    const answers = await Promise.all(commands.map(c => run(c).catch(e => ({ status: 1, error: e.message })))), where = el("div");
    showCommand(where, "the comparison", ...commands);
    const wrong = answers.find(r => !r.json);
    if (wrong) { put(box, where, warning(complaint(wrong))); return; }
    const what = p => / what if: .*/.exec(p.name)?.[0].slice(10) ?? "the plan as it is", arrow = " \u2192 ";
    const changes = [["model", a.m.model, b.m.model], ["cluster", a.m.platform, b.m.platform]].filter(([, x, y]) => x !== y)
      .concat((answers[1]?.json.changes ?? []).map(c => [c.what, c.a, c.b])).map(([k, x, y]) => k + (x === null ? " differs" : " " + x + arrow + y));
    if (what(a) !== what(b)) changes.push(what(a) + arrow + what(b));
    const { time = [], per = "iteration" } = answers[0].json, sum = time.reduce((v, t) => v + t.a_s, 0);
    const times = time.filter(t => Math.abs(t.difference_s) > 1e-3 * sum)
      .map(t => causeWords(t.cause) + (t.difference_s > 0 ? " +" : " \u2212") + seconds(Math.abs(t.difference_s)));
    put(box, where, el("p", {}, "What differs: " + (changes.join("; ") || "nothing")),
      el("p", {}, "Time of " + letter(i) + " against " + letter(0) + (per === "iteration" ? ", per iteration: "
        : ", per " + per + ", because the iterations train different numbers of them: ") + (times.join(", ") || "no part differs by more than 0.1 %") + "."));
  };
  return el("div", {}, button("Why do " + letter(0) + " and " + letter(i) + " differ?", ask), box);
}

function layOver(r) {
  pins.push({ name: "measured: " + r.name, m: r.m, file: r.name, commands: [], measured: true });
  drawPins();
}

function fit(m) {
  const f = fullest(m);
  return f ? bytes(f.peak_bytes) + (f.peak_bytes > f.memory_bytes ? " \u2717 out of memory" : " \u2713 fits") : "\u2013";
}

function pinTable() {
  const a = pins[0].m, measured = pins.find(p => p.measured);
  const columns = [["", p => letter(pins.indexOf(p)), true], ["Model and cluster", ofWhat, "words"], ["Scenario", p => p.name, "words"],
    ["Iteration", p => seconds(p.m.iteration_s)], ["of A", p => against(p.m.iteration_s, a.iteration_s)],
    ["Tokens/s", p => p.m.tokens_per_s ? count(p.m.tokens_per_s) : "\u2013"], ["MFU", p => p.m.mfu ? percent(p.m.mfu) : "\u2013"],
    ["Fullest GPU", p => fit(p.m)], ["Engine", p => p.m.engine, true]];
  if (measured)
    columns.push(["Predicted / measured \u2212 1", p => p.measured ? "" : p.m.model !== measured.m.model ? "another model"
      : percent(p.m.iteration_s / measured.m.iteration_s - 1)]);
  return table("Pinned scenarios", columns, pins);
}

export function drawPins() {
  document.getElementById("compare").hidden = pins.length + runs.length === 0;
  const longest = most(pins, p => p.m.iteration_s);
  const named = new Map(pins.flatMap(p => parts(p.m).map(([name, , colour]) => [name, colour])));
  put("pins", el("div", { class: "row" }, runs.map(r => button("Lay over the measured run " + r.name, () => layOver(r)))),
    pins.map((p, i) => el("div", { class: "pin" }, el("p", {}, el("strong", {}, letter(i) + "  " + seconds(p.m.iteration_s)),
      "  " + ofWhat(p) + ": " + p.name + " ", button("Remove", () => remove(i), "Remove " + letter(i))), bar(p.m, longest))),
    pins.length ? [note("Bars are as long as the iterations."),
      el("ul", { class: "legend" }, [...named].map(([name, colour]) => key(name, colour))), pinTable()] : null,
    pins.slice(1).map((p, i) => p.measured || pins[0].measured ? null : differences(i + 1)));
}
