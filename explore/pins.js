// Pinned scenarios side by side: bars on one scale, a table, and what differs in words.
import { state, remember, el, put, seconds, bytes, count, percent } from "./state.js";
import { bar, fullest, parts } from "./chosen.js";
import { table } from "./tables.js";

let pins = [];

export function pin(now) {
  pins.push({ name: now.words, command: now.command, m: now.m, file: now.file });
  drawPins();
}

export function drawPins() {
  document.getElementById("compare").hidden = pins.length === 0;
  const most = Math.max(...pins.map(p => p.m.iteration_s));
  put("pins", pins.map(p => el("div", {}, el("p", {}, p.name + ": " + seconds(p.m.iteration_s)), bar(p.m, most))));
}
