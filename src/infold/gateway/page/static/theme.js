// Runs before the page is painted, so that a chosen theme never flashes.
"use strict";
try {
  const chosen = localStorage.getItem("infold-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage may be forbidden; the system's choice holds then.
}
