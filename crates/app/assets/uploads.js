
// Sends files, large ones in pieces, with their progress.

// The uploads at one time; the others wait.
const UPLOADS_AT_ONCE = 2;

// Files from this size on are sent in pieces, which go on where a broken connection ended them. Proxies let requests of this size
// through unless they are told otherwise.
const PIECES_FROM_BYTES = 512 << 10;
const PIECE_BYTES = 512 << 10;
// The failures in a row after which an upload is given up: the last wait is half a minute. Choosing the file again goes on
// with it, also in another page.
const FAILURES_MAX = 8;
const WAIT_MS = 250;
const LATER = [408, 429, 502, 503, 504];
// The service, or the proxy before it, does not answer.
const isLost = (status) => status === 0 || status > 500;

// A wait ends early when `signal` is aborted.
const wait = (ms, signal) => new Promise((resolve) => {
  window.setTimeout(resolve, ms);
  signal?.addEventListener("abort", resolve, { once: true });
});

// The text of a failure, of `texts`: what the service says, or that a proxy before it refuses the size.
const TOO_LARGE = 413;
const reasonOf = (status, said, texts) => said?.error ?? (status === TOO_LARGE ? texts.proxied : texts.failed);

// The reason of an upload that its user has cancelled.
const CANCELLED = Symbol("cancelled");

// Sends a request and resolves to its status and its JSON; status 0 if there is no answer.
const ask = async (path, options = {}) => {
  try {
    const response = await fetch(path, { ...options, headers: { Accept: "application/json" } });
    return { status: response.status, said: await response.json().catch(() => ({})) };
  } catch {
    return { status: 0, said: {} };
  }
};

// A name as the service shows it: without marks that turn the direction of letters, by which it shows an extension that it does not
// have. Blanks at its ends are visible, and all letters of a name that shows none.
const BLANK = /^[\s\p{Cc}\u00ad\u034f\u115f\u1160\u180e\u200b-\u200f\u2060-\u2064\u2800\u3164\ufeff\uffa0]*$/u;
const shownName = (name) => BLANK.test(name)
  ? "\u2423".repeat([...name].length)
  : name.replace(/[\u202a-\u202e\u2066-\u2069]/g, "\ufffd").replace(/^\s+|\s+$/gu, (blanks) => "\u2423".repeat(blanks.length));

// Shows a name as the service does: one that has no room is cut before its extension.
const UNDIVIDED_MAX_CHARACTERS = 20;
const EXTENSION = /(?<=.)\.[A-Za-z0-9]{1,10}$/u;
const showName = (element, name) => {
  const parts = [...name].length > UNDIVIDED_MAX_CHARACTERS ? name.match(EXTENSION) : null;
  element.className = "file-name";
  element.textContent = parts ? "" : name;
  for (const text of parts ? [name.slice(0, parts.index), parts[0]] : []) {
    element.append(Object.assign(document.createElement("span"), { textContent: text }));
  }
};

// Tells a file from others of the same name, size and time: hashes samples that are spread over it (FNV-1a; pages over plain
// HTTP have no better one).
const SAMPLES = 64;
const SAMPLE_BYTES = 16384;
const digestOf = async (file) => {
  let hash = 0x811c9dc5;
  for (let sample = 0; sample < SAMPLES; sample += 1) {
    const at = Math.floor((file.size - SAMPLE_BYTES) * sample / (SAMPLES - 1));
    const bytes = new Uint8Array(await file.slice(at, at + SAMPLE_BYTES).arrayBuffer());
    for (const byte of bytes) hash = Math.imul(hash ^ byte, 0x01000193);
  }
  return (hash >>> 0).toString(16);
};

// Removes what has arrived of a cancelled upload. If the service is not reached, it does so itself a day later.
const discard = async (upload) => {
  for (let failures = 0; failures < FAILURES_MAX; failures += 1) {
    const { status } = await ask(upload, { method: "DELETE", keepalive: true });
    if (status !== 0 && !LATER.includes(status)) return;
    await wait(WAIT_MS * 2 ** failures);
  }
};

// Sends a large file in pieces and resolves to where it is stored, or rejects with the text of the reason. `fields` has the
// destination, and whether a file of the same name stays. `texts` has the reasons. Once `signal` is aborted, the upload is discarded, unless its last
// piece is on the way: then the file may be stored already. `showLost` is called with whether the connection is lost.
const sendPieces = async (file, fields, texts, onProgress, signal, showLost) => {
  const digest = await digestOf(file).catch(() => { throw texts.failed; });
  let upload = null;
  let received = 0;
  for (let failures = 0; failures < FAILURES_MAX;) {
    if (signal.aborted) {
      if (upload) discard(upload);
      throw CANCELLED;
    }
    const end = received + PIECE_BYTES;
    const { status, said } = upload
      ? await ask(`${upload}/${received}`, {
        method: "POST", body: file.slice(received, end), signal: end < file.size ? signal : null,
      })
      : await ask("/workspace/uploads", {
        method: "POST",
        body: new URLSearchParams({ ...fields, name: file.name, size: file.size, modified: file.lastModified, digest }),
      });
    if (!signal.aborted) showLost(isLost(status));
    if (status === 201 && said.files) return said.files[0];
    if (status === 201 && said.upload) {
      upload = `/workspace/uploads/${said.upload}`;
      received = said.received;
    } else if (status === 200) {
      received = said.received;
      failures = 0;
      onProgress(received, file.size);
    } else if (!signal.aborted) {
      failures += 1;
      // The upload has expired, or others took its place.
      if (upload && status === 404) upload = null;
      // A conflict of offsets says how much has arrived.
      else if (status !== 0 && said.received === undefined && !LATER.includes(status)) throw reasonOf(status, said, texts);
      await wait(WAIT_MS * 2 ** failures, signal);
      const state = upload ? await ask(upload) : {};
      if (state.status === 200) received = state.said.received;
    }
  }
  throw texts.failed;
};

// Sends a file and resolves to where it is stored, or rejects with the text of the reason.
const sendWhole = (file, fields, texts, onProgress, signal) => new Promise((resolve, reject) => {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  form.append("file", file);
  const request = new XMLHttpRequest();
  request.open("POST", "/workspace/upload");
  request.setRequestHeader("Accept", "application/json");
  request.responseType = "json";
  request.upload.addEventListener("progress", ({ loaded, total }) => onProgress(loaded, total));
  request.addEventListener("load", () => {
    const said = request.response;
    if (request.status === 201) resolve(said.files[0]);
    else reject(reasonOf(request.status, said, texts));
  });
  request.addEventListener("error", () => reject(texts.failed));
  request.addEventListener("abort", () => reject(CANCELLED));
  // Once all of it has been sent, it may be stored already.
  const cancel = () => request.abort();
  signal.addEventListener("abort", cancel);
  request.upload.addEventListener("load", () => signal.removeEventListener("abort", cancel));
  request.send(form);
});

const send = (file, ...rest) => (file.size >= PIECES_FROM_BYTES ? sendPieces : sendWhole)(file, ...rest);

const crossButton = (label, name) => {
  const button = document.createElement("button");
  Object.assign(button, { type: "button", className: "remove", textContent: "×", title: label });
  button.setAttribute("aria-label", `${label}: ${name}`);
  return button;
};

const within = (destination, folders) => [destination === "/" ? "" : destination, ...folders].join("/") || "/";

// Makes the folders of these files and adds the paths of the new ones to `made`. One that cannot be made is named by the uploads
// into it.
const makeFolders = async (files, destination, made, signal) => {
  const known = new Set();
  for (const { folders } of files) {
    for (let depth = 1; depth <= folders.length && !signal.aborted; depth += 1) {
      const path = within(destination, folders.slice(0, depth));
      if (known.has(path)) continue;
      known.add(path);
      const body = new URLSearchParams({
        folder: within(destination, folders.slice(0, depth - 1)), name: folders[depth - 1],
      });
      const { status, said } = await ask("/workspace/folder", { method: "POST", body });
      if (status === 201) made.push(said.path);
    }
  }
};

// Removes those of these folders that are empty, inner ones first. Others stay.
const removeEmptyFolders = async (made) => {
  for (const path of [...made].reverse()) {
    const body = new URLSearchParams({ path, "if-empty": "on" });
    await fetch("/workspace/delete", { method: "POST", body, redirect: "manual" }).catch(() => {});
  }
};

// Leaving the page ends its uploads.
const warnOfUploads = (event) => event.preventDefault();

// The uploads of a form: they run a few at a time and are cancelled one by one, or all by the button of the queue, which calls
// `noteCancelled`. `focusNext` takes the focus of a button that goes away. Folders that were made for cancelled uploads are removed
// unless something is in them.
const uploadQueue = ({ cancel, cancelAll, queued, reconnecting, done, uploaded }, focusNext, noteCancelled = () => {}) => {
  const button = document.createElement("button");
  Object.assign(button, { type: "button", className: "link cancel-all", textContent: cancelAll, hidden: true });
  const tally = document.createElement("p");
  Object.assign(tally, { className: "tally", hidden: true });
  let all = new AbortController();
  let running = 0;
  let left = 0;
  let total = 0;
  let stored = 0;
  let isCancelled = false;
  let made = [];
  let removal = Promise.resolve();
  const count = (more) => {
    if (left === 0) {
      [total, stored] = [0, 0];
      window.addEventListener("beforeunload", warnOfUploads);
    }
    left += more;
    total += Math.max(more, 0);
    if (left === 0) window.removeEventListener("beforeunload", warnOfUploads);
    const hadFocus = document.activeElement === button;
    button.hidden = left < 2;
    tally.hidden = left === 0 || total < 2;
    tally.textContent = `${done ?? uploaded}: ${stored} / ${total}`;
    if (hadFocus && button.hidden) focusNext();
  };
  button.addEventListener("click", () => {
    isCancelled = true;
    all.abort();
    all = new AbortController();
    noteCancelled();
  });
  const createNote = (className, text) => Object.assign(document.createElement("span"), { className, textContent: text });
  // Appends to `parent` that an upload waits, and a button that cancels it. Returns what shows its progress in that place, what
  // removes all that, and what is given to `send`.
  const addUpload = (parent, name) => {
    const waits = createNote("queued", queued);
    const bar = document.createElement("progress");
    Object.assign(bar, { max: 1, value: 0 });
    bar.setAttribute("aria-label", name);
    const lost = createNote("lost-upload", reconnecting);
    const controller = new AbortController();
    all.signal.addEventListener("abort", () => controller.abort(), { once: true });
    const cross = crossButton(cancel, name);
    cross.addEventListener("click", (event) => {
      // It may stand in the label of a box.
      event.preventDefault();
      isCancelled = true;
      controller.abort();
    });
    parent.append(waits, cross);
    const end = ({ isStored = false, keepsBar = false } = {}) => {
      const hadFocus = document.activeElement === cross;
      for (const element of [waits, cross, lost]) element.remove();
      if (isStored) stored += 1;
      bar.value = 1;
      if (!keepsBar) bar.remove();
      if (hadFocus) focusNext();
    };
    const onProgress = (loaded, total) => { bar.value = loaded / total; };
    const showLost = (is) => {
      if (is && !lost.isConnected) parent.append(lost);
      if (!is) lost.remove();
    };
    const { signal } = controller;
    return { begin: () => waits.replaceWith(bar), end, signal, sending: [onProgress, signal, showLost] };
  };
  // Makes the folders of files and uploads them. `add` shows that a file waits, and returns the signal that cancels it, what uploads
  // it, and what is called instead if it is cancelled while it waits. Resolves to whether all that were left were cancelled.
  const run = async (files, destination, add) => {
    const { signal } = all;
    const waiting = files.map(add);
    running += 1;
    count(files.length);
    for (const upload of [...waiting]) {
      upload.signal.addEventListener("abort", () => {
        const at = waiting.indexOf(upload);
        if (at < 0) return;
        waiting.splice(at, 1);
        upload.leave();
        count(-1);
      }, { once: true });
    }
    await removal;
    await makeFolders(files, destination, made, signal);
    const work = async () => {
      while (waiting.length > 0) {
        await waiting.shift().send();
        count(-1);
      }
    };
    await Promise.all(Array.from({ length: UPLOADS_AT_ONCE }, work));
    // The uploads of another choice may go into the same folders.
    if (running === 1) {
      if (isCancelled) removal = removeEmptyFolders(made);
      [isCancelled, made] = [false, []];
      await removal;
    }
    running -= 1;
    return signal.aborted;
  };
  return { button, tally, isRunning: () => running > 0, addUpload, run };
};
