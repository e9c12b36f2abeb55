// The page of `foreline report`: JSON in it becomes views, where it stands.
import { el, put, warning } from "./elements.js";
import { enhance, showRanks, showCalls } from "./tables.js";
import { showMemory } from "./memory.js";
import { showNetwork } from "./topology.js";
import { showPoints } from "./points.js";
import { prepare, showTimeline } from "./timeline.js";
import { showTraces } from "./traces.js";

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
