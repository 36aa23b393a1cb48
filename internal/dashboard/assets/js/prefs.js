// Settings that the browser remembers. Where it forbids storage, they last as long as the page.

const memory = new Map();

export function remembered(name) {
  if (memory.has(name)) return memory.get(name);
  try {
    return localStorage.getItem("redoubt." + name) || "";
  } catch {
    return "";
  }
}

// remember stores value, or forgets the setting when value is empty.
export function remember(name, value) {
  memory.set(name, value);
  try {
    if (value) localStorage.setItem("redoubt." + name, value);
    else localStorage.removeItem("redoubt." + name);
  } catch {
    // The setting lasts as long as the page.
  }
}
