// The ranking of a search: a table that each column sorts; a row is chosen by its button.
import { el, put, seconds, count, note } from "./state.js";
import { rowWords } from "./command.js";

const gib = b => (b / 2 ** 30).toFixed(1);
const columns = [
  ["place", "#", c => c.place], ["note", "Note, baseline", c => c.note],
  ["time", "Time", c => c.iteration_s, c => (c.exact ? "" : "~") + seconds(c.iteration_s)],
  ["tokens", "Tokens/s", c => c.tokens || c.samples_per_s, c => c.tokens ? count(c.tokens) : c.samples_per_s.toFixed(1) + " samples"],
  ["each", "per GPU", c => (c.tokens || c.samples_per_s) / c.devices, c => count((c.tokens || c.samples_per_s) / c.devices)],
  ["memory", "Used", c => c.memory, c => gib(c.memory)], ["spare", "Spare", c => c.headroom_bytes, c => gib(c.headroom_bytes)],
  ["mfu", "MFU %", c => c.mfu, c => (100 * c.mfu).toFixed(1)],
  ["tp", "TP", c => c.shards], ["pp", "PP", c => c.stages / (c.chunks || 1)], ["vp", "VP", c => c.chunks || 1],
  ["dp", "DP", c => (c.replicas ?? 0) / (c.context_parallel || 1), c => c.replicas ? String(c.replicas / (c.context_parallel || 1)) : "mixed"],
  ["cp", "CP", c => c.context_parallel || 1], ["ep", "EP", c => c.expert_parallel || 1], ["mbs", "MBS", c => c.microbatch_size],
  ["zero", "ZeRO", c => c.zero], ["schedule", "Schedule", c => c.stages > 1 ? c.schedule : "none"]];

// Rows of what `plan --json` printed, with what the table adds.
export function rowsOf(json) {
  const best = json.candidates[0], per = json.tokens_per_s / json.samples_per_s;
  const memory = best && json.peak_bytes + json.headroom_bytes;
  const tie = 1 + (json.expected_error?.median ?? 0); // as `plan` says it
  return json.candidates.map((c, i) => ({ ...c, place: i + 1, words: rowWords(c), tokens: per * c.samples_per_s,
    memory: memory - c.headroom_bytes, mfu: json.mfu * c.samples_per_s / json.samples_per_s * best.devices / c.devices,
    note: [c.fits ? "" : "\u2717 out of memory", i > 0 && c.fits && c.iteration_s <= best.iteration_s * tie ? "= tie with 1" : "",
      i === 0 ? c.fits ? "\u2605 fastest" : "needs least memory" : "", c.baseline ? "baseline " + c.baseline : "",
      c.placement === "pipelines" ? "order tp-pp-dp" : ""].filter(x => x).join("; ") }));
}

let rows = [], by = "place", down = false, chosen = 1, choose;

// place: 0 for none.
export function markRow(place) {
  chosen = place;
  draw();
}

function draw() {
  const column = columns.find(c => c[0] === by), sorted = [...rows].sort((a, b) => {
    const x = column[2](a), y = column[2](b), order = x < y ? -1 : x > y ? 1 : a.place - b.place;
    return down ? -order : order;
  });
  const order = key => key !== by ? "none" : down ? "descending" : "ascending";
  const head = columns.map(([key, name]) => el("th", { scope: "col", "aria-sort": order(key) },
    el("button", { type: "button", "data-sort": key, onclick: () => {
      down = by === key ? !down : false; by = key; draw();
      document.querySelector("#ranking [data-sort='" + key + "']").focus();
    } }, name, el("span", { "aria-hidden": "true" }, key === by ? (down ? " \u25BC" : " \u25B2") : ""))));
  const body = sorted.map(c => el("tr", { class: [c.fits ? "" : "oom", c.place === chosen ? "chosen" : ""].join(" "),
    "aria-current": c.place === chosen ? "true" : null, onclick: () => pick(c) },
    columns.map(([key, , value, show]) => key === "place"
      ? el("td", {}, el("button", { type: "button", class: "pick", "aria-label": "Choose plan " + c.place + ": " + c.words, title: c.words,
        onclick: e => { e.stopPropagation(); pick(c); } }, String(c.place)))
      : el("td", { class: key === "note" ? "words" : typeof value(c) === "number" ? "number" : "" }, show ? show(c) : String(value(c))))));
  put("ranking",
    note(rows.length + " plans. Choose a number to simulate that plan. Times marked ~ are without contention; memory is in GiB per GPU."),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Ranking" },
      el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, body))));
}

function pick(c) {
  markRow(c.place);
  choose(c);
}

export function showRanking(json, onchoose, place) {
  rows = rowsOf(json);
  choose = onchoose;
  by = "place"; down = false;
  markRow(place);
}
