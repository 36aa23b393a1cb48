import { bar } from "../charts.js";
import { h } from "../dom.js";
import { count, none, percent } from "../format.js";
import { t } from "../i18n.js";

const asked = (r) => (r.hits ?? 0) + (r.stale ?? 0) + (r.loads ?? 0);
const hitRate = (r) => (asked(r) > 0 ? ((r.hits ?? 0) + (r.stale ?? 0)) / asked(r) : null);

export const caches = {
  charts: ({ chartOf }) => [chartOf(t("caches.chart"), [["cacheHits", t("caches.hits"), "c3"], ["cacheStale", t("caches.stale"), "c2"], ["cacheLoads", t("caches.loads"), "c1"], ["cacheErrors", t("caches.errors"), "c4"]], count)],
  rowKey: (r) => r.ref,
  columns: (ctx) => [
    { key: "name", title: t("column.name"), cls: "name", by: (r) => r.name, cell: ctx.name },
    { key: "rate", title: t("caches.rate"), cls: "wide", by: hitRate, cell: rate },
    { key: "hits", title: t("caches.hits"), cls: "n", by: (r) => r.hits, cell: (r) => count(r.hits) },
    { key: "stale", title: t("caches.stale"), cls: "n", by: (r) => r.stale, cell: (r) => count(r.stale) },
    { key: "loads", title: t("caches.loads"), cls: "n", by: (r) => r.loads, cell: (r) => count(r.loads) },
    { key: "errors", title: t("caches.errors"), cls: "n", by: (r) => r.errors, cell: (r) => h("span", { class: r.errors > 0 ? "bad" : "" }, count(r.errors)) },
    { key: "entries", title: t("caches.entries"), cls: "n", by: (r) => r.entries, cell: (r) => count(r.entries) },
  ],
  note: () => t("caches.note"),
  empty: () => ({
    title: t("caches.empty"),
    go: 'users, err := cache.New(client, cache.Options[int64, User]{Name: "users", TTL: time.Hour})\nu, found, err := users.Get(ctx, 42, loadUser)',
  }),
};

function rate(r) {
  const v = hitRate(r);
  if (v === null) return none;
  return h("div", { class: "measure" }, bar([{ size: r.hits ?? 0, cls: "c3", label: `${t("caches.hits")} ${count(r.hits)}` }, { size: r.stale ?? 0, cls: "c2", label: `${t("caches.stale")} ${count(r.stale)}` }], asked(r), percent(v)), h("span", {}, percent(v)));
}
