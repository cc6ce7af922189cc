// The overview stays up to date while somebody looks at it: every two seconds the server is asked whether it changed.

import { fetchPart, replaceParts } from "./fragments.js";

const EVERY = 2_000;
const AFTER_FAILURE = 10_000;
const { live, decided } = document.getElementById("live").dataset;
const state = document.getElementById("live-state");
const key = () => document.getElementById("part-key")?.textContent ?? "";
let shown = key();
let timer = 0;

const say = (text) => {
  if (state.textContent !== text) state.textContent = text;
};

async function refresh() {
  let pause = EVERY;
  try {
    const fresh = await fetchPart(live);
    if (fresh) replaceParts(fresh);
    if (decided && key() !== shown) {
      const now = key();
      const rest = await fetchPart(decided);
      if (rest) replaceParts(rest);
      shown = now;
    }
    say("");
  } catch {
    pause = AFTER_FAILURE;
    say("The server does not answer, or your session is over. These figures may be old; trying again.");
  }
  document.documentElement.dataset.refreshed = String(Number(document.documentElement.dataset.refreshed ?? 0) + 1);
  if (document.visibilityState === "visible") timer = setTimeout(refresh, pause);
}

document.addEventListener("visibilitychange", () => {
  clearTimeout(timer);
  if (document.visibilityState === "visible") refresh();
});
timer = setTimeout(refresh, EVERY);
document.documentElement.dataset.ready = "";
