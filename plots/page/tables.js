// Tables: every column that has an order sorts the rows. Of many rows those near what is seen are made.
import { el, put, seconds, bytes, count, percent } from "./elements.js";

const CHUNK = 100, PRINTED = 1000;
const natural = new Intl.Collator("en", { numeric: true });
const none = v => v === null || v === undefined || v === "" || Number.isNaN(v);

// Numbers by size, texts as people sort them; what is missing stands last, whichever way.
function compare(x, y, sign) {
  if (none(x) || none(y)) return none(x) - none(y);
  return sign * (typeof x === "number" && typeof y === "number" ? x - y : natural.compare(x, y));
}

// Buttons in the cells of a head: sort(i, down) puts the rows in order. by, down: how they are already.
function sorters(cells, sort, by = null, down = false) {
  const buttons = cells.map((th, i) => {
    if (!th.textContent || th.dataset.fixed !== undefined) return null;
    const arrow = el("span", { "aria-hidden": "true" });
    const button = el("button", { type: "button", onclick: () => {
      down = by === i ? !down : false;
      by = i;
      sort(i, down);
      mark();
    } }, th.textContent, arrow);
    put(th, button);
    return { th, i, arrow };
  }).filter(b => b);
  const mark = () => buttons.forEach(b => {
    b.th.setAttribute("aria-sort", b.i !== by ? "none" : down ? "descending" : "ascending");
    b.arrow.textContent = b.i !== by ? "" : down ? " \u25BC" : " \u25B2";
  });
  mark();
}

// columns: {name, about, value, text, kind, fixed}: of a row what sorts it and what is read, which may be an element; fixed: it
// does not sort. more: what else the <tr> of a row has; under: cells below the head;
// order: {by: column, down} to begin with, and how it is since; last(row): it stands behind all others, whichever way.
// Returns {box, elements: <tr> of rows that are made, show(rows), reach(row): it is made}.
export function grid(caption, columns, rows, { more = () => ({}), under, order = {}, last = () => false } = {}) {
  let all = rows, sorted = rows, made = 0;
  const body = el("tbody"), elements = new Map();
  const heads = columns.map(c => el("th", { scope: "col", title: c.about, "data-fixed": c.fixed }, c.name));
  const box = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, heads), under ? el("tr", { class: "under" }, under) : null), body));
  const make = upto => {
    const next = sorted.slice(made, Math.max(upto, made));
    for (const r of next)
      elements.set(r, el("tr", more(r), columns.map(c => el("td", { class: c.kind ?? "number" }, c.text ? c.text(r) : String(c.value(r) ?? "")))));
    made += next.length;
    body.append(...next.map(r => elements.get(r)));
  };
  const draw = () => {
    const { by, down } = order;
    sorted = by ? [...all].sort((a, b) => last(a) - last(b) || compare(by.value(a), by.value(b), down ? -1 : 1)) : all;
    made = 0;
    elements.clear();
    put(body);
    make(CHUNK);
    box.scrollTop = 0;
  };
  sorters(heads, (i, down) => { order.by = columns[i]; order.down = down; draw(); }, columns.indexOf(order.by), order.down);
  box.addEventListener("scroll", () => { if (box.scrollTop + 2 * box.clientHeight > box.scrollHeight) make(made + CHUNK); });
  box.make = make;
  draw();
  return { box, elements, show: list => { all = list; draw(); }, reach: r => make(sorted.indexOf(r) + 1) };
}
addEventListener("beforeprint", () => document.querySelectorAll(".scroll").forEach(box => box.make?.(PRINTED)));

// Tables of a page that is written already: their cells say quantities, names or numbers.
const units = { ns: 1e-9, us: 1e-6, "\u00b5s": 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, days: 86400,
  KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40, kB: 1e3, MB: 1e6, GB: 1e9 };
export function worth(text) {
  const x = /^([+-]?[\d.,]*\d(?:e[+-]?\d+)?)(?: ([^\d\s]\S*))?$/.exec(text.trim());
  return x ? Number(x[1].replaceAll(",", "")) * (units[x[2]] ?? 1) : text;
}
export function enhance(table) {
  const body = table.tBodies[0], rows = [...body.rows];
  sorters([...table.tHead.rows[0].cells], (i, down) => {
    const value = r => worth(r.cells[i]?.textContent ?? "");
    body.append(...rows.sort((a, b) => compare(value(a), value(b), down ? -1 : 1)));
  });
}

// [name, value, kind]: kind is a function that says a number, true for texts, or a class; numbers that are texts do not sort.
export const table = (caption, columns, rows) => grid(caption, columns.map(([name, value, kind]) => typeof kind === "function"
  ? { name, value, text: r => kind(value(r)) }
  : { name, value, kind: kind === true ? "" : kind || "number", fixed: !kind && rows.some(r => typeof value(r) === "string") }), rows).box;

// ---- of a simulation: ranks, collectives and messages

export function showRanks(box, m) {
  const ranks = m.ranks.map((r, i) => ({ ...r, i })).sort((a, b) => b.busy_s - a.busy_s);
  put(box, table("Ranks, the busiest first", [
    ["Rank", r => r.i], ["GPU", r => r.name, true], ["Stage", r => r.stage], ["Computes", r => r.busy_s, seconds],
    ["Waits for communication", r => r.exposed_comm_s, seconds], ["Idle", r => r.idle_s, seconds],
    ["Peak memory", r => r.peak_bytes, bytes], ["at op", r => r.peak_at, true], ["Busy", r => r.busy_s / m.iteration_s, percent]], ranks));
}

export function showCalls(box, m) {
  const rate = x => x ? (x / 1e9).toFixed(1) : "";
  put(box, table("Collectives and messages of an iteration, most time first", [
    ["For", c => c.for, true], ["Kind", c => c.kind, true], ["Ranks", c => c.members], ["Bytes", c => c.bytes, bytes],
    ["Calls", c => c.calls, count], ["Algorithm", c => c.algorithm ?? "", true],
    ["algbw GB/s", c => c.algbw_Bps, rate], ["busbw GB/s", c => c.busbw_Bps, rate]],
    m.collectives ?? []));
}
