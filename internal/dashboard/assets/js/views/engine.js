import { bar } from "../charts.js";
import { h } from "../dom.js";
import { bytes, count, duration, exact } from "../format.js";
import { t } from "../i18n.js";
import { facts, tile } from "../table.js";

export function engine({ snap, chartOf, nothing }) {
  const e = snap.rows?.[0];
  if (!e) return [nothing({ title: t("engine.empty"), snippets: [["redoubt", "redoubt serve --dir ./data --fsync always"]] })];
  const types = Object.entries(e.keysByType || {}).sort((a, b) => b[1] - a[1]);
  const most = Math.max(1, ...types.map(([, n]) => n));
  return [
    h("div", { class: "tiles", key: "tiles" },
      tile(t("overview.memory"), bytes(e.memory), e.maxMemory > 0 ? bar([{ size: e.memory, cls: "c1", label: bytes(e.memory) }], e.maxMemory, t("overview.ofMaximum", { used: bytes(e.memory), max: bytes(e.maxMemory) })) : null),
      e.peak === null ? null : tile(t("engine.peak"), bytes(e.peak)),
      tile(t("overview.keys"), count(e.keys), null, exact(e.keys)),
      e.rss > 0 ? tile(t("engine.rss"), bytes(e.rss)) : null),
    h("div", { class: "charts two", key: "charts" },
      chartOf(t("overview.memory"), [["memory", t("overview.memory")]], bytes), chartOf(t("overview.keys"), [["keys", t("overview.keys"), "c3"]], count),
      chartOf(t("engine.lookups"), [["hits", t("engine.hits"), "c3"], ["misses", t("engine.misses"), "c2"]], count), chartOf(t("engine.removals"), [["expired", t("engine.expired"), "c5"], ["evicted", t("engine.evicted"), "c4"]], count)),
    h("div", { class: "pair", key: "pair" },
      h("section", { class: "panel" }, h("h2", {}, t("engine.types")), types.length
        ? h("dl", { class: "bars" }, types.map(([type, n]) => h("div", { key: type }, h("dt", {}, type), h("dd", {}, bar([{ size: n, cls: "c1", label: exact(n) }], most, `${type} ${exact(n)}`), h("span", {}, count(n))))))
        : h("p", { class: "muted" }, e.keys > 0 ? t("status.loading") : t("engine.noKeys"))),
      h("section", { class: "panel" }, h("h2", {}, t("engine.disk")), e.lastError ? h("p", { class: "error", role: "alert" }, e.lastError) : null,
        facts([
          [t("engine.log"), e.saves === false ? t("engine.inMemory") : bytes(e.logSize)], [t("engine.base"), e.logBase > 0 ? bytes(e.logBase) : null], [t("engine.fsync"), e.saves ? e.fsync : null], [t("engine.lastSync"), e.lastSyncMs === null ? null : e.lastSyncMs < 0 ? t("engine.noSync") : t("time.ago", { time: duration(e.lastSyncMs) })],
          [t("engine.compaction"), !e.saves ? null : e.compacting ? t("engine.compacting") : e.compactions === null ? t("engine.idle") : t("engine.compactions", { n: count(e.compactions) })],
          [t("engine.policy"), e.policy], [t("engine.evicted"), count(e.evicted)], [t("engine.expired"), count(e.expired)], [t("engine.hits"), count(e.hits)], [t("engine.misses"), count(e.misses)],
        ]))),
  ];
}
