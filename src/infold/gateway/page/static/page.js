// Progressive enhancement: without scripts the page has the same links, forms and numbers.
"use strict";

const find = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

for (const element of all(".needs-script")) element.hidden = false;

// Light or dark: the system's choice until the button changes it.
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
    // Storage may be forbidden.
  }
}

find("#theme").addEventListener("click", changeTheme);
find("#help").addEventListener("click", () => find("#keys").showModal());

// A slow form shows that it is busy, and is not sent twice.
document.addEventListener("submit", (event) => {
  const form = event.target;
  const isPost = (event.submitter?.formMethod || form.method) === "post";
  if (!isPost) return;
  if (form.ariaBusy === "true") return event.preventDefault();
  form.ariaBusy = "true";
  if (event.submitter && form.dataset.busy) event.submitter.textContent = form.dataset.busy;
});
addEventListener("pageshow", (event) => event.persisted && location.reload());

// Show the result of a form once, not again after a reload.
const here = new URL(location.href);
if (here.searchParams.has("done")) {
  for (const name of ["done", "at"]) here.searchParams.delete(name);
  history.replaceState(null, "", here);
}

// Describe one request; text that did not change is left alone, or a screen reader would read it again.
function describe(row) {
  const readout = find("#readout");
  if (readout.firstChild?.textContent.trim() === row.dataset.readout) return;
  const link = find("a", row)?.cloneNode();
  readout.replaceChildren(`${row.dataset.readout} `);
  if (!link) return;
  link.textContent = "read the reply";
  readout.append("· ", link);
}

// The chart: describe the request under the pointer; it stays selected when the chart is replaced.
let selected = "";
function wireChart() {
  const chart = find("#chart");
  if (!chart) return;
  const rows = () => all("#numbers tbody tr");
  const columns = Number(chart.dataset.columns);
  let shown = columns - 1;
  const show = (column) => {
    shown = Math.min(Math.max(column, 0), columns - 1);
    const row = rows()[shown];
    selected = find("th", row).textContent;
    describe(row);
    const along = `${(100 * (shown + 0.5)) / columns}%`;
    const cross = find("#cross");
    cross.setAttribute("x1", along);
    cross.setAttribute("x2", along);
    cross.setAttribute("visibility", "visible");
  };
  const under = (event) => {
    const box = chart.getBoundingClientRect();
    return Math.floor(((event.clientX - box.left) / box.width) * columns);
  };
  chart.addEventListener("pointermove", (event) => show(under(event)));
  chart.addEventListener("pointerdown", (event) => show(under(event)));
  chart.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    show(shown + step);
  });
  const again = selected ? rows().findIndex((row) => find("th", row).textContent === selected) : -1;
  if (again >= 0) show(again);
  else if (rows().length) describe(rows().at(-1));
  // Announce it while the arrow keys move through it, not whenever the session grows.
  chart.addEventListener("focus", () => (find("#readout").ariaLive = "polite"));
  chart.addEventListener("blur", () => (find("#readout").ariaLive = "off"));
}

// Live updates: fetch the same page and replace its sections marked with data-live.
const served = new Map(all("[data-live]").map((section) => [section.id, section.innerHTML]));
wireChart();

// Find the focused element in the new section: by its id, or by the nearest id and its attributes.
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

// Keep the scroll position of the log when entries are added above, unless its beginning is in sight; keep that of a form too.
function keepScroll() {
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

// Selected text is not replaced, nor are the sections that belong to it.
function isSelected(section) {
  const selection = getSelection();
  const together = section.dataset.live ? all(`[data-live="${section.dataset.live}"]`) : [section];
  return !selection.isCollapsed && together.some((one) => selection.getRangeAt(0).intersectsNode(one));
}

function replaceSection(section, fresh) {
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

// Return the delay before the next refresh, 0 if everything was replaced.
let refreshed = Date.now();
async function refresh() {
  refreshed = Date.now();
  const response = await fetch(location.href, { headers: { accept: "text/html" }, signal: AbortSignal.timeout(SILENCE_MS) });
  if ([401, 404].includes(response.status)) {
    location.reload();
    return 0;
  }
  if (!response.ok) throw new Error(response.statusText);
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  const focused = placeOf(document.activeElement);
  const restoreScroll = keepScroll();
  const chart = find("#chart");
  let pause = 0;
  for (const section of all("[data-live]")) {
    const other = fresh.getElementById(section.id);
    if (!other || other.innerHTML === served.get(section.id)) continue;
    if (isSelected(section)) {
      pause = LATER;
      continue;
    }
    served.set(section.id, other.innerHTML);
    replaceSection(section, other);
  }
  if (find("#chart") !== chart) wireChart();
  restoreScroll();
  if (document.activeElement === document.body) focused()?.focus({ preventScroll: true });
  if (source?.readyState === EventSource.OPEN) showStatus("live", "open");
  return pause;
}

// One fetch at a time, so that an older answer never replaces a newer one.
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
    showStatus("not connected", "broken");
    return LATER;
  });
  isFetching = false;
  if (pause || isDue) waiting = setTimeout(refreshNow, pause || SOON);
}

function showStatus(words, state) {
  const line = find("#line");
  if (line.dataset.state === state) return; // a screen reader announces every change
  line.hidden = false;
  line.textContent = words;
  line.dataset.state = state;
}

function handle(update) {
  const progress = find("#progress");
  if (update.event !== "summary-progressed") {
    if (progress && update.event !== "grown") writing(false);
    return refreshSoon();
  }
  if (!progress) return;
  if (progress.hidden) writing(true);
  progress.append(update.text ?? "");
  progress.scrollTop = progress.scrollHeight;
}

function writing(isWritten) {
  const progress = find("#progress");
  progress.hidden = !isWritten;
  progress.textContent = "";
  find("#writing").textContent = isWritten ? "A summary is being written." : "";
}

// The server sends a heartbeat every 15 seconds; a connection without one is dead, and another is opened.
const SILENCE_MS = 40_000;
const STALE = 60_000;
let source = null;
let silence = null;
function resetTimeout() {
  clearTimeout(silence);
  silence = setTimeout(() => {
    disconnect();
    showStatus("not connected", "broken");
    connect();
  }, SILENCE_MS);
}

function connect() {
  const address = document.body.dataset.events;
  if (!address || source) return;
  source = new EventSource(address);
  resetTimeout();
  source.onopen = () => {
    resetTimeout();
    if (find("#line").dataset.state === "broken") refreshSoon();
    showStatus("live", "open");
  };
  source.onerror = () => showStatus("not connected", "broken");
  source.addEventListener("still-here", () => {
    resetTimeout();
    if (Date.now() - refreshed >= STALE) refreshSoon(); // the ages on the page change although nothing happens
  });
  source.onmessage = (event) => {
    resetTimeout();
    handle(JSON.parse(event.data));
  };
}

function disconnect() {
  clearTimeout(silence);
  source?.close();
  source = null;
}

// A browser allows few connections to one server, so a hidden page closes its own.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    disconnect();
  } else if (document.body.dataset.events && !source) {
    connect();
    refreshSoon();
  }
});
if (!document.hidden) connect();
addEventListener("pagehide", disconnect);

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
