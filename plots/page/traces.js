// Timelines of real runs: several over each other, or one over its prediction.
import { el, put, field, options } from "./elements.js";
import { prepare, showTimeline } from "./timeline.js";

// Rows of ranks: trace by trace, or those of a rank over each other.
export function showTraces(box, t) {
  const traces = new Set(t.ranks.map(r => r.trace)).size, names = t.ranks.map(r => r.name), place = new Map();
  for (const name of names) if (!place.has(name)) place.set(name, place.size);
  const byRank = (a, b) => place.get(names[a]) - place.get(names[b]) || t.ranks[a].trace - t.ranks[b].trace;
  if (traces > 1) for (const r of t.ranks) r.name = String.fromCharCode(65 + r.trace) + " " + r.name;
  prepare(t);
  const view = el("div"), one = t.of, draw = over => {
    t.of = over ? [...one].sort(byRank) : one;
    showTimeline(view, t);
  };
  const order = el("select", { onchange: e => draw(e.target.value === "rank") },
    options([["rank", "rank by rank, traces over each other"], ["trace", "trace by trace"]], "rank"));
  put(box, traces > 1 ? el("div", { class: "row" }, field("Rows", order)) : null, view);
  draw(traces > 1);
}

const kinds = { forward: "F", backward: "B", weight: "W", update: "UPDATE", compute: "F0", communication: "WIRE", copy: "COPY" };

// The ops in the table of `foreline plot timeline TRACE -o X.tsv`.
export function readTable(text) {
  const lines = text.split("\n").filter(l => l && !l.startsWith("# plotted"));
  const at = Object.fromEntries(lines.shift().slice(2).split("\t").map((name, i) => [name, i]));
  return lines.map(l => l.split("\t")).map(c => ({ rank: Number(c[at.rank]), name: c[at.op], kind: kinds[c[at.kind]],
    microbatch: c[at.microbatch] === "-" ? -1 : Number(c[at.microbatch]),
    start: c[at.start_s] * 1e9, duration: (c[at.end_s] - c[at.start_s]) * 1e9 }));
}

// A predicted timeline (t, of the measurement m) with the measured ops of each rank below the predicted ones.
export function layOver(t, m, ops) {
  const known = [...new Set([...t.kinds, ...Object.values(kinds)])], measured = [...new Set(ops.map(o => o.rank))].sort((a, b) => a - b);
  const sorted = measured.map(r => ops.filter(o => o.rank === r)), all = sorted.flat();
  const absent = { stage: "", peer: -1, match: -1, bytes: 0, purpose: 0, held: 0 }, op = {};
  for (const column of Object.keys(t.op))
    op[column] = [...t.op[column], ...all.map(o => column === "kind" ? known.indexOf(o.kind) : o[column] ?? absent[column])];
  op.name = [...t.op.start.map(() => null), ...all.map(o => o.name)];
  let first = t.op.start.length;
  const ranks = [...t.ranks, ...sorted.map((list, i) => {
    const r = { name: measured[i] + " measured", first };
    first += list.length;
    return r;
  })];
  const of = [], names = [];
  const add = (rank, name) => { of.push(rank); names.push(name); };
  t.of.forEach((k, i) => {
    add(k, i + " " + m.ranks[i].name);
    if (measured.includes(i)) add(t.ranks.length + measured.indexOf(i), i + " measured");
  });
  measured.forEach((r, i) => { if (r >= t.of.length) add(t.ranks.length + i, r + " measured"); });
  return prepare({ ...t, kinds: known, op, ranks, of, names, view: undefined });
}
