// The menu of narrow windows, and the search. Pages work from files, where a script may not fetch: the index is a
// script that sets searchSections, loaded with MiniSearch once somebody is about to search.
"use strict";

/* global MiniSearch, searchSections */

(() => {
  const { lang, dataset: { root } } = document.documentElement;
  const form = document.getElementById("search");
  const input = form.querySelector("input");
  const list = document.getElementById("results");
  const menu = document.getElementById("menu");
  const menuButton = document.getElementById("menu-button");

  // The menu
  const current = menu.querySelector("[aria-current]");
  const showCurrent = () => { menu.scrollTop = current.offsetTop - menu.clientHeight / 2; };
  menuButton.addEventListener("click", () => {
    menuButton.setAttribute("aria-expanded", String(menu.classList.toggle("open")));
    showCurrent();
  });
  showCurrent();

  // Chinese has no spaces, so a run of its characters becomes pairs that overlap. In a text the last character
  // stands alone too: so each character begins a term, and a query of one character finds it by its prefix.
  const runs = /\p{Script=Han}+|(?:(?!\p{Script=Han})[\p{L}\p{N}\p{M}])+/gu;
  const han = /\p{Script=Han}/u;
  function terms(text, isQuery) {
    const found = [];
    for (const [run] of text.matchAll(runs)) {
      const characters = [...run];
      if (!han.test(run) || characters.length === 1) {
        found.push(run);
        continue;
      }
      for (let i = 0; i + 1 < characters.length; i++) found.push(characters[i] + characters[i + 1]);
      if (!isQuery) found.push(characters.at(-1));
    }
    return found;
  }

  let index; // a promise of the search
  function load() {
    const script = (name) => new Promise((resolve, reject) => {
      const element = document.createElement("script");
      element.src = root + name;
      element.onload = resolve;
      element.onerror = () => reject(new Error(`${element.src} does not load`));
      document.head.append(element);
    });
    index ??= Promise.all([script("minisearch/index.js"), script(`search-${lang}.js`)]).then(() => {
      const search = new MiniSearch({
        fields: ["name", "title", "text"],
        storeFields: ["title", "address", "heading", "text"],
        tokenize: (text) => terms(text, false),
        processTerm: (term) => term.toLowerCase().replace(/(?<=[a-z]{2}[^s])s$/, ""), // lock finds locks
      });
      search.addAll(searchSections.map(([title, address, heading, text], id) => ({ id, name: heading || title, title, address, heading, text })));
      return search;
    });
    return index;
  }

  const options = {
    tokenize: (text) => terms(text, true),
    prefix: true,
    fuzzy: (term) => (!han.test(term) && term.length > 4 ? 0.2 : false),
    boost: { name: 4, title: 2 },
    boostDocument: (id, term, stored) => (stored.heading ? 1 : 2), // a page comes before its parts
    combineWith: "AND",
  };

  // mark appends a text to an element, with the words that were found marked.
  function mark(element, text, words) {
    let end = 0;
    for (const m of words ? text.matchAll(words) : []) {
      const marked = document.createElement("mark");
      marked.textContent = m[0];
      element.append(text.slice(end, m.index), marked);
      end = m.index + m[0].length;
    }
    element.append(text.slice(end));
  }

  function option(hit, i, query) {
    // The words as typed are marked whole; pairs of Chinese would end before the last character.
    const found = [...query.match(runs) ?? [], ...hit.terms].toSorted((a, b) => b.length - a.length);
    const words = found.length ? new RegExp(`(?:${found.join("|")})s?`, "giu") : null;
    const link = document.createElement("a");
    link.href = root + hit.address;
    link.id = `result-${i}`;
    link.role = "option";
    link.tabIndex = -1;
    const title = document.createElement("b");
    mark(title, hit.heading ? `${hit.title} › ${hit.heading}` : hit.title, words);
    const at = Math.max(0, (words ? hit.text.search(words) : 0) - 40);
    const excerpt = document.createElement("span");
    mark(excerpt, (at > 0 ? "…" : "") + hit.text.slice(at, at + 160), words);
    link.append(title, excerpt);
    return link;
  }

  function choose(next) {
    const all = [...list.querySelectorAll("a")];
    for (const a of all) a.setAttribute("aria-selected", String(a === next));
    if (next) {
      input.setAttribute("aria-activedescendant", next.id);
      next.scrollIntoView({ block: "nearest" });
    } else {
      input.removeAttribute("aria-activedescendant");
    }
  }

  function open(isOpen) {
    list.hidden = !isOpen;
    input.setAttribute("aria-expanded", String(isOpen));
  }

  async function show() {
    const query = input.value.trim();
    if (!query) return open(false);
    list.textContent = list.dataset.loading;
    open(true);
    const search = await load();
    if (query !== input.value.trim()) return; // typed on
    const hits = search.search(query, options).slice(0, 20);
    list.textContent = hits.length ? "" : list.dataset.nothing;
    list.append(...hits.map((hit, i) => option(hit, i, query)));
    choose(list.querySelector("a"));
  }

  input.addEventListener("focus", () => { load(); if (input.value) show(); });
  input.addEventListener("input", (event) => { if (!event.isComposing) show(); });
  input.addEventListener("compositionend", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  input.addEventListener("keydown", (event) => {
    if (event.isComposing) return; // the key belongs to the input method
    const selected = list.querySelector("[aria-selected=true]");
    switch (event.key) {
      case "ArrowDown":
        choose(selected?.nextElementSibling ?? list.firstElementChild);
        break;
      case "ArrowUp":
        choose(selected?.previousElementSibling ?? list.lastElementChild);
        break;
      case "Enter":
        selected?.click();
        break;
      case "Escape":
        input.value = "";
        input.blur();
        open(false);
        break;
      default:
        return;
    }
    event.preventDefault();
  });
  list.addEventListener("click", (event) => { if (event.target.closest("a")) open(false); });
  document.addEventListener("pointerdown", (event) => { if (!form.contains(event.target)) open(false); });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      input.focus();
      input.select();
    }
  });
})();
