// What the page shows: one object of plain values, kept in the link's fragment.
export * from "./elements.js";

// model, platform: how `foreline plan` takes them, in parts; plan: its options.
export const first = () => ({
  model: { name: "llama3-8b", overrides: {}, file: "" },
  cluster: { kind: "family", family: "rail", values: { nodes: "16", type: "H100" }, platform: "", file: "" },
  framework: "megatron",
  batch: "512",
  knobs: {},       // --option: value; absent: searched
  row: null,       // options that make the chosen row of the ranking
  engine: "analytic",
  what: {},        // sliders: name: value; absent: as in the plan
  pins: [],        // [{name, plan: [words], simulate: [words]}]
  tab: "timeline",
  ran: false,      // a plan was chosen
  words: "",       // of the chosen row
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

export function remember() {
  const text = encodeURIComponent(JSON.stringify({ ...state, ...taken }));
  history.replaceState(null, "", "#" + text);
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

// Returns whether the link named a state.
export function restore() {
  if (location.hash.length < 2) return false;
  try {
    merge(state, JSON.parse(decodeURIComponent(location.hash.slice(1))));
    return true;
  } catch { return false; }
}
