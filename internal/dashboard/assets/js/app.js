// The page: its frame, what it shows, and what the keyboard does.

import { get } from "./api.js";
import { chart } from "./charts.js";
import * as dialogs from "./dialogs.js";
import { h, patch } from "./dom.js";
import { count, duration } from "./format.js";
import { language, languages, speak, t } from "./i18n.js";
import { Poller } from "./poll.js";
import { remember, remembered } from "./prefs.js";
import { address, elsewhere, ranges, read, states, views } from "./route.js";
import * as shell from "./shell.js";
import { table } from "./table.js";
import { bloom } from "./views/bloom.js";
import { caches } from "./views/caches.js";
import { engine } from "./views/engine.js";
import { limits } from "./views/limits.js";
import { locks } from "./views/locks.js";
import { overview, scanned } from "./views/overview.js";
import { pools } from "./views/pools.js";
import { decodeName, queue, queues } from "./views/queues.js";
import { stock } from "./views/stock.js";

const lists = { locks, limits, queues, stock, caches, bloom };
const hiddenOf = { engine: ["pools"], redis: ["pools"], pool: ["engine"], memcached: views.filter((v) => v !== "overview" && v !== "pools") };
const themes = ["", "light", "dark"];
const countsOf = { locks: ["locks", "semaphores", "latches"], limits: ["limits", "throttles"], queues: ["queues"], stock: ["stock"], caches: ["caches"], bloom: ["bloom", "chains"] };

const root = document.getElementById("app");
let place = read();
let snap = null; // the last snapshot
let shown = null; // the place that snap is of
let detail = null; // the messages of a queue
let received = 0;
let failure = ""; // why the last request failed
let sort = null;
let trail = []; // the pages before this one
let typing = 0;
let typed = null; // a search that is being typed

const same = (a, b, fields) => fields.every((f) => a[f] === b[f]);

const poller = new Poller(async (signal) => {
  const wanted = place;
  try {
    const own = wanted.name !== "";
    const next = await get("api/snapshot", { source: wanted.source, view: wanted.view, range: wanted.range, ref: wanted.name, q: own ? "" : wanted.q, page: own ? "" : wanted.page }, signal);
    let messages = null;
    if (own) {
      messages = await get("api/queue", { source: next.source, ref: wanted.name, state: wanted.state, q: wanted.q, page: wanted.page }, signal).catch((e) => {
        if (signal.aborted) throw e;
        return { rows: [], error: e.message };
      });
    }
    if (wanted !== place) return 0;
    snap = next;
    detail = messages;
    shown = wanted;
    received = performance.now();
    failure = "";
  } catch (e) {
    if (signal.aborted && signal.reason?.name !== "TimeoutError") return 0; // another request took its place
    failure = e.name === "TimeoutError" ? t("status.slow") : e.name === "TypeError" ? t("status.unreachable") : e.message;
  }
  render();
  const wait = snap?.pollMs > 0 ? snap.pollMs : 1000;
  return failure ? Math.max(3 * wait, 3000) : wait;
});

// A failing back end makes no new data to draw; the age of the old data still grows.
setInterval(() => {
  if (!document.hidden && snap && stale()) render();
}, 1000);

const age = () => (snap?.age ?? 0) + (performance.now() - received);
const stale = () => Boolean(failure || snap?.error) || age() > 5000 + 3 * (snap?.pollMs ?? 0);

window.addEventListener("hashchange", () => {
  const before = place;
  place = read();
  typed = null;
  if (!same(before, place, ["source", "name", "state", "page", "q"])) detail = null;
  if (!same(before, place, ["source", "view", "name"])) {
    sort = null;
    trail = [];
    window.scrollTo(0, 0);
  }
  render();
  poller.now();
});

function go(changes) {
  location.hash = address({ ...place, ...changes });
}

// The frame

function render() {
  const focused = document.activeElement;
  const kind = sourceKind();
  const searched = place.name ? t("frame.searchMessages") : t("frame.search");
  const known = views.filter((v) => !hiddenOf[kind]?.includes(v));
  document.title = `${place.name ? decodeName(place.name) : titleOf(place.view)} · Redoubt`;
  patch(root, [
    h("a", { class: "skip", href: "#main", onclick: skip }, t("frame.skip")),
    h("header", { class: "top", key: "top" },
      h("a", { class: "brand", href: elsewhere(place, { view: "overview" }) }, h("span", { class: "logo", "aria-hidden": "true" }), h("span", { class: "word" }, "Redoubt")),
      sources(),
      searchable() ? h("input", { key: "search", type: "search", id: "search", value: typed ?? place.q, placeholder: searched, "aria-label": searched, "aria-keyshortcuts": "/", autocomplete: "off", spellcheck: "false", oninput: search }) : null,
      h("span", { class: "gap", key: "gap" }),
      status(),
      h("span", { class: "tools", key: "tools" },
        h("button", { type: "button", key: "theme", class: "tool", title: t("frame.theme", { theme: t(`theme.${theme() || "auto"}`) }), "aria-label": t("frame.theme", { theme: t(`theme.${theme() || "auto"}`) }), onclick: nextTheme }, { "": "◐", light: "☀", dark: "☾" }[theme()]),
        h("select", { key: "language", id: "language", "aria-label": t("frame.language"), value: language(), onchange: (e) => change(e.target.value) },
          Object.entries(languages).map(([tag, name]) => h("option", { key: tag, value: tag, lang: tag }, name))),
        h("button", { type: "button", key: "keys", class: "tool", title: t("keys.title"), "aria-label": t("keys.title"), onclick: dialogs.keyboard }, "?"))),
    h("nav", { class: "views", key: "views", "aria-label": t("frame.views") }, known.map((v) => h("a", {
      key: v, href: elsewhere(place, { view: v }), "aria-current": v === place.view ? "page" : null, "aria-keyshortcuts": String(views.indexOf(v) + 1),
    }, h("span", {}, titleOf(v)), numberOf(v)))),
    h("main", { key: "main", id: "main", tabindex: -1 }, troubles(), content()),
  ]);
  if (focused !== document.activeElement && focused?.isConnected && focused !== document.body && !document.querySelector("dialog")) focused.focus({ preventScroll: true });
}

const sourceNow = () => snap?.sources?.find((one) => one.name === (place.source || snap.source));
const sourceKind = () => sourceNow()?.kind;
const titleOf = (view) => (view === "engine" && sourceKind() === "redis" ? t("view.server") : t(`view.${view}`));
const theme = () => remembered("theme");
const searchable = () => place.view in lists;

function sources() {
  const list = snap?.sources || [];
  if (list.length < 2) return list.length ? h("span", { class: "source", key: "source" }, list[0].name) : null;
  return h("select", { key: "sources", id: "source", "aria-label": t("frame.source"), value: place.source || snap.source, onchange: (e) => {
    location.hash = elsewhere(place, { source: e.target.value });
  } }, list.map((s) => h("option", { key: s.name, value: s.name }, s.name)));
}

function numberOf(view) {
  const numbers = (countsOf[view] || []).map((k) => snap?.counts?.[k]).filter((n) => n !== undefined && n !== null);
  return numbers.length ? h("b", {}, count(numbers.reduce((a, b) => a + b, 0))) : null;
}

function status() {
  const [cls, text] = !snap ? failure ? ["bad", t("status.down")] : ["", t("status.loading")]
    : stale() ? ["bad", t("status.age", { time: duration(Math.floor(age() / 1000) * 1000) })] : ["good", t("status.live")];
  return h("span", { class: `state ${cls}`, key: "status", id: "status", title: snap?.user?.name ? t("status.user", { name: snap.user.name }) : null }, text);
}

function troubles() {
  const list = [];
  const time = snap ? duration(Math.floor(age() / 1000) * 1000) : "";
  if (failure) list.push(snap ? t("trouble.page", { error: failure, time }) : t("trouble.first", { error: failure }));
  else if (snap?.error) list.push(t("trouble.backend", { error: snap.error, time }));
  return list.map((text) => h("p", { class: "trouble", role: "alert", key: "trouble" }, text));
}

// The content

function content() {
  if (!snap || !same(shown, place, ["source", "view", "name"])) return failure && !snap ? null : [loading()];
  const context = contextOf();
  const view = lists[place.view];
  const head = h("div", { class: "head", key: "head" }, h("h1", {}, titleOf(place.view)), view ? scanned(snap.scan) : null, h("span", { class: "gap" }),
    !view || view.charts(context).some(Boolean) ? rangeButtons() : null);
  const wrong = typeof snap.panelError === "string" ? { rows: snap.panelError } : snap.panelError || {};
  const errors = Object.entries(wrong).filter(([, text]) => text).map(([part, text]) => h("p", { class: "error", role: "alert", key: `error ${part}` }, t("trouble.panel", { error: text })));
  const body = place.name ? queue : { overview, pools, engine }[place.view] || ((ctx) => list(view, ctx));
  return [h("div", { key: `view ${place.view} ${snap.source} ${place.name}` }, place.name ? null : head, errors, guarded(() => body(context)))];
}

// guarded draws a part. One that fails leaves the rest of the page, and the polls go on.
function guarded(draw) {
  try {
    return draw();
  } catch (e) {
    console.error(e);
    return h("p", { class: "error", role: "alert", key: "guarded" }, t("trouble.panel", { error: e.message }));
  }
}

const rangeButtons = () => h("span", { class: "ranges", role: "group", "aria-label": t("frame.range") }, ranges.map((r) =>
  h("button", { type: "button", key: r, "aria-pressed": String(r === place.range), onclick: () => go({ range: r }) }, t(`range.${r}`))));

function list(view, ctx) {
  const rows = view.rows ? view.rows(snap.rows || []) : snap.rows || [];
  const charts = view.charts(ctx).filter(Boolean);
  return [
    charts.length ? h("div", { class: "charts", key: "charts" }, charts) : null,
    rows.length && view.legend ? view.legend() : null,
    rows.length ? table({ caption: t(`view.${place.view}`), columns: view.columns(ctx), rows, rowKey: view.rowKey, rowClass: view.rowClass, sort, onSort: ctx.onSort })
      : snap.panelError ? null : shown.q ? noMatch() : nothing(view.empty()),
    view.note ? h("p", { class: "muted", key: "note" }, view.note()) : null,
    pages(snap.next),
  ];
}

const loading = () => h("p", { class: "loading", key: "loading" }, t("status.loading"));

const noMatch = () => h("section", { class: "empty", key: "empty" }, h("p", {}, t("empty.noMatch", { q: shown.q })), h("button", { type: "button", onclick: () => go({ q: "", page: "" }) }, t("empty.clear")));

// nothing says what to type to see something here: commands for the source, or snippets that stand for themselves.
function nothing({ title, snippets, ...commands }) {
  snippets ??= shell.lines(sourceNow()?.url, commands);
  return h("section", { class: "empty", key: "empty" }, h("h2", {}, title), scanned(snap.scan), h("p", {}, t("empty.try")),
    snippets.map(([tool, text]) => h("div", { class: "snippet", key: tool }, h("b", {}, tool), h("pre", { tabindex: 0 }, h("code", {}, text)))));
}

function pages(next) {
  if (!next && !place.page) return null;
  return h("nav", { class: "pages", key: "pages", "aria-label": t("page.label") },
    h("button", { type: "button", key: "back", disabled: !place.page, onclick: previousPage }, "← ", t("page.previous")),
    h("button", { type: "button", key: "next", disabled: !next, onclick: () => nextPage(next) }, t("page.next"), " →"));
}

function nextPage(next) {
  trail.push(place.page);
  go({ page: next });
}

const previousPage = () => go({ page: trail.pop() ?? "" });

function contextOf() {
  const canWrite = snap.user?.canWrite === true;
  const why = t("action.notAllowed");
  return {
    snap, place, detail, sort, loading, nothing, pages,
    onSort: (next) => {
      sort = next;
      render();
    },
    label: (row) => row.name,
    name: (row) => h("span", { title: row.name }, row.name),
    button: (text, label, act, disabled = false) => h("button", { type: "button", key: text, disabled: disabled || !canWrite, "aria-label": label, title: canWrite ? label : why, onclick: act }, text),
    confirm: (question) => dialogs.confirm({
      ...question, facts: [...(snap.sources.length > 1 ? [[t("frame.source"), snap.source]] : []), ...question.facts],
      request: { source: snap.source, ...question.request }, done: () => poller.now(),
    }),
    showMessage: (row, message, state, actions) => dialogs.message({ source: snap.source, row, message, state, actions: canWrite ? actions : [] }),
    chartOf: (title, lines, format, series = snap.series) => chart({
      key: title, title, lines: lines.map(([key, label, color], i) => ({ key, label, color: color || `c${i + 1}` })), series, range: place.range, end: snap.time, format,
      look: [theme(), dark.matches, language()],
    }),
  };
}

// What the user does

const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", render);

function skip(e) {
  e.preventDefault();
  document.getElementById("main").focus();
}

function search(e) {
  const q = typed = e.target.value;
  clearTimeout(typing);
  typing = setTimeout(() => {
    trail = [];
    history.replaceState(null, "", address({ ...place, q, page: "" }));
    window.dispatchEvent(new Event("hashchange"));
  }, 250);
}

function nextTheme() {
  const next = themes[(themes.indexOf(theme()) + 1) % themes.length];
  remember("theme", next);
  if (next) document.documentElement.dataset.theme = next;
  else delete document.documentElement.dataset.theme;
  render();
}

async function change(tag) {
  try {
    await speak(tag);
  } catch (e) {
    failure = e.message;
  }
  render();
}

// step moves the focus among the rows of the table.
function step(by) {
  const rows = [...document.querySelectorAll("main table.rows tbody tr")];
  const from = rows.findIndex((r) => r.contains(document.activeElement));
  const row = rows[from < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.max(0, Math.min(rows.length - 1, from + by))];
  const target = row?.querySelector("a[href], button:not([disabled])") || row;
  if (target === row) row?.setAttribute("tabindex", "-1");
  target?.focus();
}

const keys = {
  "/": () => document.getElementById("search")?.focus(),
  j: () => step(1),
  k: () => step(-1),
  "]": () => document.querySelector(".pages button:last-child:not([disabled])")?.click(),
  "[": () => document.querySelector(".pages button:first-child:not([disabled])")?.click(),
  r: () => go({ range: ranges[(ranges.indexOf(place.range) + 1) % ranges.length] }),
  s: () => document.getElementById("source")?.focus(),
  t: nextTheme,
  l: () => {
    const tags = Object.keys(languages);
    change(tags[(tags.indexOf(language()) + 1) % tags.length]);
  },
  "?": dialogs.keyboard,
  Escape: () => {
    clearTimeout(typing);
    typed = null;
    if (place.q) go({ q: "", page: "" });
    else if (place.name) go({ name: "", page: "", state: states[0] });
    else render();
  },
};

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.altKey || e.metaKey || e.isComposing || document.querySelector("dialog")) return;
  const field = e.target.closest?.("input, select, textarea");
  if (field) {
    if (e.key !== "Escape") return;
    field.blur();
    if (field.id !== "search") return;
  }
  const view = views[Number(e.key) - 1];
  const act = view ? () => document.querySelector(`nav.views a[aria-keyshortcuts="${e.key}"]`)?.click() : keys[e.key];
  if (!act) return;
  e.preventDefault();
  act();
});

async function start() {
  try {
    await speak();
  } catch (e) {
    failure = e.message; // texts are missing: the page shows their keys
  }
  render();
  poller.now();
}

start();
