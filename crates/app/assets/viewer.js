
// Pictures of files, enlarged in a dialog. Escape and a click beside the picture close it.

const offerEnlarging = (viewer) => {
  const stage = viewer.querySelector(".enlarged");
  const fullSize = viewer.querySelector("[aria-pressed]");
  const showFullSize = (isFull) => {
    fullSize.setAttribute("aria-pressed", isFull);
    stage.classList.toggle("full", isFull);
    // What scrolls by itself is reached by keyboard.
    stage.tabIndex = isFull ? 0 : -1;
  };
  const toggle = () => showFullSize(!stage.classList.contains("full"));
  // A picture that is shown in its full size anyway has no other.
  const offerFullSize = (image) => {
    fullSize.hidden = image.naturalWidth <= image.clientWidth && image.naturalHeight <= image.clientHeight;
    image.classList.toggle("shrunk", !fullSize.hidden);
  };
  const enlarge = (button) => {
    const picture = document.createElement("div");
    // The passages that are marked on a page of a document are marked here, too.
    for (const part of button.parentNode.querySelectorAll("img, .marks")) picture.append(part.cloneNode(true));
    picture.querySelectorAll("[id]").forEach((element) => element.removeAttribute("id"));
    const image = picture.querySelector("img");
    image.loading = "eager";
    stage.replaceChildren(picture);
    viewer.setAttribute("aria-label", image.alt);
    showFullSize(false);
    viewer.showModal();
    image.decode().catch(() => {}).then(() => offerFullSize(image));
  };
  for (const button of document.querySelectorAll("[data-enlarge]")) {
    button.hidden = false;
    button.addEventListener("click", () => enlarge(button));
    button.parentNode.querySelector("img").addEventListener("click", () => button.click());
  }
  fullSize.addEventListener("click", toggle);
  viewer.querySelector("[data-close]").addEventListener("click", () => viewer.close());
  stage.addEventListener("click", ({ target }) => {
    if (!target.matches("img")) viewer.close();
    else if (!fullSize.hidden) toggle();
  });
};

document.querySelectorAll("[data-viewer]").forEach(offerEnlarging);
