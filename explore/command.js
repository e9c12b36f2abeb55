// From the state to command lines: what the page runs is what it shows.
import { fileName } from "./state.js";

// name=value,... behind a colon, of those that are not empty; `over` replaces.
function withValues(name, values, over = {}) {
  const all = Object.entries({ ...values, ...over }).filter(([, v]) => v !== "" && v !== undefined);
  return all.length ? name + (name.includes(":") ? "," : ":") + all.map(([k, v]) => k + "=" + v).join(",") : name;
}

// tokens: another sequence length, or nothing.
export function modelOf(s, tokens) {
  const name = s.model.file || s.model.name;
  return withValues(name, s.model.overrides, tokens ? { tokens } : {});
}

export function platformOf(s, over = {}) {
  const c = s.cluster;
  if (c.kind === "family") return withValues(c.family, c.values, over);
  return c.kind === "file" ? c.file || "FILE" : c.platform;
}

const asked = (knobs) => Object.entries(knobs).filter(([, v]) => v !== "")
  .flatMap(([option, v]) => v === "on" ? ["--" + option] : ["--" + option, v]);

const task = s => ["plan", "--model", modelOf(s), "--platform", platformOf(s),
  ...(s.framework ? ["--framework", s.framework] : []), ...(s.batch ? ["--batch", s.batch] : [])];

// Also writes the plan of each row of the ranking.
export const searchCommand = s => [...task(s), ...asked(s.knobs), "--json", "--all-rows", "-o", fileName("plan")];
export const rowFile = (command, place) => place === 1 ? command.at(-1) : command.at(-1).replace(/\.json$/, "." + place + ".json");

// ---- a row of `plan --json` as options

// What makes about that plan on another cluster: all that the row says is fixed.
export const rowCommand = (s, c) => [...task(s).filter((w, i, all) => w !== "--batch" && all[i - 1] !== "--batch"), ...rowOptions(c)];

const size = b => b % 2 ** 20 === 0 ? b / 2 ** 20 + "MiB" : b + "B";
const flags = ["zero_keep", "tensor_overlap", "p2p_scatter"];
const values = ["zero", "zero_group", "reduce_dtype", "expert_parallel", "expert_imbalance", "context_parallel",
  "context_exchange", "recompute", "recompute_layers", "recompute_unit", "recompute_modules", "offload"];

const rankOrder = c => c.placement === "pipelines" ? "tp-pp-dp" : "tp-dp-pp";

function rowOptions(c) {
  const dash = key => "--" + key.replaceAll("_", "-"), chunks = c.chunks || 1;
  const out = ["--pp", String(c.stages / chunks), "--tp", String(c.shards)];
  if (chunks > 1) out.push("--vp", String(chunks));
  if (c.replicas) out.push("--replicas", String(c.replicas));
  if (c.stages > 1) out.push("--schedule", c.schedule);
  out.push("--microbatches", String(c.microbatches), "--mbs", String(c.microbatch_size), "--bucket", size(c.bucket_bytes || 0));
  if (c.shards > 1) out.push(c.sequence_parallel ? "--sp" : "--no-sequence-parallel");
  if (!c.context_parallel) out.push("--cp", "1");
  if (!c.expert_parallel) out.push("--ep", "1");
  for (const key of values) if (c[key] !== undefined && c[key] !== null) out.push(dash(key), String(c[key]));
  for (const key of flags) if (c[key]) out.push(dash(key));
  if (c.placement) out.push("--rank-order", rankOrder(c));
  if (c.baseline) out.push("--no-launchable"); // the framework may warn against it
  if (!c.fits) out.push("--allow-oom");
  return out;
}

// "PP 4, VP 2, DP 8; ...", as `foreline plan` says it.
export function rowWords(c) {
  const chunks = c.chunks || 1, cp = c.context_parallel || 1, dp = c.replicas ? c.replicas / cp : null;
  const parts = [["TP", c.shards], ["CP", cp], ["PP", c.stages / chunks], ["VP", chunks], ["EP", c.expert_parallel || 1], ["DP", dp]]
    .filter(([, n]) => n === null || n > 1).map(([k, n]) => n === null ? k + " of stages " + c.stage_replicas.join(", ") : k + " " + n)
    .concat(c.shards > 1 && c.sequence_parallel ? ["SP"] : [], c.tensor_overlap ? ["TP overlap"] : []);
  const more = [c.stages > 1 ? c.schedule : "", "MBS " + c.microbatch_size, "GBS " + c.microbatches * c.microbatch_size].filter(x => x);
  const memory = [c.zero ? "ZeRO-" + c.zero + (c.zero_keep ? " keep" : "") + (c.zero_group ? " in groups of " + c.zero_group : "") : "",
    c.recompute && c.recompute !== "none" ? "recompute " + c.recompute +
      (c.recompute_layers ? " " + c.recompute_layers + " layers" : "") + (c.recompute_modules ? " (" + c.recompute_modules + ")" : "") : "",
    c.offload && c.offload !== "none" ? "offload " + c.offload : "", c.bucket_bytes ? "bucket " + size(c.bucket_bytes) : "",
    c.placement === "pipelines" ? "order tp-pp-dp" : ""].filter(x => x);
  return [parts.join(", "), more.join(", "), memory.join(", ")].filter(x => x).join("; ");
}
