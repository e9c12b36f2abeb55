// The network: GPUs below, a layer of links above the other, each coloured by its load in the iteration.
import { el, put, svg, bytes, percent, load } from "./state.js";
import { table } from "./tables.js";

const WIDE = 900, LEFT = 160, BAND = 58, MOST = 300; // lines of a layer; more are drawn as the busiest of neighbours
const order = ["nvlink", "nv", "xgmi", "mesh", "pcie", "nic", "port", "x", "y", "z", "edge", "up", "leaf", "pod", "spine", "core", "global", "circuits"];

// "n3g4-nic_UP": element n3g4, kind nic, direction up; kinds are layers.
function layersOf(links) {
  const layers = new Map();
  for (const l of links) {
    const [, name, dir] = /^(.*?)(?:_(UP|DOWN))?$/.exec(l.name), cut = name.lastIndexOf("-"), element = cut < 0 ? name : name.slice(0, cut);
    const kind = (cut < 0 ? name : name.slice(cut + 1)).replace(/\d+/g, ""), key = element.replace(/\d+/g, "#") + "-" + kind;
    if (!layers.has(key)) layers.set(key, { key, kind: kind.replace(/x$/, "") || kind, cables: new Map() });
    const cables = layers.get(key).cables;
    if (!cables.has(name)) cables.set(name, { name, element, dirs: {} });
    cables.get(name).dirs[dir ?? "UP"] = l;
  }
  const rank = k => { const i = order.indexOf(k); return i < 0 ? order.length : i; };
  return [...layers.values()].map(l => ({ ...l, cables: [...l.cables.values()] })).sort((a, b) => rank(a.kind) - rank(b.kind) || b.cables.length - a.cables.length);
}

const natural = new Intl.Collator("en", { numeric: true });
const busiest = c => Math.max(...Object.values(c.dirs).map(l => l.busy_fraction));

export function showNetwork(box, m) {
  if (!m.links?.length) { put(box, el("p", { class: "note" }, "The simulation has no links: nothing is sent, or the platform does not name them.")); return; }
  const layers = layersOf(m.links), gpus = m.ranks.map(r => r.name).sort(natural.compare), at = new Map(gpus.map((g, i) => [g, (i + 0.5) / gpus.length]));
  const node = g => g.replace(/g\d+$/, ""), nodes = new Map();
  for (const g of gpus) { const k = node(g); nodes.set(k, [...(nodes.get(k) ?? []), at.get(g)]); }
  const inside = WIDE - LEFT - 6, px = f => LEFT + f * inside, high = layers.length * BAND + 66;
  const pic = svg("svg", { viewBox: "0 0 " + WIDE + " " + high, class: "network", role: "img",
    "aria-label": "Links of the network by layer, coloured by load. " + layers.map(l => l.key + ": busiest " + percent(Math.max(...l.cables.map(busiest)))).join("; ") });
  const text = (x, y, s, anchor = "start") => pic.append(svg("text", { x, y, "text-anchor": anchor }, s));
  // GPUs, coloured by how long they compute; nodes below them.
  const floor = layers.length * BAND + 14, wide = inside / gpus.length, busy = new Map(m.ranks.map(r => [r.name, r.busy_s / m.iteration_s]));
  text(0, floor + 12, "GPUs, time computing");
  for (const g of gpus) pic.append(svg("rect", { x: px(at.get(g)) - wide / 2, y: floor, width: Math.max(wide - (wide > 4 ? 1 : 0), 0.6), height: 16, fill: load(busy.get(g)) }, svg("title", {}, g + ": computes " + percent(busy.get(g)))));
  const every = Math.ceil(nodes.size / 24);
  [...nodes].forEach(([name, xs], i) => {
    const a = px(Math.min(...xs)) - wide / 2, b = px(Math.max(...xs)) + wide / 2;
    pic.append(svg("path", { d: "M" + (a + 1) + " " + (floor + 21) + "H" + (b - 1), stroke: "currentColor" }));
    if (i % every === 0) text((a + b) / 2, floor + 36, name, "middle");
  });
  layers.forEach((l, i) => {
    const y0 = floor - i * BAND, y1 = y0 - BAND + 12, cables = l.cables.sort((a, b) => natural.compare(a.name, b.name));
    const places = cables.map((c, k) => {
      const own = at.get(c.element) ?? (nodes.has(c.element) ? null : (k + 0.5) / cables.length);
      return own ?? (() => { // several of a node side by side
        const xs = nodes.get(c.element), same = cables.filter(d => d.element === c.element);
        return Math.min(...xs) + (same.indexOf(c) + 0.5) / same.length * (Math.max(...xs) - Math.min(...xs) + 1 / gpus.length) - 0.5 / gpus.length;
      })();
    });
    const bins = new Map(), n = Math.min(MOST, cables.length);
    cables.forEach((c, k) => { const b = Math.min(n - 1, Math.floor(places[k] * n)), key = cables.length > MOST ? b : k; if (!bins.has(key) || busiest(bins.get(key).c) < busiest(c)) bins.set(key, { c, f: places[k] }); });
    const thick = Math.max(1, Math.min(7, inside / Math.max(bins.size, 1) / 3));
    text(0, (y0 + y1) / 2 + 2, l.key.replaceAll("#", "N"));
    text(0, (y0 + y1) / 2 + 16, cables.length + (cables.length === 1 ? " link" : " links") + ", \u2264 " + percent(Math.max(...cables.map(busiest))));
    pic.append(svg("path", { d: "M" + LEFT + " " + (y1 - 3) + "H" + (WIDE - 6), stroke: "currentColor", "stroke-opacity": 0.4 }));
    for (const { c, f } of bins.values())
      for (const [dir, off] of [["UP", -0.6], ["DOWN", 0.6]]) {
        const k = c.dirs[dir];
        if (k) pic.append(svg("line", { x1: px(f) + off * thick, x2: px(f) + off * thick, y1: y0 - 2, y2: y1, stroke: load(k.busy_fraction), "stroke-width": thick },
          svg("title", {}, k.name + ": busy " + percent(k.busy_fraction) + ", " + bytes(k.bytes))));
      }
  });
  const scale = el("ul", { class: "legend" }, [0, 0.25, 0.5, 0.75, 1].map(v => { const b = el("span", { class: "key", "aria-hidden": "true" }); b.style.background = load(v); return el("li", {}, b, percent(v, 0) + " busy"); }));
  const busy10 = [...m.links].sort((a, b) => b.busy_fraction - a.busy_fraction).slice(0, 12);
  put(box, el("p", { class: "note" }, "Each line is a link; of two side by side the left one carries data up, the right one down. Layers of more than " + MOST + " links show the busiest of neighbours. N stands for numbers in names."),
    scale, pic, table("The busiest links", [["Link", l => l.name, true], ["Busy", l => percent(l.busy_fraction)], ["Bytes", l => bytes(l.bytes)]], busy10));
}
