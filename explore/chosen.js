// The chosen plan, answer first: what, how fast, does it fit, how sure; then why, and what would help.
import { el, put, key, seconds, bytes, count, percent, note, warning } from "./state.js";
import { latest, complaint } from "./requests.js";

const within = x => x === undefined ? "" : percent(x, 0);

export function sure(m) {
  const e = m.expected_error;
  return e ? "half of similar runs within " + within(e.median) + ", nine in ten within " + within(e.nine_in_ten) +
    " (" + e.runs + " published runs of " + e.of + ")" : "no published run is similar: the error is not known";
}

export function fullest(m) {
  return m.ranks?.reduce((a, r) => !r.memory_bytes ? a
    : !a || r.memory_bytes - r.peak_bytes < a.memory_bytes - a.peak_bytes ? r : a, null);
}

// m: what `simulate --json` printed; words: the plan in the field's notation.
export function showAnswer(m, words) {
  const full = fullest(m), n = m.ranks.length;
  const fits = full && full.peak_bytes <= full.memory_bytes;
  const rate = m.tokens_per_s ? count(m.tokens_per_s) + " tokens/s (" + count(m.tokens_per_s / n) + " per GPU)"
    : count(m.samples_per_s) + " samples/s";
  put("answer",
    el("p", { class: "answer" }, el("strong", {}, seconds(m.iteration_s) + " per iteration"), ", " + rate + ", MFU " + percent(m.mfu) + " on " + count(n) + " GPUs"),
    el("p", {}, words),
    full ? el("p", { class: fits ? "" : "warning" }, (fits ? "\u2713 fits: " : "\u2717 out of memory: ") + full.name +
      ", the fullest GPU, needs " + bytes(full.peak_bytes) + " of " + bytes(full.memory_bytes) +
      (fits ? " (" + percent(1 - full.peak_bytes / full.memory_bytes) + " spare)" : "")) : null,
    el("p", {}, "Expected error: " + sure(m)),
    m.bottleneck ? el("p", {}, "Bottleneck: " + m.bottleneck) : null,
    (m.warnings ?? []).map(w => warning("\u26A0 " + w)));
}

// ---- where the time goes

// Words of core/data/program.c, and a colour each.
const causes = { pipeline: ["pipeline transfers", "#009E73"], data: ["gradient reduction", "#E69F00"],
  shards: ["ZeRO collectives", "#CC79A7"], tensor: ["tensor-parallel collectives", "#D55E00"],
  experts: ["expert all-to-all", "#F0E442"], context: ["context-parallel exchange", "#56B4E9"],
  ties: ["reduction of tied weights", "#8C510A"], host: ["host transfers", "#B2ABD2"], norm: ["gradient norm", "#A6D96A"] };
export const causeWords = key => causes[key]?.[0] ?? key;

export const parts = m => {
  const b = m.breakdown ?? {};
  return [["compute", b.compute_s, "#0072B2"], ["optimizer", b.optimizer_s, "#555555"],
    ...Object.entries(b.exposed_s ?? {}).map(([k, v]) => ["exposed " + causeWords(k), v, causes[k]?.[1] ?? "#777777"]),
    ["bubble", b.bubble_s, "transparent"]].filter(([, s]) => s > 0);
};

export function bar(m, of) {
  return el("div", { class: "bar", role: "img", "aria-label": parts(m).map(([k, s]) => k + " " + percent(s / m.iteration_s)).join(", ") },
    parts(m).map(([k, s, colour]) => {
      const e = el("span", { title: k + ": " + seconds(s) });
      e.style.width = 100 * s / of + "%";
      e.style.background = colour;
      return e;
    }));
}

export function showBreakdown(m) {
  put("breakdown", el("h3", {}, "Where the time goes, mean of the ranks"), bar(m, m.iteration_s),
    el("ul", { class: "legend" }, parts(m).map(([k, s, colour]) =>
      key(k + " " + seconds(s) + ", " + percent(s / m.iteration_s), colour))));
}

// ---- what would help: `plan --explain` says it as a table

const explain = latest(), LARGE = 256;
let asked = 0;

// Of large plans, which take seconds, when it is asked for.
export function showRemedies(file, ranks) {
  asked++;
  explain.cancel();
  if (ranks <= LARGE) findRemedies(file);
  else put("remedies", el("button", { type: "button", onclick: () => findRemedies(file) }, "What would help?"));
}
export const stopRemedies = () => explain.cancel();

async function findRemedies(file) {
  const mine = ++asked;
  put("remedies", note("Looking for remedies ..."));
  const r = await explain(["plan", "--explain", file]).catch(e => ({ status: 1, error: e.message }));
  if (mine !== asked) return;
  if (!r) { put("remedies", el("button", { type: "button", onclick: () => findRemedies(file) }, "What would help?")); return; }
  if (r.status !== 0) { put("remedies", note("Remedies: " + complaint(r))); return; }
  const lines = (r.text ?? "").split("\n"), from = lines.findIndex(l => l.startsWith("with one thing")) + 1;
  const saves = row => parseFloat(row[3]);
  const rows = from ? lines.slice(from).map(l => /^ {2}(.+?)\s{2,}(\S+ \S+)\s+(-?[\d.]+ %)/.exec(l)).filter(x => x).sort((a, b) => saves(a) - saves(b)) : [];
  put("remedies", el("details", {}, el("summary", {}, "What would help" +
    (rows.length ? ": " + rows[0][1] + " twice as fast saves " + rows[0][3].replace("-", "") : "")),
    rows.length ? el("table", {}, el("caption", {}, "The iteration with one thing twice as fast"),
      el("thead", {}, el("tr", {}, ["Twice as fast", "Iteration", "Change"].map(t => el("th", { scope: "col" }, t)))),
      el("tbody", {}, rows.map(x => el("tr", {}, [x[1], x[2], x[3]].map((t, i) => el("td", { class: i ? "number" : "" }, t)))))) : null,
    el("pre", {}, r.text)));
}
