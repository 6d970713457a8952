// The reference works without this script: it adds tabs, search, the menu, themes, and trying calls with a key.
"use strict";

const root = document.documentElement;
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const make = (name, text, attributes = {}) => {
  const element = document.createElement(name);
  element.textContent = text;
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
};

/** Settings of the reader are remembered; the key never is. */
const setting = {
  get(name) {
    try { return localStorage.getItem(`docs-${name}`); } catch { return null; }
  },
  set(name, value) {
    try { localStorage.setItem(`docs-${name}`, value); } catch { /* then it lasts as long as the page */ }
  },
};

root.classList.add("scripted");
for (const element of all("[data-scripted]")) element.hidden = false;

// Tabs: one language for the whole page.
function choose(language) {
  for (const tab of all("[role=tab]")) {
    const chosen = tab.dataset.language === language;
    tab.setAttribute("aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
  }
  for (const panel of all("[data-panel]")) panel.hidden = panel.dataset.panel !== language;
}

for (const samples of all(".samples")) {
  const tabs = make("div", "", { role: "tablist", "aria-label": "Language" });
  for (const panel of all("[data-panel]", samples)) {
    const language = panel.dataset.panel;
    const caption = panel.querySelector("figcaption");
    const name = caption.textContent;
    // The tab is its caption; with both it could not be a panel.
    caption.remove();
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-label", name);
    const tab = make("button", name, { type: "button", role: "tab" });
    tab.dataset.language = language;
    tab.addEventListener("click", () => {
      const before = tab.getBoundingClientRect().top;
      choose(language);
      setting.set("language", language);
      // Samples above have other heights in other languages: the one that was clicked stays where it is.
      scrollBy({ top: tab.getBoundingClientRect().top - before, behavior: "instant" });
    });
    tabs.append(tab);
  }
  tabs.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const each = all("[role=tab]", tabs);
    const next = each[(each.indexOf(document.activeElement) + step + each.length) % each.length];
    next.click();
    next.focus();
  });
  samples.prepend(tabs);
}
const languages = all("[data-panel]").map((panel) => panel.dataset.panel);
choose(languages.includes(setting.get("language")) ? setting.get("language") : "curl");

// Samples name the service that shows them.
for (const address of all("[data-origin]")) address.textContent = location.origin;

if (navigator.clipboard) {
  for (const block of all("figure pre")) {
    const copy = make("button", "Copy", { type: "button", class: "copy" });
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.querySelector("code").textContent);
      copy.textContent = "Copied";
      copy.addEventListener("blur", () => (copy.textContent = "Copy"), { once: true });
    });
    block.before(copy);
  }
}

// The menu of small screens.
const menu = document.getElementById("menu");
function openMenu(open) {
  root.classList.toggle("menu-open", open);
  menu.setAttribute("aria-expanded", open);
}
menu.addEventListener("click", () => openMenu(!root.classList.contains("menu-open")));
document.querySelector("nav").addEventListener("click", (event) => {
  if (event.target.closest("a")) openMenu(false);
});
addEventListener("keydown", (event) => {
  if (event.key === "Escape") openMenu(false);
});

// Search: every word must be in the text of an operation or schema.
const search = document.getElementById("search");
const links = all("nav li a").map((link) => {
  const article = document.getElementById(link.hash.slice(1));
  const text = article.querySelector(".text")?.textContent ?? article.textContent;
  return { link, title: link.textContent.toLowerCase(), text: `${article.id} ${text}`.toLowerCase() };
});
function find() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const has = (text) => words.every((word) => text.includes(word));
  const found = links.filter(({ title, text }) => has(`${title} ${text}`));
  for (const { link } of links) link.parentElement.hidden = !found.some((one) => one.link === link);
  for (const list of all("nav ul")) list.previousElementSibling.hidden = !list.querySelector("li:not([hidden])");
  document.getElementById("none").hidden = found.length > 0;
  // What is named so comes before what mentions it.
  return found.find(({ title }) => has(title)) ?? found[0];
}
search.addEventListener("input", () => {
  find();
  openMenu(search.value !== "");
});
search.addEventListener("keydown", (event) => {
  if (event.key === "Enter") find()?.link.click();
  if (event.key === "Escape") {
    search.value = "";
    find();
  }
});
// From the field, arrows lead through what was found.
addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const from = event.target;
  if (!step || !(from === search || from.closest?.("nav li a"))) return;
  event.preventDefault();
  const stops = [search, ...all("nav li:not([hidden]) a")];
  stops[Math.min(Math.max(stops.indexOf(from) + step, 0), stops.length - 1)].focus();
});
addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select");
  if (event.key === "/" && !typing) {
    event.preventDefault();
    search.focus();
  }
});

// The link of what is being read is marked.
const read = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    for (const { link } of links) link.toggleAttribute("aria-current", link.hash === `#${target.id}`);
  }
}, { rootMargin: "-15% 0px -75% 0px" });
for (const article of all("article[id]")) read.observe(article);

// Themes: the system's, until another is chosen.
function showTheme(theme) {
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;
}
showTheme(setting.get("theme"));
document.getElementById("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  showTheme(dark ? "light" : "dark");
  setting.set("theme", root.dataset.theme);
});

document.getElementById("key-form").addEventListener("submit", (event) => event.preventDefault());

// Trying a call. The key is in the field of this page and nowhere else.
const RESULT_MAX = 200_000;
function requestOf(form) {
  let path = form.dataset.path;
  const query = new URLSearchParams();
  const headers = new Headers({ "X-Api-Key": document.getElementById("key").value.trim() });
  const parts = new FormData();
  let body;
  for (const field of all("[data-in]", form)) {
    const { name, value } = field;
    const place = field.dataset.in;
    if (place === "path") {
      const encoded = value.replace(/^\/+/, "").split("/").map(encodeURIComponent).join("/");
      path = path.replace(`{${name}}`, () => encoded);
    } else if (place === "json") body = value;
    else if (place === "file" && field.files[0]) parts.set(name, field.files[0]);
    else if (value && place === "query") query.set(name, value);
    else if (value && place === "header") headers.set(name, value);
    else if (value && place === "form") parts.set(name, value);
  }
  if (form.dataset.form !== undefined) body = parts;
  else if (body !== undefined) headers.set("Content-Type", "application/json");
  return [path + (query.size ? `?${query}` : ""), { method: form.dataset.method, headers, body }];
}

async function show(response, out) {
  out.textContent = `${response.status} ${response.statusText}\n`;
  for (const name of ["content-type", "retry-after", "x-request-id"]) {
    if (response.headers.has(name)) out.textContent += `${name}: ${response.headers.get(name)}\n`;
  }
  out.textContent += "\n";
  if (/json/.test(response.headers.get("content-type"))) {
    const text = await response.text();
    out.textContent += JSON.stringify(JSON.parse(text), null, 2).slice(0, RESULT_MAX);
    return;
  }
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let room = RESULT_MAX; room > 0; ) {
    const { done, value } = await reader.read();
    if (done) return;
    out.append(value.slice(0, room));
    room -= value.length;
    out.scrollTop = out.scrollHeight;
  }
  await reader.cancel();
  out.append("\n(there is more)");
}

for (const form of all("form.try")) {
  const out = form.querySelector(".result");
  const [send, stop] = all("button", form);
  let abort = new AbortController();
  stop.addEventListener("click", () => abort.abort());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!document.getElementById("key").value.trim()) {
      document.getElementById("key").focus();
      out.textContent = "Paste a key at the top of the page first.";
      return;
    }
    abort = new AbortController();
    [send.disabled, stop.hidden, out.textContent] = [true, false, "…"];
    try {
      const [url, request] = requestOf(form);
      await show(await fetch(url, { ...request, signal: abort.signal, cache: "no-store" }), out);
    } catch (error) {
      out.append(abort.signal.aborted ? "\n(stopped)" : `\n${error.message}`);
    } finally {
      [send.disabled, stop.hidden] = [false, true];
    }
  });
}
