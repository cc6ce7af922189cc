// Refreshes the overview every two seconds while it is visible.

import { fetchPart, replaceParts } from "./fragments.js";

const INTERVAL_MS = 2_000;
const AFTER_FAILURE_MS = 10_000;
const { live, decided } = document.getElementById("live").dataset;
const state = document.getElementById("live-state");
const key = () => document.getElementById("part-key")?.textContent ?? "";
let shown = key();
let timer = 0;

const say = (text) => {
  if (state.textContent !== text) state.textContent = text;
};

async function refresh() {
  let pause = INTERVAL_MS;
  try {
    const fresh = await fetchPart(live);
    if (fresh) replaceParts(fresh);
    if (decided && key() !== shown) {
      const now = key();
      const parts = await fetchPart(decided);
      if (parts) replaceParts(parts);
      shown = now;
    }
    say("");
  } catch {
    pause = AFTER_FAILURE_MS;
    say("The server does not answer, or your session is over. These figures may be old. Trying again.");
  }
  document.documentElement.dataset.refreshed = String(Number(document.documentElement.dataset.refreshed ?? 0) + 1);
  if (document.visibilityState === "visible") timer = setTimeout(refresh, pause);
}

document.addEventListener("visibilitychange", () => {
  clearTimeout(timer);
  if (document.visibilityState === "visible") refresh();
});
timer = setTimeout(refresh, INTERVAL_MS);
document.documentElement.dataset.ready = "";
