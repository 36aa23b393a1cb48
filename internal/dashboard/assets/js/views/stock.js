import { bar } from "../charts.js";
import { h } from "../dom.js";
import { count } from "../format.js";
import { t } from "../i18n.js";

export const stock = {
  charts: () => [],
  legend: () => h("p", { class: "legend", key: "legend" }, mark("c1", t("stock.sold")), mark("c2", t("stock.reserved")), mark("rest", t("stock.available"))),
  rowKey: (r) => r.ref,
  columns: (ctx) => [
    { key: "name", title: t("column.name"), cls: "name", by: (r) => r.name, cell: ctx.name },
    { key: "bar", title: t("stock.units"), cls: "wide", by: (r) => (r.total > 0 ? r.available / r.total : 0), cell: (r) => (r.error ? h("span", { class: "bad" }, r.error) : units(r)) },
    { key: "available", title: t("stock.available"), cls: "n", by: (r) => r.available, cell: (r) => (r.available === 0 ? h("span", { class: "warn" }, t("stock.soldOut")) : count(r.available)) },
    { key: "reserved", title: t("stock.reserved"), cls: "n", by: (r) => r.reserved, cell: (r) => count(r.reserved) },
    { key: "sold", title: t("stock.sold"), cls: "n", by: (r) => r.sold, cell: (r) => count(r.sold) },
    { key: "total", title: t("stock.total"), cls: "n", by: (r) => r.total, cell: (r) => count(r.total) },
  ],
  empty: () => ({
    title: t("stock.empty"),
    cli: "STOCK.SET sku:42 100", shell: "stock set sku:42 100",
    go: 'items, err := stock.New(client, stock.Options{TTL: 10 * time.Minute})\n_, err = items.Set(ctx, "sku:42", 100)',
  }),
};

const mark = (cls, text) => h("span", {}, h("i", { class: `mark ${cls}` }), text);

function units(r) {
  const text = t("stock.bar", { sold: count(r.sold), reserved: count(r.reserved), available: count(r.available) });
  return bar([{ size: r.sold, cls: "c1", label: `${t("stock.sold")} ${count(r.sold)}` }, { size: r.reserved, cls: "c2", label: `${t("stock.reserved")} ${count(r.reserved)}` }], r.total, text);
}
