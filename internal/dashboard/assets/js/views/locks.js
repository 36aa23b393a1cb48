import { h } from "../dom.js";
import { count, duration, none } from "../format.js";
import { known, t } from "../i18n.js";

const labelOf = (holder) => holder.label || t("locks.unnamed");

// Each holder has a row; the first one of a lock also has its name.
const holdersOf = (lock) => (lock.holders?.length ? lock.holders : [null]).map((holder, i) => ({ lock, holder, i }));

export const locks = {
  charts: () => [],
  rows: (rows) => rows.flatMap(holdersOf),
  rowKey: (r) => `${r.lock.kind} ${r.lock.ref} ${r.holder?.token ?? ""} ${r.i}`,
  rowClass: (r) => (r.i ? "more" : ""),
  columns: (ctx) => [
    { key: "name", title: t("column.name"), cls: "name", by: (r) => r.lock.name, cell: (r) => (r.i ? h("span", { class: "repeat" }, ctx.label(r.lock)) : ctx.name(r.lock)) },
    { key: "kind", title: t("column.kind"), cls: "short", by: (r) => r.lock.kind, cell: (r) => (r.i ? null : kindOf(r.lock)) },
    { key: "holder", title: t("locks.holder"), cls: "name", cell: (r) => (r.holder ? h("span", { class: r.holder.label ? "" : "muted" }, labelOf(r.holder)) : r.lock.error ? h("span", { class: "bad" }, r.lock.error) : h("span", { class: "muted" }, r.lock.kind === "latch" ? "–" : t("locks.free"))) },
    { key: "age", title: t("locks.age"), cls: "n", by: (r) => r.holder?.ageMs, cell: (r) => duration(r.holder?.ageMs) },
    { key: "ttl", title: t("locks.ttl"), cls: "n", by: (r) => r.holder?.ttlMs, cell: (r) => duration(r.holder ? r.holder.ttlMs : r.lock.ttlMs) },
    { key: "token", title: t("locks.token"), cls: "n code", cell: (r) => r.holder?.token ?? none },
    { key: "waiting", title: t("locks.waiting"), cls: "n", by: (r) => r.lock.waiting, cell: (r) => (r.i ? null : h("span", { class: r.lock.waiting > 0 ? "warn" : "" }, count(r.lock.waiting))) },
    { key: "actions", cls: "actions", cell: (r) => (r.holder ? ctx.button(t("locks.release"), t("locks.releaseOf", { name: ctx.label(r.lock) }), () => release(ctx, r)) : null) },
  ],
  empty: () => ({
    title: t("locks.empty"),
    cli: "LOCK.ACQUIRE orders:42 60000", shell: "lock orders:42 -- sleep 60",
    go: 'locks, err := lock.New(client, lock.Options{})\nerr = locks.Do(ctx, "orders:42", ship)',
  }),
};

function kindOf(lock) {
  if (!lock.kind) return none;
  const text = known("kind.", lock.kind);
  return lock.kind === "lock" || !(lock.count >= 0) ? text : `${text} (${count(lock.count)})`;
}

function release(ctx, { lock, holder }) {
  ctx.confirm({
    title: t("locks.releaseTitle"), warning: t("locks.releaseWarning"), button: t("locks.release"),
    facts: [[t("column.name"), ctx.label(lock)], [t("column.kind"), known("kind.", lock.kind)], [t("locks.holder"), labelOf(holder)],
      [t("locks.age"), duration(holder.ageMs)], [t("locks.ttl"), duration(holder.ttlMs)], [t("locks.token"), String(holder.token ?? none)], [t("locks.waiting"), count(lock.waiting)]],
    request: { action: lock.kind === "semaphore" ? "semaphore.release" : "lock.release", ref: lock.ref, token: String(holder.token) },
  });
}
