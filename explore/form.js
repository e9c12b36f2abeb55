// The form: model, cluster, framework, batch, and what of a plan is given; an empty field is searched.
import { state, el, put, field, options, count, note } from "./state.js";

const constraints = [
  ["tp", "TP", "tensor parallel"], ["pp", "PP", "pipeline ranks"], ["vp", "VP", "stages per device"],
  ["dp", "DP", "data parallel"], ["cp", "CP", "context parallel"], ["ep", "EP", "expert parallel"],
  ["mbs", "Microbatch", "samples"]];
const choices = [
  ["zero", "ZeRO", [["", "searched"], ["0", "0: nothing sharded"], ["1", "1: optimizer state"], ["2", "2: and gradients"],
    ["3", "3: and parameters"]]],
  ["recompute", "Recompute", [["", "searched"], ["none"], ["selective"], ["full"]]],
  ["allow-oom", "If no plan fits", [["", "say so"], ["on", "take the closest"]]]];

let lists, changed;

const text = (value, set, has = {}) => el("input", { type: "text", value: value ?? "", spellcheck: "false", autocomplete: "off", ...has,
  oninput: e => { set(e.target.value.trim()); changed(); } });
const number = (value, set, has = {}) => text(value, set, { inputmode: "numeric", size: 6, ...has });

// ---- model

function overrides() {
  const m = lists.models.find(x => x.name === state.model.name), set = state.model.overrides;
  if (state.model.file || !m) return [];
  return Object.entries(m.overrides).map(([key, usual]) => field(key,
    number(set[key], v => { if (v) set[key] = v; else delete set[key]; }, { placeholder: String(usual) })));
}

function model() {
  const inside = el("div", { class: "grid" }), about = el("p", { class: "note" });
  const list = el("select", { size: 7 }), none = el("div", { role: "status" });
  const show = () => {
    const m = lists.models.find(x => x.name === state.model.name);
    put(inside, overrides());
    put(about, state.model.file ? "a file: " + state.model.file : m ? m.summary + "; " + count(m.parameters) + " parameters" : "");
  };
  const fill = word => {
    const has = x => x.toLowerCase().includes(word.toLowerCase());
    const found = lists.models.filter(m => has(m.name) || has(m.summary));
    put(list, options(found.map(m => [m.name, m.name]), state.model.file ? "" : state.model.name),
      options(lists.files.filter(has).map(f => ["\0" + f, f + " (file)"]), "\0" + state.model.file));
    search.setAttribute("aria-description", found.length + " models");
    put(none, list.length ? null : note("No model or file has \u201C" + word + "\u201D in its name or summary."));
  };
  const search = el("input", { type: "search", placeholder: "llama, moe, bert ...", oninput: e => fill(e.target.value) });
  list.addEventListener("change", () => {
    const v = list.value, file = v[0] === "\0";
    Object.assign(state.model, { name: file ? state.model.name : v, file: file ? v.slice(1) : "", overrides: {} });
    show(); changed();
  });
  fill(""); show();
  return el("fieldset", {}, el("legend", {}, "Model"), field("Search models", search), field("Model", list), none, about,
    el("details", {}, el("summary", {}, "Overrides: tokens, dtype ..."), inside));
}

// ---- cluster

function familyFields() {
  const f = lists.families.find(x => x.name === state.cluster.family), values = state.cluster.values;
  if (!f) return [];
  const set = key => v => { if (v) values[key] = v; else { delete values[key]; delete kept[key]; } };
  const one = p => {
    const usual = p.default === "not said" ? "" : p.default;
    if (p.name === "type") {
      const types = [...new Set([usual, values.type ?? usual, ...lists.gpus])];
      return field("type", el("select", { onchange: e => { values.type = e.target.value; changed(); } },
        options(types.map(t => [t]), values.type ?? usual)), p.summary);
    }
    return field(p.name, text(values[p.name], set(p.name), { placeholder: usual || "not set", size: 8 }), p.summary);
  };
  const often = ["nodes", "domains", "gpus", "type", "nic", "oversubscription"];
  const [a, b] = [f.parameters.filter(p => often.includes(p.name)), f.parameters.filter(p => !often.includes(p.name))];
  return [note(f.summary), el("div", { class: "grid" }, a.map(one)),
    b.length ? el("details", {}, el("summary", {}, "More of " + f.name), el("div", { class: "grid" }, b.map(one))) : null];
}

// Values of parameters that another family does not have, kept for when it is chosen again.
const kept = {};
function takeFamily(name) {
  const c = state.cluster, known = lists.families.find(f => f.name === name).parameters.map(p => p.name);
  Object.assign(kept, c.values);
  c.family = name;
  c.values = Object.fromEntries(Object.entries(kept).filter(([key]) => known.includes(key)));
}

function cluster() {
  const inside = el("div"), c = state.cluster;
  const show = () => {
    if (c.kind === "family")
      put(inside, field("Family", el("select", { onchange: e => {
        takeFamily(e.target.value);
        show(); changed();
      } }, options(lists.families.map(f => [f.name]), c.family))), familyFields());
    else if (c.kind === "platform") {
      c.platform = c.platform || lists.platforms[0]?.name || "";
      const about = el("p", { class: "note" });
      const tell = () => {
        const p = lists.platforms.find(x => x.name === c.platform);
        put(about, p ? p.devices + " devices: " + p.summary : "");
      };
      tell();
      put(inside, field("Platform", el("select", { onchange: e => { c.platform = e.target.value; tell(); changed(); } },
        options(lists.platforms.map(p => [p.name]), c.platform))), about);
    } else {
      c.file = c.file || lists.files.find(f => f.endsWith(".xml")) || lists.files[0] || "";
      put(inside, lists.files.length ? field("File", el("select", { onchange: e => { c.file = e.target.value; changed(); } },
        options(lists.files.map(f => [f]), c.file)))
        : note("No files. Start foreline explore with one: foreline explore cluster.xml"));
    }
  };
  const kind = [["family", "Built from a family"], ["platform", "Shipped platform"], ["file", "File"]];
  show();
  return el("fieldset", {}, el("legend", {}, "Cluster"), field("Kind of cluster",
    el("select", { onchange: e => { c.kind = e.target.value; show(); changed(); } }, options(kind, c.kind))), inside);
}

// ---- the rest

function training() {
  const names = lists.frameworks.map(f => [typeof f === "string" ? f : f.name]);
  return el("fieldset", {}, el("legend", {}, "Training"), el("div", { class: "grid" },
    field("Framework", el("select", { onchange: e => { state.framework = e.target.value; changed(); } },
      options([["", "by default"], ...names], state.framework))),
    field("Global batch", number(state.batch, v => { state.batch = v; }, { placeholder: "8 per device" }), "samples")));
}

function given() {
  const knob = key => v => { if (v) state.knobs[key] = v; else delete state.knobs[key]; };
  return el("fieldset", {}, el("legend", {}, "Constraints"), note("Empty: searched."),
    el("div", { class: "grid three" },
      constraints.map(([key, name, what]) => field(name, number(state.knobs[key], knob(key), { placeholder: "searched" }), what))),
    el("div", { class: "grid" }, choices.map(([key, name, list]) => field(name, el("select", {
      onchange: e => { knob(key)(e.target.value); changed(); } }, options(list, state.knobs[key] ?? ""))))));
}

export function drawForm(start, onchange) {
  lists = start;
  changed = onchange;
  put("form", model(), cluster(), training(), given());
}
