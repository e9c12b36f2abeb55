// The page as a whole: form, search, chosen plan and its views, what-if, pinned scenarios.
import { state, task, takeTask, remember, step, restore, OWN, put, el, button, note, warning } from "./state.js";
import { start, latest, stop, showCommand, complaint, copy } from "./requests.js";
import { searchCommand, rowCommand, rowFile, rowWords } from "./command.js";
import { drawForm } from "./form.js";
import { showRanking, markRow } from "./ranking.js";
import { openPlan, closePlan } from "./plan.js";
import { findFiles, restorePins } from "./pins.js";
import { setLists } from "./sliders.js";

const $ = id => document.getElementById(id);
const say = text => { $("progress").textContent = text; };

let lists, plans = []; // what can be chosen from, plans among the files

function shown() {
  showCommand("search-command", "the search", searchCommand(state));
  $("welcome").hidden = state.ran || state.open !== "";
  remember();
}

// ---- the search

const searching = latest();
let running = null; // id of the search
let ranked = null;  // the ranking that is shown: {command, rows}
const sameTask = (a, b) => a.slice(0, -1).join("\0") === b.slice(0, -1).join("\0"); // the last word is a file of its own

function showBusy(busy) {
  $("search").disabled = busy;
  $("stop").disabled = !busy;
  $("bar").hidden = !busy;
  $("bar").removeAttribute("value");
}

function clearRanking() {
  ranked = null;
  for (const id of ["search-error", "said", "ranking"]) put(id);
}

function showFound(command, r) {
  if (!r.json?.candidates?.length) {
    put("search-error", warning(complaint(r) || "the search found no plan"));
    say("no plan");
    return;
  }
  say((r.status === 130 ? "stopped: the best so far of " : "") + r.json.candidates.length + " plans in " + (r.ms / 1000).toFixed(1) + " s");
  ranked = { command, rows: r.json.candidates };
  showRanking(r.json, choose, state.row);
  put("said", el("details", {}, el("summary", {}, "What the search said"), el("pre", {}, r.error)));
}

// Search for the task and show the ranking. False: another search has begun, or no plan was found.
async function findRanking() {
  const command = searchCommand(task());
  clearRanking();
  showBusy(true);
  say("searching ...");
  const r = await searching(command, {
    started: id => { running = id; },
    progress: p => {
      say(p.text);
      if (p.all > 0) { $("bar").max = p.all; $("bar").value = p.done; } else $("bar").removeAttribute("value");
    } }).catch(e => ({ status: 1, error: e.message }));
  if (!r) return false;
  running = null;
  showBusy(false);
  showFound(command, r);
  return ranked !== null;
}

function openRow() {
  const { command, rows } = ranked, row = rows[state.row - 1];
  if (!row) { put("search-error", warning("the search has found no plan " + state.row + " this time")); return; }
  openPlan({ file: rowFile(command, state.row), command, asked: state.row === 1 ? command : rowCommand(task(), row), words: rowWords(row) });
}

async function search() {
  if (state.cluster.kind === "file" && !state.cluster.file) {
    put("search-error", warning("Cluster: there is no file to choose; start foreline explore FILE, or choose another kind of cluster"));
    return;
  }
  closePlan();
  Object.assign(state, { row: 1, open: "", what: {}, ran: true });
  takeTask();
  step();
  shown();
  if (await findRanking()) openRow();
}

// The sliders' values become the form's, and plans are searched for them.
function searchWith({ values, tokens, batch }) {
  Object.assign(state.cluster.values, values);
  if (tokens) state.model.overrides.tokens = tokens;
  if (batch) state.batch = batch;
  drawForm(lists, shown);
  search();
}

function choose({ place }) {
  Object.assign(state, { row: place, open: "", what: {} });
  step();
  openRow();
}

// "rail:nodes=2,type=H100" as name and values.
function parts(text) {
  const [, name, values] = /^([^:]*):?(.*)$/.exec(text);
  return [name, Object.fromEntries(values.split(",").filter(v => v).map(v => [v.split("=")[0], v.split("=").slice(1).join("=")]))];
}

// ---- a plan among the files

const showFile = ({ name, plan }) => openPlan({ file: name, command: null, words: name + ": " + plan.model + " on " + plan.platform,
  asked: (plan.provenance?.command ?? "").split(" ").slice(1) });

// The form says what the plan says.
function openFile(file) {
  const { name, plan } = file, [model, overrides] = parts(plan.model), [family, values] = parts(plan.platform);
  const own = lists.files.includes(plan.model) ? plan.model : "";
  const kind = lists.files.includes(plan.platform) ? "file" : lists.platforms.some(p => p.name === plan.platform) ? "platform" : "family";
  Object.assign(state.cluster, { kind }, kind === "family" ? { family, values } : { [kind]: plan.platform });
  Object.assign(state, { model: { name: own ? state.model.name : model, overrides, file: own }, framework: plan.framework ?? "",
    batch: String(plan.microbatches * plan.microbatch_size), what: {}, row: 1, open: name });
  takeTask();
  step();
  drawForm(lists, shown);
  shown();
  if (ranked) markRow(0);
  showFile(file);
}

// Files come by the command line alone: a server that takes none from a browser has nothing to guard there.
function showFiles() {
  const again = ["explore", "--port", location.port, "plan.json", "cluster.xml"], where = el("div");
  showCommand(where, "starting with files", again);
  put("files", el("div", { class: "row" }, plans.map(p => button("Open " + p.name, () => openFile(p)))),
    el("details", {}, el("summary", {}, "Open a plan, platform, model or measured run of yours"),
      note("End foreline explore with Ctrl-C, and name the files when you start it again. Copy the link to this state first."), where));
}

// ---- a state that a link or the history names

async function show() {
  const file = plans.find(p => p.name === state.open);
  const old = (state.ran || file) && ranked && sameTask(ranked.command, searchCommand(state));
  closePlan();
  takeTask();
  if (!old) { searching.cancel(); showBusy(false); clearRanking(); say(""); }
  if (old) markRow(file ? 0 : state.row);
  if (file) { showFile(file); return; }
  if (state.open) { put("search-error", warning("this state is of " + state.open + ": start foreline explore " + state.open)); return; }
  if (state.ran && (old || await findRanking())) openRow();
}

function goBack(e) {
  if (e.state !== OWN) { location.reload(); return; }
  const { pins } = state;
  restore();
  state.pins = pins;
  drawForm(lists, shown);
  shown();
  show();
}

async function main() {
  restore();
  lists = await start();
  put("version", lists.version);
  drawForm(lists, shown);
  shown();
  setLists(lists, searchWith);
  window.addEventListener("popstate", goBack);
  $("form").addEventListener("submit", e => { e.preventDefault(); search(); });
  $("stop").addEventListener("click", () => { if (running) stop(running); say("stopping ..."); });
  $("link").addEventListener("click", e => { remember(); copy(location.href, e.currentTarget); });
  plans = await findFiles(lists.files);
  showFiles();
  show();
  restorePins();
}

window.addEventListener("unhandledrejection", e => put("search-error", warning(e.reason?.message ?? String(e.reason))));
main();
