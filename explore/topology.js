// The network with each link coloured by its load in the iteration: of up to 256 GPUs as it is wired, switches inside
// nodes below the GPUs and the others above; of larger ones, and where ends are not known, in layers of links.
import { state, el, put, svg, bytes, percent, load } from "./state.js";
import { run } from "./requests.js";
import { whatPlatform } from "./sliders.js";
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

const text = (pic, x, y, s, anchor = "start") => pic.append(svg("text", { x, y, "text-anchor": anchor }, s));

// GPUs coloured by how long they compute, names of nodes below them.
function drawGpus(pic, m, gpus, at, floor, left, inside, tell) {
  const wide = inside / gpus.length, busy = new Map(m.ranks.map(r => [r.name, r.busy_s / m.iteration_s])), nodes = new Map();
  text(pic, 0, floor + 12, tell);
  for (const g of gpus) {
    const k = g.replace(/g\d+$/, ""), x = left + at.get(g) * inside;
    nodes.set(k, [...(nodes.get(k) ?? []), x]);
    pic.append(svg("rect", { x: x - wide / 2, y: floor, width: Math.max(wide - (wide > 4 ? 1 : 0), 0.6), height: 16, fill: load(busy.get(g) ?? 0) }, svg("title", {}, g + ": computes " + percent(busy.get(g) ?? 0))));
  }
  return nodes;
}

// ---- as it is wired

const graphs = new Map(); // of platforms
async function findGraph(platform) {
  if (!graphs.has(platform)) graphs.set(platform, (await run(["topology", "show", platform, "--json"]).catch(() => ({}))).json ?? {});
  return graphs.get(platform);
}

// Vertices by level: 0 GPUs, -1 switches that join GPUs by links of a node, 1, 2, ... by distance.
function levelsOf(t) {
  const { devices, edges } = t.graph, near = new Map(), level = new Map(devices.map(v => [v, 0]));
  for (const [a, b, ...links] of edges) for (const [x, y] of [[a, b], [b, a]]) near.set(x, [...(near.get(x) ?? []), [y, links]]);
  for (const [v, list] of near) if (!level.has(v) && list.every(([y, links]) => level.get(y) === 0 && links.every(l => /nv|xgmi/.test(l)))) level.set(v, -1);
  let edge = devices;
  for (let d = 1; edge.length; d++) edge = edge.flatMap(v => (near.get(v) ?? []).map(([y]) => y).filter(y => !level.has(y) && level.set(y, d)));
  return { near, level };
}

function drawWired(box, m, t, links) {
  const { near, level } = levelsOf(t), top = Math.max(...level.values()), below = [...level.values()].includes(-1), LEFT = 96, inside = WIDE - LEFT - 6, STEP = 110;
  const name = new Map(t.graph.devices.map((v, i) => [v, t.devices[i].name])), gpus = t.devices.map(d => d.name).sort(natural.compare), at = new Map(gpus.map((g, i) => [g, (i + 0.5) / gpus.length]));
  const x = new Map(t.graph.devices.map(v => [v, LEFT + at.get(name.get(v)) * inside])), head = t.graph.edges.some(([a, b]) => level.get(a) === top && level.get(b) === top) ? 56 : 16, y = d => head + (top - d) * STEP + (d < 0 ? 30 - STEP / 3 : 0);
  for (const d of [-1, ...Array(top).keys()].map((v, i) => i ? v + 1 : v)) { // each above the middle of what it joins, then evenly
    const own = [...level].filter(([, l]) => l === d).map(([v]) => [v, near.get(v).map(([u]) => x.get(u)).filter(u => u !== undefined)]).map(([v, u]) => [v, u.reduce((a, b) => a + b, 0) / Math.max(u.length, 1)]);
    own.sort((a, b) => a[1] - b[1] || a[0] - b[0]).forEach(([v], i) => x.set(v, LEFT + (i + 0.5) / own.length * inside));
  }
  const high = y(below ? -1 : 0) + 44, pic = svg("svg", { viewBox: "0 0 " + WIDE + " " + high, class: "network", role: "img",
    "aria-label": "Wiring of " + gpus.length + " GPUs, links coloured by load; the busiest is " + percent(Math.max(...m.links.map(l => l.busy_fraction))) + " busy" });
  const thick = Math.max(1.2, Math.min(5, 260 / t.graph.edges.length));
  for (const [a, b, ...names] of t.graph.edges) {
    const both = names.map(n => n.replace(/_(UP|DOWN)$/, "")).flatMap(n => links.get(n) ?? []), most = both.reduce((v, l) => Math.max(v, l.busy_fraction), 0);
    const lift = v => y(level.get(v)) + (level.get(v) === 0 ? (level.get(v === a ? b : a) < 0 ? 16 : 0) : level.get(v) < 0 ? 0 : 10);
    const d = level.get(a) === level.get(b) ? "M" + x.get(a) + " " + y(level.get(a)) + "Q" + (x.get(a) + x.get(b)) / 2 + " " + (y(level.get(a)) - Math.min(90, 12 + Math.abs(x.get(a) - x.get(b)) / 5)) + " " + x.get(b) + " " + y(level.get(b))
      : "M" + x.get(a) + " " + lift(a) + "L" + x.get(b) + " " + lift(b);
    pic.append(svg("path", { d, fill: "none", stroke: load(most), "stroke-width": thick }, svg("title", {}, both.map(l => l.name + ": busy " + percent(l.busy_fraction) + ", " + bytes(l.bytes)).join("\n") || names.join(", ") + ": nothing sent")));
  }
  for (const [v, d] of level) if (d !== 0) pic.append(svg("rect", { x: x.get(v) - 9, y: y(d), width: 18, height: 10, rx: 2, fill: "#fff", stroke: "currentColor" }));
  for (let d = 1; d <= top; d++) text(pic, 0, y(d) + 9, "switches " + d);
  if (below) text(pic, 0, y(-1) + 9, "inside nodes");
  const nodes = drawGpus(pic, m, gpus, at, y(0), LEFT, inside, "GPUs");
  [...nodes].forEach(([n, xs], i) => { if (i % Math.ceil(nodes.size / 24) === 0) text(pic, (Math.min(...xs) + Math.max(...xs)) / 2, high - 6, n, "middle"); });
  put(box, pic);
}

export function showNetwork(box, m) {
  if (!m.links?.length) { put(box, el("p", { class: "note" }, "The simulation has no links: nothing is sent, or the platform does not name them.")); return; }
  const scale = el("ul", { class: "legend" }, [0, 0.25, 0.5, 0.75, 1].map(v => { const b = el("span", { class: "key", "aria-hidden": "true" }); b.style.background = load(v); return el("li", {}, b, percent(v, 0) + " busy"); }));
  const busiest12 = [...m.links].sort((a, b) => b.busy_fraction - a.busy_fraction).slice(0, 12), picture = el("div");
  put(box, el("p", { class: "note" }, "Links and GPUs are coloured by the share of the iteration that they are busy; point at one for its name and bytes."), scale, picture,
    table("The busiest links", [["Link", l => l.name, true], ["Busy", l => percent(l.busy_fraction)], ["Bytes", l => bytes(l.bytes)]], busiest12));
  drawLayers(picture, m);
  if (m.ranks.length > 256) return;
  findGraph(whatPlatform()).then(t => {
    if (!t.graph || !picture.isConnected) return;
    const links = new Map();
    for (const l of m.links) { const n = l.name.replace(/_(UP|DOWN)$/, ""); links.set(n, [...(links.get(n) ?? []), l]); }
    drawWired(picture, m, t, links);
  });
}

// ---- in layers

function drawLayers(box, m) {
  const layers = layersOf(m.links), gpus = m.ranks.map(r => r.name).sort(natural.compare), at = new Map(gpus.map((g, i) => [g, (i + 0.5) / gpus.length]));
  const nodes = new Map();
  for (const g of gpus) { const k = g.replace(/g\d+$/, ""); nodes.set(k, [...(nodes.get(k) ?? []), at.get(g)]); }
  const inside = WIDE - LEFT - 6, px = f => LEFT + f * inside, high = layers.length * BAND + 66;
  const pic = svg("svg", { viewBox: "0 0 " + WIDE + " " + high, class: "network", role: "img",
    "aria-label": "Links of the network by layer, coloured by load. " + layers.map(l => l.key + ": busiest " + percent(Math.max(...l.cables.map(busiest)))).join("; ") });
  const floor = layers.length * BAND + 14, wide = inside / gpus.length;
  drawGpus(pic, m, gpus, at, floor, LEFT, inside, "GPUs");
  const every = Math.ceil(nodes.size / 24);
  [...nodes].forEach(([name, xs], i) => {
    const a = px(Math.min(...xs)) - wide / 2, b = px(Math.max(...xs)) + wide / 2;
    pic.append(svg("path", { d: "M" + (a + 1) + " " + (floor + 21) + "H" + (b - 1), stroke: "currentColor" }));
    if (i % every === 0) text(pic, (a + b) / 2, floor + 36, name, "middle");
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
    text(pic, 0, (y0 + y1) / 2 + 2, l.key.replaceAll("#", "N"));
    text(pic, 0, (y0 + y1) / 2 + 16, cables.length + (cables.length === 1 ? " link" : " links") + ", \u2264 " + percent(Math.max(...cables.map(busiest))));
    pic.append(svg("path", { d: "M" + LEFT + " " + (y1 - 3) + "H" + (WIDE - 6), stroke: "currentColor", "stroke-opacity": 0.4 }));
    for (const { c, f } of bins.values())
      for (const [dir, off] of [["UP", -0.6], ["DOWN", 0.6]]) {
        const k = c.dirs[dir];
        if (k) pic.append(svg("line", { x1: px(f) + off * thick, x2: px(f) + off * thick, y1: y0 - 2, y2: y1, stroke: load(k.busy_fraction), "stroke-width": thick },
          svg("title", {}, k.name + ": busy " + percent(k.busy_fraction) + ", " + bytes(k.bytes))));
      }
  });
  put(box, el("p", { class: "note" }, "Of two lines side by side the left one carries data up, the right one down. Layers of more than " + MOST +
    " links show the busiest of neighbours. N stands for numbers in names."), pic);
}
