// What pages are made of: elements, words of values, colours. Text is never markup.

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

// ---- command lines

// As a shell takes it. Words that need no quotes stay as they are.
export const shell = words => ["foreline", ...words]
  .map(w => /^[\w@%+=:,.\/-]+$/.test(w) ? w : "'" + w.replaceAll("'", "'\\''") + "'").join(" ");

export async function copy(text, button) {
  const was = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select it, and press Ctrl-C";
  }
  setTimeout(() => { button.textContent = was; }, 2000);
}

// The commands of a view, with a button that copies them all.
export function showCommand(where, what, ...commands) {
  const text = commands.map(c => typeof c === "string" ? c : shell(c)).join("\n");
  put(where, el("div", { class: "command" }, el("code", { "aria-label": "Command line of " + what }, text),
    el("button", { type: "button", "aria-label": "Copy the command line of " + what,
      onclick: e => copy(text, e.currentTarget) }, "Copy")));
}

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

// ---- colours of loads: viridis

const viridis = [[68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142], [31, 158, 137],
  [53, 183, 121], [109, 205, 89], [180, 222, 44], [253, 231, 37]];
export function load(x) {
  const at = Math.min(Math.max(x, 0), 1) * 9, i = Math.min(Math.floor(at), 8), f = at - i;
  return "rgb(" + viridis[i].map((v, k) => Math.round(v + f * (viridis[i + 1][k] - v))).join(" ") + ")";
}
export const dark = () => matchMedia("(prefers-color-scheme: dark)").matches;
