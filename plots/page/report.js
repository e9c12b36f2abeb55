// The page of `foreline report`: JSON in it becomes views, where it stands.
import { el, put, field, options, warning } from "./elements.js";
import { enhance, showRanks, showCalls } from "./tables.js";
import { showMemory } from "./memory.js";
import { showNetwork } from "./topology.js";
import { showPoints } from "./points.js";
import { prepare, showTimeline } from "./timeline.js";

// Rows of ranks: trace by trace, or those of a rank over each other.
function showTraces(box, t) {
  const traces = new Set(t.ranks.map(r => r.trace)).size, names = t.ranks.map(r => r.name), place = new Map();
  for (const name of names) if (!place.has(name)) place.set(name, place.size);
  const byRank = (a, b) => place.get(names[a]) - place.get(names[b]) || t.ranks[a].trace - t.ranks[b].trace;
  if (traces > 1) for (const r of t.ranks) r.name = String.fromCharCode(65 + r.trace) + " " + r.name;
  prepare(t);
  const view = el("div"), one = t.of, draw = over => {
    t.of = over ? [...one].sort(byRank) : one;
    showTimeline(view, t);
  };
  const order = el("select", { onchange: e => draw(e.target.value === "rank") },
    options([["rank", "rank by rank, traces over each other"], ["trace", "trace by trace"]], "rank"));
  put(box, traces > 1 ? el("div", { class: "row" }, field("Rows", order)) : null, view);
  draw(traces > 1);
}

// A measurement, and of a simulation every op: drawn when it is opened.
function showSimulation(box, { name, m, timeline }) {
  const parts = [["Links", showNetwork], ["Ranks", showRanks], ["Collectives and messages", showCalls]];
  const t = timeline && prepare(timeline);
  if (t) parts.unshift(["Memory over time", (at, of) => showMemory(at, of, t)], ["Every op", (at, of) => showTimeline(at, t, of)]);
  put(box, el("h3", {}, name), parts.map(([title, show]) => {
    const at = el("div"), details = el("details", { ontoggle: () => { if (!at.firstChild) show(at, m); } }, el("summary", {}, title), at);
    return details;
  }));
}

const views = { timeline: showTraces, points: showPoints, simulation: showSimulation };
for (const box of document.querySelectorAll(".view"))
  try {
    views[box.dataset.view](box, JSON.parse(box.firstElementChild.textContent));
  } catch (e) { put(box, warning("This part cannot be shown: " + e.message)); }
document.querySelectorAll("table.sorts").forEach(enhance);
