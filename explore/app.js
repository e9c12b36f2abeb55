// The page as a whole: form, search, chosen plan and its views, what-if, pinned scenarios.
import { state, task, takeTask, remember, restore, put, el, warning } from "./state.js";
import { start, run, stop, showCommand, complaint, copy } from "./requests.js";
import { searchCommand, planCommand, rowOptions, rowWords } from "./command.js";
import { drawForm } from "./form.js";
import { showRanking } from "./ranking.js";
import { openPlan } from "./plan.js";
import { findFiles, restorePins } from "./pins.js";
import { setLists } from "./sliders.js";

const $ = id => document.getElementById(id);
const say = text => { $("progress").textContent = text; };

function shown() {
  showCommand("search-command", "the search", searchCommand(state));
  remember();
}

let running = null; // id of the search
let searched = null; // its command

async function search(what = {}) {
  put("search-error");
  put("said");
  put("ranking");
  $("chosen").hidden = true;
  state.row = null;
  state.what = what;
  takeTask();
  shown();
  $("search").disabled = true;
  $("stop").disabled = false;
  $("bar").hidden = false;
  $("bar").removeAttribute("value");
  say("searching ...");
  const begin = performance.now();
  try {
    const command = searchCommand(state), r = await run(command, {
      started: id => { running = id; },
      progress: p => {
        say(p.text);
        if (p.all > 0) { $("bar").max = p.all; $("bar").value = p.done; } else $("bar").removeAttribute("value");
      } });
    if (!r.json?.candidates?.length) {
      put("search-error", warning(complaint(r) || "the search found no plan"));
      say("no plan");
      return;
    }
    const took = ((performance.now() - begin) / 1000).toFixed(1);
    say((r.status === 130 ? "stopped: the best so far of " : "") + r.json.candidates.length + " plans in " + took + " s");
    state.ran = true;
    searched = command;
    showRanking(r.json, choose);
    put("said", el("details", {}, el("summary", {}, "What the search said"), el("pre", {}, r.error)));
    await openPlan(command, true, rowWords(r.json.candidates[0]));
  } catch (e) {
    put("search-error", warning(e.message));
    say("failed");
  } finally {
    running = null;
    $("search").disabled = false;
    $("stop").disabled = true;
    $("bar").hidden = true;
  }
}

// The sliders' values become the form's, and plans are searched for them.
function searchWith(lists, { values, tokens, batch }) {
  Object.assign(state.cluster.values, values);
  if (tokens) state.model.overrides.tokens = tokens;
  if (batch) state.batch = batch;
  state.what = {};
  drawForm(lists, shown);
  search();
}

async function choose(candidate) {
  state.row = candidate.place === 1 ? null : rowOptions(candidate);
  state.words = candidate.words;
  state.what = {};
  remember();
  await openPlan(state.row ? planCommand({ ...task(), row: state.row }) : searched, !state.row, candidate.words, candidate.iteration_s);
}

// "rail:nodes=2,type=H100" as name and values.
function parts(text) {
  const [, name, values] = /^([^:]*):?(.*)$/.exec(text);
  return [name, Object.fromEntries(values.split(",").filter(v => v).map(v => [v.split("=")[0], v.split("=").slice(1).join("=")]))];
}

// A plan among the files: the form says what it says.
function openFile({ name, plan }, lists) {
  const [model, overrides] = parts(plan.model), [family, values] = parts(plan.platform);
  const file = lists.files.includes(plan.model) ? plan.model : "";
  state.model = { name: file ? state.model.name : model, overrides, file };
  const kind = lists.files.includes(plan.platform) ? "file" : lists.platforms.some(p => p.name === plan.platform) ? "platform" : "family";
  Object.assign(state.cluster, { kind }, kind === "family" ? { family, values } : { [kind]: plan.platform });
  state.framework = plan.framework ?? "";
  state.batch = String(plan.microbatches * plan.microbatch_size);
  state.what = {};
  state.row = null;
  takeTask();
  drawForm(lists, shown);
  shown();
  openPlan((plan.provenance?.command ?? "").split(" ").slice(1), true, name + ": " + plan.model + " on " + plan.platform, undefined, name);
}

async function main() {
  const restored = restore();
  const lists = await start();
  put("version", lists.version);
  drawForm(lists, shown);
  shown();
  setLists(lists, values => searchWith(lists, values));
  window.addEventListener("hashchange", () => location.reload()); // a link was pasted
  $("form").addEventListener("submit", e => { e.preventDefault(); search(); });
  $("stop").addEventListener("click", () => { if (running) stop(running); say("stopping ..."); });
  $("link").addEventListener("click", e => { remember(); copy(location.href, e.currentTarget); });
  findFiles(lists.files).then(plans => put("files", plans.length ? el("div", { class: "row" }, plans.map(p =>
    el("button", { type: "button", onclick: () => openFile(p, lists) }, "Open " + p.name))) : null));
  if (!restored) return;
  if (state.ran && state.row) {
    takeTask();
    openPlan(planCommand(state), false, state.words);
  } else if (state.ran) search(state.what);
  restorePins();
}

main().catch(e => put("search-error", warning(e.message)));
