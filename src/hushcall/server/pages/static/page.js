// How the page's modules speak to the page: element ids and texts come in, the page changes.

import { element } from "./draw.js";
import { InvalidNumber } from "./errors.js";
import { parseNumber } from "./numbers.js";

/** The element of that id. */
export const $ = (id) => document.getElementById(id);

/** Replace what an element holds by texts and elements. */
export const say = (id, ...parts) => $(id).replaceChildren(...parts);

/** A text that stands out. */
export const bold = (text) => element("b", {}, text);

/** Read a number field, or null: what is wrong is written beneath it, and `outdated` fades until it is right again. */
export function readField(id, areaCodes, outdated, check = () => {}) {
  let found = null;
  let problem = "";
  try {
    found = parseNumber($(id).value, areaCodes);
    check(found);
  } catch (error) {
    if (!(error instanceof InvalidNumber)) throw error;
    found = null;
    problem = `This must ${error.rule}.`;
  }
  if ($(`${id}-error`).textContent !== problem) say(`${id}-error`, problem); // the same alert is not raised twice
  $(id).setAttribute("aria-invalid", String(found === null));
  for (const part of outdated) part.classList.toggle("stale", found === null);
  return found;
}
