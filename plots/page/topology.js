// The network with each link coloured by its load in the iteration: of up to 256 GPUs as it is wired, switches inside
// nodes below the GPUs and the others above; of larger ones, and where ends are not known, in layers of links.
import { el, put, svg, key, note, most, bytes, percent, load } from "./elements.js";
import { table } from "./tables.js";

const WIDE = 900, LEFT = 160, BAND = 58, MOST = 300; // lines of a layer; more are drawn as the busiest of neighbours
const order = ["nvlink", "nv", "xgmi", "mesh", "pcie", "nic", "port", "x", "y", "z", "edge", "up", "leaf", "pod", "spine", "core",
  "global", "circuits"];

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
  return [...layers.values()].map(l => ({ ...l, cables: [...l.cables.values()] }))
    .sort((a, b) => rank(a.kind) - rank(b.kind) || b.cables.length - a.cables.length);
}

const natural = new Intl.Collator("en", { numeric: true });
const busyOf = c => most(Object.values(c.dirs), l => l.busy_fraction);
const baseOf = link => link.replace(/_(UP|DOWN)$/, "");

const text = (pic, x, y, s, anchor = "start") => pic.append(svg("text", { x, y, "text-anchor": anchor }, s));

const maxBusy = links => most(links, l => l.busy_fraction);

// GPUs side by side, coloured by how long they compute. Returns nodes: where their GPUs are.
function drawGpus(pic, m, row) {
  const { gpus, left, inside, floor } = row, wide = inside / gpus.length, nodes = new Map();
  const busy = new Map(m.ranks.map(r => [r.name, r.busy_s / m.iteration_s]));
  text(pic, 0, floor + 12, "GPUs");
  gpus.forEach((g, i) => {
    const node = g.replace(/g\d+$/, ""), x = left + (i + 0.5) * wide, share = busy.get(g) ?? 0;
    nodes.set(node, [...(nodes.get(node) ?? []), x]);
    pic.append(svg("rect", { x: x - wide / 2, y: floor, width: Math.max(wide - (wide > 4 ? 1 : 0), 0.6), height: 16, fill: load(share) },
      svg("title", {}, g + ": computes " + percent(share))));
  });
  return nodes;
}
function nameNodes(pic, nodes, y) {
  const every = Math.ceil(nodes.size / 24);
  [...nodes].forEach(([name, xs], i) => {
    if (i % every === 0) text(pic, (Math.min(...xs) + Math.max(...xs)) / 2, y, name, "middle");
  });
}

// ---- as it is wired

// Vertices by level: 0 GPUs, -1 switches that join GPUs by links of a node, 1, 2, ... by distance.
function levelsOf({ devices, edges }) {
  const near = new Map(), level = new Map(devices.map(v => [v, 0]));
  for (const [a, b, ...links] of edges)
    for (const [x, y] of [[a, b], [b, a]]) near.set(x, [...(near.get(x) ?? []), [y, links]]);
  const inside = ([y, links]) => level.get(y) === 0 && links.every(l => /nv|xgmi/.test(l));
  for (const [v, list] of near) if (!level.has(v) && list.every(inside)) level.set(v, -1);
  let edge = devices;
  for (let d = 1; edge.length; d++)
    edge = edge.flatMap(v => (near.get(v) ?? []).map(([y]) => y).filter(y => !level.has(y) && level.set(y, d)));
  return { near, level };
}

// Where vertices are: those of a level in the order of the middles of what they join, evenly.
function placesOf(t, gpus, { near, level }, row) {
  const x = new Map(t.graph.devices.map((v, i) => [v, row.left + (gpus.indexOf(t.devices[i].name) + 0.5) / gpus.length * row.inside]));
  for (const d of [...new Set(level.values())].filter(d => d !== 0).sort((a, b) => Math.abs(a) - Math.abs(b))) {
    const own = [...level].filter(([, l]) => l === d).map(([v]) => {
      const xs = near.get(v).map(([u]) => x.get(u)).filter(u => u !== undefined);
      return [v, xs.reduce((a, b) => a + b, 0) / Math.max(xs.length, 1)];
    });
    own.sort((a, b) => a[1] - b[1] || a[0] - b[0]).forEach(([v], i) => x.set(v, row.left + (i + 0.5) / own.length * row.inside));
  }
  return x;
}

function drawWired(box, m, t) {
  const levels = levelsOf(t.graph), { level } = levels, top = most([...level.values()], d => d), below = [...level.values()].includes(-1);
  const gpus = t.devices.map(d => d.name).sort(natural.compare), STEP = 110, links = new Map();
  for (const l of m.links) links.set(baseOf(l.name), [...(links.get(baseOf(l.name)) ?? []), l]);
  // Links inside the highest level are arcs above it.
  const head = t.graph.edges.some(([a, b]) => level.get(a) === top && level.get(b) === top) ? 56 : 16;
  const y = d => head + (top - d) * STEP - (d < 0 ? 7 : 0), high = y(below ? -1 : 0) + 44;
  const row = { gpus, left: 96, inside: WIDE - 102, floor: y(0) }, x = placesOf(t, gpus, levels, row);
  const pic = svg("svg", { viewBox: "0 0 " + WIDE + " " + high, class: "network", role: "img",
    "aria-label": "Wiring of " + gpus.length + " GPUs, links coloured by load; the busiest is " + percent(maxBusy(m.links)) + " busy" });
  const thick = Math.max(1.2, Math.min(5, 260 / t.graph.edges.length));
  for (const [a, b, ...names] of t.graph.edges) {
    const both = names.flatMap(n => links.get(baseOf(n)) ?? []), la = level.get(a), lb = level.get(b);
    const end = (v, d, other) => x.get(v) + " " + (y(d) + (d > other ? d === 0 ? 16 : 10 : 0));
    const bend = (x.get(a) + x.get(b)) / 2 + " " + (y(la) - Math.min(90, 12 + Math.abs(x.get(a) - x.get(b)) / 5)) + " ";
    const said = both.map(l => l.name + ": busy " + percent(l.busy_fraction) + ", " + bytes(l.bytes)).join("\n");
    pic.append(svg("path", { d: "M" + end(a, la, lb) + (la === lb ? "Q" + bend : "L") + end(b, lb, la), fill: "none",
      stroke: load(maxBusy(both)), "stroke-width": thick }, svg("title", {}, said || names.join(", ") + ": nothing sent")));
  }
  for (const [v, d] of level)
    if (d !== 0) pic.append(svg("rect", { x: x.get(v) - 9, y: y(d), width: 18, height: 10, rx: 2, fill: "#fff", stroke: "currentColor" }));
  for (let d = 1; d <= top; d++) text(pic, 0, y(d) + 9, "switches " + d);
  if (below) text(pic, 0, y(-1) + 9, "inside nodes");
  nameNodes(pic, drawGpus(pic, m, row), high - 6);
  put(box, pic);
}

// findGraph: resolves to devices and edges of the platform, where somebody knows them.
export function showNetwork(box, m, findGraph) {
  if (!m.links?.length) {
    put(box, note("The simulation has no links: nothing is sent, or the platform does not name them."));
    return;
  }
  const busiest = [...m.links].sort((a, b) => b.busy_fraction - a.busy_fraction), picture = el("div");
  put(box, note("Links and GPUs are coloured by the share of the iteration that they are busy; point at one for its name and bytes."),
    el("ul", { class: "legend" }, [0, 0.25, 0.5, 0.75, 1].map(v => key(percent(v, 0) + " busy", load(v)))), picture,
    table("Links, the busiest first", [["Link", l => l.name, true], ["Busy", l => l.busy_fraction, percent], ["Bytes", l => l.bytes, bytes]], busiest));
  drawLayers(picture, m);
  if (findGraph && m.ranks.length <= 256)
    findGraph().then(t => { if (t.graph && picture.isConnected) drawWired(picture, m, t); });
}

// ---- in layers

// Where a link of a layer is: above its GPU; those of a node side by side above it; else evenly.
function placeOf(c, k, cables, gpus, nodes) {
  const i = gpus.indexOf(c.element), xs = nodes.get(c.element);
  if (i >= 0) return (i + 0.5) / gpus.length;
  if (!xs) return (k + 0.5) / cables.length;
  const same = cables.filter(d => d.element === c.element);
  return (Math.min(...xs) + (same.indexOf(c) + 0.5) / same.length * (Math.max(...xs) - Math.min(...xs) + 1)) / gpus.length;
}

function drawLayers(box, m) {
  const layers = layersOf(m.links), gpus = m.ranks.map(r => r.name).sort(natural.compare), nodes = new Map();
  gpus.forEach((g, i) => { const n = g.replace(/g\d+$/, ""); nodes.set(n, [...(nodes.get(n) ?? []), i]); });
  const row = { gpus, left: LEFT, inside: WIDE - LEFT - 6, floor: layers.length * BAND + 14 };
  const pic = svg("svg", { viewBox: "0 0 " + WIDE + " " + (row.floor + 52), class: "network", role: "img",
    "aria-label": "Links of the network by layer, coloured by load. " + layers.map(l => l.key + ": busiest " + percent(most(l.cables, busyOf))).join("; ") });
  nameNodes(pic, drawGpus(pic, m, row), row.floor + 36);
  layers.forEach((l, i) => {
    const low = row.floor - i * BAND, high = low - BAND + 12, cables = l.cables.sort((a, b) => natural.compare(a.name, b.name));
    const drawn = new Map(); // the busiest cable of each place
    cables.forEach((c, k) => {
      const at = placeOf(c, k, cables, gpus, nodes), bin = cables.length > MOST ? Math.floor(at * MOST) : k;
      if (!drawn.has(bin) || busyOf(drawn.get(bin).c) < busyOf(c)) drawn.set(bin, { c, at });
    });
    const thick = Math.max(1, Math.min(7, row.inside / drawn.size / 3));
    text(pic, 0, (low + high) / 2 + 2, l.key.replaceAll("#", "N"));
    text(pic, 0, (low + high) / 2 + 16, cables.length + (cables.length === 1 ? " link" : " links") + ", \u2264 " + percent(most(cables, busyOf)));
    pic.append(svg("path", { d: "M" + LEFT + " " + (high - 3) + "h" + row.inside, stroke: "currentColor", "stroke-opacity": 0.4 }));
    for (const { c, at } of drawn.values())
      for (const [dir, off] of [["UP", -0.6], ["DOWN", 0.6]]) {
        const k = c.dirs[dir], x = LEFT + at * row.inside + off * thick;
        if (k) pic.append(svg("path", { d: "M" + x + " " + (low - 2) + "V" + high, stroke: load(k.busy_fraction), "stroke-width": thick },
          svg("title", {}, k.name + ": busy " + percent(k.busy_fraction) + ", " + bytes(k.bytes))));
      }
  });
  put(box, note("Of two lines side by side the left one carries data up, the right one down. Layers of more than " + MOST +
    " links show the busiest of neighbours. N stands for numbers in names."), pic);
}
