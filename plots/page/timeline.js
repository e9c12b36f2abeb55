// The timeline of all ranks on a canvas: zoom, pan, an op under the pointer or the keys, who waits for whom.
// Each pixel of a row is the mean of the ops in it, so that hundreds of ranks are drawn in a frame.
import { el, put, button, key, note, seconds, bytes, count, dark } from "./elements.js";

const LEFT = 96, RIGHT = 8, AXIS = 22, ALIKE = 512, ROWS = 1200, TALLEST = 640;
const names = { WIRE: "message or collective", F0: "compute", F: "forward", B: "backward", I: "backward of inputs",
  W: "backward of weights", UPDATE: "optimizer",
  SEND: "send", RECV: "receive", COPY: "copy to or from the host", ALLREDUCE: "all-reduce", ALLGATHER: "all-gather",
  REDUCESCATTER: "reduce-scatter", ALLTOALL: "all-to-all" };
const shades = { F: ["#56B4E9", "#9ED5F5"], B: ["#D55E00", "#A84800"], I: ["#D55E00", "#A84800"], W: ["#F0E442", "#D9CB1F"],
  UPDATE: ["#808080"], F0: ["#0072B2"], COPY: ["#CC79A7"] };
const wires = "#009E73";
const rgb = c => [1, 3, 5].map(i => parseInt(c.slice(i, i + 2), 16));

// ---- data: columns of `simulate --timeline`, or of traces, whose ops have names but no stages, bytes and peers

// Lanes of a simulated rank: ops of compute, ops of the wire; each in the order of starts.
export function prepare(t) {
  const o = t.op, n = o.start.length, compute = t.kinds.map(k => k in shades && k !== "COPY");
  t.start = Float64Array.from(o.start); // ns
  t.end = t.start.map((s, i) => s + o.duration[i]);
  t.last = t.end.reduce((m, e) => Math.max(m, e), 1);
  t.colour = t.kinds.map(k => (shades[k] ?? [wires]).map(rgb));
  t.lanes = t.ranks.map((r, k) => {
    const to = t.ranks[k + 1]?.first ?? n, lane = [[], []];
    for (let i = r.first; i < to; i++) lane[compute[o.kind[i]] ? 0 : 1].push(i);
    return lane.map(list => {
      const ops = Uint32Array.from(list).sort((a, b) => t.start[a] - t.start[b]), reach = new Float64Array(ops.length);
      for (let i = 0, m = 0; i < ops.length; i++) reach[i] = m = Math.max(m, t.end[ops[i]]); // ascending
      return { ops, reach };
    });
  });
  t.of ??= t.ranks.map((_, k) => k);
  const firsts = t.ranks.map(r => r.first);
  t.rankOf = i => firstAfter(firsts, i) - 1;
  return t;
}
function firstAfter(sorted, x) {
  let a = 0, b = sorted.length;
  while (a < b) { const m = (a + b) >> 1; if (sorted[m] > x) b = m; else a = m + 1; }
  return a;
}

// ---- words of an op

const label = (t, i) => {
  const o = t.op, mb = o.microbatch[i];
  return o.name?.[i] ?? o.stage[i] + t.kinds[o.kind[i]] + (mb < 0 ? "" : (o.peer[i] >= 0 ? "_" : "") + mb);
};
const moment = ns => ns >= 1e9 ? (ns / 1e9).toFixed(6) + " s" : ns >= 1e6 ? (ns / 1e6).toFixed(3) + " ms"
  : (ns / 1e3).toFixed(3) + " \u00b5s";
const who = (t, r) => t.ranks[r].name + " (stage " + t.ranks[r].stage + ")";

// The member of a collective whose compute before it ended last.
function lastToCome(t, i) {
  let last = -1, latest = -1;
  for (let j = i, k = 0; k < 4096; k++) {
    const r = t.rankOf(j), lane = t.lanes[r][0], at = firstAfter(lane.reach, t.start[i] + 1) - 1;
    const end = at >= 0 ? lane.reach[at] : 0;
    if (end > latest) { latest = end; last = r; }
    j = t.op.match[j];
    if (j < 0 || j === i) break;
  }
  return last;
}
function about(t, i, row) {
  const o = t.op, kind = t.kinds[o.kind[i]], wire = !(kind in shades) || kind === "COPY", r = t.rankOf(i);
  const part = (o.microbatch[i] >= 0 ? " of microbatch " + o.microbatch[i] : "") + (o.name?.[i] ? "" : ", stage " + o.stage[i]);
  const long = seconds((t.end[i] - t.start[i]) / 1e9);
  const lines = [label(t, i) + ": " + (names[kind] ?? kind.toLowerCase()) + part + ", on " + row,
    moment(t.start[i]) + " to " + moment(t.end[i]) + " (" + long + ")"];
  if (o.name?.[i]) return lines.join("\n");
  if (wire) lines.push(bytes(o.bytes[i]) + " for " + t.purposes[o.purpose[i]]);
  if (o.peer[i] >= 0) lines.push((kind === "SEND" ? "to " : "from ") + who(t, o.peer[i]));
  else if (wire && kind !== "COPY" && o.match[i] >= 0) lines.push("last to come: " + who(t, lastToCome(t, i)));
  if (!wire) lines.push("holds " + bytes(o.held[i]) + " of activations behind it");
  return lines.join("\n");
}
// Idle at a time: what of the wire ends as the next op begins, and whose it is.
function aboutIdle(t, r, at, row) {
  const ops = t.lanes[r][0].ops, k = ops.findIndex(i => t.start[i] > at);
  if (k < 0) return row + " is done at " + seconds((t.lanes[r][0].reach.at(-1) ?? 0) / 1e9);
  const i = ops[k], from = k ? t.lanes[r][0].reach[k - 1] : 0;
  const lines = [row + " is idle for " + seconds((t.start[i] - from) / 1e9) + " before " + label(t, i)];
  let best = -1;
  for (const j of t.lanes[r][1].ops)
    if (t.end[j] <= t.start[i] + 1000 && t.end[j] > from && (best < 0 || t.end[j] > t.end[best])) best = j;
  if (best >= 0 && t.start[i] - t.end[best] < 1000 + 0.05 * (t.start[i] - from))
    lines.push("waits for " + label(t, best) + (t.op.name?.[best] ? "" : t.op.peer[best] >= 0 ? " from " + who(t, t.op.peer[best])
      : t.op.match[best] >= 0 ? ", whose last to come is " + who(t, lastToCome(t, best)) : ""),
    !t.op.name?.[best] ? bytes(t.op.bytes[best]) + " for " + t.purposes[t.op.purpose[best]] : "");
  return lines.filter(x => x).join("\n");
}

// ---- the canvas

let timelines = 0; // of a page

export function showTimeline(box, t, m) {
  const many = t.of.length > ALIKE && t.ranks.length < t.of.length;
  const rows = many ? t.ranks.map((_, k) => ({ rank: k, name: t.ranks[k].name + " \u00d7" + count(t.of.filter(x => x === k).length) }))
    : t.of.map((k, i) => ({ rank: k, name: t.names ? t.names[i] : m ? i + " " + (m.ranks[i]?.name ?? t.ranks[k].name) : t.ranks[k].name }));
  const left = Math.max(rows.length - ROWS, 0);
  rows.length -= left;
  const view = t.view ??= { from: 0, to: t.last }; // kept when it is drawn again
  const ROW = Math.max(2, Math.min(26, Math.floor(TALLEST / rows.length))), HIGH = Math.max(1, Math.round(ROW * 0.66));
  const GAP = ROW > 5 ? 1 : 0;
  const height = rows.length * ROW + AXIS;
  const other = document.getElementById("op"), id = other && !box.contains(other) ? "op" + ++timelines : "op";
  const canvas = el("canvas", { tabindex: 0, role: "application", "aria-label": "Timeline of " + rows.length + " ranks. " +
    "Arrow keys walk over ops and ranks, plus and minus zoom, Shift with left and right moves, Home shows all.", "aria-describedby": id });
  const said = el("pre", { id, class: "op", role: "status" }, "Point at an op, or walk with the arrow keys.");
  const c = canvas.getContext("2d");
  let frame = 0, at = { row: 0, k: -1 }, drag = null, picture = null, drawn = 0;

  const inner = () => canvas.clientWidth - LEFT - RIGHT;
  const x = ns => LEFT + (ns - view.from) / (view.to - view.from) * inner();
  const timeAt = px => view.from + (px - LEFT) / inner() * (view.to - view.from);

  // One line of pixels for a lane: means of colours, weighted with time.
  function line(lane, w, idle, out, sum) {
    const per = w / (view.to - view.from), { ops, reach } = lane, first = firstAfter(reach, view.from);
    if (first >= ops.length || t.start[ops[first]] >= view.to) { // nothing is in sight
      out.fill(0xFF000000 | idle[2] << 16 | idle[1] << 8 | idle[0]);
      return;
    }
    sum.fill(0);
    const add = (px, share, s) => {
      const p = px * 4;
      for (let k = 0; k < 3; k++) sum[p + k] += s[k] * share;
      sum[p + 3] += share;
    };
    for (let i = first; i < ops.length; i++) {
      const j = ops[i];
      if (t.start[j] >= view.to) break;
      const a = Math.max((t.start[j] - view.from) * per, 0), b = Math.min((t.end[j] - view.from) * per, w);
      if (b <= a) continue;
      const shade = t.colour[t.op.kind[j]], s = shade[Math.max(t.op.microbatch[j], 0) % shade.length];
      const p = Math.floor(a), q = Math.min(Math.floor(b), w - 1);
      if (p === q) { add(p, b - a, s); continue; }
      add(p, p + 1 - a, s);
      for (let k = p + 1; k < q; k++) add(k, 1, s);
      add(q, b - q, s);
    }
    for (let k = 0; k < w; k++) {
      const p = k * 4, f = sum[p + 3], n = f > 1 ? f : 1, rest = f < 1 ? 1 - f : 0;
      const mean = c => sum[p + c] / n + rest * idle[c];
      out[k] = 0xFF000000 | mean(2) << 16 | mean(1) << 8 | mean(0);
    }
  }

  function draw() {
    frame = 0;
    const begin = performance.now(), dpr = window.devicePixelRatio || 1, width = canvas.clientWidth;
    const [ink, paper, idle] = dark() ? ["#DDDDDD", [27, 27, 27], [58, 58, 58]] : ["#202020", [255, 255, 255], [228, 228, 228]];
    if (canvas.width !== Math.round(width * dpr) || canvas.height !== Math.round(height * dpr)) {
      canvas.width = Math.round(width * dpr); canvas.height = Math.round(height * dpr);
    }
    const w = Math.max(1, Math.round(inner() * dpr)), px = v => Math.round(v * dpr), h = px(rows.length * ROW);
    if (!picture || picture.width !== w || picture.height !== h) picture = c.createImageData(w, h);
    const all = new Uint32Array(picture.data.buffer), sum = new Float32Array(w * 4), lines = new Map();
    all.fill(0xFF000000 | paper[2] << 16 | paper[1] << 8 | paper[0]);
    rows.forEach((row, r) => {
      let l = lines.get(row.rank);
      if (!l) {
        l = [new Uint32Array(w), new Uint32Array(w)];
        line(t.lanes[row.rank][0], w, idle, l[0], sum);
        line(t.lanes[row.rank][1], w, paper, l[1], sum);
        lines.set(row.rank, l);
      }
      const top = px(r * ROW), middle = px(r * ROW + HIGH), bottom = px((r + 1) * ROW - GAP);
      for (let y = top; y < middle; y++) all.set(l[0], y * w);
      for (let y = middle; y < bottom; y++) all.set(l[1], y * w);
    });
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.clearRect(0, 0, canvas.width, canvas.height);
    c.putImageData(picture, px(LEFT), 0);
    c.setTransform(dpr, 0, 0, dpr, 0, 0);
    c.font = "12px sans-serif"; c.textBaseline = "middle"; c.fillStyle = ink; c.textAlign = "left";
    rows.forEach((row, r) => { if (r % Math.ceil(13 / ROW) === 0) c.fillText(row.name, 2, r * ROW + Math.max(HIGH / 2, 6), LEFT - 6); });
    if (HIGH >= 12) labels();
    axis(ink, width);
    mark(ink);
    drawn++;
    canvas.dataset.frames = drawn;
    canvas.dataset.ms = (performance.now() - begin).toFixed(2);
  }
  function labels() {
    c.textAlign = "center";
    rows.forEach((row, r) => {
      const { ops, reach } = t.lanes[row.rank][0];
      for (let i = firstAfter(reach, view.from), n = 0; i < ops.length && t.start[ops[i]] < view.to && n < 200; i++) {
        const j = ops[i], a = Math.max(x(t.start[j]), LEFT), b = Math.min(x(t.end[j]), LEFT + inner()), text = label(t, j);
        if (b - a < 7.5 * text.length) continue;
        const [R, G, B] = t.colour[t.op.kind[j]][0];
        c.fillStyle = R * 0.3 + G * 0.6 + B * 0.1 > 110 ? "#000" : "#fff";
        c.fillText(text, (a + b) / 2, r * ROW + HIGH / 2);
        n++;
      }
    });
  }
  function axis(ink, width) {
    const least = (view.to - view.from) * 90 / inner(), power = 10 ** Math.floor(Math.log10(least));
    const step = power * [1, 2, 5, 10].find(k => k * power >= least);
    const [unit, ns] = view.to >= 1e9 ? ["s", 1e9] : view.to >= 1e6 ? ["ms", 1e6] : ["\u00b5s", 1e3];
    c.fillStyle = ink;
    for (let i = Math.ceil(view.from / step); i * step <= view.to; i++) {
      const at = x(i * step), text = Number((i * step / ns).toPrecision(9)) + " " + unit;
      c.fillRect(at, height - AXIS, 1, 5);
      c.textAlign = at + 20 > width ? "right" : "center";
      c.fillText(text, at, height - 8);
    }
  }
  function mark(ink) {
    if (at.k < 0) return;
    const i = t.lanes[rows[at.row].rank][0].ops[at.k], a = Math.max(x(t.start[i]), LEFT), b = Math.min(x(t.end[i]), LEFT + inner());
    c.strokeStyle = ink; c.lineWidth = 2;
    if (b > a) c.strokeRect(a, at.row * ROW, b - a, Math.max(HIGH, 3));
  }
  const redraw = () => { if (!frame) frame = requestAnimationFrame(draw); };

  function show(from, to) {
    const wide = Math.min(Math.max(to - from, 100), t.last);
    view.from = Math.min(Math.max(from, 0), t.last - wide);
    view.to = view.from + wide;
    redraw();
  }
  const zoom = (f, around) => show(around - (around - view.from) * f, around + (view.to - around) * f);
  const pan = share => { const by = (view.to - view.from) * share; show(view.from + by, view.to + by); };

  const tip = document.getElementById("tip");
  function point(e) {
    const r = Math.floor(e.offsetY / ROW), ns = timeAt(e.offsetX);
    if (r < 0 || r >= rows.length || e.offsetX < LEFT) { tip.hidden = true; return; }
    const lane = e.offsetY - r * ROW < HIGH ? 0 : 1, { ops, reach } = t.lanes[rows[r].rank][lane], slack = (view.to - view.from) / inner();
    let found = -1;
    for (let i = firstAfter(reach, ns - slack); i < ops.length && t.start[ops[i]] <= ns + slack; i++)
      if (t.end[ops[i]] >= ns - slack && (found < 0 || t.end[ops[i]] - t.start[ops[i]] > t.end[found] - t.start[found])) found = ops[i];
    const text = found >= 0 ? about(t, found, rows[r].name) : lane === 0 ? aboutIdle(t, rows[r].rank, ns, rows[r].name) : "";
    tip.hidden = !text;
    tip.textContent = text;
    tip.style.left = Math.min(e.clientX + 14, innerWidth - 420) + "px";
    tip.style.top = e.clientY + 16 + "px";
    if (e.type === "click" && text) put(said, text);
  }
  function walk(key) {
    const lane = () => t.lanes[rows[at.row].rank][0];
    if (at.k < 0) at.k = Math.min(firstAfter(lane().reach, view.from), lane().ops.length - 1);
    else if (key === "ArrowRight") at.k = Math.min(at.k + 1, lane().ops.length - 1);
    else if (key === "ArrowLeft") at.k = Math.max(at.k - 1, 0);
    else {
      const ns = t.start[lane().ops[at.k]] + 1;
      at.row = Math.min(Math.max(at.row + (key === "ArrowDown" ? 1 : -1), 0), rows.length - 1);
      at.k = Math.min(firstAfter(lane().reach, ns), lane().ops.length - 1);
    }
    if (at.k < 0) return;
    const i = lane().ops[at.k], before = at.k ? lane().reach[at.k - 1] : 0;
    if (t.start[i] < view.from || t.end[i] > view.to) show(t.start[i] - (view.to - view.from) / 2, t.start[i] + (view.to - view.from) / 2);
    const { rank, name } = rows[at.row], idle = t.start[i] - before > 1000;
    put(said, about(t, i, name) + (idle ? "\n" + aboutIdle(t, rank, before, name) : ""));
    redraw();
  }
  canvas.addEventListener("keydown", e => {
    const shift = e.shiftKey && { ArrowLeft: -0.2, ArrowRight: 0.2 }[e.key], middle = (view.from + view.to) / 2;
    if (shift) pan(shift);
    else if (e.key.startsWith("Arrow")) walk(e.key);
    else if (e.key === "+" || e.key === "=") zoom(0.6, middle);
    else if (e.key === "-") zoom(1 / 0.6, middle);
    else if (e.key === "Home") show(0, t.last);
    else return;
    e.preventDefault();
  });
  canvas.addEventListener("pointerdown", e => {
    drag = { x: e.offsetX, from: view.from, to: view.to };
    canvas.setPointerCapture(e.pointerId);
  });
  canvas.addEventListener("pointermove", e => {
    if (drag) { const by = (drag.x - e.offsetX) / inner() * (drag.to - drag.from); show(drag.from + by, drag.to + by); }
    point(e);
  });
  canvas.addEventListener("pointerup", () => { drag = null; });
  canvas.addEventListener("click", point);
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("dblclick", () => show(0, t.last));
  canvas.addEventListener("wheel", e => {
    if (!e.ctrlKey && !e.shiftKey && document.activeElement !== canvas) return; // else the page scrolls
    e.preventDefault();
    zoom(Math.exp(e.deltaY * 0.0015), timeAt(e.offsetX));
  }, { passive: false });
  new ResizeObserver(redraw).observe(canvas);

  const used = [...new Set(t.op.kind)].map(k => t.kinds[k]).filter(k => k in shades), middle = () => (view.from + view.to) / 2;
  put(box, el("div", { class: "row" }, button("+", () => zoom(0.6, middle()), "Zoom in"), button("\u2212", () => zoom(1 / 0.6, middle()), "Zoom out"),
    button("\u25C0", () => pan(-0.2), "Move left"), button("\u25B6", () => pan(0.2), "Move right"), button("All", () => show(0, t.last), "Show all")),
  note("Drag to move; click, then wheel to zoom (or Ctrl and wheel). Upper part of a row: compute; lower: network."),
  el("ul", { class: "legend" }, used.map(k => key(names[k] ?? k, shades[k][0])), key("messages and collectives", wires),
    key("idle", dark() ? "#3A3A3A" : "#E4E4E4")),
  many ? note("One row for each group of ranks alike: " + t.ranks.length + " rows for " + count(t.of.length) + " ranks.") : null,
  left ? note("The first " + ROWS + " rows; " + count(left) + " more are not drawn.") : null,
  el("div", { class: "canvas" }, canvas), said);
  canvas.style.height = height + "px";
  redraw();
}
