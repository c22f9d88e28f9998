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
  if (!isPost) return;
  if (form.ariaBusy === "true") return event.preventDefault();
  form.ariaBusy = "true";
  if (event.submitter && form.dataset.busy) event.submitter.textContent = form.dataset.busy;
});
addEventListener("pageshow", (event) => event.persisted && location.reload());

// What was done is said once, not again when the page is reloaded or come back to.
const here = new URL(location.href);
if (here.searchParams.has("done")) {
  for (const name of ["done", "at"]) here.searchParams.delete(name);
  history.replaceState(null, "", here);
}

// One request in words; what is said already is left alone, so that nobody hears it twice.
function read(row) {
  const readout = find("#readout");
  if (readout.firstChild?.textContent.trim() === row.dataset.told) return;
  const link = find("a", row)?.cloneNode();
  readout.replaceChildren(`${row.dataset.told} `);
  if (!link) return;
  link.textContent = "read the reply";
  readout.append("· ", link);
}

// The picture: the request under the pointer, told in words; the one shown stays so when the picture is exchanged.
let told = "";
function wirePicture() {
  const picture = find("#chart");
  if (!picture) return;
  const rows = () => all("#numbers tbody tr");
  const columns = Number(picture.dataset.columns);
  let shown = columns - 1;
  const show = (column) => {
    shown = Math.min(Math.max(column, 0), columns - 1);
    const row = rows()[shown];
    told = find("th", row).textContent;
    read(row);
    const along = `${(100 * (shown + 0.5)) / columns}%`;
    const cross = find("#cross");
    cross.setAttribute("x1", along);
    cross.setAttribute("x2", along);
    cross.setAttribute("visibility", "visible");
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
  const again = told ? rows().findIndex((row) => find("th", row).textContent === told) : -1;
  if (again >= 0) show(again);
  else if (rows().length) read(rows().at(-1));
  // Read aloud while it is walked through, not whenever the session grows.
  picture.addEventListener("focus", () => (find("#readout").ariaLive = "polite"));
  picture.addEventListener("blur", () => (find("#readout").ariaLive = "off"));
}

// Live: when something happened, the same page is fetched and its marked sections are exchanged.
const served = new Map(all("[data-live]").map((section) => [section.id, section.innerHTML]));
wirePicture();

// Finds what has the focus again in what takes its place: by its id, or by that of what it stands in and by what it is.
function placeOf(element) {
  const near = element?.closest("[data-live]") && element.closest("[id]");
  if (!near) return () => null;
  const names = ["href", "aria-label"];
  const isLike = (one) => names.every((name) => one.getAttribute(name) === element.getAttribute(name));
  return () => {
    const there = document.getElementById(near.id);
    return near === element || !there ? there : all(element.localName, there).find(isLike);
  };
}

// What is read stays where it is, though entries come above it; from the log's beginning on, the new ones are what is read.
// A form that is being filled in stands beside the log, and stays too.
function sightOf() {
  const field = document.activeElement;
  const { top: before, bottom } = field.getBoundingClientRect();
  if (field.closest("form") && !field.closest("[data-live]") && bottom > 0 && before < innerHeight)
    return () => scrollBy({ top: field.getBoundingClientRect().top - before, behavior: "instant" });
  const log = find("#log .log");
  if (!log || log.getBoundingClientRect().top >= 0) return () => {};
  const rows = all(".row", log);
  const at = rows.findIndex((row) => row.getBoundingClientRect().bottom > 0);
  const places = rows.slice(0, at + 1).reverse().map((row) => [row.id, row.getBoundingClientRect().top]);
  return () => {
    const [id, top] = places.find(([one]) => document.getElementById(one)) ?? [];
    if (id) scrollBy({ top: document.getElementById(id).getBoundingClientRect().top - top, behavior: "instant" });
  };
}

// Text that somebody is about to copy is left as it is until it is let go, and with it what is only right beside it.
function isSelected(section) {
  const selection = getSelection();
  const together = section.dataset.live ? all(`[data-live="${section.dataset.live}"]`) : [section];
  return !selection.isCollapsed && together.some((one) => selection.getRangeAt(0).intersectsNode(one));
}

function exchange(section, fresh) {
  const details = all("details[id]", section).map((one) => [one.id, one.open, find(".scroll", one)]);
  const scrolled = details.map(([, , box]) => [box?.scrollLeft ?? 0, box?.scrollTop ?? 0]);
  section.replaceWith(document.adoptNode(fresh));
  details.forEach(([id, open], at) => {
    const one = document.getElementById(id);
    if (!one) return;
    one.open = open;
    find(".scroll", one)?.scrollTo(...scrolled[at]);
  });
}

// Gives after how long there is more to do; 0 where all is as it was fetched.
let refreshed = Date.now();
async function refresh() {
  refreshed = Date.now();
  const response = await fetch(location.href, { headers: { accept: "text/html" }, signal: AbortSignal.timeout(HUSH) });
  if ([401, 404].includes(response.status)) {
    location.reload();
    return 0;
  }
  if (!response.ok) throw new Error(response.statusText);
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  const focused = placeOf(document.activeElement);
  const kept = sightOf();
  const picture = find("#chart");
  let pause = 0;
  for (const section of all("[data-live]")) {
    const other = fresh.getElementById(section.id);
    if (!other || other.innerHTML === served.get(section.id)) continue;
    if (isSelected(section)) {
      pause = LATER;
      continue;
    }
    served.set(section.id, other.innerHTML);
    exchange(section, other);
  }
  if (find("#chart") !== picture) wirePicture();
  kept();
  if (document.activeElement === document.body) focused()?.focus({ preventScroll: true });
  if (source?.readyState === EventSource.OPEN) say("live", "open");
  return pause;
}

// One fetch at a time, so that no answer comes after a newer one; what happened meanwhile is fetched after it.
const SOON = 300;
const LATER = 5_000;
let waiting = null;
let isFetching = false;
let isDue = false;
function refreshSoon() {
  if (isFetching) isDue = true;
  else waiting ??= setTimeout(refreshNow, SOON);
}

async function refreshNow() {
  isFetching = true;
  isDue = false;
  waiting = null;
  const pause = await refresh().catch(() => {
    say("not connected", "broken");
    return LATER;
  });
  isFetching = false;
  if (pause || isDue) waiting = setTimeout(refreshNow, pause || SOON);
}

function say(words, state) {
  const line = find("#line");
  if (line.dataset.state === state) return; // what is said again is read aloud again
  line.hidden = false;
  line.textContent = words;
  line.dataset.state = state;
}

function tell(news) {
  const progress = find("#progress");
  if (news.event !== "summary-progressed") {
    if (progress && news.event !== "grown") writing(false);
    return refreshSoon();
  }
  if (!progress) return;
  if (progress.hidden) writing(true);
  progress.append(news.text ?? "");
  progress.scrollTop = progress.scrollHeight;
}

function writing(isWritten) {
  const progress = find("#progress");
  progress.hidden = !isWritten;
  progress.textContent = "";
  find("#writing").textContent = isWritten ? "A summary is being written." : "";
}

// The server gives a sign of life every quarter of a minute; a line on which none comes is dead, and another is opened.
const HUSH = 40_000;
const STALE = 60_000;
let source = null;
let silence = null;
function heard() {
  clearTimeout(silence);
  silence = setTimeout(() => {
    hangUp();
    say("not connected", "broken");
    listen();
  }, HUSH);
}

function listen() {
  const address = document.body.dataset.events;
  if (!address || source) return;
  source = new EventSource(address);
  heard();
  source.onopen = () => {
    heard();
    if (find("#line").dataset.state === "broken") refreshSoon();
    say("live", "open");
  };
  source.onerror = () => say("not connected", "broken");
  source.addEventListener("still-here", () => {
    heard();
    if (Date.now() - refreshed >= STALE) refreshSoon(); // how long ago something was changes though nothing happens
  });
  source.onmessage = (event) => {
    heard();
    tell(JSON.parse(event.data));
  };
}

function hangUp() {
  clearTimeout(silence);
  source?.close();
  source = null;
}

// A browser allows few lines to one server, so a page that nobody sees gives its line back.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    hangUp();
  } else if (document.body.dataset.events && !source) {
    listen();
    refreshSoon();
  }
});
if (!document.hidden) listen();
addEventListener("pagehide", hangUp);

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
  if ((event.ctrlKey || event.metaKey) && event.key === "Enter" && event.target.matches("textarea")) {
    const form = event.target.form;
    return form.requestSubmit(find("button", form));
  }
  if (event.ctrlKey || event.metaKey || event.altKey || find("dialog[open]")) return;
  if (event.target.closest("input, textarea, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (!Object.hasOwn(keys, event.key)) return;
  event.preventDefault();
  keys[event.key]();
});
