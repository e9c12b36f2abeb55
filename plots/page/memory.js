// Memory over time: of each stage's fullest rank what it keeps, activations, and scratch while it computes.
import { el, put, svg, key, note, most, bytes, seconds, percent } from "./elements.js";
import { table } from "./tables.js";

const bands = [["weight_bytes", "weights", "#0072B2"], ["gradient_bytes", "gradients", "#E69F00"],
  ["state_bytes", "optimizer state", "#CC79A7"], ["stash_bytes", "activations", "#56B4E9"], ["scratch_bytes", "scratch", "#D55E00"]];
const SHOWN = 8, WIDE = 900, HIGH = 92;

function fullestOf(m) {
  const best = new Map();
  m.ranks.forEach((r, i) => {
    if (!best.has(r.stage) || r.peak_bytes > best.get(r.stage).peak_bytes) best.set(r.stage, { ...r, i });
  });
  return [...best.values()].sort((a, b) => a.stage - b.stage);
}

// Most bytes of activations, and whether rank k computes, for each of n pixels.
function levels(t, k, n) {
  const high = new Float64Array(n), busy = new Uint8Array(n);
  const fill = (from, to, level, computes) => {
    for (let p = Math.floor(from); p <= Math.min(Math.floor(to), n - 1); p++) {
      high[p] = Math.max(high[p], level);
      busy[p] |= computes;
    }
  };
  let held = 0, done = 0;
  for (const i of t.lanes[k][0].ops) {
    const a = t.start[i] / t.last * n, b = t.end[i] / t.last * n;
    fill(done, a, held, 0);
    fill(a, b, Math.max(held, t.op.held[i]), 1);
    held = t.op.held[i];
    done = b;
  }
  fill(done, n - 1, held, 0);
  return { high, busy };
}

function chart(r, t, top) {
  const of = r.peak_of ?? {}, { high, busy } = levels(t, t.of[r.i] ?? 0, WIDE), y = b => (HIGH - b / top * HIGH).toFixed(1);
  const pic = svg("svg", { viewBox: "0 0 " + WIDE + " " + (HIGH + 2), preserveAspectRatio: "none", class: "memory", role: "img",
    "aria-label": "stage " + r.stage + ": memory of " + r.name + " over the iteration, peak " + bytes(r.peak_bytes) });
  const area = (low, up, fill) => {
    let d = "M0 " + y(low(0));
    for (let p = 0; p < WIDE; p++) d += "L" + p + " " + y(up(p)) + "H" + (p + 1);
    for (let p = WIDE - 1; p >= 0; p--) d += "L" + (p + 1) + " " + y(low(p)) + "H" + p;
    pic.append(svg("path", { d: d + "Z", fill }));
  };
  let kept = 0;
  for (const [name, , fill] of bands.slice(0, 3)) {
    const low = kept, up = kept += of[name] ?? 0;
    pic.append(svg("path", { d: "M0 " + y(low) + "H" + WIDE + "V" + y(up) + "H0Z", fill }));
  }
  area(() => kept, p => kept + high[p], bands[3][2]);
  area(p => kept + high[p], p => kept + high[p] + (busy[p] ? of.scratch_bytes ?? 0 : 0), bands[4][2]);
  if (r.memory_bytes)
    pic.append(svg("path", { d: "M0 " + y(r.memory_bytes) + "H" + WIDE, stroke: "currentColor", "stroke-width": 2, "stroke-dasharray": "8 5" }));
  return pic;
}

export function showMemory(box, m, t) {
  const ranks = fullestOf(m), peak = most(ranks, r => r.peak_bytes), room = most(ranks, r => r.memory_bytes || 0);
  const top = 1.04 * (room > 4 * peak ? peak : Math.max(peak, room)); // of much room only what is used
  const rows = table("Peak memory of each stage's fullest rank, and what it is made of", [["Stage", r => r.stage],
    ["GPU", r => r.name, true], ["Peak", r => r.peak_bytes, bytes], ["of", r => r.memory_bytes, b => b ? bytes(b) : ""],
    ["at op", r => r.peak_at, true], ...bands.map(([k, name]) => [name, r => r.peak_of?.[k] ?? 0, bytes])], ranks);
  if (!t?.lanes) {
    put(box, note("Memory over time comes with the simulation of every op ..."), rows);
    return;
  }
  const title = r => "stage " + r.stage + ", " + r.name + ": peak " + bytes(r.peak_bytes) + (r.peak_at ? " at " + r.peak_at : "") +
    (r.memory_bytes ? ", " + percent(r.peak_bytes / r.memory_bytes, 0) + " of " + bytes(r.memory_bytes) : "");
  put(box, note("From 0 s to " + seconds(t.last / 1e9) + ". Dashed: memory of the GPU" + (room > top ? ", far above" : "") + ". Scratch is drawn while the rank computes."),
    el("ul", { class: "legend" }, bands.map(([, name, colour]) => key(name, colour))),
    ranks.slice(0, SHOWN).map(r => el("figure", {}, el("figcaption", {}, title(r)), chart(r, t, top))),
    ranks.length > SHOWN ? note("The first " + SHOWN + " of " + ranks.length + " stages; all are in the table.") : null, rows);
}
