// The lookup on the owners' page: downloads the list once, at a click, and searches it in the browser.

import { element } from "./draw.js";
import { InvalidList } from "./errors.js";
import { readList } from "./list.js";
import * as words from "./words.js";

const TIMEOUT_MS = 60_000;

async function download(url) {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const answer = await fetch(url, { credentials: "omit", referrerPolicy: "no-referrer", signal });
  if (!answer.ok) throw new InvalidList("list", "be there", `status ${answer.status}`);
  return readList(await answer.text());
}

const fact = ([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value));

function listed(entry) {
  return [
    element("h3", {}, `${entry.number} is on the list`),
    element("p", {}, "Many phones reported it. These are estimates: the noise that protects each phone is in them."),
    element("dl", { class: "facts" }, ...[
      ["phones that reported it, on its last day", `about ${words.count(entry.estimate)}`],
      ["95 % interval", `${words.count(entry.low)} to ${words.count(entry.high)}`],
      ["days that found it", words.count(entry.days)],
      ["first seen", words.day(entry.first)],
      ["last seen", words.day(entry.last)],
    ].map(fact)),
  ];
}

const absent = (number) => [
  element("h3", {}, `${number.text} is not on the list`),
  element("p", {}, "That does not make it harmless: numbers that few phones report are never listed."),
];

const summary = ({ version, made, entries, epsilon }) =>
  `Version ${words.count(version)} of ${words.day(made)}, ${words.age(made, Date.now())}: ` +
  `${words.plural(entries, "number")}, found at ε = ${epsilon}. Lookups need no further request.`;

/** Connects the elements of `panel`. `readField` parses a number field. */
export function lookup(panel, readField) {
  const part = (id) => panel.querySelector(`#${id}`);
  const [answer, button, form, status] = ["answer", "download", "lookup-form", "list-status"].map(part);
  let list = null;

  button.addEventListener("click", async () => {
    button.disabled = true;
    status.textContent = "Downloading…";
    try {
      list = await download(panel.dataset.listUrl);
      status.textContent = summary(list.header);
      button.textContent = "Download again";
      button.classList.remove("primary");
      form.hidden = false;
      part("wanted").focus();
    } catch (error) {
      status.textContent = `The list could not be read (${error.message}). Try again later.`;
    } finally {
      button.disabled = false;
    }
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const number = readField("wanted", [answer]);
    if (!number) return;
    const entry = list.find(number.e164);
    answer.className = entry ? "listed" : "clean";
    answer.replaceChildren(...(entry ? listed(entry) : absent(number)));
  });
}
