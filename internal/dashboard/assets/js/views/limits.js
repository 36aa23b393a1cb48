import { bar } from "../charts.js";
import { h } from "../dom.js";
import { count, duration, exact } from "../format.js";
import { known, t } from "../i18n.js";

export const limits = {
  charts: ({ snap, chartOf }) => [
    chartOf(t("limits.chart"), [["allowed", t("limits.allowed"), "c3"], ["denied", t("limits.denied"), "c4"]], count),
    deniedNames(snap.denials || [], chartOf),
  ],
  rowKey: (r) => `${r.kind} ${r.ref}`,
  columns: (ctx) => [
    { key: "name", title: t("column.name"), cls: "name", by: (r) => r.name, cell: ctx.name },
    { key: "policy", title: t("limits.policy"), by: (r) => r.policy, cell: policy },
    { key: "remaining", title: t("limits.remaining"), cls: "wide", by: (r) => (r.burst > 0 ? r.remaining / r.burst : null), cell: remaining },
    { key: "full", title: t("limits.full"), cls: "n", by: (r) => r.fullInMs, cell: (r) => (r.fullInMs === 0 ? t("limits.now") : duration(r.fullInMs)) },
    { key: "allowed", title: t("limits.allowed"), cls: "n", by: (r) => r.allowed, cell: (r) => h("span", { title: exact(r.allowed) }, count(r.allowed)) },
    { key: "denied", title: t("limits.denied"), cls: "n", by: (r) => r.denied, cell: (r) => h("span", { class: r.denied > 0 ? "warn" : "", title: exact(r.denied) }, count(r.denied)) },
  ],
  note: () => t("limits.note"),
  empty: () => ({
    title: t("limits.empty"),
    cli: "LIMIT.TAKE user:7 1 30 60000 16", shell: "limit try user:7 --rate 30/m --burst 16",
    go: 'limits, err := ratelimit.New(client, ratelimit.Options{\n\tLimit: ratelimit.Limit{Rate: 30, Period: time.Minute, Burst: 16},\n})\nd, err := limits.Allow(ctx, "user:7")',
  }),
};

// deniedNames draws the denials of the names that were denied most in the time that the charts show.
function deniedNames(list, chartOf) {
  const key = (d) => `${d.kind} ${d.ref}`;
  const title = list.length === 1 ? `${t("limits.deniedChart")}: ${list[0].name}` : t("limits.deniedChart");
  return chartOf(title, list.map((d) => [key(d), d.name]), count, Object.fromEntries(list.map((d) => [key(d), d])));
}

// policy says what kind of limit it is, and how much it allows where the server knows.
function policy(r) {
  if (r.error) return h("span", { class: "bad" }, r.error);
  const kinds = (r.policy || "").split(", ").filter((k) => k && k !== "stored").map((k) => known("kind.", k)).join(", ");
  return [r.limit > 0 ? t("limits.per", { n: count(r.limit), time: duration(r.periodMs) }) : "", kinds].filter(Boolean).join(" · ") || "–";
}

function remaining(r) {
  if (!(r.burst > 0) || r.remaining === null || r.remaining === undefined) return count(r.remaining);
  const text = t("limits.of", { remaining: count(r.remaining), limit: count(r.burst) });
  return h("div", { class: "measure" }, bar([{ size: r.remaining, cls: r.remaining > 0 ? "c3" : "c4", label: text }], r.burst, text), h("span", {}, text));
}
