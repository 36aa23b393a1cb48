// Charts: uPlot for series over time, SVG by hand for small pictures.

/* global uPlot */

import { h } from "./dom.js";
import { bytes, clock, moment, none } from "./format.js";
import { t } from "./i18n.js";

// Steps of an axis of bytes.
const binary = Array.from({ length: 50 }, (_, i) => 2 ** i);

const spans = { minute: 60e3, hour: 3600e3, day: 86400e3 };

// Colors of the style sheet, as the canvas needs them. An element with the color resolves light-dark().
function color(name) {
  const probe = document.createElement("i");
  probe.className = `probe ${name}`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

// chart draws series over time. Lines: [{key, label, color: c1…c6}]; look: what changes the whole
// drawing, such as theme and language.
export function chart({ key, title, lines, series, range, end, format, look }) {
  const present = lines.filter((l) => series?.[l.key]);
  if (!present.length) return null;
  const last = present.map((l) => `${l.label} ${format(series[l.key].v.at(-1))}`).join(", ");
  return h("figure", { class: "chart", key },
    h("figcaption", {}, title, present.length > 1 ? null : h("b", {}, format(lastKnown(series[present[0].key].v)))),
    h("div", { class: "plot", role: "img", "aria-label": `${title}: ${last}`, widget: (el) => draw(el, { present, series, range, end, format, look }) }));
}

const lastKnown = (values) => values.findLast((v) => v !== null);

// join puts series on one axis of time: [times, values, …].
export function join(all) {
  const times = [...new Set(all.flatMap((s) => s.t))].sort((a, b) => a - b);
  return [times, ...all.map((s) => {
    const at = new Map(s.t.map((time, i) => [time, s.v[i]]));
    return times.map((time) => (at.has(time) ? at.get(time) : null));
  })];
}

function draw(el, wanted) {
  const key = JSON.stringify([wanted.look, wanted.present]);
  if (el.plot && el.key !== key) {
    el.plot.destroy();
    el.resizing.disconnect();
    el.plot = null;
  }
  el.wanted = wanted;
  const data = join(wanted.present.map((l) => wanted.series[l.key]));
  if (!el.plot) {
    el.key = key;
    el.zoomed = null;
    el.plot = new uPlot(options(el), data, el);
    el.resizing = new ResizeObserver(() => el.plot.setSize(size(el)));
    el.resizing.observe(el);
  } else {
    if (el.span !== wanted.range) el.zoomed = null;
    el.plot.setData(data);
  }
  el.span = wanted.range;
}

const size = (el) => ({ width: Math.max(el.clientWidth, 120), height: 132 });

function options(el) {
  const axis = {
    stroke: color("muted"), grid: { stroke: color("line"), width: 1 }, ticks: { show: false },
    font: `11px ${getComputedStyle(document.body).fontFamily}`, gap: 4,
  };
  return {
    ...size(el),
    ms: 1,
    padding: [8, 10, 0, 0],
    legend: { live: true, show: el.wanted.present.length > 1, markers: { width: 0, fill: (u, i) => u.series[i].stroke(u, i) } },
    cursor: {
      points: { size: 6 }, y: false, drag: { x: true, y: false },
      bind: {
        dblclick: () => () => {
          el.zoomed = null;
          draw(el, el.wanted);
        },
      },
    },
    scales: {
      x: { time: true, range: () => el.zoomed || [el.wanted.end - spans[el.wanted.range], el.wanted.end] },
      y: { range: (u, low, high) => [0, top(high)] },
    },
    axes: [
      { ...axis, size: 24, space: 70, values: (u, ticks) => ticks.map((v) => (u.valToPos(v, "x") > u.over.clientWidth - 12 ? "" : clock(v, el.wanted.range === "minute" || el.zoomed))) },
      { ...axis, size: 58, space: 34, incrs: el.wanted.format === bytes ? binary : undefined, values: (u, ticks) => ticks.map((v) => el.wanted.format(v)) },
    ],
    series: [
      { label: t("chart.time"), value: (u, v) => (v === null ? "" : moment(v)) },
      ...el.wanted.present.map((l, i) => ({
        label: l.label, stroke: color(l.color), width: 1.5, fill: el.wanted.present.length === 1 ? color(`${l.color}-soft`) : undefined,
        points: { show: false }, value: (u, v) => el.wanted.format(v ?? lastKnown(u.data[i + 1])),
      })),
    ],
    hooks: {
      setSelect: [(u) => {
        if (u.select.width < 4) return;
        el.zoomed = [u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")];
      }],
      setCursor: [(u) => tip(el, u)],
    },
  };
}

// tip shows the value under the cursor of a chart of one line.
function tip(el, u) {
  if (el.wanted.present.length > 1) return;
  if (!el.tip) {
    el.tip = document.createElement("div");
    el.tip.className = "tip";
    u.over.append(el.tip);
  }
  const i = u.cursor.idx;
  el.tip.hidden = i === null || i === undefined || u.cursor.left < 0;
  if (el.tip.hidden) return;
  const v = u.data[1][i];
  el.tip.textContent = `${clock(u.data[0][i], true)}  ${v === null ? none : el.wanted.format(v)}`;
  const right = u.cursor.left > u.over.clientWidth / 2;
  el.tip.style.setProperty("--x", `${right ? u.cursor.left - el.tip.offsetWidth - 8 : u.cursor.left + 8}px`);
}

// top is the upper end of the axis: a little above the highest value, and never 0.
const top = (high) => (high > 0 ? high * 1.1 : 1);

// spark draws numbers as a line without axes.
export function spark(values, cls = "c1") {
  const known = (values || []).filter((v) => v !== null);
  if (known.length < 8) return null; // too little to see anything
  const high = Math.max(...known);
  const step = 100 / (values.length - 1);
  const points = values.map((v, i) => (v === null ? null : `${(i * step).toFixed(1)},${(23 - (high ? v / high : 0) * 21).toFixed(1)}`)).filter(Boolean);
  return h("svg", { class: `spark ${high ? cls : "line"}`, viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true", focusable: "false" },
    h("polyline", { points: points.join(" "), fill: "none", stroke: "currentColor", "stroke-width": "1.5", "vector-effect": "non-scaling-stroke" }));
}

// bar draws parts of a whole: [{size, cls, label}].
export function bar(parts, whole, label) {
  let x = 0;
  return h("svg", { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", role: "img", "aria-label": label },
    h("rect", { class: "rest", x: 0, y: 0, width: 100, height: 8 }),
    ...parts.map((p) => {
      const width = whole > 0 ? Math.max(0, Math.min(100 - x, (p.size / whole) * 100)) : 0;
      const rect = h("rect", { class: p.cls, x: x.toFixed(2), y: 0, width: width.toFixed(2), height: 8 }, h("title", {}, p.label));
      x += width;
      return rect;
    }));
}

// histogram draws counts by latency.
export function histogram(buckets, label, format) {
  const high = Math.max(...buckets.map((b) => b.n), 1);
  const width = 100 / buckets.length;
  return h("svg", { class: "histogram", viewBox: "0 0 100 40", preserveAspectRatio: "none", role: "img", "aria-label": label },
    ...buckets.map((b, i) => {
      const height = b.n ? Math.max(1.5, (b.n / high) * 38) : 0;
      return h("rect", { class: "c1", x: (i * width + width * 0.08).toFixed(2), y: (39 - height).toFixed(2), width: (width * 0.84).toFixed(2), height: height.toFixed(2) },
        h("title", {}, format(b)));
    }),
    h("rect", { class: "base", x: 0, y: 39.2, width: 100, height: 0.8 }));
}
