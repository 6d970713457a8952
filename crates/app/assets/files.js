
// Files: uploads by choosing, dropping and pasting, how far they are read, and menus.

// The most files of dropped or chosen folders, and the depth from which on folders in them are left out.
const FOLDER_FILES_MAX = 2000;
const FOLDER_DEPTH_MAX = 16;

// A file that was dropped or chosen, with the names of the folders that it lies in.
const placed = (file, folders = []) => ({ file, folders });

// Adds what an entry of a dropped folder holds to `found`. Hidden files stay where they are.
const addFiles = async (entry, folders, found) => {
  if (found.length > FOLDER_FILES_MAX || folders.length > FOLDER_DEPTH_MAX) return;
  if (folders.length > 0 && entry.name.startsWith(".")) return;
  if (entry.isFile) {
    found.push(placed(await new Promise((resolve, reject) => { entry.file(resolve, reject); }), folders));
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    const entries = await new Promise((resolve, reject) => { reader.readEntries(resolve, reject); });
    if (entries.length === 0) return;
    for (const inner of entries) await addFiles(inner, [...folders, entry.name], found);
  }
};

// Lists the files of a drop, those of its folders among them. What cannot be read is listed as it was dropped, so that its
// upload names it.
const droppedFiles = async ({ items, files }) => {
  // Both are there only during the event.
  const entries = [...items].map((item) => item.webkitGetAsEntry()).filter(Boolean);
  const dropped = [...files].map((file) => placed(file));
  if (entries.length === 0) return dropped;
  const found = [];
  try {
    for (const entry of entries) await addFiles(entry, [], found);
  } catch {
    return dropped;
  }
  return found;
};

// Lists the files of a chosen folder.
const folderFiles = (files) => files
  .map((file) => placed(file, file.webkitRelativePath.split("/").slice(0, -1)))
  .filter(({ file, folders }) => ![...folders.slice(1), file.name].some((name) => name.startsWith(".")));

// The folder of files that are attached to a question.
const UPLOADS = "/uploads";

// Calls `take` with the files that are dropped on the page.
const acceptDrops = (take) => {
  const hint = document.querySelector("[data-drop-hint]");
  const show = (over) => {
    document.body.classList.toggle("dropping", over);
    if (hint) hint.hidden = !over;
  };
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  document.addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    show(true);
  });
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) show(false);
  });
  document.addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    show(false);
    droppedFiles(event.dataTransfer).then(take);
  });
};

// Takes the files that are chosen in a picker, which forgets them: the same ones may be chosen again.
const takeChosen = (picker, take) => picker.addEventListener("change", () => {
  const chosen = [...picker.files];
  picker.value = "";
  take(chosen);
});

// Tells how many entries are chosen, and whether all are.
const countChosen = () => {
  const all = document.querySelector("[data-choose-all]");
  if (!all) return;
  const boxes = [...document.querySelectorAll(".entries [type=checkbox]")];
  const chosen = boxes.filter(({ checked }) => checked).length;
  all.checked = chosen === boxes.length;
  all.indeterminate = chosen > 0 && chosen < boxes.length;
  const note = document.querySelector(".entries-foot [data-some]");
  note.textContent = chosen > 0 ? note.dataset.some.replace("{}", chosen) : note.dataset.none;
};

// Shows the present entries of the folder below the list of uploads. What was chosen among them stays chosen. Resolves to
// whether they are shown.
const showEntries = async () => {
  // The answer to a form has another address than its folder.
  const { href, pathname } = window.location;
  const folder = pathname.startsWith("/files") ? href : document.querySelector(".crumbs [aria-current]")?.href ?? "/files";
  const response = await fetch(folder, { redirect: "manual" }).catch(() => null);
  // The session has ended.
  if (response?.type === "opaqueredirect") window.location.reload();
  if (!response?.ok) return false;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const below = (document) => {
    const all = [...document.getElementById("main").children];
    return all.slice(all.indexOf(document.querySelector("[data-drop-hint]")) + 1);
  };
  if (!page.querySelector("[data-drop-hint]")) return false;
  // Another order was chosen meanwhile, whose entries come later.
  if (window.location.href !== href) return true;
  const entries = below(page);
  const chosen = new Set([...document.querySelectorAll(".entries :checked")].map(({ value }) => value));
  for (const entry of entries) {
    entry.querySelectorAll("time[data-time]").forEach(localise);
    entry.querySelectorAll("[name=file]").forEach((box) => { box.checked = chosen.has(box.value); });
  }
  below(document).forEach((element) => element.remove());
  document.getElementById("main").append(...entries);
  // An empty folder has no archive.
  const archive = page.querySelector(".actions > a");
  if (archive && !document.querySelector(".actions > a")) document.querySelector(".actions").append(archive);
  countChosen();
  watchIndexing();
  return true;
};

// Shows the entries in the order that was chosen.
const sortEntries = async ({ form, id }) => {
  const url = new URL(form.action);
  url.search = new URLSearchParams(new FormData(form));
  history.replaceState(null, "", url);
  if (await showEntries()) document.getElementById(id)?.focus();
  else form.requestSubmit();
};

// A change is confirmed once, not when the page is loaded again.
const forgetDone = () => {
  const url = new URL(window.location.href);
  if (!url.searchParams.has("done")) return;
  url.searchParams.delete("done");
  url.searchParams.delete("count");
  history.replaceState(null, "", url);
};

// The page of a folder: uploads are listed with their progress, and once none runs, the entries are shown as they are then.
const uploadHere = (form) => {
  const list = document.querySelector("[data-uploads]");
  const picker = form.querySelector("input[type=file]");
  const destination = form.querySelector("[name=destination]").value;
  const status = document.createElement("p");
  status.setAttribute("role", "status");
  status.className = "note hidden";
  list.after(status);
  const say = (text) => {
    status.textContent = text;
    status.classList.toggle("hidden", !text);
  };
  let isWhole = true;
  // The lines of files that are among the entries once those are shown again.
  const stored = [];
  const noteCancelled = () => {
    isWhole = false;
    say(form.dataset.cancelled);
    list.hidden = list.children.length === 0;
  };
  const focusNext = () => (list.querySelector(".remove") ?? picker).focus();
  const queue = uploadQueue(form.dataset, focusNext, noteCancelled);
  list.after(queue.tally, queue.button);
  const addLine = (text) => {
    const line = document.createElement("li");
    line.append(text);
    list.append(line);
    return line;
  };
  const fail = (line, reason) => {
    isWhole = false;
    const note = document.createElement("span");
    note.className = "failed";
    note.textContent = reason;
    line.append(note);
  };
  const add = ({ file, folders }) => {
    const name = [...folders, file.name].map(shownName).join("/");
    const line = addLine(name);
    const { begin, end, signal, sending } = queue.addUpload(line, name);
    const leave = () => {
      end();
      line.remove();
      noteCancelled();
    };
    const sendFile = async () => {
      begin();
      // Those that run are in view.
      list.scrollTop = line.offsetTop - list.offsetTop - list.clientHeight / 2;
      try {
        await send(file, { destination: within(destination, folders) }, form.dataset, ...sending);
        // Of those that failed, no full bar stays.
        end({ isStored: true, keepsBar: true });
        stored.push(line);
      } catch (reason) {
        if (reason === CANCELLED) {
          leave();
          focusNext();
        } else {
          end();
          fail(line, reason);
        }
      }
    };
    return { signal, leave, send: sendFile };
  };
  const take = async (files) => {
    if (files.length === 0) return;
    if (!queue.isRunning()) {
      list.replaceChildren();
      say("");
      isWhole = true;
    }
    list.hidden = false;
    if (files.length > FOLDER_FILES_MAX) {
      fail(addLine(""), form.dataset.tooMany);
      return;
    }
    await queue.run(files, destination, add);
    // Others still run.
    if (queue.isRunning()) return;
    if (isWhole) say(form.dataset.done);
    await showEntries();
    // They would push the folder away. Those that failed stay.
    stored.splice(0).forEach((line) => line.remove());
    list.hidden = list.children.length === 0;
  };
  takeChosen(picker, (files) => take(files.map((file) => placed(file))));
  takeChosen(document.querySelector("[data-folder]"), (files) => take(folderFiles(files)));
  acceptDrops(take);
};

// The time between two looks at files that are being read, the most looks of a page, and the most files of a look, whose
// names make the address long.
const INDEXING_MS = 2000;
const INDEXING_LOOKS_MAX = 900;
const INDEXING_FILES_MAX = 20;
const GOES_ON = ["pending", "indexing"];

// Shows the state of a file's reading beside its name. What is read, or cannot be, is watched no more.
const showIndexing = (element, { state = "indexed", label = "", title }) => {
  const known = element.querySelector(".indexing");
  if (label) {
    const badge = known ?? element.appendChild(document.createElement("small"));
    badge.className = `indexing ${state}`;
    badge.textContent = label;
    badge.title = title ?? "";
  } else {
    known?.remove();
  }
  if (!GOES_ON.includes(state)) delete element.dataset.indexed;
};

let watchesIndexing = false;
const watchIndexing = async () => {
  if (watchesIndexing) return;
  watchesIndexing = true;
  for (let looks = 0; looks < INDEXING_LOOKS_MAX; looks += 1) {
    const all = [...document.querySelectorAll("[data-indexed]")];
    if (all.length === 0) break;
    if (!document.hidden) {
      const first = (looks % Math.ceil(all.length / INDEXING_FILES_MAX)) * INDEXING_FILES_MAX;
      const watched = all.slice(first, first + INDEXING_FILES_MAX);
      const asked = new URLSearchParams(watched.map(({ dataset }) => ["file", dataset.indexed]));
      const response = await fetch(`/workspace/indexing?${asked}`).catch(() => null);
      if (response && !response.ok) break;
      const states = new Map((await response?.json())?.map((state) => [state.path, state]));
      if (response) watched.forEach((element) => showIndexing(element, states.get(element.dataset.indexed) ?? {}));
    }
    await wait(INDEXING_MS);
  }
  watchesIndexing = false;
};

// A question that is sent while files are uploaded waits for them. If one of them fails, its writer decides.
const holdQuestion = (form, { waiting }) => {
  const status = document.createElement("p");
  status.setAttribute("role", "status");
  status.className = "note hidden";
  form.prepend(status);
  let uploads = 0;
  let failed = false;
  let held = null;
  const say = (text, isShown) => {
    status.textContent = text;
    status.classList.toggle("hidden", !isShown);
  };
  form.addEventListener("submit", (event) => {
    if (uploads === 0 || event.submitter?.matches(".stop")) return;
    event.preventDefault();
    held = event;
    say(waiting, true);
  }, { capture: true });
  // Runs uploads that were chosen together: `task` is given what to call with the outcome of each in words, and resolves to
  // whether all files are stored.
  return async (task) => {
    failed &&= uploads > 0;
    uploads += 1;
    const isWhole = await task((text) => { if (!held) say(text, false); });
    uploads -= 1;
    failed ||= !isWhole;
    if (uploads > 0 || !held) return;
    const { submitter } = held;
    held = null;
    say("", false);
    if (!failed) form.requestSubmit(submitter);
  };
};

// The form of a question: files become its attachments.
const attach = (link) => {
  const form = link.closest("form");
  const { remove, cancelled, uploaded } = link.dataset;
  const picker = document.createElement("input");
  picker.type = "file";
  picker.multiple = true;
  const list = form.querySelector(".attached") ?? document.createElement("ul");
  list.className = "attached";
  if (!list.parentNode) form.prepend(list);
  const uploading = holdQuestion(form, link.dataset);
  const queue = uploadQueue(link.dataset, () => form.querySelector("textarea").focus());
  list.after(queue.tally, queue.button);
  const addLine = (text) => {
    const line = document.createElement("li");
    const label = document.createElement("label");
    const name = document.createElement("span");
    name.dir = "auto";
    showName(name, text);
    label.append(name);
    line.append(label);
    list.append(line);
    return { line, label, name };
  };
  const offerRemoval = (line, name) => {
    const button = crossButton(remove, name);
    button.addEventListener("click", () => {
      line.remove();
      form.querySelector("textarea").focus();
    });
    line.firstChild.append(button);
  };
  // Shows a file that waits. Its upload resolves to the outcome: whether it is stored, and what is said about it.
  const add = ({ file, folders }) => {
    const shownPath = (name) => [...folders, name].map(shownName).join("/");
    const { line, label, name } = addLine(shownPath(file.name));
    const { begin, end, signal, sending } = queue.addUpload(label, name.textContent);
    const leave = () => {
      end();
      line.remove();
      return { stored: false, said: cancelled };
    };
    const isStored = (as) => ({ stored: true, said: `${uploaded}: ${as}` });
    const sendFile = async () => {
      begin();
      // Another file of the same name stays: earlier questions are about it.
      const fields = { destination: folders.length > 0 ? within(UPLOADS, folders) : "", "keep-both": "on" };
      try {
        const stored = await send(file, fields, link.dataset, ...sending);
        end({ isStored: true });
        const known = [...form.elements].find((box) => box.name === "file" && box.value === stored.path);
        if (known) {
          known.checked = true;
          line.remove();
          return isStored(shownName(stored.name));
        }
        const box = document.createElement("input");
        Object.assign(box, { type: "checkbox", name: "file", value: stored.path, checked: true });
        showName(name, shownPath(stored.name));
        label.prepend(box);
        label.dataset.indexed = stored.path;
        watchIndexing();
        return isStored(name.textContent);
      } catch (reason) {
        if (reason === CANCELLED) {
          form.querySelector("textarea").focus();
          return leave();
        }
        end();
        name.className = "failed";
        name.textContent += `: ${reason}`;
        name.setAttribute("role", "alert");
        offerRemoval(line, shownName(file.name));
        return { stored: false, said: "" };
      }
    };
    return { signal, leave, send: sendFile };
  };
  const take = (files) => uploading(async (say) => {
    // A question has room for fewer; the service says how many.
    const taken = files.slice(0, FOLDER_FILES_MAX);
    let stored = 0;
    const note = (outcome) => {
      if (outcome.said) say(outcome.said);
      if (outcome.stored) stored += 1;
    };
    const isCancelled = await queue.run(taken, UPLOADS, (file) => {
      const upload = add(file);
      return { ...upload, leave: () => note(upload.leave()), send: async () => note(await upload.send()) };
    });
    if (isCancelled) say(cancelled);
    return stored === taken.length;
  });
  // Without a script, the link leads to the files.
  link.setAttribute("role", "button");
  link.addEventListener("click", (event) => {
    event.preventDefault();
    picker.click();
  });
  link.addEventListener("keydown", (event) => {
    if (event.key !== " ") return;
    event.preventDefault();
    picker.click();
  });
  takeChosen(picker, (files) => take(files.map((file) => placed(file))));
  form.addEventListener("paste", (event) => {
    const files = [...event.clipboardData.files];
    if (files.length === 0) return;
    event.preventDefault();
    take(files.map((file) => placed(file)));
  });
  acceptDrops(take);
};

// The history: the next page is appended when its link comes into view. Without a script, the link leads there.
const loadMore = (link) => {
  const watch = new IntersectionObserver(async ([{ isIntersecting }]) => {
    if (!isIntersecting) return;
    watch.disconnect();
    const response = await fetch(link.href);
    if (!response.ok) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const entries = [...page.querySelectorAll("[data-endless] > li")];
    document.querySelector("[data-endless]").append(...entries);
    for (const entry of entries) entry.querySelectorAll("time[data-time]").forEach(localise);
    const next = page.querySelector("[data-more]");
    if (next) {
      link.href = next.getAttribute("href");
      watch.observe(link);
    } else {
      link.parentNode.remove();
    }
  }, { rootMargin: "600px" });
  watch.observe(link);
};

const offerPrint = (button) => {
  button.hidden = false;
  button.addEventListener("click", () => window.print());
};

// A menu closes when the visitor goes elsewhere. By Escape, the focus returns to its button.
const closeMenus = (except, returnsFocus = false) => {
  for (const menu of document.querySelectorAll("details.more[open]")) {
    if (menu.contains(except)) continue;
    if (returnsFocus && menu.contains(document.activeElement)) menu.querySelector("summary").focus();
    menu.open = false;
  }
};

document.documentElement.classList.add("scripted");
document.querySelectorAll("[data-upload]").forEach(uploadHere);
document.querySelectorAll("[data-attach]").forEach(attach);
document.querySelectorAll("[data-more]").forEach(loadMore);
document.querySelectorAll("[data-print]").forEach(offerPrint);
if (document.querySelector("main.files")) forgetDone();
watchIndexing();
// A browser that goes back fills in what was chosen.
window.addEventListener("pageshow", countChosen);
document.addEventListener("change", ({ target }) => {
  if (target.matches(".find-files select")) sortEntries(target);
  if (target.matches("[data-choose-all]")) {
    document.querySelectorAll(".entries [type=checkbox]").forEach((box) => { box.checked = target.checked; });
  }
  if (target.matches(".entries [type=checkbox], [data-choose-all]")) countChosen();
});
document.addEventListener("click", ({ target }) => closeMenus(target));
document.addEventListener("focusin", ({ target }) => closeMenus(target));
document.addEventListener("keydown", ({ key }) => {
  if (key === "Escape") closeMenus(null, true);
});
// The question whether to delete may open below the screen.
document.addEventListener("toggle", ({ target }) => {
  if (target.matches("details.confirm[open], details.more[open]")) target.lastElementChild.scrollIntoView({ block: "nearest" });
}, { capture: true });
