// Tables of a simulation: ranks, collectives and messages.
import { el, put, seconds, bytes, count, percent } from "./elements.js";

export function table(caption, columns, rows) {
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    el("table", {}, el("caption", {}, caption),
      el("thead", {}, el("tr", {}, columns.map(([name]) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, rows.map(r => el("tr", {}, columns.map(([, value, text]) =>
        el("td", { class: text === true ? "" : text || "number" }, String(value(r) ?? ""))))))));
}

const MOST = 64;

export function showRanks(box, m) {
  const ranks = m.ranks.map((r, i) => ({ ...r, i })).sort((a, b) => b.busy_s - a.busy_s).slice(0, MOST);
  put(box, table("Ranks, the busiest first" + (m.ranks.length > MOST ? " (" + MOST + " of " + count(m.ranks.length) + ")" : ""), [
    ["Rank", r => r.i], ["GPU", r => r.name, true], ["Stage", r => r.stage], ["Computes", r => seconds(r.busy_s)],
    ["Waits for communication", r => seconds(r.exposed_comm_s)], ["Idle", r => seconds(r.idle_s)],
    ["Peak memory", r => bytes(r.peak_bytes)], ["at op", r => r.peak_at, true], ["Busy", r => percent(r.busy_s / m.iteration_s)]], ranks));
}

export function showCalls(box, m) {
  const rate = x => x ? (x / 1e9).toFixed(1) : "";
  put(box, table("Collectives and messages of an iteration, most time first", [
    ["For", c => c.for, true], ["Kind", c => c.kind, true], ["Ranks", c => c.members], ["Bytes", c => bytes(c.bytes)],
    ["Calls", c => count(c.calls)], ["Algorithm", c => c.algorithm ?? "", true],
    ["algbw GB/s", c => rate(c.algbw_Bps)], ["busbw GB/s", c => rate(c.busbw_Bps)]],
    m.collectives ?? []));
}
