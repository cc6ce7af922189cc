// Refreshes the planner's answer while its form is edited.

import { fetchPart } from "./fragments.js";

const PAUSE_MS = 300;
const form = document.getElementById("plan-form");
const answer = document.getElementById("plan-answer");
let timer = 0;
let newest = 0;

async function ask() {
  const mine = ++newest;
  const query = new URLSearchParams(new FormData(form)).toString();
  answer.classList.add("stale");
  try {
    const fresh = await fetchPart(`${form.dataset.answer}?${query}`);
    if (mine !== newest) return; // the form has changed since
    if (fresh) answer.replaceChildren(...fresh.body.childNodes);
    history.replaceState(null, "", `${form.getAttribute("action")}?${query}`);
  } catch {
    if (mine === newest) answer.textContent = "The server does not answer, or your session is over.";
  }
  if (mine === newest) answer.classList.remove("stale");
}

form.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(ask, PAUSE_MS);
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(timer);
  ask();
});
document.documentElement.dataset.ready = "";
