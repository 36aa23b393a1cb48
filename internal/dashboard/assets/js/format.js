// Numbers, sizes and times as people say them. What is not known is a dash.

import { language, t } from "./i18n.js";

export const none = "–";

const unknown = (v) => v === null || v === undefined || Number.isNaN(v);
const makers = new Map();

function formatter(options) {
  const key = language() + JSON.stringify(options);
  if (!makers.has(key)) makers.set(key, new Intl.NumberFormat(language(), options));
  return makers.get(key);
}

// count writes up to five digits in full and larger numbers compactly.
export function count(v) {
  if (unknown(v)) return none;
  if (Math.abs(v) < 1e5) return formatter({ maximumFractionDigits: Math.abs(v) < 10 ? 1 : 0 }).format(v);
  return formatter({ notation: "compact", maximumFractionDigits: 1 }).format(v);
}

export const exact = (v) => (unknown(v) ? none : formatter({ maximumFractionDigits: 3 }).format(v));

export function percent(v, digits = 1) {
  if (unknown(v)) return none;
  if (v > 0 && v < 0.0001) return "< " + formatter({ style: "percent", maximumFractionDigits: 2 }).format(0.0001);
  return formatter({ style: "percent", maximumFractionDigits: v < 0.01 ? Math.max(digits, 2) : digits }).format(v);
}

export function bytes(v) {
  if (unknown(v)) return none;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0;
  let n = v;
  while (Math.abs(n) >= 1024 && i < units.length - 1) {
    n /= 1024;
    i++;
  }
  return `${formatter({ maximumFractionDigits: i === 0 || n >= 100 ? 0 : 1 }).format(n)} ${units[i]}`;
}

// micros writes a latency that is given in microseconds.
export function micros(us) {
  if (unknown(us)) return none;
  if (us < 1000) return `${formatter({ maximumFractionDigits: us < 10 ? 1 : 0 }).format(us)} µs`;
  return duration(us / 1000);
}

// duration writes milliseconds with at most two units.
export function duration(ms) {
  if (unknown(ms)) return none;
  if (ms < 0) return `−${duration(-ms)}`;
  if (ms < 1000) return t("time.ms", { n: formatter({ maximumFractionDigits: ms < 10 ? 1 : 0 }).format(ms) });
  if (ms < 60e3) return t("time.s", { n: formatter({ maximumFractionDigits: ms < 10e3 ? 1 : 0 }).format(Math.floor(ms / 100) / 10) });
  const [large, small, size, part] = ms < 3600e3 ? ["min", "s", 60e3, 1e3] : ms < 86400e3 ? ["h", "min", 3600e3, 60e3] : ["d", "h", 86400e3, 3600e3];
  const rest = Math.floor((ms % size) / part);
  const first = t(`time.${large}`, { n: formatter({}).format(Math.floor(ms / size)) });
  return rest ? `${first} ${t(`time.${small}`, { n: rest })}` : first;
}

export function clock(ms, seconds) {
  if (unknown(ms)) return none;
  return new Date(ms).toLocaleTimeString(language(), { hour: "2-digit", minute: "2-digit", second: seconds ? "2-digit" : undefined, hourCycle: "h23" });
}

export const moment = (ms) => (unknown(ms) ? none : new Date(ms).toLocaleString(language(), { hourCycle: "h23" }));
