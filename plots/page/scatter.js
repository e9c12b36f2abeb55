// Rows as points over two of their columns, coloured by a third; the one under the pointer, and one that is marked, are told apart.
import { el, put, field, options, key, note, dark, count } from "./elements.js";

const WIDE = 900, HIGH = 380, LEFT = 78, RIGHT = 14, TOP = 10, BOTTOM = 42, NEAR = 12;
const colours = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442", "#808080"];

// 1, 2 or 5 times a power of ten, about n of them in a range.
function ticks(low, high, n) {
  const least = (high - low) / n || 1, power = 10 ** Math.floor(Math.log10(least)), step = power * [1, 2, 5, 10].find(k => k * power >= least);
  const out = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-9); i++) out.push(Number((i * step).toPrecision(9)));
  return out;
}

// columns: numbers and texts of rows; x, y: columns to begin with; hollow(row): drawn as a ring; pick(row), point(row): clicked, pointed at.
// Returns null where two columns of numbers are missing; else {box, show(rows), mark(row)}.
export function scatter(columns, rows, { x, y, hollow, pick, point }) {
  const numbers = columns.filter(c => c.isNumber), groups = columns.filter(c => new Set(rows.map(r => c.text(r))).size <= colours.length);
  if (numbers.length < 2) return null;
  const canvas = el("canvas", { role: "img" }), c = canvas.getContext("2d"), legend = el("ul", { class: "legend" });
  const what = { x: x && numbers.includes(x) ? x : numbers[0], y: y && numbers.includes(y) ? y : numbers[1], colour: groups.find(g => !g.isNumber) ?? groups[0] };
  let shown = rows, at = new Map(), marked = null, frame = 0;

  function draw() {
    frame = 0;
    const dpr = devicePixelRatio || 1, wide = canvas.clientWidth || WIDE, ink = dark() ? "#DDDDDD" : "#202020";
    canvas.width = wide * dpr;
    canvas.height = HIGH * dpr;
    c.setTransform(dpr, 0, 0, dpr, 0, 0);
    const has = shown.filter(r => [what.x, what.y].every(k => typeof k.value(r) === "number"));
    const range = k => {
      const [low, high] = has.reduce(([a, b], r) => [Math.min(a, k.value(r)), Math.max(b, k.value(r))], [Infinity, -Infinity]);
      const low0 = low >= 0 && low < 0.5 * high ? 0 : low, pad = (high - low0 || Math.abs(high) || 1) * 0.04;
      return [low0 === 0 ? 0 : low0 - pad, high + pad];
    };
    at = new Map();
    c.font = "12px sans-serif";
    c.fillStyle = ink;
    c.textBaseline = "middle";
    canvas.setAttribute("aria-label", what.y.name + " over " + what.x.name + " of " + count(has.length) + " rows; the table has the same numbers");
    if (!has.length) { c.fillText("No row has both values.", LEFT, HIGH / 2); return; }
    const [x0, x1] = range(what.x), [y0, y1] = range(what.y);
    const px = v => LEFT + (v - x0) / (x1 - x0) * (wide - LEFT - RIGHT), py = v => HIGH - BOTTOM - (v - y0) / (y1 - y0) * (HIGH - TOP - BOTTOM);
    c.strokeStyle = dark() ? "#3A3A3A" : "#E4E4E4";
    c.textAlign = "center";
    for (const v of ticks(x0, x1, wide / 110)) { c.strokeRect(px(v), TOP, 0, HIGH - TOP - BOTTOM); c.fillText(v.toLocaleString("en"), px(v), HIGH - BOTTOM + 12); }
    c.fillText(what.x.name, (LEFT + wide - RIGHT) / 2, HIGH - 9);
    c.textAlign = "right";
    for (const v of ticks(y0, y1, 6)) { c.strokeRect(LEFT, py(v), wide - LEFT - RIGHT, 0); c.fillText(v.toLocaleString("en"), LEFT - 6, py(v)); }
    c.save();
    c.translate(10, (HIGH - BOTTOM) / 2);
    c.rotate(-Math.PI / 2);
    c.textAlign = "center";
    c.fillText(what.y.name, 0, 0);
    c.restore();
    const names = what.colour ? [...new Set(rows.map(r => what.colour.text(r)))] : [];
    for (const r of has) {
      const p = [px(what.x.value(r)), py(what.y.value(r))];
      at.set(r, p);
      c.beginPath();
      c.arc(...p, 4, 0, 7);
      c.fillStyle = c.strokeStyle = colours[Math.max(names.indexOf(what.colour?.text(r)), 0)];
      c.lineWidth = 1.2;
      if (!hollow(r)) c.fill();
      c.stroke();
    }
    if (at.has(marked)) {
      c.beginPath();
      c.arc(...at.get(marked), 8, 0, 7);
      c.strokeStyle = ink;
      c.lineWidth = 2.5;
      c.stroke();
    }
    put(legend, names.map((name, i) => key((what.colour.name + " " + name), colours[i])), rows.some(hollow) ? key("ring: does not fit, or failed", "transparent") : null);
  }
  const redraw = () => { frame ||= requestAnimationFrame(draw); };
  const find = e => {
    let best = null, least = NEAR ** 2;
    for (const [r, [a, b]] of at) {
      const d = (a - e.offsetX) ** 2 + (b - e.offsetY) ** 2;
      if (d < least) { least = d; best = r; }
    }
    return best;
  };
  const tip = document.getElementById("tip");
  canvas.addEventListener("pointermove", e => {
    const r = find(e);
    point(r);
    marked = r;
    tip.hidden = r === null;
    if (r !== null) tip.textContent = columns.filter(k => k.shown || k === what.x || k === what.y).map(k => k.name + ": " + k.text(r)).join("\n");
    tip.style.left = Math.min(e.clientX + 14, innerWidth - 320) + "px";
    tip.style.top = Math.min(e.clientY + 14, innerHeight - tip.offsetHeight - 4) + "px";
    redraw();
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; point(null); });
  canvas.addEventListener("click", e => { const r = find(e); if (r !== null) pick(r); });
  new ResizeObserver(redraw).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  const select = (name, axis, list) => field(name, el("select", { onchange: e => { what[axis] = list[e.target.value]; redraw(); } },
    options(list.map((k, i) => [i, k.name]), list.indexOf(what[axis]))));
  const box = el("div", {}, el("div", { class: "row" }, select("Across", "x", numbers), select("Up", "y", numbers), groups.length ? select("Colour", "colour", groups) : null),
    legend, canvas, note("Point at a row for its values; click to choose it. A row of the table that is pointed at has a ring here."));
  canvas.style.height = HIGH + "px";
  return { box, show: list => { shown = list; redraw(); }, mark: r => { marked = r; redraw(); } };
}
