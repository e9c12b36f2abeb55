// What the page shows: one object of plain values, kept in the link's fragment.
export * from "./elements.js";

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
  over: "",        // a measured timeline that is laid over the predicted one
  ran: false,      // plans were searched
});

// Files of this page, which shares a folder with others: plan1-x7f.json; pinned ones keep their number.
const tag = Math.random().toString(36).slice(2, 5);
let number = 1;
export const fileName = (kind, ending = ".json") => kind + number + "-" + tag + ending;
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
