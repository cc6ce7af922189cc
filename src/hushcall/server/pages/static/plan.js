// The planner answers while one types: the form's fields come in, the server's table replaces the one shown.

import { fetchPart } from "./fragments.js";

const PAUSE = 300;
const form = document.getElementById("plan-form");
const answer = document.getElementById("plan-answer");
let timer = 0;
let asked = 0;

async function ask() {
  const mine = ++asked;
  const query = new URLSearchParams(new FormData(form)).toString();
  answer.classList.add("stale");
  try {
    const fresh = await fetchPart(`${form.dataset.answer}?${query}`);
    if (mine !== asked) return; // somebody typed on: a later answer counts
    if (fresh) answer.replaceChildren(...fresh.body.childNodes);
    history.replaceState(null, "", `${form.getAttribute("action")}?${query}`);
  } catch {
    if (mine === asked) answer.textContent = "The server does not answer, or your session is over.";
  }
  if (mine === asked) answer.classList.remove("stale");
}

form.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(ask, PAUSE);
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(timer);
  ask();
});
document.documentElement.dataset.ready = "";
