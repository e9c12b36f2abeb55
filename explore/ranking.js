// The ranking of a search: a table that each column sorts; a row is chosen by its button.
import { el, put, seconds, count } from "./state.js";
import { grid } from "./tables.js";
import { rowWords } from "./command.js";

const gib = b => (b / 2 ** 30).toFixed(1);
// name, what sorts it, what is read, class of its cells
const columns = [
  ["#", c => c.place, c => el("button", { type: "button", class: "pick", "aria-label": "Choose plan " + c.place + ": " + c.words,
    title: c.words, onclick: e => { e.stopPropagation(); pick(c); } }, String(c.place)), ""],
  ["Note, baseline", c => c.note, c => c.note, "words"],
  ["Time", c => c.iteration_s, c => (c.exact ? "" : "~") + seconds(c.iteration_s)],
  ["Tokens/s", c => c.tokens || c.samples_per_s, c => c.tokens ? count(c.tokens) : c.samples_per_s.toFixed(1) + " samples"],
  ["per GPU", c => (c.tokens || c.samples_per_s) / c.devices, c => count((c.tokens || c.samples_per_s) / c.devices)],
  ["Used", c => c.memory, c => gib(c.memory)], ["Spare", c => c.headroom_bytes, c => gib(c.headroom_bytes)],
  ["MFU %", c => c.mfu, c => (100 * c.mfu).toFixed(1)],
  ["TP", c => c.shards], ["PP", c => c.stages / (c.chunks || 1)], ["VP", c => c.chunks || 1],
  ["DP", c => (c.replicas ?? 0) / (c.context_parallel || 1), c => c.replicas ? String(c.replicas / (c.context_parallel || 1)) : "mixed"],
  ["CP", c => c.context_parallel || 1], ["EP", c => c.expert_parallel || 1], ["MBS", c => c.microbatch_size], ["ZeRO", c => c.zero],
  ["Schedule", c => c.stages > 1 ? c.schedule : "none", null, ""]].map(([name, value, text, kind]) => ({ name, value, text, kind }));

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

let table, chosen = 1, choose;

const look = c => ({ class: [c.fits ? "" : "oom", c.place === chosen ? "chosen" : ""].join(" "),
  "aria-current": c.place === chosen ? "true" : "false" });

// place: 0 for none.
export function markRow(place) {
  chosen = place;
  for (const [c, tr] of table?.elements ?? [])
    for (const [name, value] of Object.entries(look(c))) tr.setAttribute(name, value);
}

function pick(c) {
  markRow(c.place);
  choose(c);
}

export function showRanking(json, onchoose, place) {
  const rows = rowsOf(json);
  choose = onchoose;
  chosen = place;
  table = grid(rows.length + " plans. Choose a number to simulate that plan. Times marked ~ are without contention; memory is in GiB per GPU.",
    columns, rows, { more: c => ({ ...look(c), onclick: () => pick(c) }), order: { by: columns[0], down: false } });
  put("ranking", table.box);
}
