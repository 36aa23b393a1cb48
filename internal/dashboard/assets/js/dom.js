// A small virtual DOM. h describes an element, patch makes the children of a node equal to
// descriptions and changes only what differs, so focus, selection and scroll positions stay.
// Data becomes text nodes and attributes; nothing is parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";
const properties = new Set(["value", "checked", "disabled", "hidden", "max", "selected"]);

// h describes an element. Props: attributes, on… handlers, key (identity among its siblings), vars
// (custom properties of CSS) and widget, a function that owns the content of the element.
export function h(tag, props, ...children) {
  return { tag, props: props || {}, kids: children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false && c !== "") };
}

export function patch(parent, kids) {
  const keyed = new Map();
  const loose = [];
  for (const node of parent.childNodes) {
    const key = node.described?.props.key;
    if (key === undefined) loose.push(node);
    else keyed.set(key, node);
  }
  let at = parent.firstChild;
  const used = new Set();
  for (const kid of kids) {
    const node = reuse(kid, keyed, loose, parent);
    used.add(node);
    if (node === at) at = at.nextSibling;
    else parent.insertBefore(node, at);
    update(node, kid);
  }
  for (const node of [...parent.childNodes]) if (!used.has(node)) node.remove();
}

function reuse(kid, keyed, loose, parent) {
  if (typeof kid !== "object") {
    const i = loose.findIndex((n) => n.nodeType === Node.TEXT_NODE);
    return i < 0 ? document.createTextNode("") : loose.splice(i, 1)[0];
  }
  const key = kid.props.key;
  if (key !== undefined) {
    const node = keyed.get(key);
    if (node && node.described.tag === kid.tag) {
      keyed.delete(key);
      return node;
    }
  } else {
    const i = loose.findIndex((n) => n.described?.tag === kid.tag);
    if (i >= 0) return loose.splice(i, 1)[0];
  }
  const svg = kid.tag === "svg" || (parent.namespaceURI === SVG && parent.localName !== "foreignObject");
  return svg ? document.createElementNS(SVG, kid.tag) : document.createElement(kid.tag);
}

function update(node, kid) {
  if (typeof kid !== "object") {
    const text = String(kid);
    if (node.data !== text) node.data = text;
    return;
  }
  const before = node.described?.props || {};
  node.described = kid;
  for (const name in before) if (!(name in kid.props)) set(node, name, null);
  if (!kid.props.widget) patch(node, kid.kids);
  for (const name in kid.props) set(node, name, kid.props[name], before[name]); // a select needs its options first
  if (kid.props.widget) kid.props.widget(node);
}

function set(node, name, value, before) {
  if (name === "key" || name === "widget") return;
  if (name === "vars") {
    for (const v in value) if (!before || before[v] !== value[v]) node.style.setProperty(v, value[v]);
  } else if (name.startsWith("on")) {
    node[name] = value;
  } else if (properties.has(name) && node.namespaceURI !== SVG) {
    if (node[name] !== value) node[name] = value ?? "";
  } else if (value === null || value === undefined || value === false) {
    node.removeAttribute(name);
  } else {
    const text = value === true ? "" : String(value);
    if (node.getAttribute(name) !== text) node.setAttribute(name, text);
  }
}
