// Reads a published list and finds its entries.

import { InvalidList } from "./errors.js";

const FORMATS = ["hushcall-list/1", "hushcall-list/2"];
const START = '{"number":"';

const refuse = (rule, value) => {
  throw new InvalidList("list", rule, value);
};

/** Reads a list: a header line of JSON, then a line for each entry. `find` parses the entry that it returns. */
export function readList(text) {
  const [first, ...lines] = text.split("\n").filter(Boolean);
  let header;
  try {
    header = JSON.parse(first ?? "");
  } catch {
    refuse(`start with a header of ${FORMATS.join(", ")}`, `${text.length} characters`);
  }
  if (!FORMATS.includes(header?.format)) {
    refuse(`have a format of ${FORMATS.join(", ")}`, String(header?.format).slice(0, 60));
  }
  if (header.entries !== lines.length) refuse(`hold ${header.entries} entries`, `${lines.length}: download it again`);
  const places = new Map(lines.map((line, place) => [numberOf(line), place]));
  const find = (e164) => (places.has(e164) ? JSON.parse(lines[places.get(e164)]) : null);
  return { header, find };
}

function numberOf(line) {
  if (!line.startsWith(START)) refuse("begin each entry with its number", "another line");
  return line.slice(START.length, line.indexOf('"', START.length));
}
