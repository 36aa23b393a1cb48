// Dialogs: a confirmation that shows the object, a message of a queue, the keyboard.

import { act, get } from "./api.js";
import { h, patch } from "./dom.js";
import { exact } from "./format.js";
import { t } from "./i18n.js";
import { facts } from "./table.js";
import { about, headers } from "./views/queues.js";

// open shows a dialog; draw returns its content, given close and a function that draws again.
function open(draw, onClose) {
  const before = document.activeElement;
  const box = document.createElement("dialog");
  box.setAttribute("aria-labelledby", "dialog-title");
  const close = () => box.close();
  const again = () => box.isConnected && patch(box, draw(close, again).flat(Infinity).filter(Boolean));
  box.addEventListener("close", () => {
    box.remove();
    if (before?.isConnected) before.focus({ preventScroll: true });
    onClose?.();
  });
  box.addEventListener("click", (e) => e.target === box && box.dataset.busy !== "true" && close()); // the backdrop
  box.addEventListener("cancel", (e) => box.dataset.busy === "true" && e.preventDefault());
  document.body.append(box);
  again();
  box.showModal();
  return { box, again };
}

const heading = (text) => h("h2", { id: "dialog-title" }, text);
const button = (text, onclick, props) => h("button", { type: "button", onclick, ...props }, text);

// confirm asks before an action, repeats the request while the server has more to do, and shows
// progress. done is called after each answer.
export function confirm({ title, warning, button: verb, facts: pairs, request, total, danger = true, done }) {
  let phase = "ask"; // ask, busy, end
  let changed = 0;
  let error = "";
  let message = "";
  let stop = null;
  const dialog = open((close) => [
    heading(title),
    facts(pairs),
    phase === "ask" ? h("p", {}, warning) : null,
    phase === "busy" && total > 0 ? h("progress", { max: total, value: Math.min(changed, total), "aria-label": title }) : null,
    phase === "busy" ? h("p", { role: "status" }, t("action.busy", { n: exact(changed) })) : null,
    phase === "end" && !error ? h("p", { role: "status", class: "done" }, message || (changed ? t("action.done", { n: exact(changed) }) : t("action.nothing"))) : null,
    error ? h("p", { class: "error", role: "alert" }, error) : null,
    h("div", { class: "buttons" },
      phase === "ask" ? [button(t("action.back"), close, { key: "back", autofocus: true }), button(verb, run, { key: "run", class: danger ? "danger" : "primary" })] : null,
      phase === "busy" ? button(t("action.stop"), () => stop.abort(), { key: "stop" }) : null,
      phase === "end" ? button(t("action.close"), close, { key: "close", class: "primary" }) : null),
  ]);

  async function run() {
    stop = new AbortController();
    phase = "busy";
    dialog.box.dataset.busy = "true";
    let step = ""; // how far the server is
    dialog.again();
    try {
      for (let more = true; more;) {
        const answer = await act(step ? { ...request, step } : request, stop.signal);
        step = answer.step || "";
        changed += answer.done ?? 0;
        message = answer.message || "";
        more = answer.more === true;
        if (answer.ok === false) throw new Error(answer.error || message || t("action.failed"));
        dialog.again();
        done?.();
      }
    } catch (e) {
      error = e.name === "AbortError" ? t("action.stopped", { n: exact(changed) }) : e.message;
    }
    phase = "end";
    dialog.box.dataset.busy = "false";
    dialog.again();
    dialog.box.querySelector("button")?.focus();
    done?.();
  }
}

// message shows a message of a queue. The payload is asked for when the user wants it.
export function message({ source, row, message: m, state, actions }) {
  let whole = { ...m, state };
  let payload = null;
  let error = "";
  const stop = new AbortController();
  const dialog = open((close) => [
    heading(t("message.title")),
    facts(about(whole)),
    headers(whole),
    h("h3", {}, t("message.payload")),
    error ? h("p", { class: "error", role: "alert" }, error) : null,
    payload === null
      ? button(t("message.show"), () => fetchIt("1"), { key: "show" })
      : [whole.payloadBase64 ? h("p", { class: "muted" }, t("message.base64")) : null, h("pre", { class: "payload", tabindex: 0 }, payload || t("message.nothing")),
        whole.truncated ? h("p", { class: "muted" }, t("message.truncated")) : null],
    h("div", { class: "buttons" }, button(t("action.close"), close, { key: "close", class: "primary", autofocus: true }),
      actions.map(([text, act_]) => button(text, () => {
        close();
        act_();
      }, { key: text }))),
  ], () => stop.abort());
  fetchIt("");

  async function fetchIt(wanted) {
    try {
      const answer = await get("api/message", { source, ref: row.ref, idRef: m.idRef, payload: wanted }, stop.signal);
      whole = { ...whole, ...answer };
      if (wanted) payload = readable(answer);
      error = "";
    } catch (e) {
      if (e.name === "AbortError") return;
      error = e.message;
    }
    dialog.again();
  }
}

// readable indents JSON without changing its numbers and strings, and leaves everything else as it is.
function readable({ payload, payloadBase64, truncated }) {
  const text = payload ?? payloadBase64 ?? "";
  if (payloadBase64 || truncated || !/^\s*[[{]/.test(text)) return text;
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  let depth = 0;
  const line = (change) => "\n" + "  ".repeat(Math.max(0, depth += change));
  return text.replace(/("(?:[^"\\]|\\.)*")|\s+|([[{])\s*([\]}])|([[{])|([\]}])|(,)|(:)/g, (all, string, empty, end, open_, close, comma, colon) => {
    if (string) return string;
    if (empty) return empty + end;
    if (open_) return open_ + line(1);
    if (close) return line(-1) + close;
    if (comma) return comma + line(0);
    return colon ? ": " : "";
  });
}

export function keyboard() {
  open((close) => [
    heading(t("keys.title")),
    h("dl", { class: "facts keys" }, [["1 … 9", t("keys.views")], ["/", t("keys.search")], ["j  k", t("keys.rows")], ["Enter", t("keys.open")], ["Esc", t("keys.back")],
      ["[  ]", t("keys.pages")], ["r", t("keys.range")], ["s", t("keys.source")], ["t", t("keys.theme")], ["l", t("keys.language")], ["?", t("keys.help")]].map(([k, text]) =>
      h("div", { key: k }, h("dt", {}, k.split("  ").map((one) => h("kbd", {}, one))), h("dd", {}, text)))),
    h("div", { class: "buttons" }, button(t("action.close"), close, { class: "primary", autofocus: true })),
  ]);
}
