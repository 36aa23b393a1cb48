import { bar, spark } from "../charts.js";
import { h } from "../dom.js";
import { bytes, count, duration, exact, none, percent } from "../format.js";
import { known, t } from "../i18n.js";
import { elsewhere } from "../route.js";
import { facts, tile } from "../table.js";

// Names of a kind are listed by a view, or by none.
const viewOf = { locks: "locks", semaphores: "locks", latches: "locks", limits: "limits", throttles: "limits", queues: "queues", stock: "stock", caches: "caches", bloom: "bloom", chains: "bloom" };

const kinds = [...Object.keys(viewOf), "other"];

export function overview({ snap, place, chartOf, nothing }) {
  const o = snap.overview || {};
  const sparkOf = (key) => spark(o.spark?.[key] || snap.series?.[key]?.v?.slice(-60));
  const counts = kinds.map((kind) => [kind, snap.counts?.[kind]]).filter(([, n]) => n >= 0);
  return [
    h("div", { class: "tiles", key: "tiles" },
      tile(t("overview.commands"), count(o.commandsPerSecond), sparkOf("commands"), exact(o.commandsPerSecond)),
      tile(t("overview.clients"), count(o.clients), sparkOf("clients"), exact(o.clients)),
      tile(t("overview.memory"), bytes(o.memory), o.maxMemory > 0
        ? bar([{ size: o.memory, cls: "c1", label: t("overview.ofMaximum", { used: bytes(o.memory), max: bytes(o.maxMemory) }) }], o.maxMemory, t("overview.ofMaximum", { used: bytes(o.memory), max: bytes(o.maxMemory) }))
        : sparkOf("memory")),
      o.keys === undefined || o.keys === null ? null : tile(t("overview.keys"), count(o.keys), null, exact(o.keys)),
      tile(t("overview.uptime"), duration(o.uptimeMs))),
    counts.length && snap.scan?.done && counts.every(([, n]) => n === 0)
      ? nothing({ title: t("overview.noNames"), cli: "CL.THROTTLE user:7 15 30 60", shell: "lock orders:42 -- sleep 60", go: 'locks, err := lock.New(client, lock.Options{})\nerr = locks.Do(ctx, "orders:42", ship)' })
      : counts.length ? h("section", { class: "panel", key: "counts" },
        h("h2", {}, t("overview.names"), scanned(snap.scan)),
        h("ul", { class: "counts" }, counts.map(([kind, n]) => h("li", { key: kind, class: n ? "" : "zero" },
          viewOf[kind] ? h("a", { href: elsewhere(place, { view: viewOf[kind] }) }, h("b", {}, count(n)), " ", known("names.", kind)) : [h("b", {}, count(n)), " ", known("names.", kind)])))) : null,
    h("div", { class: "charts", key: "charts" },
      chartOf(t("chart.commands"), [["commands", t("overview.commands")]], count),
      chartOf(t("overview.clients"), [["clients", t("overview.clients")]], count),
      chartOf(t("overview.memory"), [["memory", t("overview.memory")]], bytes)),
    snap.version ? h("section", { class: "panel", key: "about" }, facts([
      [t("overview.server"), o.backend],
      [t("overview.redoubt"), snap.version], [t("overview.maxMemory"), o.maxMemory ? bytes(o.maxMemory) : o.maxMemory === 0 ? t("overview.noLimit") : none],
    ])) : null,
  ];
}

// scanned says how much of the names the server has looked at.
export function scanned(scan) {
  if (!scan || scan.done || !(scan.seen >= 0)) return null;
  const share = scan.keys > 0 ? Math.min(1, scan.seen / scan.keys) : 0;
  return h("span", { class: "scan", title: t("scan.title", { seen: exact(scan.seen), keys: exact(scan.keys) }) },
    h("progress", { max: 1, value: share, "aria-label": t("scan.label") }), t("scan.text", { share: percent(share, 0) }));
}
