import { bar } from "../charts.js";
import { h } from "../dom.js";
import { bytes, count, none, percent } from "../format.js";
import { t } from "../i18n.js";

export const bloom = {
  charts: () => [],
  rowKey: (r) => `${r.kind} ${r.ref}`,
  columns: (ctx) => [
    { key: "name", title: t("column.name"), cls: "name", by: (r) => r.name, cell: (r) => [ctx.name(r), r.kind === "chain" ? h("small", {}, t("kind.chain")) : null] },
    { key: "fill", title: t("bloom.fill"), cls: "wide", by: (r) => r.fill, cell: fill },
    { key: "items", title: t("bloom.items"), cls: "n", by: (r) => r.items, cell: (r) => count(r.items) },
    { key: "capacity", title: t("bloom.capacity"), cls: "n", by: (r) => r.capacity, cell: (r) => count(r.capacity) },
    { key: "estimated", title: t("bloom.estimated"), cls: "n", by: (r) => r.estimatedError, cell: (r) => h("span", { class: r.estimatedError > r.errorRate ? "warn" : "" }, percent(r.estimatedError, 2)) },
    { key: "promised", title: t("bloom.promised"), cls: "n", by: (r) => r.errorRate, cell: (r) => percent(r.errorRate, 2) },
    { key: "layers", title: t("bloom.layers"), cls: "n", by: (r) => r.layers, cell: (r) => count(r.layers) },
    { key: "bytes", title: t("column.bytes"), cls: "n", by: (r) => r.bytes, cell: (r) => bytes(r.bytes) },
  ],
  note: () => t("bloom.note"),
  empty: () => ({
    title: t("bloom.empty"),
    cli: "BF.ADD mails ann@example.com", go: 'filters, err := bloom.New(client, bloom.Options{})\nseen, err := filters.Open(ctx, "mails", bloom.Spec{Capacity: 1_000_000, ErrorRate: 0.01})\nisNew, err := seen.Add(ctx, "ann@example.com")',
  }),
};

// A filter holds what it promises while half of its bits are set, or fewer.
function fill(r) {
  if (r.error) return h("span", { class: "bad" }, r.error);
  if (r.rebuilding) return t("bloom.rebuilding");
  if (r.fill === null || r.fill === undefined) return none;
  return h("div", { class: "measure" }, bar([{ size: r.fill, cls: r.fill > 0.55 ? "c4" : "c1", label: percent(r.fill) }], 1, percent(r.fill)), h("span", {}, percent(r.fill)));
}
