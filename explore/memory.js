// Memory over time: of each stage's fullest rank what it keeps, activations, and scratch while it computes.
import { el, put, svg, bytes, seconds, percent } from "./state.js";
import { table } from "./tables.js";

const bands = [["weight_bytes", "weights", "#0072B2"], ["gradient_bytes", "gradients", "#E69F00"], ["state_bytes", "optimizer state", "#CC79A7"],
  ["stash_bytes", "activations", "#56B4E9"], ["scratch_bytes", "scratch", "#D55E00"]];
const SHOWN = 8, WIDE = 900, HIGH = 92;

function fullestOf(m) {
  const best = new Map();
  m.ranks.forEach((r, i) => { if (!best.has(r.stage) || r.peak_bytes > best.get(r.stage).peak_bytes) best.set(r.stage, { ...r, i }); });
  return [...best.values()].sort((a, b) => a.stage - b.stage);
}

// Most bytes of activations, and whether it computes, for each of n pixels.
function levels(t, k, n) {
  const first = t.ranks[k].first, to = t.ranks[k + 1]?.first ?? t.start.length, most = new Float64Array(n), busy = new Uint8Array(n);
  const ops = Array.from(t.lanes[k][0].ops).filter(i => i >= first && i < to);
  let held = 0, done = 0;
  const fill = (a, b, level, works) => { for (let p = Math.floor(a); p <= Math.min(Math.floor(b), n - 1); p++) { most[p] = Math.max(most[p], level); busy[p] |= works; } };
  for (const i of ops) {
    const a = t.start[i] / t.last * n, b = t.end[i] / t.last * n;
    fill(done, a, held, 0);
    fill(a, b, Math.max(held, t.op.held[i]), 1);
    held = t.op.held[i]; done = b;
  }
  fill(done, n - 1, held, 0);
  return { most, busy };
}

function chart(r, t, top) {
  const k = t.of[r.i] ?? 0, of = r.peak_of ?? {}, { most, busy } = levels(t, k, WIDE), y = b => HIGH - b / top * HIGH;
  const pic = svg("svg", { viewBox: "0 0 " + WIDE + " " + (HIGH + 2), preserveAspectRatio: "none", class: "memory", role: "img",
    "aria-label": "stage " + r.stage + ": memory of " + r.name + " over the iteration, peak " + bytes(r.peak_bytes) });
  let base = 0;
  for (const [key, , colour] of bands.slice(0, 3)) {
    const b = of[key] ?? 0;
    pic.append(svg("rect", { x: 0, width: WIDE, y: y(base + b), height: Math.max(0, y(base) - y(base + b)), fill: colour }));
    base += b;
  }
  const area = (low, high, colour) => {
    let d = "M0 " + y(low(0)).toFixed(1);
    for (let p = 0; p < WIDE; p++) d += "L" + p + " " + y(high(p)).toFixed(1) + "L" + (p + 1) + " " + y(high(p)).toFixed(1);
    for (let p = WIDE - 1; p >= 0; p--) d += "L" + (p + 1) + " " + y(low(p)).toFixed(1) + "L" + p + " " + y(low(p)).toFixed(1);
    pic.append(svg("path", { d: d + "Z", fill: colour }));
  };
  area(() => base, p => base + most[p], bands[3][2]);
  area(p => base + most[p], p => base + most[p] + (busy[p] ? of.scratch_bytes ?? 0 : 0), bands[4][2]);
  if (r.memory_bytes) pic.append(svg("line", { x1: 0, x2: WIDE, y1: y(r.memory_bytes), y2: y(r.memory_bytes), stroke: "currentColor", "stroke-width": 2, "stroke-dasharray": "8 5" }));
  return pic;
}

export function showMemory(box, m, t) {
  const ranks = fullestOf(m), top = 1.04 * Math.max(...ranks.map(r => Math.max(r.peak_bytes, r.memory_bytes || 0)));
  const key = ([, name, colour]) => { const b = el("span", { class: "key", "aria-hidden": "true" }); b.style.background = colour; return el("li", {}, b, name); };
  const rows = table("Peak memory of each stage's fullest rank, and what it is made of", [["Stage", r => r.stage], ["GPU", r => r.name, true],
    ["Peak", r => bytes(r.peak_bytes)], ["of", r => r.memory_bytes ? bytes(r.memory_bytes) : ""], ["at op", r => r.peak_at, true],
    ...bands.map(([k, name]) => [name, r => bytes(r.peak_of?.[k] ?? 0)])], ranks);
  if (!t?.lanes) { put(box, t ? null : el("p", { class: "note" }, "Memory over time comes with the simulation of every op ..."), rows); return; }
  put(box, el("p", { class: "note" }, "From 0 s to " + seconds(t.last / 1e9) + ". Dashed: memory of the GPU. Scratch is drawn while the rank computes."),
    el("ul", { class: "legend" }, bands.map(key)),
    ranks.slice(0, SHOWN).map(r => el("figure", {}, el("figcaption", {}, "stage " + r.stage + ", " + r.name + ": peak " + bytes(r.peak_bytes) +
      (r.memory_bytes ? " of " + bytes(r.memory_bytes) + " (" + percent(r.peak_bytes / r.memory_bytes, 0) + ")" : "") + (r.peak_at ? " at " + r.peak_at : "")), chart(r, t, top))),
    ranks.length > SHOWN ? el("p", { class: "note" }, "The first " + SHOWN + " of " + ranks.length + " stages; all are in the table.") : null, rows);
}
