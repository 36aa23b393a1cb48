import { bar, histogram } from "../charts.js";
import { h } from "../dom.js";
import { bytes, count, micros, none, percent } from "../format.js";
import { known, t } from "../i18n.js";
import { facts, table } from "../table.js";
import { hotKeys, slowLog } from "./details.js";

const states = { up: "good", down: "bad", ejected: "warn" };

export function pools(ctx) {
  const { snap, chartOf } = ctx;
  const rows = snap.rows || [];
  return [
    h("div", { class: "charts", key: "charts" },
      chartOf(t("chart.commands"), [["commands", t("overview.commands")]], count), chartOf(t("pools.traffic"), [["bytesIn", t("pools.in")], ["bytesOut", t("pools.out")]], bytes), chartOf(t("pools.errorsPerSecond"), [["errors", t("pools.errors"), "c4"]], count)),
    rows.map((pool) => h("div", { key: `pool ${pool.name}` },
      h("section", { class: "panel" },
        h("h2", {}, pool.label || pool.name),
        facts([[t("pools.servers"), summary(pool.servers || [])], ["p50", latencyOf({ histogram: pool.latency }, pool.p50)], ["p99", latencyOf({ histogram: pool.latency }, pool.p99)]]),
        ring(pool.servers || []),
        servers(ctx, pool.servers || [])),
      h("div", { class: "pair" }, hotKeys(pool.hotkeys), slowLog(pool.slowlog, pool.slowArgs)))),
    rows.length ? null : ctx.nothing({
      title: t("pools.empty"), snippets: [["redoubt", "redoubt serve --pools pools.yml"], ["pools.yml", "cache:\n  listen: 127.0.0.1:22121\n  redis: true\n  hash_tag: \"{}\"\n  servers:\n    - 127.0.0.1:6379:1 one\n    - 127.0.0.1:6378:1 two"]],
    }),
  ];
}

const summary = (list) => Object.keys(states).map((s) => [s, list.filter((x) => x.state === s).length]).filter(([s, n]) => n || s === "up").map(([s, n]) => `${count(n)} ${known("state.", s)}`).join(", ");

function ring(list) {
  if (!list.some((s) => s.share > 0)) return null;
  return h("div", { class: "ring" }, bar(list.map((s, i) => ({ size: s.share, cls: `c${(i % 6) + 1}`, label: `${s.name} ${percent(s.share)}` })), 1, t("pools.ring")));
}

function servers(ctx, list) {
  return table({
    caption: t("pools.servers"), rows: list, rowKey: (s) => `${s.name} ${s.addr}`, sort: ctx.sort, onSort: ctx.onSort,
    columns: [
      { key: "name", title: t("pools.server"), cls: "name", by: (s) => s.name, cell: (s) => [h("i", { class: `mark c${(list.indexOf(s) % 6) + 1}` }), h("span", { title: s.addr }, s.name || s.addr), s.name && s.name !== s.addr ? h("small", {}, addressOf(s)) : null, s.replica ? h("small", {}, t("pools.replica")) : null] },
      { key: "state", title: t("pools.state"), by: (s) => s.state, cell: (s) => h("span", { class: `state ${states[s.state] || ""}` }, known("state.", s.state)) },
      { key: "share", title: t("pools.share"), cls: "n", by: (s) => s.share, cell: (s) => percent(s.share) },
      { key: "connections", title: t("pools.connections"), cls: "n", by: (s) => s.connections, cell: (s) => count(s.connections) },
      { key: "requests", title: t("pools.requests"), cls: "n", by: (s) => s.requests, cell: (s) => count(s.requests) },
      { key: "errors", title: t("pools.errors"), cls: "n", by: (s) => s.errors, cell: (s) => h("span", { class: s.errors > 0 ? "warn" : "" }, count(s.errors)) },
      { key: "p50", title: "p50", cls: "n", by: (s) => s.p50, cell: (s) => latencyOf(s, s.p50) },
      { key: "p99", title: "p99", cls: "n", by: (s) => s.p99, cell: (s) => latencyOf(s, s.p99) },
      { key: "histogram", title: t("pools.latency"), cls: "sparks", cell: latency },
    ],
  });
}

// addressOf leaves out the name that an address may repeat: "one (10.0.0.1:6379)".
const addressOf = (s) => (s.addr.startsWith(`${s.name} (`) ? s.addr.slice(s.name.length + 2, -1) : s.addr);

const latencyText = (ms) => micros(ms * 1000);
const latencyOf = (s, ms) => (s.histogram?.counts?.some((n) => n > 0) ? latencyText(ms) : none);

function latency(s) {
  const counts = s.histogram?.counts || [];
  if (!counts.some((n) => n > 0)) return none;
  const bounds = s.histogram.boundsMs;
  return histogram(counts.map((n, i) => ({ n, le: bounds[i] })), t("pools.latencyOf", { name: s.name }), (b) => `${b.le === undefined ? t("pools.over") : `≤ ${latencyText(b.le)}`}: ${count(b.n)}`);
}
