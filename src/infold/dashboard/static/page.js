// Everything here is a convenience: without it the page has the same links, forms and numbers.
"use strict";

const find = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

for (const element of all(".needs-script")) element.hidden = false;

// Light or dark: the system's choice until the button says otherwise.
const system = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";

function changeTheme() {
  const wanted = isDark() ? "light" : "dark";
  const isSystems = (wanted === "dark") === system.matches;
  if (isSystems) delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = wanted;
  try {
    if (isSystems) localStorage.removeItem("infold-theme");
    else localStorage.setItem("infold-theme", wanted);
  } catch {
    // Not remembered, then.
  }
}

find("#theme").addEventListener("click", changeTheme);
find("#help").addEventListener("click", () => find("#keys").showModal());

// A form that takes its time says so, and is not sent twice.
document.addEventListener("submit", (event) => {
  const form = event.target;
  const isPost = (event.submitter?.formMethod || form.method) === "post";
  if (!isPost || !form.dataset.busy) return;
  if (form.ariaBusy === "true") return event.preventDefault();
  form.ariaBusy = "true";
  if (event.submitter) event.submitter.textContent = form.dataset.busy;
});
addEventListener("pageshow", (event) => event.persisted && location.reload());

// The picture: the request under the pointer, told in words.
function wirePicture() {
  const picture = find("#chart");
  if (!picture) return;
  const rows = all("#numbers tbody tr");
  const columns = Number(picture.dataset.columns);
  let shown = rows.length - 1;
  const show = (column) => {
    shown = Math.min(Math.max(column, 0), rows.length - 1);
    const row = rows[shown];
    const along = `${(100 * (shown + 0.5)) / columns}%`;
    const cross = find("#cross");
    cross.setAttribute("x1", along);
    cross.setAttribute("x2", along);
    cross.setAttribute("visibility", "visible");
    const readout = find("#readout");
    const link = find("a", row)?.cloneNode();
    readout.hidden = false;
    readout.replaceChildren(`${row.dataset.told} `);
    if (link) {
      link.textContent = "read the reply";
      readout.append("· ", link);
    }
  };
  const under = (event) => {
    const box = picture.getBoundingClientRect();
    return Math.floor(((event.clientX - box.left) / box.width) * columns);
  };
  picture.addEventListener("pointermove", (event) => show(under(event)));
  picture.addEventListener("pointerdown", (event) => show(under(event)));
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    show(shown + step);
  });
}
wirePicture();

// Live: when something happened, the same page is fetched and its marked sections are exchanged.
async function refresh() {
  const response = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!response.ok) return location.reload();
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  const focused = document.activeElement?.closest("[data-live] [id], [data-live] a[href]");
  const again = focused && (focused.id ? `#${CSS.escape(focused.id)}` : `a[href="${CSS.escape(focused.getAttribute("href"))}"]`);
  for (const section of all("[data-live]")) {
    const other = fresh.getElementById(section.id);
    if (!other || other.innerHTML === section.innerHTML) continue;
    const opened = all("details[id]", section).map((one) => [one.id, one.open]);
    section.replaceWith(document.adoptNode(other));
    for (const [id, open] of opened) {
      const details = document.getElementById(id);
      if (details) details.open = open;
    }
  }
  wirePicture();
  if (again && document.activeElement === document.body) find(again)?.focus({ preventScroll: true });
}

let waiting = null;
function refreshSoon() {
  waiting ??= setTimeout(() => {
    waiting = null;
    refresh().catch(() => say("not connected", "broken"));
  }, 300);
}

function say(words, state) {
  const line = find("#line");
  line.hidden = false;
  line.textContent = words;
  line.dataset.state = state;
}

function tell(news) {
  const progress = find("#progress");
  if (news.event !== "summary-progressed") {
    if (progress && news.event !== "grown") progress.hidden = true;
    return refreshSoon();
  }
  if (!progress) return;
  if (progress.hidden) progress.textContent = "";
  progress.hidden = false;
  progress.append(news.text ?? "");
  progress.scrollTop = progress.scrollHeight;
}

let source = null;
function listen() {
  const address = document.body.dataset.events;
  if (!address || source) return;
  source = new EventSource(address);
  source.onopen = () => {
    if (find("#line").dataset.state === "broken") refreshSoon();
    say("live", "open");
  };
  source.onerror = () => say("not connected", "broken");
  source.onmessage = (event) => tell(JSON.parse(event.data));
}

// A browser allows few lines to one server, so a page that nobody sees gives its line back.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    source?.close();
    source = null;
  } else if (document.body.dataset.events && !source) {
    listen();
    refreshSoon();
  }
});
if (!document.hidden) listen();
addEventListener("pagehide", () => source?.close());

// Keys.
function move(step) {
  const links = all(".row .open");
  if (!links.length) return find(step > 0 ? 'a[rel="next"]' : 'a[rel="prev"]')?.click();
  const at = links.indexOf(document.activeElement);
  const next = links[at < 0 ? (step > 0 ? 0 : links.length - 1) : Math.min(Math.max(at + step, 0), links.length - 1)];
  next.focus();
  next.closest(".row").scrollIntoView({ block: "nearest" });
}

function focusOn(selector) {
  const element = find(selector);
  element?.focus();
  element?.scrollIntoView({ block: "center" });
}

const keys = {
  j: () => move(1),
  k: () => move(-1),
  "/": () => focusOn("[data-search]"),
  c: () => focusOn("[data-compact]"),
  u: () => focusOn("[data-undo]"),
  b: () => find("[data-back]")?.click(),
  d: changeTheme,
  "?": () => find("#keys").showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || find("dialog[open]")) return;
  if (event.target.closest("input, textarea, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (!Object.hasOwn(keys, event.key)) return;
  event.preventDefault();
  keys[event.key]();
});
