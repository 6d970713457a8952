// The script of the web application. Every page works without it: it lets an answer grow in place, sends a question with
// Enter, shows times in the visitor's time zone, and copies keys.

"use strict";

// The distance to the end of the page within which the page follows a growing answer, in pixels.
const NEAR_END = 160;

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
  had.slice(next.length).forEach((node) => node.remove());
};

// A section that the visitor has opened stays open.
const syncAttributes = (old, fresh) => {
  for (const { name } of [...old.attributes]) {
    if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (name !== "data-kept" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
};

const isNearEnd = () => {
  const { scrollHeight } = document.documentElement;
  return scrollHeight - window.innerHeight - window.scrollY < NEAR_END;
};
const toEnd = () => window.scrollTo({ top: document.documentElement.scrollHeight });

// Follows an answer in progress. Each event has what has changed since the one before; the first has the whole answer.
const follow = (article) => {
  const main = document.getElementById("main");
  const source = new EventSource(article.dataset.events);
  // The page is measured and moved once for each picture, however many events there are.
  let measured = false;
  const keepEndInView = () => {
    if (measured) return;
    measured = true;
    const follows = isNearEnd();
    requestAnimationFrame(() => {
      measured = false;
      if (follows) toEnd();
    });
  };
  const show = ({ data }) => {
    keepEndInView();
    const page = new DOMParser().parseFromString(JSON.parse(data).html, "text/html");
    const fresh = page.querySelector("article");
    syncAttributes(article, fresh);
    sync(article, fresh);
  };
  source.addEventListener("message", show);
  source.addEventListener("completed", (event) => {
    source.close();
    show(event);
    main.dataset.state = "idle";
    document.querySelector("#side [aria-current] .dot")?.remove();
  });
  // A stream that broke is opened again by the browser. One that was refused is not: the session may have ended.
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) window.location.reload();
  });
};

// Enter sends the question, Shift and Enter begins a new line.
const compose = (form) => {
  const input = form.querySelector("textarea");
  const main = document.getElementById("main");
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (main.dataset.state !== "open" && input.value.trim()) form.requestSubmit(form.querySelector(".send"));
  });
};

// Shows a time in the time zone of the visitor.
const localise = (element) => {
  const format = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "medium", timeStyle: "short" });
  const at = new Date(element.dateTime);
  if (!Number.isNaN(at.getTime())) element.textContent = format.format(at);
};

const offerCopy = (button) => {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = button.dataset.done;
  });
};

document.querySelectorAll("article[data-events]").forEach(follow);
document.querySelectorAll(".composer").forEach(compose);
document.querySelectorAll("time[data-time]").forEach(localise);
// Clipboards are closed to pages over plain HTTP.
if (navigator.clipboard) document.querySelectorAll("[data-copy]").forEach(offerCopy);
if (document.querySelector(".conversation") && !window.location.search) toEnd();
