// The script of the web application. Every page works without it: it lets an answer grow in place, shows what was asked
// elsewhere, sends a question with Enter, keeps what was not sent, shows times in the visitor's time zone, and copies keys,
// answers, formulas and code.

"use strict";

// The distance to the end of the page within which the page follows a growing answer, in pixels.
const NEAR_END = 160;
// The distance of a page that is at its end.
const AT_END = 4;
// The time for which a scroll upwards is that of the visitor who has just turned a wheel, moved a finger or pressed a key.
const STEERED_MS = 500;
const UPWARD_KEYS = ["ArrowUp", "PageUp", "Home"];

// Makes the children of `old` equal to those of `fresh`. What is equal stays, so that a selection survives; so do the first
// children of a text that has not changed there, which `fresh` leaves out.
const sync = (old, fresh) => {
  const had = [...old.childNodes].slice(fresh.dataset?.kept ?? 0);
  const next = [...fresh.childNodes];
  next.forEach((node, at) => {
    const present = had[at];
    if (!present) {
      old.append(node);
    } else if (!present.isEqualNode(node)) {
      if (present.nodeType === Node.ELEMENT_NODE && present.nodeName === node.nodeName) {
        syncAttributes(present, node);
        sync(present, node);
      } else {
        present.replaceWith(node);
      }
    }
  });
  // The rest of a long text comes with the next events.
  if (fresh.dataset?.more === undefined) had.slice(next.length).forEach((node) => node.remove());
};

// A section that the visitor has opened stays open.
const syncAttributes = (old, fresh) => {
  for (const { name } of [...old.attributes]) {
    if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (name !== "data-kept" && name !== "data-more" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
};

const fromEnd = () => document.documentElement.scrollHeight - window.innerHeight - window.scrollY;
const isNearEnd = () => fromEnd() < NEAR_END;
const toEnd = () => window.scrollTo({ top: document.documentElement.scrollHeight });

// The pictures after which the end of an answer is in view: one goes there, one has the real heights, one goes there again.
const SETTLED_FRAMES = 3;
const afterFrames = (count, task) => requestAnimationFrame(count > 1 ? () => afterFrames(count - 1, task) : task);

// The time of the main thread that events take in one turn, unless a single one takes longer, in milliseconds.
const TURN_MS = 8;

// The time within which an answer that is whole after its first text has come at once: its reader begins at its beginning.
const AT_ONCE_MS = 1000;

// Says that the connection is lost, until it is there again.
const connection = new EventTarget();
const tellLost = (isLost) => {
  const status = document.querySelector("[data-lost]");
  status.textContent = isLost ? status.dataset.lost : "";
};
const tellConnection = (source) => {
  source.addEventListener("open", () => {
    tellLost(false);
    connection.dispatchEvent(new Event("back"));
  });
  source.addEventListener("error", () => tellLost(true));
};
const connected = () => new Promise((resolve) => {
  connection.addEventListener("back", resolve, { once: true });
  window.addEventListener("online", resolve, { once: true });
});

// Follows an answer in progress. Each event has what has changed since the one before; a long change comes in several.
const follow = (article) => {
  const main = document.getElementById("main");
  const source = new EventSource(article.dataset.events);
  // The page is measured and moved once for each picture, however many events there are.
  let measured = false;
  // It follows the end until its visitor scrolls up, and again once they are back. Heights out of view are estimates, so a
  // distance from the end alone says little.
  let follows = isNearEnd();
  let top = window.scrollY;
  let steered = -STEERED_MS;
  let isSteered = false;
  const steer = (isUp) => {
    steered = isUp ? performance.now() : -STEERED_MS;
    isSteered ||= isUp;
  };
  const shown = new AbortController();
  const quiet = { passive: true, signal: shown.signal };
  document.addEventListener("wheel", ({ deltaY }) => steer(deltaY < 0), quiet);
  document.addEventListener("touchmove", () => steer(true), quiet);
  document.addEventListener("keydown", ({ key }) => steer(UPWARD_KEYS.includes(key)), quiet);
  document.addEventListener("scroll", () => {
    const isUp = window.scrollY < top;
    top = window.scrollY;
    // The first step of a visitor's way up counts. Without a visitor, heights have changed.
    if (isUp && performance.now() - steered < STEERED_MS) follows = fromEnd() < AT_END;
    else if (isUp || !follows) follows = isNearEnd();
  }, quiet);
  const keepEndInView = () => {
    if (measured) return;
    measured = true;
    // The event of a scroll to the end may still be on its way.
    follows ||= fromEnd() < AT_END;
    requestAnimationFrame(() => {
      measured = false;
      if (!follows) return;
      toEnd();
      // The event of this comes later, perhaps together with that of the visitor.
      top = window.scrollY;
    });
  };
  // What comes into view takes its real height only then, and the end moves again.
  const growth = new ResizeObserver(keepEndInView);
  growth.observe(main);
  // From here on, the page stays where its visitor has it, however it grows.
  const stopFollowing = () => {
    follows = false;
    growth.disconnect();
    shown.abort();
  };
  // The time of the first text, unless the page was loaded with some.
  const hasText = () => article.querySelector(".prose") !== null;
  let begun = hasText() ? -Infinity : null;
  const show = (data) => {
    keepEndInView();
    const page = new DOMParser().parseFromString(JSON.parse(data).html, "text/html");
    const fresh = page.querySelector("article");
    syncAttributes(article, fresh);
    sync(article, fresh);
    if (begun === null && hasText()) begun = performance.now();
  };
  // An answer that has come at once is read from its question on. The event of a scroll to its end may still be on its way.
  const showBeginning = () => {
    const isAtOnce = performance.now() - (begun ?? -Infinity) < AT_ONCE_MS;
    if (!isAtOnce || isSteered || article.offsetHeight < window.innerHeight) return;
    stopFollowing();
    requestAnimationFrame(() => (article.closest(".exchange") ?? article).scrollIntoView());
  };
  // Many events may arrive at once. They are shown in turns, between which the page is painted and hears its visitor.
  const waiting = [];
  const showWaiting = () => {
    const begun = performance.now();
    while (waiting.length > 0 && performance.now() - begun < TURN_MS) waiting.shift()();
    if (waiting.length > 0) window.setTimeout(showWaiting);
  };
  const later = (task) => {
    waiting.push(task);
    if (waiting.length === 1) window.setTimeout(showWaiting);
  };
  source.addEventListener("message", ({ data }) => later(() => show(data)));
  source.addEventListener("completed", ({ data }) => {
    source.close();
    later(() => {
      show(data);
      showBeginning();
      main.dataset.state = "idle";
      const status = document.querySelector("[data-complete]");
      if (status) status.textContent = status.dataset.complete;
      document.querySelector("#side [aria-current] .dot")?.remove();
      // Once the end is in view, the page grows by what its visitor opens.
      afterFrames(SETTLED_FRAMES, stopFollowing);
      waitForLater();
    });
  });
  tellConnection(source);
  // A stream that broke is opened again by the browser. One that was refused is not: the session may have ended.
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) window.location.reload();
  });
};

// Adds the exchanges that follow the last one of the page, if it is still part of the conversation that is shown.
const addLater = async () => {
  const main = document.getElementById("main");
  const response = await fetch(window.location.pathname).catch(() => null);
  if (!response?.ok) return;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const fresh = [...page.querySelectorAll(".exchange")];
  const last = [...main.querySelectorAll(".exchange")].at(-1);
  const later = fresh.slice(fresh.findIndex(({ id }) => id === last?.id) + 1);
  const now = page.getElementById("main");
  // Another branch is shown elsewhere, or the page was left meanwhile. Here, the reader goes on with this one.
  if (later.length === 0 || later.length === fresh.length || main.dataset.state !== "idle") return;
  const follows = isNearEnd();
  last.after(...later);
  main.dataset.state = now.dataset.state;
  main.dataset.later = now.dataset.later;
  for (const name of ["once", "after"]) {
    const [field, value] = [main, now].map((of) => of.querySelector(`.dock input[name=${name}]`));
    if (field && value) field.value = value.value;
  }
  later.forEach(equip);
  if (follows) toEnd();
  later.flatMap((exchange) => [...exchange.querySelectorAll("article[data-events]")]).forEach(follow);
  waitForLater();
};

// Waits for a question that is asked elsewhere, while the page is visible: a browser has few connections.
let later = null;
const waitForLater = () => {
  later?.close();
  later = null;
  const main = document.querySelector(".conversation");
  if (!main?.dataset.later || main.dataset.state !== "idle" || document.hidden) return;
  const source = new EventSource(main.dataset.later);
  source.addEventListener("later", () => {
    source.close();
    addLater();
  });
  later = source;
};

// Stops an answer in place: the end comes with its events, and a question that is being written stays.
const stopInPlace = async (event) => {
  if (!event.submitter?.matches(".stop")) return;
  event.preventDefault();
  const { formAction } = event.submitter;
  const stop = () => fetch(formAction, { method: "POST", redirect: "manual" }).catch(() => null);
  // The button goes away.
  event.target.querySelector("textarea").focus();
  let stopped = await stop();
  if (!stopped) {
    // Without a connection, the page says so, and asks again once it is back.
    tellLost(true);
    await connected();
    if (document.getElementById("main").dataset.state !== "open") return;
    stopped = await stop();
    tellLost(!stopped);
  }
  // Success leads to the page of the conversation, which is here.
  if (stopped && stopped.type !== "opaqueredirect") window.location.reload();
};

// What was written and not sent survives other forms of the page, a reload and the end of the session. The tab keeps it, for
// this account, until its question is asked or the account signs out.
const DRAFTS_MAX = 20;
const DRAFT_CHARACTERS_MAX = 100_000;
const DRAFTS = `drafts:${document.querySelector("#side .email")?.title}`;
const readDrafts = () => {
  try {
    return new Map(JSON.parse(window.sessionStorage.getItem(DRAFTS)));
  } catch {
    return new Map();
  }
};
const writeDrafts = (drafts) => {
  try {
    window.sessionStorage.setItem(DRAFTS, JSON.stringify([...drafts].slice(-DRAFTS_MAX)));
  } catch { /* The browser keeps nothing, or its room is full. */ }
};
// The questions of this tab that were accepted, as digests. A browser that goes back or loads a page again puts them into the box.
const ASKED = DRAFTS.replace("drafts:", "asked:");
const words = (text) => text.replace(/\s+/gu, " ").trim();
const askedAs = (text) => [...words(text)].reduce((hash, letter) => Math.imul(hash ^ letter.codePointAt(), 0x01000193), 0x811c9dc5);
const readAsked = () => {
  try {
    return JSON.parse(window.sessionStorage.getItem(ASKED)) ?? [];
  } catch {
    return [];
  }
};
const writeAsked = (asked) => {
  try {
    window.sessionStorage.setItem(ASKED, JSON.stringify(asked.slice(-DRAFTS_MAX)));
  } catch { /* As above. */ }
};
let keepsDrafts = true;
const keepDraft = (form) => {
  const input = form.querySelector("textarea");
  let isTyped = false;
  input.addEventListener("input", () => { isTyped = true; });
  const restore = () => {
    // A page that answers a form has what was sent with it.
    if (input.value !== input.defaultValue && readAsked().includes(askedAs(input.value))) input.value = "";
    if (!input.value) input.value = readDrafts().get(form.action) ?? "";
  };
  restore();
  // Browsers restore boxes before this, and whole pages that they have kept.
  window.addEventListener("pageshow", ({ persisted }) => {
    if (persisted || !isTyped) restore();
    if (persisted) isTyped = false;
  });
  const keep = () => {
    // Whoever types a question anew may ask it again.
    if (isTyped) writeAsked(readAsked().filter((asked) => asked !== askedAs(input.value)));
    const kept = readDrafts();
    kept.delete(form.action);
    if (keepsDrafts && input.value.trim() && input.value.length <= DRAFT_CHARACTERS_MAX) kept.set(form.action, input.value);
    writeDrafts(kept);
  };
  window.addEventListener("pagehide", keep);
  document.addEventListener("visibilitychange", () => { if (document.hidden) keep(); });
};
const forgetDrafts = () => {
  keepsDrafts = false;
  writeDrafts(new Map());
  writeAsked([]);
};
// A question that is on its page was accepted.
const forgetAsked = (conversation) => {
  const asked = words([...conversation.querySelectorAll(".said")].at(-1)?.textContent ?? "");
  if (asked) writeAsked([...readAsked().filter((known) => known !== askedAs(asked)), askedAs(asked)]);
  writeDrafts(new Map([...readDrafts()].filter(([, text]) => words(text) !== asked)));
};

// Enter sends the question, Shift and Enter begins a new line. A keyboard on a touch screen has no Shift for that.
const TOUCH = window.matchMedia("(hover: none) and (pointer: coarse)");
const compose = (form) => {
  const input = form.querySelector("textarea");
  const main = document.getElementById("main");
  if (!form.matches(".edit")) keepDraft(form);
  // A text that is edited is continued at its end.
  input.setSelectionRange(input.value.length, input.value.length);
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    if (TOUCH.matches && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    if (main.dataset.state !== "open" && input.value.trim()) form.requestSubmit(form.querySelector(".send"));
  });
  form.addEventListener("submit", stopInPlace);
};

// Shows the settings of the chosen model alone.
const showSettings = (choice) => {
  const show = () => choice.form.querySelectorAll("[data-model]").forEach((group) => {
    group.hidden = group.dataset.model !== choice.value;
  });
  choice.addEventListener("change", show);
  show();
};

// Says beside the choices of a further question what they are now.
const tellChosen = (shown) => {
  const choices = shown.closest(".choices");
  const kinds = "[name=model] option:checked, [name=agent] option:checked:not([value='']), [type=checkbox]:checked";
  const tell = () => {
    const chosen = [...choices.querySelectorAll(kinds)].map((one) => one.closest(".check") ?? one);
    shown.textContent = chosen.map(({ textContent }) => textContent.trim()).join(" · ");
  };
  choices.addEventListener("change", tell);
  // Browsers restore choices before this.
  tell();
};

// What scrolls by itself is reached by keyboard.
const reachScrolling = (element) => {
  if (element.scrollHeight > element.clientHeight || element.scrollWidth > element.clientWidth) element.tabIndex = 0;
};

// Shows a time in the time zone of the visitor.
const localise = (element) => {
  // The service writes days as they are written in Britain.
  const language = document.documentElement.lang.replace(/^en$/u, "en-GB");
  const format = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" });
  const at = new Date(element.dateTime);
  if (!Number.isNaN(at.getTime())) element.textContent = format.format(at);
};

// The text of a part of the page as it looks, in which formulas are as they were written. Only what is in the page has a look.
const plainText = (part) => {
  const copy = part.cloneNode(true);
  copy.querySelectorAll("math").forEach((math) => {
    const tex = math.querySelector("annotation")?.textContent ?? math.textContent;
    math.replaceWith(math.getAttribute("display") === "block" ? `\\[${tex}\\]` : `\\(${tex}\\)`);
  });
  copy.querySelectorAll(".copy-code").forEach((button) => button.remove());
  const shown = document.createElement("div");
  shown.className = "prose hidden";
  shown.append(...copy.childNodes);
  document.getElementById("main").append(shown);
  const text = shown.innerText.trim();
  shown.remove();
  return text;
};

// The text of an answer without its steps and reasoning, as it looks and as plain text.
const copied = (article) => {
  const texts = [...article.querySelectorAll(":scope > .prose")];
  const of = (kind, contents) => new Blob([contents.join(kind === "text/html" ? "" : "\n\n")], { type: kind });
  const withoutButtons = (text) => {
    const copy = text.cloneNode(true);
    copy.querySelectorAll(".copy-code").forEach((button) => button.remove());
    return copy.innerHTML;
  };
  return new ClipboardItem({
    "text/html": of("text/html", texts.map(withoutButtons)),
    "text/plain": of("text/plain", texts.map(plainText)),
  });
};

// A selection with formulas is copied with them as they were written, each of them whole.
const copyFormulas = (event) => {
  const selection = window.getSelection();
  if (selection.rangeCount === 0) return;
  const range = selection.getRangeAt(0).cloneRange();
  const formulaOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node : node.parentElement)?.closest("math");
  const [first, last] = [range.startContainer, range.endContainer].map(formulaOf);
  if (first) range.setStartBefore(first);
  if (last) range.setEndAfter(last);
  const part = document.createElement("div");
  part.append(range.cloneContents());
  if (!part.querySelector("math")) return;
  event.clipboardData.setData("text/html", part.innerHTML);
  event.clipboardData.setData("text/plain", plainText(part));
  event.preventDefault();
};

// The time for which a button says that it has copied, in milliseconds.
const COPIED_MS = 2000;
const offerCopy = (button) => {
  const label = button.lastChild;
  const text = label.textContent;
  let timer = 0;
  button.hidden = false;
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copy);
    if (source.matches("article")) await navigator.clipboard.write([copied(source)]);
    else await navigator.clipboard.writeText(source.textContent);
    label.textContent = button.dataset.done;
    window.clearTimeout(timer);
    timer = window.setTimeout(() => { label.textContent = text; }, COPIED_MS);
  });
};

// Copies a block of code. Answers that grow get further blocks, so the page listens for them all.
let forgetCopied = () => {};
const copyCode = async ({ target }) => {
  const button = target.closest(".copy-code");
  if (!button) return;
  try {
    await navigator.clipboard.writeText(button.nextElementSibling.textContent.replace(/\n$/u, ""));
  } catch {
    // Not permitted here: the code can still be selected.
    return;
  }
  forgetCopied();
  button.classList.add("done");
  const status = document.querySelector("[data-copied]");
  status.textContent = status.dataset.copied;
  const forget = () => {
    window.clearTimeout(timer);
    button.classList.remove("done");
    status.textContent = "";
  };
  const timer = window.setTimeout(forget, COPIED_MS);
  forgetCopied = forget;
};

// Sends a form and shows the page that answers it in place of this one, which a browser that goes back need not send again.
const sendInPlace = (form) => form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const body = new URLSearchParams(new FormData(form));
  const response = await fetch(form.action, { method: "POST", body, redirect: "manual" }).catch(() => null);
  const html = await response?.text().catch(() => null);
  const main = html && new DOMParser().parseFromString(html, "text/html").getElementById("main");
  // Without an answer, or to sign in again, the browser sends it: no form makes a second key.
  if (!main) return form.submit();
  document.getElementById("main").replaceWith(main);
  equip(main);
  main.querySelector(".made, .alert")?.focus();
});

// The menu lies over the page: it closes when the focus leaves it.
const closeSide = ({ target }) => {
  const side = document.querySelector("#side:popover-open");
  if (side && !side.contains(target)) side.hidePopover();
};

// What a part of the page needs, be it loaded with the page or later.
const equip = (part) => {
  part.querySelectorAll("time[data-time]").forEach(localise);
  part.querySelectorAll(".said, .preview pre").forEach(reachScrolling);
  part.querySelectorAll("form[data-in-place]").forEach(sendInPlace);
  // Clipboards are closed to pages over plain HTTP.
  if (navigator.clipboard) part.querySelectorAll("[data-copy]").forEach(offerCopy);
};

document.querySelectorAll("article[data-events]").forEach(follow);
document.querySelectorAll(".conversation").forEach(forgetAsked);
document.querySelectorAll(".composer").forEach(compose);
document.querySelector("[action='/sign-out']")?.addEventListener("submit", forgetDrafts);
if (HTMLElement.prototype.showPopover) document.addEventListener("focusin", closeSide);
document.querySelectorAll(".home select[name=model], .dock select[name=model]").forEach(showSettings);
document.querySelectorAll("[data-chosen]").forEach(tellChosen);
equip(document);
document.addEventListener("copy", copyFormulas);
document.addEventListener("visibilitychange", waitForLater);
waitForLater();
if (navigator.clipboard) {
  document.documentElement.classList.add("copies");
  document.addEventListener("click", copyCode);
}
if (document.querySelector(".conversation") && !window.location.search && !window.location.hash) {
  toEnd();
  // On a touch screen, a keyboard would cover the answer.
  if (window.matchMedia("(hover: hover)").matches) document.querySelector(".dock textarea")?.focus({ preventScroll: true });
}
