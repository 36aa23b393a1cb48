// The requests of the page. All addresses are relative to it, so it works below any prefix.

async function ask(path, options) {
  const answer = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
  const text = await answer.text();
  let body;
  try {
    body = JSON.parse(text);
  } catch {
    body = { error: text.trim().slice(0, 300) };
  }
  if (!answer.ok) throw new Error(body.error || body.message || `${answer.status} ${answer.statusText}`);
  return body;
}

export function get(path, query, signal) {
  const params = new URLSearchParams();
  for (const name in query) if (query[name]) params.set(name, query[name]);
  const text = params.toString();
  return ask(text ? `${path}?${text}` : path, { signal });
}

export function act(body, signal) {
  return ask("api/action", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });
}
