// Reads fields of the page and changes its texts.

import { element } from "./draw.js";
import { InvalidNumber } from "./errors.js";
import { parseNumber } from "./numbers.js";

export const $ = (id) => document.getElementById(id);

/** Replaces an element's content. */
export const say = (id, ...parts) => $(id).replaceChildren(...parts);

export const bold = (text) => element("b", {}, text);

/** The number in a field, or null. A problem is written below it, and `outdated` elements fade until it is solved. */
export function readField(id, layout, outdated, check = () => {}) {
  let number = null;
  let problem = "";
  try {
    number = parseNumber($(id).value, layout);
    check(number);
  } catch (error) {
    if (!(error instanceof InvalidNumber)) throw error;
    number = null;
    problem = `This must ${error.rule}.`;
  }
  if ($(`${id}-error`).textContent !== problem) say(`${id}-error`, problem); // an alert is not repeated
  $(id).setAttribute("aria-invalid", String(number === null));
  for (const part of outdated) part.classList.toggle("stale", number === null);
  return number;
}
