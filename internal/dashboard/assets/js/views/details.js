// Panels that more than one view has.

import { h } from "../dom.js";
import { clock, count, duration, moment } from "../format.js";
import { t } from "../i18n.js";
import { table } from "../table.js";

export function hotKeys(list) {
  if (!list) return null;
  return h("section", { class: "panel", key: "hot" }, h("h2", {}, t("hot.title")), list.length
    ? table({
      caption: t("hot.title"), rows: list, rowKey: (k) => k.key,
      columns: [
        { key: "key", title: t("hot.key"), cls: "name", cell: (k) => k.key },
        { key: "rate", title: t("hot.rate"), cls: "n", cell: (k) => count(k.perSecond) },
      ],
    })
    : h("p", { class: "muted" }, t("hot.none")));
}

// slowLog shows slow commands; whole: with their arguments.
export function slowLog(list, whole) {
  if (!list) return null;
  return h("section", { class: "panel", key: "slow" }, h("h2", {}, t("slow.title")), list.length
    ? table({
      caption: t("slow.title"), rows: list, rowKey: (c) => c.id,
      columns: [
        { key: "time", title: t("slow.when"), cell: (c) => h("span", { title: moment(c.time) }, clock(c.time, true)) },
        { key: "us", title: t("slow.took"), cls: "n", cell: (c) => duration(c.tookMs) },
        { key: "command", title: t("slow.command"), cls: "name code command", cell: (c) => h("span", { class: "clamp", title: c.args.join(" ") }, c.args.join(" ")) },
        { key: "server", title: t("pools.server"), cls: "name", cell: (c) => h("span", { title: c.server }, c.server?.split(" (")[0] || "–") },
        { key: "client", title: t("slow.client"), cls: "name", cell: (c) => c.client || "–" },
      ],
    })
    : h("p", { class: "muted" }, t("slow.none")),
  whole ? null : h("p", { class: "muted" }, t("slow.hidden")));
}
