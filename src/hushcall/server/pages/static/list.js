// The phone's lookup in a browser: the bytes of a published list come in, entries are found without another request.

import { InvalidList } from "./errors.js";

const FORMAT = "hushcall-list/1";
const START = '{"number":"';

const refuse = (rule, value) => {
  throw new InvalidList("list", rule, value);
};

/** Read a list: a line of JSON about it, then a line an entry. Entries are parsed when somebody asks for them. */
export function readList(text) {
  const [first, ...lines] = text.split("\n").filter(Boolean);
  let header;
  try {
    header = JSON.parse(first ?? "");
  } catch {
    refuse(`start with a ${FORMAT} header`, `${text.length} characters`);
  }
  if (header?.format !== FORMAT) refuse(`have the format ${FORMAT}`, String(header?.format).slice(0, 60));
  if (header.entries !== lines.length) refuse(`hold ${header.entries} entries`, `${lines.length}: download it again`);
  const places = new Map(lines.map((line, place) => [numberOf(line), place]));
  const find = (e164) => (places.has(e164) ? JSON.parse(lines[places.get(e164)]) : null);
  return { header, find };
}

function numberOf(line) {
  if (!line.startsWith(START)) refuse("begin each entry with its number", "another line");
  return line.slice(START.length, line.indexOf('"', START.length));
}
