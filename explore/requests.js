// Commands that the server runs: started, followed, stopped; and how a shell would be given them.
import { el } from "./elements.js";
export { shell, copy, showCommand } from "./elements.js";

const headers = { "Content-Type": "application/json", "X-Foreline": "1" };

export async function start() {
  const answer = await fetch("start", { headers });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

// Runs it. Resolves to {status, json, text, error, ms}; rejects if aborted, or if the server fails.
export async function run(command, { progress, started, signal } = {}) {
  const begin = performance.now();
  const answer = await fetch("run", { method: "POST", headers, signal, body: JSON.stringify({ command }) }).catch(e => {
    throw e.name === "AbortError" ? e : new Error("foreline explore does not answer: start it again and open its new address");
  });
  if (!answer.ok) {
    const text = await answer.text();
    let message = text;
    try { message = JSON.parse(text).error ?? text; } catch { /* a sentence */ }
    throw new Error(message.trim() || "the server answered " + answer.status);
  }
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = [], last = null;
  const line = text => {
    if (!text.trim()) return;
    const o = JSON.parse(text);
    if (o.id !== undefined) started?.(o.id);
    else if (o.progress) progress?.(o.progress);
    else last = o;
  };
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    // A result is one long line in many pieces: joined once, when its end has come.
    const parts = value.split("\n");
    rest.push(parts[0]);
    for (let i = 1; i < parts.length; i++) { line(rest.join("")); rest = [parts[i]]; }
  }
  line(rest.join(""));
  if (!last) throw new Error("foreline " + command[0] + " ended without an answer");
  return { ...last, ms: performance.now() - begin };
}

export const stop = id => fetch("stop", { method: "POST", headers, body: JSON.stringify({ id }) });

// Of commands that replace each other only the latest is of interest: the one before is aborted.
export function latest() {
  let abort = null;
  const next = async (command, options) => {
    abort?.abort();
    const mine = abort = new AbortController();
    try {
      const result = await run(command, { ...options, signal: mine.signal });
      return mine === abort ? result : null;
    } catch (e) {
      if (e.name === "AbortError" || mine !== abort) return null;
      throw e;
    }
  };
  next.cancel = () => { abort?.abort(); abort = null; };
  return next;
}

// Fields of the page by the options that commands name in their errors.
const fields = { model: "Model", platform: "Cluster", framework: "Framework", "allow-oom": "If no plan fits", zero: "ZeRO",
  recompute: "Recompute", engine: "Engine of the views", slow: "Slow rank or link" };
for (const [name, ...options] of [["Global batch", "batch", "gbs", "global-batch-size"], ["TP", "tp", "tensor-parallel"],
  ["PP", "pp", "pipeline-parallel"], ["VP", "vp", "chunks"], ["DP", "dp", "data-parallel"], ["CP", "cp", "context-parallel"],
  ["EP", "ep", "expert-parallel"], ["Microbatch", "mbs", "microbatch-size"]])
  for (const option of options) fields[option] = name;

// "--batch 7" as "Global batch (--batch) 7".
const byFields = text => text.replace(/--([a-z][a-z-]*)/g, (all, name) => Object.hasOwn(fields, name) ? fields[name] + " (" + all + ")" : all);

// What a command says on its error stream, without its notes where it succeeded.
export const complaint = r => r.status === 0 ? ""
  : byFields((r.error || r.text || "foreline failed with status " + r.status).trim().replace(/^foreline [a-z]+: /gm, ""));

export function download(name, blob) {
  const url = URL.createObjectURL(blob);
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
// GET /file/NAME needs the header, which a link cannot send.
export async function fetchFile(name) {
  const answer = await fetch("file/" + encodeURIComponent(name), { headers });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.blob();
}
