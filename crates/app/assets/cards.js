
// Cards of citations: hovering, focusing or touching a citation shows the passage that it cites. The card stays while the
// pointer is on it or on the citation, and Escape closes it.

const CARD_AFTER_MS = 150;
const CARD_STAYS_MS = 250;
// Cards are kept while the answers that they belong to are completed.
const CARDS_MAX = 200;
const CARD_GAP = 8;
// A card is at least so high, even where it covers its citation.
const CARD_HEIGHT_MIN = 180;
// In a window that is lower than this, a card may cover the bar.
const LOW_WINDOW = 320;

const cards = new Map();
const loadCard = async (address) => {
  if (cards.has(address)) return cards.get(address);
  const response = await fetch(address).catch(() => null);
  if (!response?.ok || response.redirected) return null;
  const html = await response.text();
  if (cards.size >= CARDS_MAX) cards.clear();
  cards.set(address, html);
  return html;
};

const offerCards = () => {
  const card = document.createElement("div");
  card.id = "card";
  card.className = "citation-card";
  card.popover = "manual";
  card.setAttribute("role", "tooltip");
  document.getElementById("main").append(card);
  let of = null;
  let timer = 0;

  const hide = () => {
    window.clearTimeout(timer);
    of?.removeAttribute("aria-describedby");
    of = null;
    if (card.matches(":popover-open")) card.hidePopover();
  };
  // Below the citation, or above it where there is more room; within the window, below the bar.
  const place = () => {
    const [at] = [...of.getClientRects()].slice(-1);
    const { clientWidth, clientHeight } = document.documentElement;
    const bar = clientHeight < LOW_WINDOW ? 0 : document.querySelector(".bar").offsetHeight;
    const first = bar + CARD_GAP / 2;
    const last = clientHeight - CARD_GAP / 2;
    const above = at.top - CARD_GAP / 2 - first;
    const below = last - at.bottom - CARD_GAP / 2;
    card.style.maxHeight = `${Math.min(Math.max(above, below, CARD_HEIGHT_MIN), last - first)}px`;
    const { width, height } = card.getBoundingClientRect();
    const isBelow = below >= height || below >= above;
    const left = Math.max(CARD_GAP, Math.min(at.left - CARD_GAP, clientWidth - width - CARD_GAP));
    const top = isBelow ? at.bottom + CARD_GAP / 2 : at.top - height - CARD_GAP / 2;
    card.style.left = `${left + window.scrollX}px`;
    card.style.top = `${Math.max(first, Math.min(top, last - height)) + window.scrollY}px`;
  };
  const show = async (link) => {
    if (of === link) return;
    hide();
    of = link;
    const article = link.closest("[data-cards]");
    const html = await loadCard(article.dataset.cards + link.dataset.citation.slice(1));
    // The visitor may have gone elsewhere, and the answer may have grown, while the card was loaded.
    if (of !== link || !link.isConnected) return;
    if (html === null) {
      hide();
      return;
    }
    // An answer in progress does not know yet whether a passage supports it.
    if (article.dataset.events) cards.delete(article.dataset.cards + link.dataset.citation.slice(1));
    card.replaceChildren(...new DOMParser().parseFromString(html, "text/html").body.childNodes);
    card.showPopover();
    place();
    link.setAttribute("aria-describedby", "card");
  };
  const later = (task, ms) => {
    window.clearTimeout(timer);
    timer = window.setTimeout(task, ms);
  };
  const citation = ({ target }) => target.closest?.("[data-cards] a[data-citation]");

  document.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch") return;
    const link = citation(event);
    if (link) later(() => show(link), CARD_AFTER_MS);
    else if (event.target.closest?.("#card")) window.clearTimeout(timer);
    else if (!of || of !== document.activeElement) later(hide, CARD_STAYS_MS);
  });
  document.addEventListener("focusin", (event) => {
    const link = citation(event);
    if (link?.matches(":focus-visible")) later(() => show(link), 0);
    else if (!event.target.closest?.("#card")) later(hide, CARD_STAYS_MS);
  });
  // The first touch shows the card, which leads on; the second touch follows the link.
  let touched = false;
  document.addEventListener("pointerdown", ({ pointerType }) => { touched = pointerType === "touch"; });
  document.addEventListener("click", (event) => {
    const link = citation(event);
    if (link && touched && of !== link) {
      event.preventDefault();
      show(link);
    } else if (!link && !event.target.closest("#card")) {
      hide();
    }
  });
  document.addEventListener("keydown", ({ key }) => {
    if (key === "Escape") hide();
  });
  window.addEventListener("resize", hide);
};

if (document.querySelector("#main [data-cards]") && HTMLElement.prototype.showPopover) offerCards();
