// Points of a sweep, or the rows of another table: columns that the reader chooses, filters, a figure, the command of a row.
import { el, put, field, count, showCommand } from "./elements.js";
import { grid } from "./tables.js";
import { scatter } from "./scatter.js";

// Columns by their names in tables: what they are called, and what they mean.
const known = { iteration_s: ["Iteration"], samples_per_s: ["Samples/s"], tokens_per_s: ["Tokens/s"], each: ["Tokens/s/GPU"],
  mfu_causal: ["MFU, causal half", "FLOP of attention that a causal mask hides are left out"],
  mfu_square: ["MFU, full square", "FLOP of attention that a causal mask hides are counted"],
  mfu: ["MFU, as the model counts"],
  peak_bytes: ["Memory", "of the rank with the least memory to spare"], headroom_bytes: ["Spare memory"],
  train_days: ["Days", "to train so many tokens, without failures"], price: ["Price", "of the GPUs for these days"],
  expected_error: ["Expected error", "half of similar published runs are within"],
  expected_nine_in_ten: ["Expected error of nine in ten"], plan_devices: ["GPUs"] };
const decisive = ["iteration_s", "tokens_per_s", "samples_per_s", "each", "train_days", "price",
  "mfu_causal", "mfu_square", "peak_bytes", "expected_error"];

// The unit that a column of quantities is shown in: [name, factor].
function unitOf(name, top) {
  if (name.endsWith("_bytes")) return top >= 2 ** 29 ? ["GiB", 2 ** -30] : ["MiB", 2 ** -20];
  if (/_per_s$|days$/.test(name)) return ["", 1];
  if (/(_s|^seconds)$/.test(name)) return top >= 1 ? ["s", 1] : top >= 1e-3 ? ["ms", 1e3] : ["\u00b5s", 1e6];
  return /^(mfu|expected|effective)/.test(name) ? ["%", 100] : ["", 1];
}
// 15T, 1e12: as options say it.
const powers = { k: 1e3, M: 1e6, G: 1e9, B: 1e9, T: 1e12 };
const read = text => {
  const [, x, p] = /^\s*([\d.]+(?:e\d+)?)\s*([kMGBT]?)\s*$/.exec(text) ?? [];
  return Number(x ?? 0) * (powers[p] ?? 1);
};
const write = x => x >= 1e9 ? x / 1e12 + "T" : String(x || "");
const digits = x => Math.abs(x) >= 1000 ? count(x) : String(Number(x.toPrecision(4)));

// A column as the file has it: same, or number, or values and where which of them stands.
function columnOf(c, n) {
  const of = "same" in c ? () => c.same : c.number ? r => c.number[r] : r => c.values[c.at[r]];
  return describe(c.name, of, n, typeof c.same === "number" || c.number !== undefined, !("same" in c));
}
function describe(name, of, n, isNumber, varies) {
  let top = 0;
  for (let r = 0; isNumber && r < n; r++) top = Math.max(top, Math.abs(of(r) ?? 0));
  const [unit, factor] = isNumber ? unitOf(name, top) : ["", 1], [title = name, about] = known[name] ?? [];
  const value = isNumber ? r => of(r) === null ? null : of(r) * factor : r => of(r) ?? "";
  return { key: name, name: unit ? title + ", " + unit : title, about, value, isNumber, varies,
    kind: isNumber ? "number" : "",
    text: r => isNumber ? value(r) === null ? "" : digits(value(r)) : value(r) };
}

// ---- filters

// "> 5", "<= 3", "4..8", "5" of numbers; a part of a text, whatever its case.
function testOf(column, text) {
  const apart = text.replace(/(\d)\.\.(?=[\d-])/, "$1 .."), part = text.trim().toLowerCase();
  const [, sign, x, , y] = /^\s*([<>]=?|=)?\s*([-+]?[\d.,]+)\s*(\.\.\s*([-+]?[\d.,]+))?\s*$/.exec(apart) ?? [];
  if (!column.isNumber || x === undefined) return r => String(column.text(r)).toLowerCase().includes(part);
  const a = Number(x.replaceAll(",", "")), b = Number((y ?? x).replaceAll(",", "")), near = 1e-9 + Math.abs(a) * 5e-4;
  const is = { "<": v => v < a, "<=": v => v <= a, ">": v => v > a, ">=": v => v >= a }[sign]
    ?? (y ? v => v >= a && v <= b : v => Math.abs(v - a) <= near);
  return r => column.value(r) !== null && is(column.value(r));
}

// ---- the view

export function showPoints(box, data) {
  const n = data.rows, columns = data.columns.map(c => columnOf(c, n)), all = Array.from({ length: n }, (_, r) => r);
  const of = key => columns.find(c => c.key === key), asked = { tokens: data.tokens ?? 0, price: data.price ?? 0 };
  const rate = of("tokens_per_s")?.value, gpus = of("plan_devices")?.value;
  const derive = (key, f) => columns.push(describe(key, f, n, true, true));
  if (rate && gpus) {
    derive("each", r => rate(r) && gpus(r) ? rate(r) / gpus(r) : null);
    derive("train_days", r => rate(r) && asked.tokens ? asked.tokens / rate(r) / 86400 : null);
    derive("price", r => rate(r) && gpus(r) && asked.tokens && asked.price
      ? asked.tokens / rate(r) / 3600 * gpus(r) * asked.price : null);
  }
  const failed = r => (of("status")?.text(r) ?? "ok") !== "ok";
  const nameOf = r => of("point")?.text(r) ?? String(r);
  const words = (data.command ?? []).map(c => columnOf(c, n));
  const first = data.settings ?? columns.length; // columns in front are settings
  columns.forEach((c, i) => { c.shown = c.varies && (i < first ? c.key !== "plan" : c.key === "status"); });
  for (const key of decisive) {
    const c = of(key);
    if (c && data.settings !== undefined) c.shown = all.some(r => c.value(r));
  }
  if (of("tokens_per_s")?.shown) of("samples_per_s").shown = false;
  const order = [...columns.filter((c, i) => i < first), of("status"), ...decisive.map(of)]
    .filter((c, i, list) => c && list.indexOf(c) === i);
  order.push(...columns.filter(c => !order.includes(c)));

  const said = el("p", { role: "status", class: "note" }), frame = el("div");
  const chosen = el("div", { class: "picked", role: "status" });
  const filters = new Map();
  let search = "", table = null, picked = null, kept = all;
  const by = { by: ["each", "tokens_per_s", "samples_per_s"].map(of).find(c => c?.shown), down: true };
  const refilter = () => {
    const tests = [...filters].filter(([, text]) => text.trim()).map(([c, text]) => testOf(c, text));
    const shown = order.filter(c => c.shown), words = search.toLowerCase().split(/\s+/).filter(w => w);
    kept = all.filter(r => tests.every(t => t(r)) && (!words.length || (line => words.every(w => line.includes(w)))(
      shown.map(c => c.text(r)).join("\t").toLowerCase())));
    table.show(kept);
    figure?.show(kept);
    put(said, count(kept.length) + " of " + count(n) + " rows. A column's name sorts. " +
      "Filters below it take a part of a text, or > 5, <= 3, 4..8.");
  };
  const pick = r => {
    table.elements.get(picked)?.classList.remove("chosen");
    picked = r;
    table.reach(r);
    table.elements.get(r)?.classList.add("chosen");
    figure?.mark(r);
    const where = el("div"), why = of("bottleneck")?.text(r) || of("reason")?.text(r);
    const lines = words.map(c => String(c.value(r))).filter(w => w).join(" ");
    if (lines) showCommand(where, "row " + r, ...lines.split(" && "));
    put(chosen, el("p", {}, el("strong", {}, "Row " + nameOf(r)), why ? ": " + why : ""), where);
  };
  const point = r => {
    table.elements.get(point.at)?.classList.remove("seen");
    point.at = r;
    table.elements.get(r)?.classList.add("seen");
  };
  const drawTable = () => {
    const shown = order.filter(c => c.shown);
    const filter = c => el("input", { type: "text", "aria-label": "Filter " + c.name, value: filters.get(c) ?? "",
      placeholder: c.isNumber ? ">" : "", oninput: e => { filters.set(c, e.target.value); refilter(); } });
    const under = [el("td"), ...shown.map(c => el("td", {}, filter(c)))];
    const number = { name: "#", value: r => of("point")?.value(r) ?? r, kind: "",
      text: r => el("button", { type: "button", class: "pick", "aria-label": "Choose row " + nameOf(r) }, nameOf(r)) };
    const more = r => ({ class: r === picked ? "chosen" : null,
      onclick: () => pick(r), onmouseenter: () => { figure?.mark(r); }, onmouseleave: () => figure?.mark(picked) });
    table = grid("All rows", [number, ...shown], kept, { under, order: by, last: failed, more });
    put(frame, table.box);
  };
  const redraw = () => { drawTable(); refilter(); };
  const ask = (name, key) => field(name, el("input", { type: "text", size: 10, value: write(asked[key]), onchange: e => {
    asked[key] = read(e.target.value);
    for (const k of ["train_days", "price"]) of(k).shown = all.some(r => of(k).value(r));
    redraw();
  } }));
  const checkbox = c => el("input", { type: "checkbox", checked: c.shown, onchange: e => { c.shown = e.target.checked; redraw(); } });
  const choose = el("details", {}, el("summary", {}, "Columns"), el("div", { class: "columns" },
    order.map(c => el("label", { title: c.about }, checkbox(c), " " + c.name))));
  const figure = scatter(order.filter(c => c.varies), all, { x: of("peak_bytes"), y: of("each") ?? of("samples_per_s"),
    pick, point, hollow: failed });
  const searched = el("input", { type: "search", oninput: e => { search = e.target.value; refilter(); } });
  put(box, el("div", { class: "row" }, field("Search rows", searched),
    rate && gpus ? [ask("Tokens to train", "tokens"), ask("Price of a GPU-hour", "price")] : []),
  choose, said, frame, chosen, figure?.box ?? null);
  redraw();
}
