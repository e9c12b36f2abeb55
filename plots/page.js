// Timelines of a report: zoom by wheel, move by drag, look at an op by hovering.
// Ops are [rank, kind, microbatch, start, end, name], times in microseconds.
"use strict";
(function () {
  const LEFT = 130, AXIS = 24, TOP = 4, RIGHT = 10, HIGHEST = 1400;
  const kinds = ["copies", "communication", "compute", "forward", "backward", "weight gradient", "update"];
  const shades = [["#CC79A7"], ["#009E73"], ["#0072B2"], ["#9ED5F5", "#6FC0EC", "#B9E1F8", "#56B4E9"],
    ["#D55E00", "#A84800", "#E07A2B", "#BE5200"], ["#F0E442", "#D9CB1F", "#F5EE86", "#E3D630"],
    ["#000000"]];
  const tip = document.getElementById("tip");
  const time = us => us >= 1e6 ? (us / 1e6).toPrecision(5) + " s"
    : us >= 1e3 ? (us / 1e3).toPrecision(5) + " ms" : us.toPrecision(4) + " \u00b5s";

  // All timelines of a page show the same time.
  const boxes = [...document.querySelectorAll(".timeline")];
  const all = boxes.map(box => JSON.parse(box.querySelector("script").textContent));
  const end = all.reduce((m, d) => d.ops.reduce((k, o) => Math.max(k, o[4]), m), 0) || 1;
  const draws = [];
  let from = 0, to = end;
  const drawAll = () => draws.forEach(draw => draw());

  function timeline(box, which) {
    const canvas = box.querySelector("canvas"), data = all[which];
    const last = data.ops.reduce((m, o) => Math.max(m, o[4]), 0);
    // Rows of many ranks are lower: compute above, the wire below.
    const ROW = Math.max(8, Math.min(34, Math.floor(HIGHEST / data.ranks.length)));
    const HIGH = Math.round(ROW * 0.65), WIRE = ROW < 20 ? HIGH : HIGH + 2, THIN = Math.max(1, Math.round(ROW * 0.18));
    const rows = data.ranks.map(() => [[], []]);   /* per rank: wire, compute */
    for (const o of data.ops) rows[o[0]][o[1] > 1 ? 1 : 0].push(o);
    let drag = null;
    const height = TOP + data.ranks.length * ROW + AXIS;
    canvas.style.height = height + "px";

    const inner = () => canvas.clientWidth - LEFT - RIGHT;
    const x = us => LEFT + (us - from) / (to - from) * inner();
    const at = px => from + (px - LEFT) / inner() * (to - from);

    function draw() {
      const dpr = window.devicePixelRatio || 1, w = canvas.clientWidth;
      canvas.width = w * dpr; canvas.height = height * dpr;
      const c = canvas.getContext("2d");
      c.scale(dpr, dpr);
      c.font = "12px sans-serif"; c.textBaseline = "middle";
      data.ranks.forEach((name, r) => {
        const y = TOP + r * ROW;
        if (ROW >= 12 || r % Math.ceil(12 / ROW) === 0) {
          c.fillStyle = "#202020"; c.textAlign = "left"; c.fillText(name, 2, y + HIGH / 2 + 1, LEFT - 8);
        }
        const a = x(Math.max(from, 0)), b = x(Math.min(to, last));
        if (b > a) { c.fillStyle = "#E6E6E6"; c.fillRect(a, y, b - a, HIGH); }
        for (const lane of [0, 1]) for (const o of rows[r][lane]) {
          if (o[4] < from || o[3] > to) continue;
          const a = Math.max(x(o[3]), LEFT), b = Math.min(x(o[4]), w - RIGHT);
          const s = shades[o[1]];
          c.fillStyle = s[o[2] < 0 ? 0 : o[2] % s.length];
          c.fillRect(a, lane ? y : y + WIRE, b - a, lane ? HIGH : THIN);
          if (lane && HIGH >= 12 && b - a > 9 * (o[5].length + 1)) {
            c.fillStyle = o[1] === 3 || o[1] === 5 ? "#000" : "#fff"; c.textAlign = "center";
            c.fillText(o[5], (a + b) / 2, y + HIGH / 2);
          }
        }
      });
      c.fillStyle = "#404040"; c.textAlign = "center";
      // At 1, 2 or 5 times a power of ten, all in the unit of the last.
      const least = (to - from) * 90 / inner(), power = Math.pow(10, Math.floor(Math.log10(least)));
      const step = power * [1, 2, 5, 10].find(k => k * power >= least);
      const [unit, us] = to >= 1e6 ? ["s", 1e6] : to >= 1e3 ? ["ms", 1e3] : ["\u00b5s", 1];
      for (let i = Math.ceil(from / step); i * step <= to; i++) {
        const px = x(i * step), text = Number((i * step / us).toPrecision(9)) + " " + unit;
        c.fillRect(px, height - AXIS, 1, 5);
        c.textAlign = px + c.measureText(text).width / 2 > w ? "right" : "center";
        c.fillText(text, px, height - 9);
      }
    }

    function find(px, py) {
      const r = Math.floor((py - TOP) / ROW), us = at(px), slack = (to - from) / inner();
      if (r < 0 || r >= rows.length || px < LEFT) return null;
      const lane = py - TOP - r * ROW <= HIGH ? 1 : 0;
      return rows[r][lane].find(o => us >= o[3] - slack && us <= o[4] + slack) || null;
    }

    canvas.addEventListener("mousemove", e => {
      if (drag) {
        const by = (drag.x - e.offsetX) / inner() * (drag.to - drag.from);
        from = drag.from + by; to = drag.to + by;
        drawAll();
      }
      const o = find(e.offsetX, e.offsetY);
      tip.style.display = o ? "block" : "none";
      if (!o) return;
      tip.textContent = o[5] + "  " + kinds[o[1]] + "\n" + data.ranks[o[0]] +
        (o[2] < 0 ? "" : "  microbatch " + o[2]) + "\n" + time(o[3]) + " to " + time(o[4]) +
        "  (" + time(o[4] - o[3]) + ")";
      tip.style.left = Math.min(e.clientX + 14, window.innerWidth - 300) + "px";
      tip.style.top = e.clientY + 14 + "px";
    });
    canvas.addEventListener("mouseleave", () => { tip.style.display = "none"; drag = null; });
    canvas.addEventListener("mousedown", e => { drag = { x: e.offsetX, from: from, to: to }; });
    window.addEventListener("mouseup", () => { drag = null; });
    canvas.addEventListener("dblclick", () => { from = 0; to = end; drawAll(); });
    canvas.addEventListener("wheel", e => {
      e.preventDefault();
      const us = at(e.offsetX), f = Math.exp(e.deltaY * 0.0015);
      from = us - (us - from) * f; to = us + (to - us) * f;
      if (to - from > end) { from = 0; to = end; }
      drawAll();
    }, { passive: false });
    draws.push(draw);
    draw();
  }
  window.addEventListener("resize", drawAll);
  boxes.forEach(timeline);
})();
