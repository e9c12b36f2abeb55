// What if: sliders that simulate the chosen plan on another network, GPU, batch or sequence length.
import { state, task, button, el, put, field, options, note } from "./state.js";
import { modelOf, platformOf } from "./command.js";

let hooks, lists, searchAgain, usual = {};
export const setLists = (start, search) => { lists = start; searchAgain = search; };

// Has the cluster such a parameter?
const parameters = () => task().cluster.kind !== "family" ? []
  : lists.families.find(f => f.name === task().cluster.family)?.parameters ?? [];
const has = key => parameters().some(p => p.name === key);

// [key, label, values or null, text of a value]; the position of a slider is the index of a value.
const rates = ["", "100Gbps", "200Gbps", "400Gbps", "800Gbps", "1600Gbps"];
const factors = ["1", "1.5", "2", "3", "4", "6", "8"];
const batches = () => [1 / 4, 1 / 2, 1, 2, 4, 8].map(f => f * Number(usual.batch)).filter(b => b >= 1 && Number.isInteger(b)).map(String);
const lengths = ["1024", "2048", "4096", "8192", "16384", "32768", "65536", "131072"];
const slows = ["1", "1.1", "1.25", "1.5", "2", "3", "4"];

const over = () => Object.fromEntries(["nic", "oversubscription", "type"].filter(k => state.what[k]).map(k => [k, state.what[k]]));
export const whatPlatform = () => platformOf(task(), over());

export function whatWords() {
  const w = state.what;
  return [...(Object.keys(over()).length ? ["--platform", whatPlatform()] : []),
    ...(w.tokens ? ["--model", modelOf(task(), w.tokens)] : []), ...(w.batch ? ["--batch", w.batch] : []),
    ...(isSlow() ? ["--slow", (w.who || "0") + "=" + w.slow + (slowsLink() ? "@0s" : "")] : [])];
}
const isSlow = () => state.what.slow > 1;
// Of links only SimGrid knows when they are slow.
export const slowsLink = () => isSlow() && (state.what.who ?? "").startsWith("link:");

export const whatText = () => {
  const words = { nic: "NIC ", oversubscription: "oversubscription ", type: "", tokens: "sequences of ", batch: "global batch ",
    slow: (state.what.who || "0") + " slower by " };
  const all = Object.entries(state.what).filter(([k, v]) => v && words[k] !== undefined && !(k === "slow" && v === "1"))
    .map(([k, v]) => words[k] + v);
  return all.length ? "; what if: " + all.join(", ") : "";
};

// How the scenario compares with the plan as it is, and with what is pinned first.
export function report(m, ms) {
  const base = m && hooks.base(m), pinned = hooks.pinned(), rate = x => x.tokens_per_s || x.samples_per_s;
  const times = x => x.toFixed(3) + " times the ";
  const of = b => times(m.iteration_s / b.iteration_s) + "iteration, " + times(rate(m) / rate(b)) + "throughput of ";
  put("latency", m && base ? el("strong", {}, of(base) + "the plan as it is") : "no answer",
    m && pinned ? "; " + of(pinned) + "pinned A;" : "",
    el("small", { id: "latency-ms", "data-ms": ms.toFixed(1) }, " answered in " + ms.toFixed(0) + " ms"));
}

// A single slow rank breaks the symmetry that makes large plans fast: they are simulated when the slider is let go.
const LIVE = 256;
const live = key => !slowsLink() && (key !== "slow" && !isSlow() || hooks.ranks() <= LIVE);

// As foreline takes it: a NIC's rate is in bits per second.
const meant = (key, text) => key === "nic" && /^[\d.]+$/.test(text) ? text + "Gbps" : text;

// Stops, and beside them a field for any other value. say: what stands there while the plan's own value is taken.
function slider(key, label, values, unit, say) {
  const range = el("input", { type: "range", min: 0, max: values.length - 1, step: 1 });
  const typed = el("input", { type: "text", size: 8, spellcheck: "false", autocomplete: "off", placeholder: say });
  const number = x => parseFloat(x) || 0;
  const show = () => {
    const v = state.what[key] ?? usual[key], at = values.indexOf(v);
    range.value = at >= 0 ? at : Math.max(0, values.filter(x => number(x) <= number(v)).length - 1);
    range.setAttribute("aria-valuetext", state.what[key] ? v + " " + unit : say);
    typed.value = state.what[key] ?? "";
  };
  const set = v => {
    state.what[key] = v;
    if (!v || v === usual[key]) delete state.what[key];
    show();
  };
  show();
  range.addEventListener("input", () => { set(values[range.value]); if (live(key)) hooks.quick(); });
  range.addEventListener("change", () => hooks.whole());
  typed.addEventListener("change", () => { set(meant(key, typed.value.trim())); hooks.whole(); });
  const f = field(label, range), beside = field(label + ", typed", typed);
  beside.querySelector("label").className = "unseen";
  beside.append(unit);
  f.append(beside);
  return f;
}

// Of the model, "" where it has no sequences.
function tokensOf() {
  const m = task().model, usual = m.file ? "" : lists.models.find(x => x.name === m.name)?.overrides.tokens;
  return m.overrides.tokens ?? String(usual || "");
}

export function drawSliders(with_) {
  hooks = with_;
  const v = task().cluster.values;
  usual = { nic: v.nic ?? "", oversubscription: v.oversubscription ?? "1", batch: task().batch || String(hooks.batch()), slow: "1",
    type: parameters().find(p => p.name === "type")?.default,
    tokens: tokensOf() };
  const with_usual = (list, x) => list.includes(x) ? list : [...list, x].sort((a, b) => (parseFloat(a) || 0) - (parseFloat(b) || 0));
  const type = el("select", { onchange: e => { state.what.type = e.target.value; hooks.whole(); } },
    options(lists.gpus.map(g => [g]), state.what.type ?? v.type ?? usual.type));
  const links = (hooks.links() ?? []).slice(0, 12).map(l => ["link:" + l.name]);
  const names = el("datalist", { id: "slow-names" }, options([["0", "rank 0"], ["stage:0"], ...links]));
  const who = el("input", { type: "text", list: "slow-names", value: state.what.who ?? "0", size: 12, spellcheck: "false",
    oninput: e => { state.what.who = e.target.value.trim(); },
    onchange: () => { if (isSlow()) hooks.whole(); } });
  const engine = el("select", { onchange: e => { state.engine = e.target.value; hooks.whole(); } },
    options([["analytic", "analytic: fast"], ["simgrid", "SimGrid: flows"]], state.engine));
  put("sliders", el("h3", {}, "What if"), el("div", { class: "grid sliders" },
    has("nic") ? slider("nic", "NIC rate", with_usual(rates, usual.nic), "", usual.nic || "of the GPU type") : null,
    has("oversubscription")
      ? slider("oversubscription", "Oversubscription", with_usual(factors, usual.oversubscription), ": 1", usual.oversubscription) : null,
    has("type") ? field("GPU type", type) : null,
    batches().length > 1 ? slider("batch", "Batch", batches(), "samples", usual.batch) : null,
    usual.tokens ? slider("tokens", "Sequence length", with_usual(lengths, usual.tokens), "tokens", usual.tokens) : null,
    slider("slow", "Slow rank or link", slows, "times slower", "none"),
    field("which: rank, GPU or link:NAME", who), names, field("Engine of the views", engine)),
  note("Move a slider, or type any value." + (hooks.ranks() > LIVE
    ? " A slow rank of more than " + LIVE + " GPUs, and a slow link, are simulated when you let the slider go."
    : " A slow link is simulated when you let the slider go.")),
  el("div", { class: "row" }, el("span", { id: "latency", role: "status" }, "The plan as it is."),
    button("Search with these", () => searchAgain({ values: over(), tokens: state.what.tokens, batch: state.what.batch })),
    button("Back to the plan", () => { state.what = {}; drawSliders(hooks); hooks.whole(); })));
}

// ---- an experiment of the sliders' range

const quoted = x => '"' + String(x).replaceAll("\\", "\\\\").replaceAll('"', '\\"') + '"';

export function experiment(now) {
  const set = Object.keys(state.what), base = platformOf(task());
  const lines = ["# The chosen plan over the range of the sliders: foreline sweep experiment.yml", "name: explored",
    "model: " + quoted(modelOf(task())), "platform: " + quoted(base)];
  if (has("nic")) lines.push("platform.nic: [" + rates.slice(1).join(", ") + "]");
  if (has("oversubscription")) lines.push("platform.oversubscription: [" + factors.slice(0, 5).join(", ") + "]");
  const words = now.asked, plan = [];
  for (let i = 1; i < words.length; i++) {
    const key = words[i].replace(/^--/, "");
    if (!words[i].startsWith("--") || ["model", "platform", "json", "all-rows"].includes(key)) continue;
    const next = words[i + 1], flag = next === undefined || next.startsWith("-");
    plan.push("  " + key + ": " + (flag ? "true" : next));
  }
  return [...lines, "plan:", ...plan, ""].join("\n") + (set.length ? "# as shown: " + whatText().slice(2) + "\n" : "");
}
