// The place in the page, kept in the fragment of its address: #/queues/mail?state=dead&q=…

export const views = ["overview", "locks", "limits", "queues", "stock", "caches", "bloom", "pools", "engine"];
export const ranges = ["minute", "hour", "day"];
export const states = ["ready", "due", "active", "dead"];

export function read() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [view, ...rest] = path.split("/");
  const params = new URLSearchParams(query || "");
  const one = (name, known) => (known.includes(params.get(name)) ? params.get(name) : known[0]);
  return {
    view: views.includes(view) ? view : "overview",
    name: view === "queues" ? decode(rest.join("/")) : "",
    state: one("state", states),
    range: one("range", ranges),
    source: params.get("source") || "",
    q: params.get("q") || "",
    page: params.get("page") || "",
  };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function address(place) {
  const params = new URLSearchParams();
  if (place.source) params.set("source", place.source);
  if (place.range !== ranges[0]) params.set("range", place.range);
  if (place.q) params.set("q", place.q);
  if (place.name && place.state !== states[0]) params.set("state", place.state);
  if (place.page) params.set("page", place.page);
  const query = params.toString();
  return `#/${place.view}${place.name ? "/" + encodeURIComponent(place.name) : ""}${query ? "?" + query : ""}`;
}

// elsewhere is the address of another view of the same source and range.
export const elsewhere = (place, changes) => address({ ...place, name: "", q: "", page: "", state: states[0], ...changes });
