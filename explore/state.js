// What the page shows: one object of plain values, kept in the link's fragment; words of values.

// model, platform: how `foreline plan` takes them, in parts; plan: its options.
export const first = () => ({
  model: { name: "llama3-8b", overrides: {}, file: "" },
  cluster: { kind: "family", family: "rail", values: { nodes: "16", type: "H100" }, platform: "", file: "" },
  framework: "megatron",
  batch: "512",
  knobs: {},       // --option: value; absent: searched
  row: 1,          // the chosen one of the ranking
  open: "",        // instead: a plan among the files
  engine: "analytic",
  what: {},        // sliders: name: value; absent: as in the plan
  pins: [],        // [{name, plan: [words], simulate: [words]}]
  tab: "timeline",
  ran: false,      // plans were searched
});

// Files of this page, which shares a folder with others: plan1-x7f.json; pinned ones keep their number.
const tag = Math.random().toString(36).slice(2, 5);
let number = 1;
export const fileName = kind => kind + number + "-" + tag + ".json";
export const keepFiles = () => { number++; };

export const state = first();

// What the chosen plan is of; the form may have gone on since.
let taken = null;
export const task = () => taken ?? state;
export function takeTask() {
  const { model, cluster, framework, batch, knobs } = state;
  taken = structuredClone({ model, cluster, framework, batch, knobs });
}

// In the link, and in the history: Back goes to the state before the last step. Entries of the history are ours by OWN;
// another one is a link that was pasted.
export const OWN = "foreline";
const link = () => "#" + encodeURIComponent(JSON.stringify({ ...state, ...taken }));
export const remember = () => history.replaceState(OWN, "", link());
export function step() {
  if (location.hash !== link()) history.pushState(OWN, "", link());
}

// Values of a link are another's: only keys that are known, and of the same type.
function merge(to, from) {
  for (const key of Object.keys(to)) {
    const a = to[key], b = from?.[key];
    if (b === undefined || b === null) continue;
    if (a === null || Array.isArray(a)) to[key] = Array.isArray(b) ? b : a;
    else if (typeof a === "object" && typeof b === "object")
      if (Object.keys(a).length && !("nodes" in a)) merge(a, b);
      else to[key] = Object.fromEntries(Object.entries(b).map(([k, v]) => [k, String(v)]));
    else if (typeof a === typeof b) to[key] = b;
  }
}

// The state that the link names, else the first one.
export function restore() {
  taken = null;
  Object.assign(state, first());
  try {
    if (location.hash.length > 1) merge(state, JSON.parse(decodeURIComponent(location.hash.slice(1))));
  } catch { /* no link of ours */ }
}

// ---- elements: text is never markup

export function el(tag, has = {}, ...inside) {
  const e = document.createElement(tag);
  for (const [key, value] of Object.entries(has)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) e.addEventListener(key.slice(2), value);
    else if (key === "value" || key === "checked" || key === "selected") e[key] = value;
    else e.setAttribute(key, value === true ? "" : value);
  }
  e.append(...inside.flat().filter(x => x !== null && x !== undefined));
  return e;
}
export const put = (where, ...inside) => {
  const e = typeof where === "string" ? document.getElementById(where) : where;
  e.replaceChildren(...inside.flat().filter(x => x !== null && x !== undefined));
  return e;
};

export const note = text => el("p", { class: "note" }, text);
export const warning = text => el("p", { class: "warning" }, text);
export const button = (text, onclick, name) => el("button", { type: "button", onclick, "aria-label": name }, text);

// An entry of a legend.
export function key(text, colour) {
  const box = el("span", { class: "key", "aria-hidden": "true" });
  box.style.background = colour;
  return el("li", {}, box, text);
}

export function svg(tag, has = {}, ...inside) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(has)) e.setAttribute(key, value);
  e.append(...inside);
  return e;
}

let ids = 0;
// A labelled field; `help` is read with it.
export function field(label, input, help) {
  input.id = input.id || "f" + ++ids;
  const note = help ? el("small", { id: input.id + "-help" }, help) : null;
  if (note) input.setAttribute("aria-describedby", note.id);
  return el("div", { class: "field" }, el("label", { for: input.id }, label), input, note);
}
export const options = (list, chosen) =>
  list.map(([value, text]) => el("option", { value, selected: value === chosen }, text ?? value));

// ---- words of values

const three = (x, unit) => (x >= 1000 ? Math.round(x).toLocaleString("en")
  : Number(x.toPrecision(4)).toString()) + " " + unit;
export const seconds = s => s === 0 ? "0 s" : Math.abs(s) >= 1 ? three(s, "s") : Math.abs(s) >= 1e-3 ? three(s * 1e3, "ms")
  : three(s * 1e6, "\u00b5s");
export const bytes = b => Math.abs(b) >= 2 ** 30 ? three(b / 2 ** 30, "GiB") : Math.abs(b) >= 2 ** 20 ? three(b / 2 ** 20, "MiB")
  : Math.abs(b) >= 1024 ? three(b / 1024, "KiB") : three(b, "B");
export const most = (list, of) => list.reduce((m, x) => Math.max(m, of(x)), 0);
export const count = n => Math.round(n).toLocaleString("en");
export const percent = (x, digits = 1) => (100 * x).toFixed(digits) + " %";

// ---- colours: of Okabe and Ito for kinds, viridis for loads

export const colours = { forward: "#56B4E9", backward: "#D55E00", weight: "#F0E442", compute: "#0072B2",
  update: "#555555", collective: "#009E73", send: "#009E73", receive: "#009E73", copy: "#CC79A7" };
const viridis = [[68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142], [31, 158, 137],
  [53, 183, 121], [109, 205, 89], [180, 222, 44], [253, 231, 37]];
export function load(x) {
  const at = Math.min(Math.max(x, 0), 1) * 9, i = Math.min(Math.floor(at), 8), f = at - i;
  return "rgb(" + viridis[i].map((v, k) => Math.round(v + f * (viridis[i + 1][k] - v))).join(" ") + ")";
}
export const dark = () => matchMedia("(prefers-color-scheme: dark)").matches;
