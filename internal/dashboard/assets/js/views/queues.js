import { h } from "../dom.js";
import { bytes, count, duration, moment, none } from "../format.js";
import { known, t } from "../i18n.js";
import { address, states } from "../route.js";
import { facts, table, tile } from "../table.js";

export const queues = {
  rowKey: (r) => r.ref,
  charts: () => [],
  columns: (ctx) => [
    { key: "name", title: t("column.name"), cls: "name", by: (r) => r.name, cell: (r) => h("a", { href: address({ ...ctx.place, name: r.ref, q: "", page: "", state: r.dead > 0 && !r.ready ? "dead" : "ready" }) }, ctx.label(r)) },
    { key: "ready", title: t("state.ready"), cls: "n", by: (r) => r.ready, cell: (r) => count(r.ready) },
    { key: "due", title: t("state.due"), cls: "n", by: (r) => r.due, cell: (r) => count(r.due) },
    { key: "active", title: t("state.active"), cls: "n", by: (r) => r.active, cell: (r) => count(r.active) },
    { key: "waiting", title: t("state.waiting"), cls: "n", by: (r) => r.waiting, cell: (r) => count(r.waiting) },
    { key: "dead", title: t("state.dead"), cls: "n", by: (r) => r.dead, cell: (r) => h("span", { class: r.dead > 0 ? "bad" : "" }, count(r.dead)) },
    { key: "oldest", title: t("queues.oldest"), cls: "n", by: (r) => r.oldestMs, cell: (r) => (r.oldestMs > 0 ? duration(r.oldestMs) : none) },
    { key: "takers", title: t("queues.takers"), cls: "n", by: (r) => r.takers, cell: (r) => count(r.takers) },
    { key: "state", title: t("queues.state"), cell: condition },
  ],
  note: () => t("queues.note"),
  empty: () => ({
    title: t("queues.empty"),
    cli: 'QUEUE.PUT mail "hello Ann"', shell: "queue put mail 'hello Ann'",
    go: 'q, err := queue.New[Mail](client, queue.Options{})\nid, err := q.Put(ctx, "mail", Mail{To: "ann@example.com"})',
  }),
};

// condition tells a queue that is paused, or that nobody has served for a minute, from one that works.
function condition(r) {
  if (r.error) return h("span", { class: "bad" }, r.error);
  if (r.paused) return h("span", { class: "state warn" }, t("queues.paused"));
  if (r.ready > 0 && r.active === 0 && !r.takers && r.oldestMs > 60e3) return h("span", { class: "state bad" }, t("queues.idle"));
  return h("span", { class: "state good" }, t("queues.open"));
}

// queue shows one queue and a page of its messages in one state.
export function queue(ctx) {
  const { place, detail } = ctx;
  const row = ctx.snap.rows?.[0] || { name: detail?.name ?? decodeName(place.name), ref: place.name };
  const name = ctx.label(row);
  const messages = detail?.rows || [];
  return [
    h("p", { class: "back", key: "back" }, h("a", { href: address({ ...place, name: "", q: "", page: "", state: "ready" }) }, "← ", t("queues.all"))),
    h("header", { class: "title", key: "title" }, h("h2", {}, name), condition(row), h("span", { class: "gap" }),
      row.paused ? ctx.button(t("queues.resume"), null, () => ask(ctx, row, "queue.resume")) : ctx.button(t("queues.pause"), null, () => ask(ctx, row, "queue.pause")),
      ctx.button(t("queues.requeueAll"), null, () => ask(ctx, row, "queue.requeueAll", row.dead), row.dead === 0),
      ctx.button(t("queues.deleteAll"), null, () => ask(ctx, row, "queue.deleteAll", row.dead), row.dead === 0),
      ctx.button(t("queues.drain"), null, () => ask(ctx, row, "queue.drain", sum(row)), sum(row) === 0)),
    h("div", { class: "tiles small", key: "tiles" }, tile(t("queues.oldest"), row.oldestMs > 0 ? duration(row.oldestMs) : none), tile(t("queues.next"), row.nextMs >= 0 && row.nextMs !== null ? duration(row.nextMs) : none),
      tile(t("queues.takers"), count(row.takers), null, t("queues.note")), tile(t("queues.concurrency"), row.concurrency > 0 ? count(row.concurrency) : t("overview.noLimit"))),
    h("nav", { class: "tabs", key: "tabs", "aria-label": t("queues.states") }, states.map((s) =>
      h("a", { key: s, href: address({ ...place, state: s, page: "" }), "aria-current": s === place.state ? "true" : null }, t(`state.${s}`), " ", h("b", { class: s === "dead" && row.dead > 0 ? "bad" : "" }, count(row[s] ?? (s === place.state ? detail?.all : null)))))),
    detail?.error ? h("p", { class: "error", role: "alert", key: "error" }, detail.error) : null,
    !detail ? ctx.loading() : messages.length
      ? table({
        caption: t("queues.messages", { state: t(`state.${place.state}`), name }), rows: messages, rowKey: (m) => m.idRef, sort: ctx.sort, onSort: ctx.onSort,
        columns: [
          { key: "id", title: t("queues.id"), cls: "name code", by: (m) => m.id, cell: (m) => h("button", { type: "button", class: "link", onclick: () => ctx.showMessage(row, m, place.state, actions(ctx, row, m)) }, m.id) },
          { key: "attempts", title: t("queues.attempts"), cls: "n", by: (m) => m.attempts, cell: (m) => count(m.attempts) },
          { key: "failures", title: t("queues.failures"), cls: "n", by: (m) => m.failures, cell: (m) => count(m.failures) },
          { key: "when", title: t(`queues.when.${place.state}`), cls: "n", by: (m) => m.when, cell: (m) => when(m, ctx.snap.time) },
          { key: "bytes", title: t("column.bytes"), cls: "n", by: (m) => m.bytes, cell: (m) => bytes(m.bytes) },
          { key: "group", title: t("queues.group"), cls: "name", cell: (m) => m.group || none },
          { key: "reason", title: t("queues.reason"), cls: "name reason", cell: (m) => m.reason || none },
          { key: "actions", cls: "actions", cell: (m) => actions(ctx, row, m).map(([text, act]) => ctx.button(text, `${text}: ${m.id}`, act)) },
        ].filter((c) => !optional[c.key] || messages.some(optional[c.key])),
      })
      : h("p", { class: "muted", key: "none" }, place.q ? t("empty.noMatch", { q: place.q }) : t("queues.none", { state: t(`state.${place.state}`) })),
    ctx.pages(detail?.next),
  ];
}

// Columns that are left out when no message of the page has a value.
const optional = { when: (m) => m.when, group: (m) => m.group, reason: (m) => m.reason };

const when = (m, now) => (m.when ? h("span", { title: moment(m.when) }, m.when > now ? t("time.in", { time: duration(m.when - now) }) : t("time.ago", { time: duration(now - m.when) })) : none);

// decodeName reads the name in a ref, the form in which addresses have it.
export function decodeName(ref) {
  try {
    return new TextDecoder().decode(Uint8Array.from(atob(ref.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0)));
  } catch {
    return ref;
  }
}

const sum = (row) => (row.ready ?? 0) + (row.due ?? 0) + (row.waiting ?? 0);

function actions(ctx, row, message) {
  if (ctx.place.state === "dead") return [[t("queues.requeue"), () => ask(ctx, row, "queue.requeue", null, message)], [t("queues.delete"), () => ask(ctx, row, "queue.delete", null, message)]];
  return [[t("queues.cancel"), () => ask(ctx, row, "queue.cancel", null, message)]];
}

const words = {
  "queue.pause": () => [t("queues.pause"), t("queues.pauseWarning")],
  "queue.resume": () => [t("queues.resume"), t("queues.resumeWarning")],
  "queue.requeueAll": () => [t("queues.requeueAll"), t("queues.requeueWarning")],
  "queue.requeue": () => [t("queues.requeue"), t("queues.requeueWarning")],
  "queue.delete": () => [t("queues.delete"), t("queues.deleteWarning")],
  "queue.deleteAll": () => [t("queues.deleteAll"), t("queues.deleteWarning")],
  "queue.cancel": () => [t("queues.cancel"), t("queues.cancelWarning")],
  "queue.drain": () => [t("queues.drain"), t("queues.drainWarning")],
};

function ask(ctx, row, action, total, message) {
  const [title, warning] = words[action]();
  ctx.confirm({
    title, warning, button: title, total,
    danger: ["queue.delete", "queue.deleteAll", "queue.drain", "queue.cancel"].includes(action),
    facts: message ? [[t("queues.queue"), ctx.label(row)], ...about(message)]
      : [[t("queues.queue"), ctx.label(row)], ...states.map((s) => [t(`state.${s}`), row[s] === undefined ? null : count(row[s])])],
    request: { action, ref: row.ref, ...(message ? { idRef: message.idRef } : {}) },
  });
}

// about lists what is known of a message, without its payload.
export function about(m) {
  return [[t("queues.id"), m.id], [t("queues.state"), m.state && known("state.", m.state)], [t("queues.attempts"), count(m.attempts)], [t("queues.failures"), count(m.failures)],
    [t("queues.group"), m.group], [t("queues.time"), m.when ? moment(m.when) : null], [t("column.bytes"), bytes(m.bytes)], [t("queues.reason"), m.reason]];
}

export function headers(m) {
  const list = Object.entries(m.headers || {});
  return list.length ? [h("h3", {}, t("queues.headers")), facts(list)] : null;
}
