/* The style sheet and the script of reports, kept as strings so that a page needs no other file. */
#include "plots/page_script.h"

#include <stddef.h>

/* clang-format off */
const char page_style[] =
    "body { font: 15px/1.45 sans-serif; color: #202020; max-width: 1100px; margin: 2em auto; padding: 0 1em; }\n"
    "h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; border-bottom: 1px solid #ccc; }\n"
    "table { border-collapse: collapse; font-size: 13px; } .scroll { overflow-x: auto; }\n"
    "th, td { padding: 2px 10px; text-align: left; border-bottom: 1px solid #e4e4e4; white-space: nowrap; }\n"
    "th { background: #f2f2f2; } figure { margin: 1em 0; display: inline-block; vertical-align: top; }\n"
    "figure svg { max-width: 100%; } figcaption, .note { color: #555; font-size: 13px; }\n"
    "pre { background: #f6f6f6; padding: 8px 12px; font-size: 13px; overflow-x: auto; }\n"
    ".warning { border-left: 4px solid #D55E00; padding-left: 10px; }\n"
    ".timeline { width: 1060px; max-width: 96vw; } .timeline canvas { width: 100%; cursor: crosshair; }\n"
    "#tip { position: fixed; display: none; background: #fff; border: 1px solid #888; padding: 4px 8px;\n"
    "  font-size: 13px; pointer-events: none; white-space: pre; box-shadow: 1px 1px 4px #999; }\n";

/* Ops of a timeline are [rank, kind, microbatch, start, end, name], times in microseconds. */
const char *const page_script[] = {
    "\"use strict\";\n",
    "(function () {\n",
    "  const ROW = 34, LEFT = 130, AXIS = 24, TOP = 4, RIGHT = 10;\n",
    "  const kinds = [\"communication\", \"forward\", \"backward\", \"update\"];\n",
    "  const shades = [[\"#009E73\"], [\"#9ED5F5\", \"#6FC0EC\", \"#B9E1F8\", \"#56B4E9\"],\n",
    "    [\"#D55E00\", \"#A84800\", \"#E07A2B\", \"#BE5200\"], [\"#000000\"]];\n",
    "  const tip = document.getElementById(\"tip\");\n",
    "  const time = us => us >= 1e6 ? (us / 1e6).toPrecision(5) + \" s\"\n",
    "    : us >= 1e3 ? (us / 1e3).toPrecision(5) + \" ms\" : us.toPrecision(4) + \" \\u00b5s\";\n",
    "\n",
    "  function timeline(box) {\n",
    "    const canvas = box.querySelector(\"canvas\");\n",
    "    const data = JSON.parse(box.querySelector(\"script\").textContent);\n",
    "    const end = data.ops.reduce((m, o) => Math.max(m, o[4]), 0) || 1;\n",
    "    const rows = data.ranks.map(() => [[], []]);   /* per rank: wire, compute */\n",
    "    for (const o of data.ops) rows[o[0]][o[1] ? 1 : 0].push(o);\n",
    "    let from = 0, to = end, drag = null;\n",
    "    const height = TOP + data.ranks.length * ROW + AXIS;\n",
    "    canvas.style.height = height + \"px\";\n",
    "\n",
    "    const inner = () => canvas.clientWidth - LEFT - RIGHT;\n",
    "    const x = us => LEFT + (us - from) / (to - from) * inner();\n",
    "    const at = px => from + (px - LEFT) / inner() * (to - from);\n",
    "\n",
    "    function draw() {\n",
    "      const dpr = window.devicePixelRatio || 1, w = canvas.clientWidth;\n",
    "      canvas.width = w * dpr; canvas.height = height * dpr;\n",
    "      const c = canvas.getContext(\"2d\");\n",
    "      c.scale(dpr, dpr);\n",
    "      c.font = \"12px sans-serif\"; c.textBaseline = \"middle\";\n",
    "      data.ranks.forEach((name, r) => {\n",
    "        const y = TOP + r * ROW;\n",
    "        c.fillStyle = \"#202020\"; c.textAlign = \"left\"; c.fillText(name, 2, y + 12, LEFT - 8);\n",
    "        c.fillStyle = \"#E6E6E6\"; c.fillRect(x(Math.max(from, 0)), y, x(Math.min(to, end)) - x(Math.max(from, 0)), 22);\n",
    "        for (const lane of [0, 1]) for (const o of rows[r][lane]) {\n",
    "          if (o[4] < from || o[3] > to) continue;\n",
    "          const a = Math.max(x(o[3]), LEFT), b = Math.min(x(o[4]), w - RIGHT);\n",
    "          const s = shades[o[1]];\n",
    "          c.fillStyle = s[o[2] < 0 ? 0 : o[2] % s.length];\n",
    "          c.fillRect(a, lane ? y : y + 24, Math.max(b - a, 0.6), lane ? 22 : 6);\n",
    "          if (lane && b - a > 9 * (o[5].length + 1)) {\n",
    "            c.fillStyle = o[1] === 1 ? \"#000\" : \"#fff\"; c.textAlign = \"center\";\n",
    "            c.fillText(o[5], (a + b) / 2, y + 11);\n",
    "          }\n",
    "        }\n",
    "      });\n",
    "      c.fillStyle = \"#404040\"; c.textAlign = \"center\";\n",
    "      const ticks = Math.max(2, Math.floor(inner() / 130));\n",
    "      for (let i = 0; i <= ticks; i++) {\n",
    "        const px = LEFT + inner() * i / ticks;\n",
    "        c.fillRect(px, height - AXIS, 1, 5);\n",
    "        c.textAlign = i === ticks ? \"right\" : \"center\";\n",
    "        c.fillText(time(at(px)), px, height - 9);\n",
    "      }\n",
    "    }\n",
    "\n",
    "    function find(px, py) {\n",
    "      const r = Math.floor((py - TOP) / ROW), us = at(px), slack = (to - from) / inner();\n",
    "      if (r < 0 || r >= rows.length || px < LEFT) return null;\n",
    "      const lane = py - TOP - r * ROW < 23 ? 1 : 0;\n",
    "      return rows[r][lane].find(o => us >= o[3] - slack && us <= o[4] + slack) || null;\n",
    "    }\n",
    "\n",
    "    canvas.addEventListener(\"mousemove\", e => {\n",
    "      if (drag) {\n",
    "        const by = (drag.x - e.offsetX) / inner() * (drag.to - drag.from);\n",
    "        from = drag.from + by; to = drag.to + by;\n",
    "        draw();\n",
    "      }\n",
    "      const o = find(e.offsetX, e.offsetY);\n",
    "      tip.style.display = o ? \"block\" : \"none\";\n",
    "      if (!o) return;\n",
    "      tip.textContent = o[5] + \"  \" + kinds[o[1]] + \"\\n\" + data.ranks[o[0]] +\n",
    "        (o[2] < 0 ? \"\" : \"  microbatch \" + o[2]) + \"\\n\" + time(o[3]) + \" to \" + time(o[4]) +\n",
    "        \"  (\" + time(o[4] - o[3]) + \")\";\n",
    "      tip.style.left = Math.min(e.clientX + 14, window.innerWidth - 300) + \"px\";\n",
    "      tip.style.top = e.clientY + 14 + \"px\";\n",
    "    });\n",
    "    canvas.addEventListener(\"mouseleave\", () => { tip.style.display = \"none\"; drag = null; });\n",
    "    canvas.addEventListener(\"mousedown\", e => { drag = { x: e.offsetX, from: from, to: to }; });\n",
    "    window.addEventListener(\"mouseup\", () => { drag = null; });\n",
    "    canvas.addEventListener(\"dblclick\", () => { from = 0; to = end; draw(); });\n",
    "    canvas.addEventListener(\"wheel\", e => {\n",
    "      e.preventDefault();\n",
    "      const us = at(e.offsetX), f = Math.exp(e.deltaY * 0.0015);\n",
    "      from = us - (us - from) * f; to = us + (to - us) * f;\n",
    "      if (to - from > end) { from = 0; to = end; }\n",
    "      draw();\n",
    "    }, { passive: false });\n",
    "    window.addEventListener(\"resize\", draw);\n",
    "    draw();\n",
    "  }\n",
    "  document.querySelectorAll(\".timeline\").forEach(timeline);\n",
    "})();\n",
    NULL,
};
/* clang-format on */
