// Texts. i18n/en.json and i18n/zh-CN.json have the same keys.

import { remember, remembered } from "./prefs.js";

export const languages = { en: "English", "zh-CN": "简体中文" };

let texts = {};
let fallback = {};
let current = "en";

export const language = () => current;

// preferred picks the language of a list of tags, such as navigator.languages: the first tag of which
// the primary language is known. zh-Hans-SG and zh-TW are zh-CN, en-GB is en.
export function preferred(tags) {
  for (const tag of tags) {
    const primary = String(tag).toLowerCase().split(/[-_]/)[0];
    for (const known in languages) if (known.toLowerCase().split("-")[0] === primary) return known;
  }
  return "en";
}

// speak loads a language; without one, the remembered language or that of the browser.
export async function speak(chosen) {
  if (chosen) remember("language", chosen);
  const stored = remembered("language");
  const next = stored in languages ? stored : preferred(navigator.languages || [navigator.language]);
  const [own, english] = await Promise.all([load(next), load("en")]);
  texts = own;
  fallback = english;
  current = next;
  document.documentElement.lang = next;
}

const loaded = {};

async function load(name) {
  if (!loaded[name]) {
    const answer = await fetch(new URL(`../i18n/${name}.json`, import.meta.url));
    if (!answer.ok) throw new Error(`${answer.status} ${name}.json`);
    loaded[name] = await answer.json();
  }
  return loaded[name];
}

// t returns a text with its {names} filled in.
export function t(key, values) {
  const text = texts[key] ?? fallback[key] ?? key;
  return values ? text.replace(/\{(\w+)\}/g, (all, name) => values[name] ?? all) : text;
}

// known returns the text of a word that the server sends, such as a kind of lock, or the word itself.
export function known(prefix, word) {
  return texts[prefix + word] ?? fallback[prefix + word] ?? String(word ?? "–");
}
