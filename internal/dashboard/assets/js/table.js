// Tables. On a narrow screen each row is a card, with the titles of the columns before the values.

import { h } from "./dom.js";
import { t } from "./i18n.js";

// table describes a table. Columns: {key, title, cls, cell(row), by(row) to sort by it}. Sorting changes
// the order of the rows on this page. rowKey names a row among its siblings.
export function table({ caption, columns, rows, rowKey, sort, onSort, rowClass }) {
  const by = columns.find((c) => c.key === sort?.key)?.by;
  const ordered = by ? [...rows].sort((a, b) => compare(by(a), by(b)) * (sort.down ? -1 : 1)) : rows;
  return h("table", { class: "rows", key: "table" },
    h("caption", { class: "unseen" }, caption),
    h("thead", {}, h("tr", {}, columns.map((c) => {
      const on = by && sort.key === c.key;
      const label = c.title || h("span", { class: "unseen" }, t("column.actions"));
      return h("th", { key: c.key, scope: "col", class: c.cls, "aria-sort": on ? (sort.down ? "descending" : "ascending") : null },
        c.by ? h("button", { type: "button", class: "sort", onclick: () => onSort(next(sort, c.key)) }, label, h("span", { class: "arrow", "aria-hidden": "true" }, on ? (sort.down ? "▾" : "▴") : "")) : label);
    }))),
    h("tbody", {}, ordered.map((row, i) => h("tr", { key: rowKey ? rowKey(row) : i, class: rowClass?.(row) },
      columns.map((c) => h("td", { key: c.key, class: c.cls, "data-label": c.title || null }, c.cell(row)))))));
}

// next goes from unsorted to descending, ascending and back.
function next(sort, key) {
  if (sort?.key !== key) return { key, down: true };
  return sort.down ? { key, down: false } : null;
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return -1;
  if (b === null || b === undefined) return 1;
  return typeof a === "string" ? a.localeCompare(b) : a - b;
}

export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter((p) => p && p[1] !== null && p[1] !== undefined && p[1] !== "").map(([name, value]) =>
    h("div", { key: name }, h("dt", {}, name), h("dd", {}, value))));
}

export function tile(label, value, extra, title) {
  return h("div", { class: "tile", key: label, title }, h("span", { class: "label" }, label), h("b", {}, value), extra);
}
